//! One member of `Robots-Tag` as a structured field: an Item whose Parameters are rules (repext-03 §3.1.1).
//!
//! sfv's visitor is used, and not its list, because most members are for other crawlers and nothing need be
//! kept of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;

use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use crate::date::UnavailableAfter;
use crate::options::ReadOptions;
use crate::provenance::Shown;
use crate::question::Asked;
use crate::rule::{KnownRule, ValuedRule, known};
use crate::rules::tighten;
use crate::stated::Stated;

pub(super) fn is_list(value: &[u8]) -> bool {
    Parser::new(value).parse_list_with_visitor(Ignored).is_ok()
}

/// Parses one piece of a line. `None` when it is not exactly one member.
pub(super) fn parse_member<'a>(piece: &'a [u8], options: &ReadOptions) -> Option<Member<'a>> {
    let mut collector = Collector { options, members: 0, member: Member::default() };
    Parser::new(piece).parse_list_with_visitor(&mut collector).ok()?;
    (collector.members == 1).then_some(collector.member)
}

/// A member of the List. Its rules are collected only when its token binds us.
#[derive(Default)]
pub(super) struct Member<'a> {
    /// Its product token: a Token, or a String, because RFC 9309 tokens may begin with `_` or `-`, and SF
    /// Tokens may not.
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) has_parameters: bool,
    pub(super) binds_us: bool,
    parameters: Parameters<'a>,
}

impl Member<'_> {
    /// The rules for us.
    pub(super) fn stated(self) -> Stated {
        self.parameters.stated()
    }
}

/// The parameters of one member. RFC 9651 §4.2.3.2: of a repeated one the last value counts.
#[derive(Default)]
struct Parameters<'a> {
    /// Bits of [`Flag`](crate::Flag), and that of `none`.
    flags: u16,
    /// One for each valued rule at most.
    values: Vec<(ValuedRule, BareItemFromInput<'a>)>,
    /// Other names with their values.
    unknown: Vec<(&'a str, BareItemFromInput<'a>)>,
}

const NONE_BIT: u16 = 1 << 15;

impl<'a> Parameters<'a> {
    fn add(&mut self, name: &'a str, value: BareItemFromInput<'a>) {
        let stated = !matches!(value, BareItemFromInput::Boolean(false));
        match known(name.as_bytes()) {
            Some(KnownRule::Flag(flag)) => self.set(flag.bit(), stated),
            Some(KnownRule::None) => self.set(NONE_BIT, stated),
            Some(KnownRule::Permits) => {}
            Some(KnownRule::Valued(rule)) => match self.values.iter_mut().find(|(known, _)| *known == rule) {
                Some((_, earlier)) => *earlier = value,
                None => self.values.push((rule, value)),
            },
            Some(KnownRule::Data) | None => self.unknown.push((name, value)),
        }
    }

    const fn set(&mut self, bit: u16, stated: bool) {
        if stated {
            self.flags |= bit;
        } else {
            self.flags &= !bit;
        }
    }

    fn stated(self) -> Stated {
        let mut stated = Stated::default();
        if self.flags & NONE_BIT != 0 {
            stated.flag(KnownRule::None, b"");
        }
        stated.rules.state_all(self.flags & !NONE_BIT);
        for (rule, value) in self.values {
            state_value(rule, &value, &mut stated);
        }
        let last: HashMap<&str, usize> =
            self.unknown.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        for (at, (name, value)) in self.unknown.iter().enumerate() {
            if !matches!(
                self.unknown.get(last.get(name).copied().unwrap_or(at)),
                Some((_, BareItemFromInput::Boolean(false)))
            ) {
                state_unknown(name, value, &mut stated);
            }
        }
        stated
    }
}

/// A parameter of a name that is no rule. What its value names is not stated either, but then its question is
/// unknown.
fn state_unknown(name: &str, value: &BareItemFromInput<'_>, stated: &mut Stated) {
    stated.name(name.as_bytes());
    let text = match value {
        BareItemFromInput::Token(text) => text.as_str(),
        BareItemFromInput::String(text) => text.as_str(),
        _ => return,
    };
    let mut named = Stated::default();
    named.salvage(text);
    let asked = named.doubted.and(Asked::by_all(&named.rules));
    if !asked.is_empty() {
        stated.doubt(asked, format!("`{name}` is not a rule, and its value names one: {}", Shown(text)));
    }
}

