//! `Provenance`: where a rule or a preference comes from; and what is gathered while a response is read.
//!
//! One type for all places, so that rules, preferences and warnings can be shown side by side.

use std::borrow::Cow;
use std::fmt;

use abide_robots::Record;

use crate::question::Asked;
use crate::rules::TagRules;
use crate::stated::Stated;

/// The place where a site states something. `Display` is one phrase: `X-Robots-Tag, field 1 (legacy):
/// noindex, nofollow`. Text of servers is escaped and cut.
///
/// ```
/// use abide_permissions::{Permissions, Provenance};
///
/// fn print_fields(permissions: &Permissions) {
///     for (source, rules) in permissions.statements() {
///         if let Provenance::Field { name, .. } = source {
///             println!("{name}: {rules}");
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Provenance {
    /// A line of a header field.
    #[non_exhaustive]
    Field {
        /// The name as its specification writes it.
        name: Box<str>,
        /// The line among those of that name, from 0.
        line: usize,
        /// The grammar in which it was read: `sf`, `sf-salvage`, `draft-00` or `legacy`. Empty for a field
        /// that has one only.
        reading: Cow<'static, str>,
        /// The member as written, or the whole line when its grammar has no members. Empty for preferences,
        /// which keep [their own](crate::PreferenceStatement::text).
        text: Box<str>,
    },
    /// A meta element of the head.
    #[non_exhaustive]
    Meta {
        /// Its place among the metas with a name, from 0.
        index: usize,
        /// Its name as written, character references decoded.
        name: Box<str>,
    },
    /// A meta element within a `noscript` of the head.
    #[non_exhaustive]
    Noscript {
        /// Its place among such metas, from 0.
        index: usize,
        /// Its name as written, character references decoded.
        name: Box<str>,
    },
    /// A meta element of the document after scripts have run.
    #[non_exhaustive]
    Rendered {
        /// Its place among the metas handed in, from 0.
        index: usize,
        /// Its name as written.
        name: Box<str>,
    },
    /// A meta element that stands where no standard puts a robots meta: behind the head, or named by another
    /// attribute than `name`.
    #[non_exhaustive]
    Stray {
        /// `body`, `property` or `http-equiv`.
        place: Box<str>,
        /// Its name as written, character references decoded.
        name: Box<str>,
    },
    /// A record of robots.txt.
    #[non_exhaustive]
    RobotsTxt {
        /// The name of the record as its specification writes it.
        record: Box<str>,
        /// Its line, from 1.
        line: u32,
        /// Its path as written, at most 256 bytes of it; `None`: it covers every URL.
        path: Option<Box<str>>,
        /// The product token of the group that it counts in, or `*`. `None`: it is outside groups, for every
        /// crawler.
        group: Option<Box<str>>,
    },
    /// A `<link>` of the head.
    #[non_exhaustive]
    Link {
        /// Its place among the links to licences, from 0.
        index: usize,
    },
    /// An entry of `/.well-known/tdmrep.json`.
    #[non_exhaustive]
    WellKnown {
        /// Its place in the file, from 0.
        index: usize,
    },
}

impl Provenance {
    /// A line of a field that has one grammar, or of which nothing is to be shown.
    pub(crate) fn field(name: &str, line: usize) -> Self {
        Self::Field { name: name.into(), line, reading: Cow::Borrowed(""), text: Box::default() }
    }

    /// A record of robots.txt, with its own path and the group that it counts in.
    pub(crate) fn of_record(record: &Record<'_>, path: Option<&[u8]>, group: Option<&str>) -> Self {
        Self::RobotsTxt {
            record: record.kind().name().into(),
            line: record.line(),
            path: path.map(|path| String::from_utf8_lossy(path.get(..PATH_BYTES_MAX).unwrap_or(path)).into()),
            group: group.map(Into::into),
        }
    }

