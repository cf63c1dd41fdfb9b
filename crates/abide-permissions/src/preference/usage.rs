//! Content-Usage: a Dictionary of labels, each `y` or `n` (draft-ietf-aipref-vocab).
//!
//! A line that is no Dictionary states nothing by the draft; what it forbids is salvaged unless the reading is strict.

use std::collections::BTreeMap;

use sfv::{Dictionary, ListEntry, Parser};

use super::{Preference, StatedLine, Usage, salvage};

/// The current vocabulary. Labels of earlier and later drafts are kept as [`Usage::Other`].
pub(super) const LABELS: [(&str, Usage); 2] = [("search", Usage::Search), ("train-ai", Usage::TrainAi)];

/// What a line says. If it is no Dictionary, all preferences are unknown, except what a salvage finds.
pub(super) fn read(value: &[u8], strict: bool) -> StatedLine {
    let mut line = StatedLine::default();
    let Ok(members) = Parser::new(value).parse::<Dictionary>() else {
        line.stated = if strict { Vec::new() } else { salvage::restrictions(value, &LABELS) };
        line.is_broken = true;
        line.remark("a dictionary such as `train-ai=n`", value, line.stated.is_empty());
        return line;
    };
    // In the order of the labels, so that the order of the members changes nothing.
    let labels: BTreeMap<&str, Preference> =
        members.iter().map(|(label, member)| (label.as_str(), preference_of(member, strict))).collect();
    for (label, _) in LABELS.iter().filter(|(label, _)| labels.get(label) == Some(&Preference::Unset)) {
        line.problem = Some(format!("expected `{label}=y` or `{label}=n`; its value states nothing"));
    }
    let stated = labels.into_iter().filter(|(_, preference)| *preference != Preference::Unset);
    line.stated = bounded(stated.map(|(label, preference)| (usage_of(label), preference)));
    line
}

/// "Any unknown parameters MUST be ignored": all are, because none is known.
fn preference_of(member: &ListEntry, strict: bool) -> Preference {
    let ListEntry::Item(item) = member else { return Preference::Unset };
    match item.bare_item.as_token().map(|token| token.as_str()) {
        Some("y") => Preference::Allow,
        Some("n") => Preference::Disallow,
        // Stricter: in `train-ai=n.` the full stop ends a sentence, though it is part of the token.
        Some(token) if !strict && is_no(token) => Preference::Disallow,
        _ => Preference::Unset,
    }
}

/// All statements of the vocabulary, and a bounded number of others.
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

fn is_no(token: &str) -> bool {
    token.trim_end_matches(|char: char| !char.is_ascii_alphanumeric()) == "n"
}
