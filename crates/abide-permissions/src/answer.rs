//! `Answer`: may the content be used so? Yes, no or unknown, with the places that decided.
//!
//! Permissions and preferences answer with the same type, because a caller asks both the same question.

use std::fmt;

use crate::preference::Preference;
use crate::provenance::Provenance;

/// Whether a site permits one use of its content, and where it states that.
///
/// `Display` is one phrase, such as `disallow: Content-Usage, field 1`.
///
/// ```
/// use abide_permissions::{Preference, Preferences};
///
/// let training = Preferences::default().with_fields([("Content-Usage", b"train-ai=n".as_slice())]).training();
/// assert_eq!(training.preference(), Preference::Disallow);
/// assert_eq!(training.to_string(), "disallow: Content-Usage, field 1");
/// assert_eq!(Preferences::default().training().to_string(), "unset");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    preference: Preference,
    sources: Vec<Provenance>,
    reasons: Vec<String>,
}

impl Answer {
    pub(crate) fn new(preference: Preference, sources: impl IntoIterator<Item = Provenance>) -> Self {
        Self { preference, sources: sources.into_iter().collect(), reasons: Vec::new() }
    }

    /// Something was not understood or not read, for these reasons.
    pub(crate) fn unknown(reasons: Vec<String>) -> Self {
        Self { preference: Preference::Unknown, sources: Vec::new(), reasons }
    }

    /// Allow, disallow, unknown, or unset where nothing is stated.
    pub const fn preference(&self) -> Preference {
        self.preference
    }

    /// Whether the use is known to be allowed.
    pub const fn is_allowed(&self) -> bool {
        matches!(self.preference, Preference::Allow)
    }

    /// Whether the use is disallowed. False if it is unknown.
    pub const fn is_disallowed(&self) -> bool {
        matches!(self.preference, Preference::Disallow)
    }

    /// `yes`, `no`, `unset` or `unknown`.
    pub const fn as_str(&self) -> &'static str {
        match self.preference {
            Preference::Unset => "unset",
            Preference::Allow => "yes",
            Preference::Unknown => "unknown",
            Preference::Disallow => "no",
        }
    }

    /// The places of the statements that decided. Empty if nothing is stated, or if the answer is unknown.
    pub fn sources(&self) -> &[Provenance] {
        &self.sources
    }

    /// Why the answer is unknown, one sentence for each reason. Empty if it is known.
    pub fn unknown_because(&self) -> &[String] {
        &self.reasons
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preference.as_str().unwrap_or(self.as_str()))?;
        let sources = self.sources.iter().map(ToString::to_string);
        for (index, part) in sources.chain(self.reasons.iter().cloned()).enumerate() {
            write!(f, "{}{part}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}