fn state_value(rule: ValuedRule, value: &BareItemFromInput<'_>, stated: &mut Stated) {
    match value {
        // The rule is not stated.
        BareItemFromInput::Boolean(false) => {}
        BareItemFromInput::Token(text) => stated.value(rule, text.as_str().as_bytes()),
        BareItemFromInput::String(text) => stated.value(rule, text.as_str().trim_ascii().as_bytes()),
        BareItemFromInput::Integer(number) => stated.value(rule, number.to_string().as_bytes()),
        BareItemFromInput::Date(date) if rule == ValuedRule::UnavailableAfter => {
            let after = UnavailableAfter::from_unix_seconds(date.unix_seconds().into());
            tighten(&mut stated.rules.unavailable_after, Some(after));
        }
        _ => stated.invalid(rule, b""),
    }
}

/// Collects one member; a second one only raises the count.
struct Collector<'a, 'o> {
    options: &'o ReadOptions,
    members: usize,
    member: Member<'a>,
}

impl<'a> ListVisitor<'a> for &mut Collector<'a, '_> {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'a>, Infallible> {
        self.members = self.members.saturating_add(1);
        Ok(&mut **self)
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// An inner list is passed over: the member then has no token.
impl<'a> EntryVisitor<'a> for &mut Collector<'a, '_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'a>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'a>, Infallible> {
        Ok(Ignored)
    }
}

impl<'a> ItemVisitor<'a> for &mut Collector<'a, '_> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'a>,
    ) -> Result<impl ParameterVisitor<'a, Out = ()>, Infallible> {
        let binds = |text: &str| self.options.token_binds_us(text.trim_ascii().as_bytes());
        self.member.name = match item {
            BareItemFromInput::Token(token) => Some(Cow::Borrowed(token.as_str())),
            BareItemFromInput::String(Cow::Borrowed(text)) => Some(Cow::Borrowed(text.as_str())),
            BareItemFromInput::String(Cow::Owned(text)) => Some(Cow::Owned(text.into())),
            _ => None,
        };
        self.member.binds_us = self.member.name.as_deref().is_some_and(binds);
        Ok(&mut self.member)
    }
}

impl<'a> ParameterVisitor<'a> for &mut Member<'a> {
    type Out = ();
    type Error = Infallible;

    fn parameter(&mut self, name: &'a KeyRef, value: BareItemFromInput<'a>) -> Result<(), Infallible> {
        self.has_parameters = true;
        if self.binds_us {
            self.parameters.add(name.as_str(), value);
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::header::split::pieces;

    /// Counts the members of a whole list; `None` when it is none.
    fn members_of_list(value: &[u8]) -> Option<usize> {
        Parser::new(value).parse::<sfv::List>().ok().map(|list| list.len())
    }

    /// Counts the members by pieces; `None` when one of them is bad.
    fn members_of_pieces(value: &[u8]) -> Option<usize> {
        let options = ReadOptions::for_tokens([]);
        if value.iter().all(|byte| *byte == b' ') {
            return Some(0);
        }
        let read: Option<Vec<Member<'_>>> =
            pieces(value).map(|piece| parse_member(crate::header::line::trim(piece), &options)).collect();
        read.map(|read| read.len())
    }

    #[test]
    fn lists_read_by_pieces_are_those_read_whole() {
        let table = include_str!("../../tests/vectors/lists.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let named = [("<HTAB>", "\t"), ("<NUL>", "\0"), ("<CR>", "\r"), ("<LF>", "\n")];
            let value = named.iter().fold(line.to_owned(), |line, (name, byte)| line.replace(name, byte));
            assert_eq!(members_of_pieces(value.as_bytes()), members_of_list(value.as_bytes()), "{value:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn any_list_read_by_pieces_is_that_read_whole(value in "[a*1\"();,=?:@%\\\\ -]{0,24}") {
            prop_assert_eq!(members_of_pieces(value.as_bytes()), members_of_list(value.as_bytes()));
        }
    }
}
