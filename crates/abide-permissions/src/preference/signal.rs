//! Content-Signal: `search=yes, ai-train=no` (contentsignals.org). Not a structured field, so each element is
//! read by itself.
//!
//! Its names are mapped to usages here, so that its preferences join those of Content-Usage.

use super::label::{Value, known};
use super::line::StatedLine;
use super::{Preference, Usage};
use crate::rules::tighten;

/// The keys that have a meaning.
pub(super) const KEYS: [(&str, Usage); 3] =
    [("ai-input", Usage::AiInput), ("ai-train", Usage::TrainAi), ("search", Usage::Search)];

/// The values of `use`, from the most restrictive one on.
pub(super) const USES: [&str; 3] = ["immediate", "reference", "full"];

const EXPECTED: &str = "a signal such as `ai-train=no`";

/// What a line says, and the rank of its most restrictive `use`.
pub(super) fn read(value: &[u8], strict: bool) -> (StatedLine, Option<usize>) {
    let (mut line, mut content_use) = (StatedLine::default(), None);
    if value.starts_with(b"/") {
        line.salvage(value, EXPECTED, strict);
        let problem = "expected signals, found a path, which Content-Signal does not have";
        return (line.into_doubt(problem), None);
    }
    for element in value.split(|byte| *byte == b',').filter(|element| !element.trim_ascii().is_empty()) {
        let text = String::from_utf8_lossy(element).to_ascii_lowercase();
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let (key, value) = (key.trim_ascii(), value.trim_ascii());
        if key == "use" && USES.contains(&value) {
            tighten(&mut content_use, USES.iter().position(|known| *known == value));
        } else if key == "use" && is_word(value) {
            line.remark("a `use` that is known", &text, "it states nothing", false);
        } else if let Some(value) = value_of(value, strict).filter(|_| is_word(key)) {
            state(&mut line, key, value, &text, strict);
        } else {
            line.salvage(element, EXPECTED, strict);
        }
    }
    (line, content_use)
}

fn state(line: &mut StatedLine, key: &str, value: Value, found: &str, strict: bool) {
    if strict && !KEYS.iter().any(|(known, _)| *known == key) {
        let preference = if value == Value::Yes { Preference::Allow } else { Preference::Disallow };
        return line.state(Usage::Other(key.into()), preference);
    }
    if known(key).is_none() && !matches!(value, Value::Yes | Value::No) {
        line.remark(EXPECTED, found, "it states nothing", false);
    }
    line.member(key, value, &KEYS, found);
}

/// `None` for what is no plain value. `allow` and `disallow` are synonyms that some servers send.
fn value_of(text: &str, strict: bool) -> Option<Value> {
    match text {
        "yes" | "allow" => Some(Value::Yes),
        "no" | "disallow" => Some(Value::No),
        _ if strict => None,
        text => Some(Value::of(text)).filter(|value| is_word(text) || *value == Value::No),
    }
}

/// What no separator is left in; `search; ai-train` is two keys.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
