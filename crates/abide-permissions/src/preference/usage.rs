//! Content-Usage: a Dictionary of labels, each `y` or `n` (draft-ietf-aipref-vocab).
//!
//! A line that is no Dictionary states nothing by the draft; what it forbids is salvaged unless the reading
//! is strict.

use sfv::{BareItem, Dictionary, ListEntry, Parameters, Parser};

use super::label::{Value, known};
use super::line::StatedLine;
use super::{Preference, Usage};

/// The current vocabulary. Labels of other drafts forbid what they cover, and allow nothing.
pub(super) const LABELS: [(&str, Usage); 2] = [("search", Usage::Search), ("train-ai", Usage::TrainAi)];

/// What a line says.
pub(super) fn read(value: &[u8], strict: bool) -> StatedLine {
    let mut line = StatedLine::default();
    let Ok(members) = Parser::new(value).parse::<Dictionary>() else {
        line.salvage(value, "a dictionary such as `train-ai=n`", strict);
        return line;
    };
    for (label, member) in &members {
        if strict {
            state_strictly(&mut line, label.as_str(), member);
        } else {
            state(&mut line, label.as_str(), member);
        }
    }
    line
}

/// By the letter of the draft: `y` and `n` of the vocabulary, and of other labels as data.
fn state_strictly(line: &mut StatedLine, label: &str, member: &ListEntry) {
    let usage = LABELS.iter().find(|(known, _)| *known == label);
    let usage = usage.map_or_else(|| Usage::Other(label.into()), |(_, usage)| usage.clone());
    let ListEntry::Item(item) = member else { return };
    match item.bare_item.as_token().map(|token| token.as_str()) {
        Some("y") => line.state(usage, Preference::Allow),
        Some("n") => line.state(usage, Preference::Disallow),
        _ => {}
    }
}

/// Stricter: a no is one in whatever words, and a value that is neither yes nor no is not understood.
fn state(line: &mut StatedLine, label: &str, member: &ListEntry) {
    let (value, found, params) = match member {
        ListEntry::Item(item) => (value_of(&item.bare_item), text_of(&item.bare_item), &item.params),
        ListEntry::InnerList(list) => {
            let has_no = list.items.iter().any(|item| value_of(&item.bare_item) == Value::No);
            (if has_no { Value::No } else { Value::Neither }, "a list".to_owned(), &list.params)
        }
    };
    line.member(label, value, &LABELS, &format!("{label}={found}"));
    forbid_by_parameters(line, params);
}

/// "Any unknown parameters MUST be ignored." Stricter: sites write semicolons for commas, and
/// `search=y;train-ai=n` has a no in it.
fn forbid_by_parameters(line: &mut StatedLine, params: &Parameters) {
    for (name, value) in params {
        let (label, value, found) = (name.as_str(), value_of(value), text_of(value));
        let is_no = known(label).is_some_and(|label| label.is_negative != (value == Value::No));
        if is_no || matches!(value, Value::Missing | Value::Neither) {
            line.member(label, value, &LABELS, &format!("{label}={found}"));
        }
    }
}

fn value_of(item: &BareItem) -> Value {
    match item {
        BareItem::Token(token) if token.as_str() == "y" => Value::Yes,
        // A label alone is the same as one with `?1`.
        BareItem::Boolean(true) => Value::Missing,
        other => Value::of(&text_of(other)),
    }
}

fn text_of(item: &BareItem) -> String {
    match item {
        BareItem::Token(token) => token.as_str().to_owned(),
        BareItem::String(text) => text.as_str().to_owned(),
        BareItem::DisplayString(text) => text.clone(),
        BareItem::ByteSequence(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        BareItem::Boolean(value) => format!("?{}", u8::from(*value)),
        BareItem::Integer(number) => number.to_string(),
        BareItem::Decimal(number) => number.to_string(),
        BareItem::Date(date) => format!("@{date}"),
    }
}
