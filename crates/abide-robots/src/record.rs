//! `Record`: a line of a robots.txt that states something.
//!
//! The document, the rules compiled for one crawler, the verdict and its explanation all name lines, and all
//! by this type.

use alloc::string::String;
use core::fmt::{self, Write as _};

use crate::group;
use crate::line::RecordKind;
use crate::profile::{LINE_MAX, Profile};
use crate::slice;
use crate::space::{Space, trim};
use crate::token::ProductToken;

/// A record of a robots.txt: key, value and line. A rule is a record of the kind Allow or Disallow.
///
/// `Display` is one line for people, such as `Disallow: /a`: escaped, and cut after 200 characters of the
/// value.
///
/// ```
/// use abide_robots::{RecordKind, Robots};
///
/// let robots = Robots::parse(b"User-agent: *\nDisallow: /private\n");
/// let disallows = robots.records().filter(|record| record.kind() == RecordKind::Disallow);
/// assert_eq!(disallows.map(|record| record.line()).collect::<Vec<_>>(), [2]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub(crate) kind: RecordKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) line: u32,
    pub(crate) profile: Profile,
}

impl<'a> Record<'a> {
    /// A record of which only what concerns one crawler was kept: its key is in the usual spelling.
    pub(crate) fn kept(kind: RecordKind, value: &'a [u8], line: u32) -> Self {
        Self { kind, key: kind.name().as_bytes(), value, line, profile: Profile::Rfc9309 }
    }

    /// The kind of the record.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// The key, as written in a [`Robots`](crate::Robots), else in its usual spelling.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value, without its comment and the space around it: the pattern of a rule, the name of a
    /// user-agent line. Its own path, if the record has one, is part of it.
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The line of the record; the first is 1. Zero for the rule of
    /// [`Rules::disallow_all`](crate::Rules::disallow_all), which is in no file.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The crawlers that a user-agent line names: its product token as written, or `*`. `None` for a line
    /// without a token, and for other records.
    ///
    /// Text after a token is left out, as in `ExampleBot/1.0`. A value such as `MJ12bot` is returned whole,
    /// although RFC 9309 reads `MJ`: it names a crawler with either token ([`ProductToken::lenient`],
    /// [`addresses`](Self::addresses)).
    pub fn agent(&self) -> Option<&'a str> {
        let name = core::str::from_utf8(group::name(self.value, self.profile)).unwrap_or_default();
        (self.kind == RecordKind::UserAgent && !name.is_empty()).then_some(name)
    }

    /// Whether this is a user-agent line for the crawler named `token`, as
    /// [`Rules::parse`](crate::Rules::parse) reads it; without a token, whether it is one for all crawlers
    /// (`*`).
    pub fn addresses(&self, token: Option<&ProductToken>) -> bool {
        // As `line::fitting` has it: the beginning of an over-long line names whom the line names.
        let used = match self.profile {
            Profile::Rfc9309 => trim(slice::before(self.value, LINE_MAX), Space::Unseen),
            Profile::Google => self.value,
        };
        self.kind == RecordKind::UserAgent && group::addresses(used, token, self.profile)
    }
}

/// Characters of a value that are shown.
const SHOWN_MAX: usize = 200;

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.key.escape_ascii())?;
        // Logs and terminals show it: control and format characters are escaped, and a pattern may be as long
        // as the file.
        let value = String::from_utf8_lossy(self.value);
        let mut letters = value.chars();
        for letter in letters.by_ref().take(SHOWN_MAX) {
            match letter {
                // They command no terminal, and a rule is to be found in its file as it is shown.
                '\'' | '"' | '\\' => f.write_char(letter)?,
                _ => write!(f, "{}", letter.escape_debug())?,
            }
        }
        if letters.as_str().is_empty() { Ok(()) } else { f.write_char('…') }
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("kind", &self.kind)
            .field("value", &format_args!("\"{}\"", self.value.escape_ascii()))
            .field("line", &self.line)
            .finish()
    }
}
