//! Content-Usage: a Dictionary of labels, each `y` or `n` (draft-ietf-aipref-vocab).

use std::collections::BTreeMap;
use std::convert::Infallible;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use super::{Line, Preference, Usage, salvage};
use crate::item::ItemOnly;

/// The current vocabulary. Labels of earlier and later drafts are kept as [`Usage::Other`].
pub(super) const LABELS: [(&str, Usage); 2] = [("search", Usage::Search), ("train-ai", Usage::TrainAi)];

/// What a line says. If it is no Dictionary, all preferences are unknown, but for those that a salvage finds.
pub(super) fn read(value: &[u8], strict: bool) -> Line {
    let (mut line, mut labels) = (Line::default(), Labels { stated: BTreeMap::new(), strict });
    if Parser::new(value).parse_dictionary_with_visitor(&mut labels).is_err() {
        line.stated = if strict { Vec::new() } else { salvage::restrictions(value, &LABELS) };
        line.is_broken = true;
        line.remark("a dictionary such as `train-ai=n`", value, line.stated.is_empty());
        return line;
    }
    for (label, _) in
        LABELS.iter().filter(|(label, _)| labels.stated.get(*label) == Some(&Preference::Unknown))
    {
        line.problem = Some(format!("expected `{label}=y` or `{label}=n`; its value states nothing"));
    }
    let stated = labels.stated.into_iter().filter(|(_, preference)| *preference != Preference::Unknown);
    line.stated = bounded(stated.map(|(label, preference)| (usage_of(&label), preference)));
    line
}

/// All statements of the vocabulary, and of others as many as anybody has use for.
pub(super) fn bounded(stated: impl Iterator<Item = (Usage, Preference)>) -> Vec<(Usage, Preference)> {
    let mut others = 0_usize;
    let keep = |(usage, _): &(Usage, Preference)| {
        others = others.saturating_add(usize::from(matches!(usage, Usage::Other(_))));
        !matches!(usage, Usage::Other(_)) || others <= OTHERS_MAX
    };
    stated.filter(keep).collect()
}

/// Labels outside the vocabulary that are kept of one record.
const OTHERS_MAX: usize = 64;

fn usage_of(label: &str) -> Usage {
    match LABELS.iter().find(|(known, _)| *known == label) {
        Some((_, usage)) => usage.clone(),
        None => Usage::Other(label.into()),
    }
}

/// Each label with its last value (RFC 9651 §4.2.2).
struct Labels {
    stated: BTreeMap<Box<str>, Preference>,
    strict: bool,
}

impl<'a> DictionaryVisitor<'a> for &mut Labels {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self, label: &'a KeyRef) -> Result<impl EntryVisitor<'a>, Infallible> {
        let preference = self.stated.entry(label.as_str().into()).or_default();
        *preference = Preference::Unknown;
        Ok(ItemOnly(Value { preference, strict: self.strict }))
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

struct Value<'p> {
    preference: &'p mut Preference,
    strict: bool,
}

impl<'a> ItemVisitor<'a> for Value<'_> {
    type Out = ();
    type Error = Infallible;

    /// "Any unknown parameters MUST be ignored": so are the known ones, of which there are none.
    fn bare_item(
        self,
        item: BareItemFromInput<'a>,
    ) -> Result<impl ParameterVisitor<'a, Out = ()>, Infallible> {
        *self.preference = match item {
            BareItemFromInput::Token(token) if token.as_str() == "y" => Preference::Allow,
            BareItemFromInput::Token(token) if token.as_str() == "n" => Preference::Disallow,
            // Stricter: a full stop belongs to the sentence, not to the token that it is a part of.
            BareItemFromInput::Token(token) if !self.strict && is_no(token.as_str()) => Preference::Disallow,
            _ => Preference::Unknown,
        };
        Ok(Ignored)
    }
}

fn is_no(token: &str) -> bool {
    token.trim_end_matches(|char: char| !char.is_ascii_alphanumeric()) == "n"
}
