//! Content-Signal: `search=yes, ai-train=no` (contentsignals.org). Not a structured field, so each element is read by itself.
//!
//! Its names are mapped to usages here, so that its preferences join those of Content-Usage.

use std::collections::BTreeMap;

use super::usage::bounded;
use super::{Preference, StatedLine, Usage, salvage};
use crate::rules::tighten;

/// The keys that have a meaning.
pub(super) const KEYS: [(&str, Usage); 3] =
    [("ai-input", Usage::AiInput), ("ai-train", Usage::TrainAi), ("search", Usage::Search)];

/// The values of `use`, from the most restrictive one on.
pub(super) const USES: [&str; 3] = ["immediate", "reference", "full"];

/// What a line says, and the rank of its most restrictive `use`.
pub(super) fn read(value: &[u8], strict: bool) -> (StatedLine, Option<usize>) {
    let (mut line, mut content_use) = (StatedLine::default(), None);
    if value.starts_with(b"/") {
        line.problem = Some("expected signals, found a path, which Content-Signal does not have".to_owned());
        return (line, None);
    }
    for element in value.split(|byte| *byte == b',').filter(|element| !element.trim_ascii().is_empty()) {
        let text = String::from_utf8_lossy(element).to_ascii_lowercase();
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let (key, value) = (key.trim_ascii(), value.trim_ascii());
        if key == "use" && USES.contains(&value) {
            tighten(&mut content_use, USES.iter().position(|known| *known == value));
        } else if let Some(preference) = preference_of(value).filter(|_| is_key(key) && key != "use") {
            let known = KEYS.iter().find(|(known, _)| *known == key);
            let usage = known.map_or_else(|| Usage::Other(key.into()), |(_, usage)| usage.clone());
            line.stated.push((usage, preference));
        } else {
            let salvaged = if strict { Vec::new() } else { salvage::restrictions(element, &KEYS) };
            line.remark("a signal such as `ai-train=no`", element, salvaged.is_empty());
            line.stated.extend(salvaged);
        }
    }
    // Of a usage the last preference stays, which is the most restrictive one.
    line.stated.sort_by_key(|(_, preference)| *preference);
    let stated: BTreeMap<Usage, Preference> = line.stated.into_iter().collect();
    line.stated = bounded(stated.into_iter());
    (line, content_use)
}

/// What no separator is left in; `search; ai-train` is two keys.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// `allow` and `disallow` are synonyms that some servers send.
fn preference_of(value: &str) -> Option<Preference> {
    match value {
        "yes" | "allow" => Some(Preference::Allow),
        "no" | "disallow" => Some(Preference::Disallow),
        _ => None,
    }
}
