//! The grammar of metas and of `X-Robots-Tag`: elements between commas, values behind colons.
//!
//! Both carriers share it, so that a value means the same in a field and in a page.

use std::borrow::Cow;

use crate::date::is_parted;
use crate::options::ReadOptions;
use crate::rule::{KnownRule, ValuedRule, known};
use crate::stated::Stated;

/// In which carrier the elements stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A field: another crawler's name before a colon is a user agent, and what follows is for it until the
    /// next name.
    Field,
    /// A meta, which is for one crawler as a whole: an element with another's name is an unknown rule.
    Meta,
}

/// Reads the elements of `text`.
pub(crate) fn read_elements(text: &[u8], options: &ReadOptions, carrier: Carrier) -> Stated {
    let mut stated = Stated::default();
    let mut applies = true;
    let mut elements = text.split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii).peekable();
    while let Some(element) = elements.next() {
        let mut rest = element;
        while !rest.is_empty() {
            rest = match ElementHead::of(rest, options, carrier) {
                ElementHead::Absent => {
                    if applies {
                        stated.name(rest);
                    }
                    b""
                }
                ElementHead::Valued(rule, value) => {
                    let mut value = Cow::Borrowed(value);
                    while let Some(next) = elements
                        .next_if(|next| rule == ValuedRule::UnavailableAfter && is_parted(&value, next))
                    {
                        value = [&*value, b" ", next].concat().into();
                    }
                    if applies {
                        stated.value_and_more(rule, &value);
                    }
                    b""
                }
                ElementHead::Flag(flag, name, rest) => {
                    if applies {
                        stated.flag(flag, name);
                    }
                    rest
                }
                ElementHead::Agent(binds_us, rest) => {
                    applies = binds_us;
                    rest
                }
                ElementHead::Unknown => {
                    stated.rules.add_unknown(rest);
                    b""
                }
                ElementHead::NoCrawler(rest) => rest,
            };
        }
    }
    stated
}

/// Reads a piece of a structured field that is no member of it. `_bot;noindex` is for another crawler: its
/// semicolon is that of a member.
pub(crate) fn read_salvaged(piece: &[u8], options: &ReadOptions) -> Stated {
    let is_foreign = |name: &[u8]| !options.token_binds_us(name) && names_crawler(name);
    match split_once(piece, |byte| byte == b';') {
        Some((name, _)) if is_foreign(name) => Stated::default(),
        _ => read_elements(piece, options, Carrier::Field).without_unknown(),
    }
}

/// What is before the first colon of an element.
enum ElementHead<'a> {
    /// No colon, or one that means nothing here.
    Absent,
    /// A valued rule and its value; here `=` is as good as a colon.
    Valued(ValuedRule, &'a [u8]),
    /// A flag's name, with a colon that says nothing, and the rest.
    Flag(KnownRule, &'a [u8], &'a [u8]),
    /// A user agent, whether it is ours, and the rest.
    Agent(bool, &'a [u8]),
    /// Another crawler's name in a meta, which has no user agents.
    Unknown,
    /// What names no crawler, or nothing, and the rest.
    NoCrawler(&'a [u8]),
}

impl<'a> ElementHead<'a> {
    fn of(element: &'a [u8], options: &ReadOptions, carrier: Carrier) -> Self {
        if let Some((name, value)) = split_once(element, |byte| matches!(byte, b':' | b'='))
            && let Some(KnownRule::Valued(rule)) = known(name)
        {
            return Self::Valued(rule, value);
        }
        let Some((name, rest)) = split_once(element, |byte| byte == b':') else { return Self::Absent };
        match known(name) {
            Some(flag) if flag.is_flag() && !options.token_is_ours(name) => Self::Flag(flag, name, rest),
            _ if options.token_binds_us(name) => Self::Agent(true, rest),
            _ if names_crawler(name) && carrier == Carrier::Field => Self::Agent(false, rest),
            _ if names_crawler(name) => Self::Unknown,
            // Stricter: a colon without a name (`: noindex`, `31 Dec 2025, 23:59 GMT`) does not change which
            // crawlers the rules are for.
            _ if is_no_crawler(name) => Self::NoCrawler(rest),
            _ => Self::Absent,
        }
    }
}

/// Whether the text before a colon is the name of a crawler: one product token, perhaps with its version,
/// that is no rule's name.
///
/// Stricter: anything else is a part of the value (`noindex nofollow max-snippet: -1`), so that no
/// restriction is taken for a name.
pub(crate) fn names_crawler(name: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let (name, version) = split_once(name, |byte| byte == b'/').unwrap_or((name, b"1"));
    // Quotes and brackets may stand around it.
    let is_inside = |byte: &u8| is_of_token(byte) || !byte.is_ascii();
    let start = name.iter().position(is_inside).unwrap_or(name.len());
    let end = name.iter().rposition(is_inside).map_or(name.len(), |last| last.saturating_add(1));
    let name = name.get(start..end).unwrap_or_default();
    let is_token = |text: &[u8]| text.iter().all(|byte| is_of_token(byte) || *byte == b'.');
    let has_letters = name.iter().any(u8::is_ascii_alphabetic);
    has_letters && is_token(name) && is_token(version) && !is_no_crawler(name) && !names_rule(name)
}

/// Whether a rule is named, in whole or in part.
pub(crate) fn names_rule(text: &[u8]) -> bool {
    // As nearly all names are.
    if text.iter().all(u8::is_ascii_alphanumeric) {
        return known(text).is_some();
    }
    let mut stated = Stated::default();
    stated.salvage(&String::from_utf8_lossy(text));
    known(text).is_some() || !stated.is_empty()
}

/// Whether the text before a colon is nothing, or a word that people put before a value.
fn is_no_crawler(name: &[u8]) -> bool {
    !name.iter().any(u8::is_ascii_alphabetic)
        || NO_CRAWLERS.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()))
}

/// Words before a colon that are no crawler's name.
const NO_CRAWLERS: [&str; 12] = [
    "x-robots-tag",
    "x-robots",
    "robots-tag",
    "robots",
    "robot",
    "value",
    "content",
    "meta",
    "header",
    "name",
    "http",
    "https",
];

/// Both sides of the first byte of the kind, trimmed.
pub(crate) fn split_once(text: &[u8], kind: impl Fn(u8) -> bool) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| kind(*byte))?;
    let (before, after) = text.split_at_checked(at)?;
    Some((before.trim_ascii(), after.split_first()?.1.trim_ascii()))
}
