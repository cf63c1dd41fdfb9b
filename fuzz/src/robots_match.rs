//! The verdict is that of a naive quadratic matcher, and an unrelated group changes nothing.
//!
//! The input: lines of patterns, the first octet of each saying Allow or Disallow, then a blank line, then targets.

use abide_robots::{ProductToken, Rules, Target};

#[path = "../../crates/abide-robots/tests/naive/mod.rs"]
mod naive;

/// What the first line of this file says.
pub fn run(bytes: &[u8]) {
    let input = crate::text(bytes);
    if input.len() > 2000 || input.contains(['#', '\r']) {
        return;
    }
    let (patterns, targets) = input.split_once("\n\n").unwrap_or((input, ""));
    let mut robots = String::from("user-agent: foobot\n");
    for line in patterns.lines() {
        let (kind, pattern) = match line.strip_prefix('+') {
            Some(pattern) => ("allow", pattern),
            None => ("disallow", line),
        };
        robots.push_str(&format!("{kind}: {pattern}\n"));
    }
    let tokens = [ProductToken::new("foobot").expect("a token")];
    let rules = Rules::parse(robots.as_bytes(), &tokens);
    let with_another =
        format!("user-agent: barbot\ndisallow: /\n{robots}disallow:\nuser-agent: *\ndisallow: /\n");
    let with_another = Rules::parse(with_another.as_bytes(), &tokens);
    for text in targets.lines().filter(|text| text.starts_with('/')) {
        let target = Target::new(text);
        let expected = naive::is_allowed(robots.as_bytes(), "foobot", text.as_bytes());
        assert_eq!(rules.is_allowed(&target), expected, "{text:?} of {robots:?}");
        assert_eq!(with_another.is_allowed(&target), expected);
    }
}
