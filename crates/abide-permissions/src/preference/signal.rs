//! Content-Signal: `search=yes, ai-train=no` (contentsignals.org). Not a structured field, so each element stands alone.

use super::usage::bounded;
use super::{Preference, Usage};

/// The keys that have a meaning.
pub(super) const KEYS: [(&str, Usage); 3] =
    [("ai-input", Usage::AiInput), ("ai-train", Usage::TrainAi), ("search", Usage::Search)];

/// The values of `use`, from the most restrictive one on.
const USES: [&str; 3] = ["immediate", "reference", "full"];

/// What one line says.
pub(super) struct Signal {
    pub(super) usages: Vec<(Usage, Preference)>,
    pub(super) usage_of_content: Option<Box<str>>,
}

pub(super) fn parse(value: &[u8]) -> Signal {
    let mut signal = Signal { usages: Vec::new(), usage_of_content: None };
    let mut usages = Vec::new();
    for element in value.split(|byte| *byte == b',') {
        let element = String::from_utf8_lossy(element).to_ascii_lowercase();
        let Some((key, value)) = element.split_once('=') else { continue };
        let (key, value) = (key.trim_ascii(), value.trim_ascii());
        if key == "use" && USES.contains(&value) {
            signal.usage_of_content = match signal.usage_of_content.take() {
                Some(ours) => Some(stricter_use(ours, value.into())),
                None => Some(value.into()),
            };
        } else if let Some(preference) = preference_of(value).filter(|_| !key.is_empty() && key != "use") {
            let known = KEYS.iter().find(|(known, _)| *known == key);
            let usage = known.map_or_else(|| Usage::Other(key.into()), |(_, usage)| usage.clone());
            usages.push((usage, preference));
        }
    }
    signal.usages = bounded(usages.into_iter());
    signal
}

/// The more restrictive of two known values of `use`.
pub(super) fn stricter_use(ours: Box<str>, theirs: Box<str>) -> Box<str> {
    let rank = |value: &str| USES.iter().position(|known| *known == value);
    if rank(&theirs) < rank(&ours) { theirs } else { ours }
}

/// `allow` and `disallow` are synonyms that some servers send.
fn preference_of(value: &str) -> Option<Preference> {
    match value {
        "yes" | "allow" => Some(Preference::Allow),
        "no" | "disallow" => Some(Preference::Disallow),
        _ => None,
    }
}