    /// The place alone, without what stands there: `X-Robots-Tag 1`, `meta 2 named robots`.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Field { name, line, .. } => format!("{name} {}", line.saturating_add(1)),
            other => other.to_string(),
        }
    }

    /// Whether it is a record of robots.txt.
    pub const fn is_robots_txt(&self) -> bool {
        matches!(self, Self::RobotsTxt { .. })
    }

    /// Whether it is a record of robots.txt or a field of this name.
    pub(crate) fn is_carried_by(&self, carrier: &str) -> bool {
        matches!(self, Self::RobotsTxt { record: name, .. } | Self::Field { name, .. } if &**name == carrier)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { name, line, text, .. } if text.is_empty() => {
                write!(f, "{name}, field {}", line.saturating_add(1))
            }
            Self::Field { name, line, reading, text } => {
                write!(f, "{name}, field {} ({reading}): {}", line.saturating_add(1), Shown(text))
            }
            Self::Meta { index, name } => write!(f, "meta {} named {}", index.saturating_add(1), Shown(name)),
            Self::Noscript { index, name } => {
                write!(f, "meta {} in noscript named {}", index.saturating_add(1), Shown(name))
            }
            Self::Rendered { index, name } => {
                write!(f, "meta {} of the rendered document named {}", index.saturating_add(1), Shown(name))
            }
            Self::Stray { place, name } if &**place == "body" => {
                write!(f, "meta behind the head named {}", Shown(name))
            }
            Self::Stray { place, name } => write!(f, "meta with {place}={}", Shown(name)),
            Self::RobotsTxt { record, line, path, group } => {
                write!(f, "robots.txt line {line} (")?;
                match group {
                    Some(group) => write!(f, "group {}", Shown(group))?,
                    None => f.write_str("outside groups")?,
                }
                write!(f, "): {record}")?;
                path.iter().try_for_each(|path| write!(f, " {}", Shown(path)))
            }
            Self::Link { index } => write!(f, "link {} to a licence", index.saturating_add(1)),
            Self::WellKnown { index } => write!(f, "tdmrep.json entry {}", index.saturating_add(1)),
        }
    }
}

/// Text of others, escaped and cut to what a log line can bear.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(SHOWN_CHARS_MAX).try_for_each(|c| write!(f, "{}", c.escape_debug()))?;
        if self.0.chars().nth(SHOWN_CHARS_MAX).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

const SHOWN_CHARS_MAX: usize = 120;

/// Of a path: each of many labels of a record has a copy of it, and it may be as long as a line.
const PATH_BYTES_MAX: usize = 256;

/// Statements, warnings and doubts while they are gathered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    pub(crate) statements: Vec<(Provenance, TagRules)>,
    pub(crate) warnings: Vec<(Provenance, String)>,
    pub(crate) truncated: bool,
    /// The questions about which something is stated that was not understood or not read. All of them,
    /// however many reasons are kept.
    pub(crate) doubted: Asked,
    /// Why, with the questions that each reason is about; bounded as the warnings are.
    pub(crate) doubts: Vec<(Asked, String)>,
}

impl Findings {
    /// Adds what a place states, if it states anything.
    pub(crate) fn add(&mut self, stated: Stated, source: impl Fn() -> Provenance) {
        stated.remarks.iter().for_each(|remark| self.warn(source(), remark));
        stated.doubts.iter().for_each(|(asked, problem)| self.doubt(*asked, source(), problem));
        self.doubted = self.doubted.and(stated.doubted);
        if !stated.rules.is_empty() {
            self.statements.push((source(), stated.rules));
        }
    }

    pub(crate) fn rules(&self) -> TagRules {
        let mut rules = TagRules::default();
        self.statements.iter().for_each(|(_, stated)| rules.unite(stated));
        rules
    }

    pub(crate) fn warn(&mut self, source: Provenance, problem: &str) {
        warn(&mut self.warnings, source, problem);
    }

    /// Something is stated at this place that was not understood. Without a question that it is about, that
    /// matters to nobody.
    pub(crate) fn doubt(&mut self, asked: Asked, source: Provenance, problem: &str) {
        if asked.is_empty() {
            return;
        }
        self.doubted = self.doubted.and(asked);
        if self.doubts.len() < WARNINGS_MAX {
            self.doubts.push((asked, format!("{}: {problem}", source.place())));
        }
        self.warn(source, problem);
    }

    pub(crate) fn truncated(&mut self, source: Provenance) {
        self.truncated = true;
        self.doubt(Asked::ALL, source, "over the limit, so the rest is not read");
    }
}

/// Adds a warning while there is room for it.
pub(crate) fn warn(warnings: &mut Vec<(Provenance, String)>, source: Provenance, problem: &str) {
    if warnings.len() < WARNINGS_MAX {
        warnings.push((source, problem.to_owned()));
    }
}

/// Enough to mend a page by; more would be the sender's to choose.
const WARNINGS_MAX: usize = 32;
