//! What is written is read as it was meant: whatever the builder takes, the groups, rules and records of the text it gives
//! are those that went in.

use abide_robots::{RecordKind, Robots, RobotsBuilder};

/// Agents and rules.
type Group = (Vec<String>, Vec<(RecordKind, String)>);

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    let mut builder = RobotsBuilder::new();
    let mut expected: Vec<Group> = Vec::new();
    let mut sitemaps = Vec::new();
    for step in input.split('\x01').take(40) {
        let (kind, value) = step.split_at_checked(1).unwrap_or((step, ""));
        let attempt = builder.clone();
        let done = match kind {
            "g" => attempt.group(value.split(',')),
            "a" => attempt.allow(value),
            "d" => attempt.disallow(value),
            "s" if !value.is_empty() => attempt.sitemap(value),
            "r" => {
                let (name, value) = value.split_once(',').unwrap_or((value, ""));
                attempt.record(name, value)
            }
            _ => continue,
        };
        let Ok(done) = done else { continue };
        builder = done;
        match (kind, expected.last_mut()) {
            ("g", _) => expected.push((value.split(',').map(String::from).collect(), Vec::new())),
            ("a", Some((_, rules))) => rules.push((RecordKind::Allow, value.into())),
            ("d", Some((_, rules))) => rules.push((RecordKind::Disallow, value.into())),
            ("s", _) => sitemaps.push(value.to_string()),
            _ => {}
        }
    }
    let text = builder.build();
    let robots = Robots::parse(text.as_bytes());
    let read: Vec<_> = robots
        .groups()
        .map(|group| {
            let is_rule = |kind| matches!(kind, RecordKind::Allow | RecordKind::Disallow);
            let rules = group.iter().filter(|record| is_rule(record.kind()));
            let rules =
                rules.map(|rule| (rule.kind(), String::from_utf8_lossy(rule.value()).into_owned()));
            let agents = group.iter().filter_map(|record| record.agent().map(String::from));
            (agents.collect::<Vec<_>>(), rules.collect::<Vec<_>>())
        })
        .collect();
    for (_, rules) in &mut expected {
        if rules.is_empty() {
            rules.push((RecordKind::Disallow, String::new()));
        }
    }
    assert_eq!(read, expected, "{text:?}");
    let read: Vec<_> = robots.sitemaps().map(String::from).collect();
    assert!(sitemaps.iter().all(|sitemap| read.contains(sitemap)), "{text:?}");
}
