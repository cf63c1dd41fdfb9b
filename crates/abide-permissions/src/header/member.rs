//! The members of a field as they are written, for those who want to see them rather than to obey them.

use std::convert::Infallible;

use sfv::visitor::{EntryVisitor, ItemVisitor, ListVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use super::split::{Pieces, lower_case_outside_strings};
use crate::item::ItemOnly;
use crate::value::SfValue;

/// The valid members of one field line, in order: the product token of each (case is folded outside strings), and its
/// parameters in order of their first appearance, each with its last value (RFC 9651 §4.2.3.2). Members that do not parse, and those that
/// are no Token or String, are left out; so is what a member says to others. This is not what applies to anybody: for
/// that see [`Permissions`](crate::Permissions).
///
/// ```
/// let members = abide_permissions::members(b"*;nosnippet, ExampleBot;noindex");
/// let (token, parameters) = &members[1];
/// assert_eq!((&**token, parameters.len()), ("examplebot", 1), "the rules of `*` are not repeated here");
/// ```
#[must_use]
pub fn members(line: &[u8]) -> Vec<(String, Vec<(String, SfValue)>)> {
    let mut folded = line.to_vec();
    lower_case_outside_strings(&mut folded);
    Pieces::of(&folded).filter_map(|piece| member(piece.trim_ascii())).collect()
}

fn member(piece: &[u8]) -> Option<(String, Vec<(String, SfValue)>)> {
    let mut collector = Collector::default();
    Parser::new(piece).parse_list_with_visitor(&mut collector).ok()?;
    let token = collector.token?;
    (collector.members == 1).then_some((token, collector.parameters))
}

#[derive(Default)]
struct Collector {
    members: usize,
    token: Option<String>,
    parameters: Vec<(String, SfValue)>,
}

impl<'a> ListVisitor<'a> for &mut Collector {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'a>, Infallible> {
        self.members = self.members.saturating_add(1);
        Ok(ItemOnly(&mut **self))
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'a> ItemVisitor<'a> for &mut Collector {
    type Out = ();
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'a>,
    ) -> Result<impl ParameterVisitor<'a, Out = ()>, Infallible> {
        self.token = match item {
            BareItemFromInput::Token(token) => Some(token.as_str().to_owned()),
            BareItemFromInput::String(text) => Some(text.as_str().to_owned()),
            _ => None,
        };
        Ok(self)
    }
}

impl<'a> ParameterVisitor<'a> for &mut Collector {
    type Out = ();
    type Error = Infallible;

    fn parameter(&mut self, name: &'a KeyRef, value: BareItemFromInput<'a>) -> Result<(), Infallible> {
        let value = SfValue::from(value);
        match self.parameters.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, slot)) => *slot = value,
            None => self.parameters.push((name.as_str().to_owned(), value)),
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}
