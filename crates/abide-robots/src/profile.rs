//! `ParseOptions`: the profile by which a file is read, and how much of it is read.
//!
//! A profile is data that a few places consult, not a second parser.

/// The specification or parser by which robots.txt is read.
///
/// The profiles differ in few places; each says so where it is consulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Profile {
    /// RFC 9309, with the lenience that [`ParseOptions::new`] lists.
    Rfc9309,
    /// What Google's open-source parser does.
    Google,
}

impl Profile {
    /// The length up to which a line is read by RFC 9309. In Google's profile no line is.
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

/// 16 KiB of a value. Longer than the longest URL that servers take; what bounds a line bounds the work a
/// pattern can cause.
pub(crate) const LINE_MAX: usize = 16 * 1024;

/// Google's parser keeps a buffer of eight times the longest URL of a browser of old (2,083), less its last
/// byte.
pub(crate) const GOOGLE_LINE_MAX: usize = 2083 * 8 - 1;

/// How a file is read: the profile, and the limit of RFC 9309 §2.5.
///
/// ```
/// use abide_robots::{ParseOptions, Robots};
///
/// let robots = Robots::parse_with(b"User-agent: *\nDisallow: /a", ParseOptions::google());
/// assert_eq!(robots.groups().count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct ParseOptions {
    pub(crate) profile: Profile,
    pub(crate) limit: usize,
}

impl ParseOptions {
    /// RFC 9309 and 512,000 bytes, with common leniences: a byte order mark is skipped, and UTF-16 with one
    /// is decoded; known misspellings of keys and a missing colon between two words are accepted, except for
    /// Allow; a pattern may start with `*`; text after a product token is ignored, and a token with digits is
    /// accepted if it is the whole value. `docs/dev/rfc9309.md` in the repository lists it clause by clause.
    /// Beyond the RFC, the white space of Unicode and some other characters that nobody sees are dropped
    /// around keys and values, except for Allow. A limit of that: a user-agent line that is misspelt, has no
    /// colon, or such a character before it, begins a group, and may so take a crawler out of a stricter one.
    pub fn new() -> Self {
        Self { profile: Profile::Rfc9309, limit: FILE_MAX }
    }

    /// Reads like Google's open-source parser, to test how a site looks to Googlebot. Not for crawling.
    pub fn google() -> Self {
        Self { profile: Profile::Google, ..Self::new() }
    }

    /// Reads at most `bytes` of a file: between 512,000 (RFC 9309 §2.5) and 64 MiB. The line that the limit
    /// cuts is dropped.
    pub fn with_limit(self, bytes: usize) -> Self {
        Self { limit: bytes.clamp(FILE_MAX, LIMIT_MAX), ..self }
    }
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Offsets are held in 32 bits, and a normal form is up to three times as long as what it was made from.
const LIMIT_MAX: usize = 64 * 1024 * 1024;
