//! The first version of the draft: `*=noindex, nosnippet; ExampleBot=;` (draft-illyes-repext-00 §2.1.1).
//!
//! Its ABNF allows one rule for each token, against its own example; the example is followed. That
//! `ExampleBot=;` would exempt ExampleBot is overruled by repext-03 §3.1.1: a restriction for all crawlers
//! binds all of them.

use crate::element::{Carrier, names_crawler, read_elements, split_once};
use crate::options::ReadOptions;
use crate::stated::Stated;

/// Whether some group of the line says `token=`.
pub(super) fn has_form(line: &[u8]) -> bool {
    groups(line).any(|group| match group.iter().find(|byte| matches!(byte, b'=' | b',' | b':')) {
        Some(b'=') => split_once(group, |byte| byte == b'=').is_some_and(|(name, _)| is_token(name)),
        _ => false,
    })
}

/// What the groups that bind us state together: each would keep a copy of its line, and a line may have
/// thousands.
pub(super) fn read(line: &[u8], options: &ReadOptions) -> Stated {
    let mut stated = Stated::default();
    for group in groups(line) {
        let (binds_us, rules) = match token_and_rules(group) {
            Some((token, rules)) => (options.token_binds_us(token), rules),
            // The global token may be left out.
            None => (true, group),
        };
        if binds_us {
            stated.unite(read_elements(rules, options, Carrier::Meta));
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
    (is_group && is_token(token)).then_some((token, rules))
}

/// Stricter: the name of a rule is no token, so that `noindex=true` is for all crawlers.
fn is_token(name: &[u8]) -> bool {
    name == b"*" || name.eq_ignore_ascii_case(b"robots") || names_crawler(name)
}
