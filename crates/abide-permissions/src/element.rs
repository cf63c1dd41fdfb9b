//! The grammar of metas and of `X-Robots-Tag`: elements between commas, values behind colons.
//!
//! Both carriers share it, so that a value means the same in a field and in a page.

use std::borrow::Cow;

use crate::date::is_parted;
use crate::options::ReadOptions;
use crate::rule::{KnownRule, ValuedRule, known};
use crate::stated::Stated;

/// Reads the elements of `text`. With `agents` a foreign name before a colon is a user agent, and what follows is
/// scoped to it until the next one; without, such an element is an unknown rule.
pub(crate) fn read_elements(text: &[u8], agents: Option<&ReadOptions>) -> Stated {
    let mut stated = Stated::default();
    let mut applies = true;
    let mut elements = text.split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii).peekable();
    while let Some(element) = elements.next() {
        let mut rest = element;
        while !rest.is_empty() {
            rest = match ElementHead::of(rest, agents) {
                ElementHead::Absent => {
                    if applies {
                        read_words(rest, &mut stated);
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
                        stated.value(rule, &value);
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
                ElementHead::NoName(rest) => rest,
            };
        }
    }
    stated
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
    /// A colon with no name before it, and the rest.
    NoName(&'a [u8]),
}

impl<'a> ElementHead<'a> {
    fn of(element: &'a [u8], agents: Option<&ReadOptions>) -> Self {
        if let Some((name, value)) = split_once(element, |byte| matches!(byte, b':' | b'='))
            && let Some(KnownRule::Valued(rule)) = known(name)
        {
            return Self::Valued(rule, value);
        }
        let Some((name, rest)) = split_once(element, |byte| byte == b':') else { return Self::Absent };
        let is_ours = agents.is_some_and(|options| options.token_is_ours(name));
        let last_word = name.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        match (known(name), agents) {
            (Some(flag), _) if flag.is_flag() && !is_ours => Self::Flag(flag, name, rest),
            (_, Some(options)) if options.token_binds_us(name) => Self::Agent(true, rest),
            // Stricter: a colon without a name (`: noindex`, `31 Dec 2025, 23:59 GMT`), or behind the hour of a time (`Jun 25, 2010 at 15:00`),
            // does not change which crawlers the rules are for.
            (_, Some(_)) if !last_word.iter().any(u8::is_ascii_alphabetic) => Self::NoName(rest),
            (_, Some(_)) => Self::Agent(false, rest),
            (_, None) => Self::Absent,
        }
    }
}

/// One rule; or several, when all the words are known flags: `noindex nofollow`.
fn read_words(element: &[u8], stated: &mut Stated) {
    let words = || element.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if words().all(|word| known(word).is_some_and(KnownRule::is_flag)) {
        words().for_each(|word| stated.name(word));
    } else {
        stated.name(element);
    }
}

/// The known rules in a piece of a structured field that is no member of it, where spaces separate its words as well:
/// `noindex nofollow`, `noindex really`. Stricter: other words in the piece do not cancel them; the name of another crawler does, for what
/// follows it.
pub(crate) fn read_salvaged(piece: &[u8], options: &ReadOptions) -> Stated {
    let mut stated = Stated::default();
    let words = piece.split(u8::is_ascii_whitespace).map(|word| word.strip_prefix(b";").unwrap_or(word));
    let words = words.map(|word| word.strip_suffix(b";").unwrap_or(word));
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let mut rest = word;
        while !rest.is_empty() {
            rest = match ElementHead::of(rest, Some(options)) {
                ElementHead::Absent => {
                    if let Some(flag) = known(rest).filter(|known| known.is_flag()) {
                        stated.flag(flag, rest);
                    }
                    b""
                }
                ElementHead::Valued(rule, value) => {
                    let mut value = value.to_vec();
                    // A date has several words.
                    while let Some(word) = words.next_if(|word| {
                        (value.is_empty() || rule == ValuedRule::UnavailableAfter) && !names_rule(word)
                    }) {
                        value.extend_from_slice(b" ");
                        value.extend_from_slice(word);
                    }
                    stated.value(rule, value.trim_ascii());
                    b""
                }
                ElementHead::Flag(flag, name, rest) => {
                    stated.flag(flag, name);
                    rest
                }
                ElementHead::Agent(false, _) => return stated,
                ElementHead::Agent(true, rest) | ElementHead::NoName(rest) => rest,
            };
        }
    }
    stated
}

fn names_rule(word: &[u8]) -> bool {
    let name = word.split(|byte| matches!(byte, b':' | b'=')).next();
    name.is_some_and(|name| known(name).is_some())
}

/// Stricter: a no-break space and its like, which come with copied text (`noindex,&nbsp;nofollow`), are blanks as well.
pub(crate) fn with_blanks(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let is_blank = |c: char| !c.is_ascii() && (c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}'));
    String::from_utf8_lossy(text).replace(is_blank, " ").into_bytes().into()
}

/// Both sides of the first byte of the kind, trimmed.
pub(crate) fn split_once(text: &[u8], kind: impl Fn(u8) -> bool) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| kind(*byte))?;
    let (before, after) = text.split_at_checked(at)?;
    Some((before.trim_ascii(), after.split_first()?.1.trim_ascii()))
}
