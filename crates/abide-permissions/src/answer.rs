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
/// assert_eq!(Preferences::default().training().to_string(), "unknown");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    preference: Preference,
    sources: Vec<Provenance>,
}

impl Answer {
    pub(crate) fn new(preference: Preference, sources: impl IntoIterator<Item = Provenance>) -> Self {
        Self { preference, sources: sources.into_iter().collect() }
    }

    /// Allow, disallow or unknown.
    pub const fn preference(&self) -> Preference {
        self.preference
    }

    /// Whether the use is disallowed. False if it is unknown.
    pub const fn is_disallowed(&self) -> bool {
        matches!(self.preference, Preference::Disallow)
    }

    /// The places of the statements that decided. Empty if nothing is stated.
    pub fn sources(&self) -> &[Provenance] {
        &self.sources
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preference.as_str().unwrap_or("unknown"))?;
        for (index, source) in self.sources.iter().enumerate() {
            write!(f, "{}{source}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}
