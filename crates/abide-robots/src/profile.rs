//! Whose reading of a file is asked for, and how much of it is read.

/// Whose reading of robots.txt to follow.
///
/// The profiles differ in few places; each says so where it is consulted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// RFC 9309, with the lenience that the field relies on: a byte order mark is skipped and UTF-16 with one is decoded;
    /// known misspellings of keys are understood, and a missing colon between two words, but for Allow; a pattern may
    /// start with `*`; what follows a product token is ignored, and a token with digits is known where it is the whole
    /// value. `docs/rfc9309.md` in the repository lists it clause by clause.
    #[default]
    Rfc9309,
    /// What Google's open-source parser does, for those who test how a site looks to Googlebot. Not for crawling.
    Google,
}

impl Profile {
    /// The octets up to which a line is read by the book. In Google's profile none is.
    #[inline]
    pub(crate) fn plain_line_max(self) -> usize {
        match self {
            Profile::Rfc9309 => LINE_MAX,
            Profile::Google => 0,
        }
    }
}

/// RFC 9309 §2.5: a parsing limit "MUST be at least 500 kibibytes".
pub(crate) const FILE_MAX: usize = 512_000;

/// 16 KiB of a value. Longer than the longest URL that servers take; what bounds a line bounds the work a pattern can cause.
pub(crate) const LINE_MAX: usize = 16 * 1024;

/// Google's parser keeps a buffer of eight times the longest URL of a browser of old (2,083), less its last octet.
pub(crate) const GOOGLE_LINE_MAX: usize = 2083 * 8 - 1;

/// How a file is read: the profile, and the limit of RFC 9309 §2.5.
///
/// ```
/// use abide_robots::{Profile, ReadOptions, Robots};
///
/// let options = ReadOptions::new().with_profile(Profile::Google);
/// let robots = Robots::parse_with(b"User-agent: *\nDisallow: /a", options);
/// assert_eq!(robots.groups().count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    pub(crate) profile: Profile,
    pub(crate) limit: usize,
}

impl ReadOptions {
    /// RFC 9309, and 512,000 octets.
    pub fn new() -> Self {
        Self { profile: Profile::Rfc9309, limit: FILE_MAX }
    }

    /// Reads as `profile` does.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Reads at most `octets` of a file, and never less than the 512,000 of RFC 9309 §2.5 nor more than 64 MiB.
    /// The line that the limit cuts is dropped.
    #[must_use]
    pub fn with_limit(self, octets: usize) -> Self {
        Self { limit: octets.clamp(FILE_MAX, LIMIT_MAX), ..self }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Offsets are held in 32 bits, and a normal form is up to three times as long as what it was made from.
const LIMIT_MAX: usize = 64 * 1024 * 1024;
