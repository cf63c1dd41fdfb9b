//! Salvage: what a broken Content-Usage or Content-Signal still forbids.
//!
//! Readers of both fields call it with what their grammar has refused.

use super::{Preference, Usage};

/// The restrictions in a text that its own grammar cannot read.
///
/// Stricter: sites write `ai=n train-ai=n` and `search=yes; ai-train=no`, and mean what they say. So quotes are dropped, every piece
/// between other marks and spaces is looked at, without regard to case, and a known label with `n`, `no` or `disallow` counts, in a text without `=`
/// also behind a colon. Nothing is allowed by a salvage: a guess must not permit what its author may have forbidden.
pub(super) fn restrictions(text: &[u8], labels: &[(&str, Usage)]) -> Vec<(Usage, Preference)> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let text = if text.contains('=') { text } else { text.replace(':', "=") };
    let kept = text.chars().filter(|char| !matches!(char, '"' | '\''));
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | '=');
    let text: String = kept.map(|char| if is_part(char) { char } else { ' ' }).collect();
    let text = text.split('=').map(str::trim_ascii).collect::<Vec<_>>().join("=");
    let pieces = text.split_ascii_whitespace();
    let mut forbidden: Vec<&str> = Vec::new();
    for (label, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        // Only what is known is kept, and once.
        let is_new = !forbidden.contains(&label) && labels.iter().any(|(known, _)| *known == label);
        if is_new && matches!(value, "n" | "no" | "disallow") {
            forbidden.push(label);
        }
    }
    let known = labels.iter().filter(|(label, _)| forbidden.contains(label));
    known.map(|(_, usage)| (usage.clone(), Preference::Disallow)).collect()
}
