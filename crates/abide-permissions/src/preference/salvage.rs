//! Salvage: what a text forbids that its own grammar cannot read, and what it names and leaves unknown.
//!
//! All carriers call it with what their grammar has refused.

use std::collections::BTreeMap;

use super::label::{self, Value, plain};
use super::{Preference, Usage};

/// What a text that its own grammar cannot read states on the uses that it names: disallow or unknown, never
/// allow.
///
/// Stricter: sites write `ai=n train-ai=n` and `search=yes; ai-train=no`, and mean what they say. So every
/// word is looked at, whatever stands between them, without regard to case; a label with a no behind it is
/// disallowed. A guess must not permit what its author may have forbidden: a label with anything else behind
/// it is unknown. So is training where the text names no label at all, unless all it has are labels of other
/// uses.
pub(super) fn read(text: &[u8]) -> BTreeMap<Usage, Preference> {
    let text = plain(&String::from_utf8_lossy(text));
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    let words = || text.split(|char| !is_part(char)).filter(|word| word.chars().any(char::is_alphanumeric));
    let mut stated = BTreeMap::new();
    for (word, next) in words().zip(words().skip(1).map(Some).chain([None])) {
        let Some(label) = label::known(word) else { continue };
        let is_no = next.is_some_and(|next| Value::of(next) == Value::No);
        let preference = if is_no == label.is_negative { Preference::Unknown } else { Preference::Disallow };
        for usage in label.usages {
            let known: &mut Preference = stated.entry(usage.clone()).or_default();
            *known = preference.max(*known);
        }
    }
    if stated.is_empty() && !is_of_other_labels(&text) {
        stated.insert(Usage::TrainAi, Preference::Unknown);
    }
    stated
}

/// Whether these are labels, with values or without, that name no use we know.
fn is_of_other_labels(text: &str) -> bool {
    let mut pieces =
        text.split([',', ';', ' ', '\t']).filter(|piece| piece.chars().any(char::is_alphanumeric)).peekable();
    let is_label = |piece: &str| {
        let label = piece.split('=').next().unwrap_or_default();
        let is_name = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        is_name && matches!(Value::of(label), Value::Neither)
    };
    pieces.peek().is_some() && pieces.all(is_label)
}
