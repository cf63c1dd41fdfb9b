//! One member of `Robots-Tag` as a structured field: an Item whose Parameters are rules (repext-03 §3.1.1).
//!
//! sfv's visitor is used, and not its list, because most members are for other crawlers and nothing need be kept of them.

use std::collections::HashMap;
use std::convert::Infallible;

use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use crate::date::UnavailableAfter;
use crate::options::ReadOptions;
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
    /// Its product token if that is a Token of SF, which the names of rules in the older grammars look like.
    pub(super) token: Option<&'a str>,
    /// Whether it has a product token: a Token, or a String, because RFC 9309 tokens may begin with `_` or `-`, and SF Tokens may not (X3).
    pub(super) names_crawler: bool,
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
    /// Other names, and whether they are stated.
    unknown: Vec<(&'a str, bool)>,
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
            Some(KnownRule::Data) | None => self.unknown.push((name, stated)),
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
        if self.unknown.is_empty() {
            return stated;
        }
        let last: HashMap<&str, bool> = self.unknown.iter().copied().collect();
        let kept = self.unknown.iter().filter(|(name, _)| last.get(name) == Some(&true));
        kept.for_each(|(name, _)| stated.rules.add_unknown(name.as_bytes()));
        stated
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
        (self.member.token, self.member.names_crawler, self.member.binds_us) = match item {
            BareItemFromInput::Token(token) => (Some(token.as_str()), true, binds(token.as_str())),
            BareItemFromInput::String(text) => (None, true, binds(text.as_str())),
            _ => (None, false, false),
        };
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
