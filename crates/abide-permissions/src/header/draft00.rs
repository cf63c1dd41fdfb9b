//! The first version of the draft: `*=noindex, nosnippet; ExampleBot=;` (draft-illyes-repext-00 §2.1.1).
//!
//! Its ABNF allows one rule for each token, against its own example; the example is followed. That `ExampleBot=;` would
//! exempt ExampleBot is overruled by repext-03 §3.1.1: a restriction for all crawlers binds all of them (X5).

use crate::element::{read_elements, split_once};
use crate::options::{ReadOptions, is_token_byte};
use crate::rule::{KnownRule, known};
use crate::stated::Stated;

/// Whether some group of the line says `token=`.
pub(super) fn has_form(line: &[u8]) -> bool {
    groups(line).any(|group| match group.iter().find(|byte| matches!(byte, b'=' | b',' | b':')) {
        Some(b'=') => split_once(group, |byte| byte == b'=').is_some_and(|(name, _)| is_token(name)),
        _ => false,
    })
}

/// What the groups that bind us state together: each would keep a copy of its line, and a line may have thousands.
pub(super) fn read(line: &[u8], options: &ReadOptions) -> Stated {
    let mut stated = Stated::default();
    for group in groups(line) {
        let (binds_us, rules) = match token_and_rules(group) {
            Some((token, rules)) => (options.token_binds_us(token), rules),
            // The global token may be left out.
            None => (true, group),
        };
        if binds_us {
            stated.unite(read_elements(rules, None));
        }
    }
    stated
}

fn groups(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii)
}

fn token_and_rules(group: &[u8]) -> Option<(&[u8], &[u8])> {
    let (token, rules) = split_once(group, |byte| matches!(byte, b'=' | b','))?;
    let is_group = group.iter().find(|byte| matches!(byte, b'=' | b',')) == Some(&b'=');
    (is_group && !is_valued_name(token)).then_some((token, rules))
}

fn is_token(name: &[u8]) -> bool {
    let of_token_bytes = !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte));
    name == b"*" || (of_token_bytes && !is_valued_name(name))
}

fn is_valued_name(name: &[u8]) -> bool {
    matches!(known(name), Some(KnownRule::Valued(_)))
}
