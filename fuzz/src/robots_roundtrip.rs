//! What is written by the grammar of RFC 9309 is read as it was written: groups, rules and sitemaps.
//!
//! The input: steps, with U+0001 between them. `g` begins a group for the names that follow, `a` and `d` add
//! a rule to it, and `s` adds a sitemap to the file. Steps that the grammar does not allow are left out.

use abide_robots::{ProductToken, RecordKind, Robots};

/// Agents and rules.
type Group = (Vec<String>, Vec<(RecordKind, String)>);

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let (mut groups, mut sitemaps) = (Vec::<Group>::new(), Vec::new());
    for step in crate::text(bytes).split('\x01').take(40) {
        let (step, value) = step.split_at_checked(1).unwrap_or((step, ""));
        match (step, groups.last_mut()) {
            ("g", _) if value.split(',').all(is_agent) => {
                groups.push((value.split(',').map(String::from).collect(), Vec::new()));
            }
            ("a", Some((_, rules))) if is_pattern(value) => rules.push((RecordKind::Allow, value.into())),
            ("d", Some((_, rules))) if is_pattern(value) && is_seen(value) => {
                rules.push((RecordKind::Disallow, value.into()))
            }
            ("s", _) if value.starts_with("https://") && is_value(value) && is_seen(value) => {
                sitemaps.push(value)
            }
            _ => {}
        }
    }
    let mut text = String::new();
    for (agents, rules) in &mut groups {
        // A group without rules is read as one with the next.
        if rules.is_empty() {
            rules.push((RecordKind::Disallow, String::new()));
        }
        text.extend(agents.iter().map(|agent| format!("User-agent: {agent}\n")));
        text.extend(rules.iter().map(|(kind, pattern)| format!("{}: {pattern}\n", kind.name())));
    }
    text.extend(sitemaps.iter().map(|url| format!("Sitemap: {url}\n")));
    let robots = Robots::parse(text.as_bytes());
    let rule = |kind, value| (kind, String::from_utf8_lossy(value).into_owned());
    let read = robots.groups().map(|group| {
        // Sitemaps behind the last group are among its records, and belong to the file.
        let is_rule = |kind| matches!(kind, RecordKind::Allow | RecordKind::Disallow);
        let rules = group.iter().filter(|record| is_rule(record.kind()));
        let rules = rules.map(|record| rule(record.kind(), record.value())).collect();
        (group.iter().filter_map(|record| record.agent().map(String::from)).collect(), rules)
    });
    assert_eq!(read.collect::<Vec<Group>>(), groups, "{text:?}");
    assert_eq!(robots.sitemaps().collect::<Vec<_>>(), sitemaps, "{text:?}");
}

fn is_agent(name: &str) -> bool {
    name == "*" || ProductToken::new(name).is_ok()
}

fn is_pattern(value: &str) -> bool {
    (value.is_empty() || value.starts_with(['/', '*'])) && is_value(value)
}

/// Whether all of a value is kept that is no Allow: the space around it that nobody sees is dropped.
fn is_seen(value: &str) -> bool {
    value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}'))
        == value
}

/// Whether a value ends neither its line nor itself, and fits a line.
fn is_value(value: &str) -> bool {
    value.trim_matches(' ') == value
        && !value.contains(|c: char| c == '#' || c.is_control())
        && value.len() < 16_000
}
