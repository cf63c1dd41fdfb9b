//! What an audit reports: one line each.
//!
//! A finding names its file and the offset of its record, so that what is reported can be looked up
//! with any WARC tool.

use serde::Serialize;

/// Something that the archive shows.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) kind: Kind,
    #[serde(flatten)]
    pub(super) place: Place,
    pub(super) why: String,
}

/// The record that shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    pub(super) file: String,
    /// Where in the file the record begins.
    pub(super) offset: u64,
    /// Its `WARC-Record-ID`.
    pub(super) record: Option<String>,
    pub(super) url: Option<String>,
    /// Its `WARC-Date`.
    pub(super) time: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Finding,
    /// The archive itself shows that the crawler knew.
    Note,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A record that is not what it says: a digest, a date, a head.
    BrokenRecord,
    /// A request to an origin whose robots.txt was not requested before.
    NoRobots,
    /// A request for a URL that robots.txt disallows, also because it could not be fetched.
    Disallowed,
    /// A request too soon after the one before.
    ShortDelay,
    /// A request in the time that a 429, 503 or Retry-After asked to wait.
    IgnoredWait,
    /// A decision that the bytes of the robots.txt do not bear out.
    Decision,
    /// What was kept states a restriction.
    Stated,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::BrokenRecord => "broken-record",
            Self::NoRobots => "no-robots",
            Self::Disallowed => "disallowed",
            Self::ShortDelay => "short-delay",
            Self::IgnoredWait => "ignored-wait",
            Self::Decision => "decision",
            Self::Stated => "stated",
        }
    }
}
