//! What three other crates answer on generated files, and why we differ where we do.
//!
//! Each difference must be explained by one of the rows of `explanations`; an answer that none explains is a
//! bug of ours or theirs that has not been looked at yet.

use abide_robots::{ProductToken, Rules, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const AGENT: &str = "foobot";

fn pattern() -> impl Strategy<Value = String> {
    let piece = select(
        &["a", "b", "/", "/", "ab", "cat", "*", "$", ".php", "?", "x=", "%2F", "%41", "é", "~", "-"][..],
    );
    vec(piece, 0..6).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn target() -> impl Strategy<Value = String> {
    let piece =
        select(&["a", "b", "/", "ab", "cat", ".php", "?x=", "%2F", "%41", "A", "%C3%A9", "~", "-"][..]);
    vec(piece, 0..7).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn robots() -> impl Strategy<Value = String> {
    let rule = (any::<bool>(), pattern())
        .prop_map(|(allow, pattern)| format!("{}: {pattern}", if allow { "Allow" } else { "Disallow" }));
    let agent = select(&["foobot", "*", "barbot"][..]).prop_map(|agent| format!("User-agent: {agent}"));
    let other = select(&["", "# note", "Sitemap: https://example.com/s", "Crawl-delay: 1"][..])
        .prop_map(String::from);
    vec(prop_oneof![6 => rule, 2 => agent, 1 => other], 1..12)
        .prop_map(|lines| format!("User-agent: foobot\n{}\n", lines.join("\n")))
}

/// Why another answer than ours is given, by what the file and the target hold.
fn explained(peer: &str, robots: &str, target: &str) -> bool {
    explanations(peer).iter().any(|(_, applies)| applies(robots, target))
}

type Explanation = (&'static str, fn(&str, &str) -> bool);

fn explanations(peer: &str) -> Vec<Explanation> {
    let holds_escape: fn(&str, &str) -> bool = |robots, target| (robots.to_string() + target).contains('%');
    let non_ascii: fn(&str, &str) -> bool = |robots, _| !robots.is_ascii();
    let inner_dollar: fn(&str, &str) -> bool = |robots, _| {
        let patterns = robots.lines().filter_map(|line| line.split_once(": /").map(|(_, pattern)| pattern));
        patterns
            .into_iter()
            .any(|pattern| pattern.trim_end_matches('$').contains('$') || pattern.ends_with("$$"))
    };
    let split_run: fn(&str, &str) -> bool = |robots, _| {
        let keys: Vec<&str> = robots.lines().filter_map(|line| line.split(':').next()).collect();
        let records = keys.split(|key| matches!(*key, "Allow" | "Disallow"));
        records.into_iter().any(|run| run.iter().any(|key| matches!(*key, "Sitemap" | "Crawl-delay")))
    };
    let query: fn(&str, &str) -> bool = |robots, target| robots.contains('?') && target.contains('?');
    match peer {
        "texting_robots" => vec![
            ("other records split no run of user-agent lines (2.2.4)", split_run),
            (
                "it decodes or keeps escapes otherwise (2.2.2: unreserved are decoded, reserved kept)",
                holds_escape,
            ),
            ("a `$` inside a pattern is a literal (2.2.3); it takes each for the end", inner_dollar),
        ],
        "robotxt" => vec![
            ("other records split no run of user-agent lines (2.2.4)", split_run),
            ("it decodes or keeps escapes otherwise (2.2.2)", holds_escape),
            ("it compares bytes beyond ASCII otherwise (2.2.2)", non_ascii),
            ("a `$` inside a pattern is a literal (2.2.3)", inner_dollar),
            ("it counts delimiters of the query otherwise (2.2.2)", query),
        ],
        _ => vec![
            ("other records split no run of user-agent lines (2.2.4)", split_run),
            ("it does not decode escapes of unreserved characters (2.2.2)", holds_escape),
            ("it compares bytes beyond ASCII otherwise (2.2.2)", non_ascii),
            ("a `$` inside a pattern is a literal (2.2.3)", inner_dollar),
            ("after a star it tries only the first place where a piece could start (2.2.3)", |robots, _| {
                robots.contains('*')
            }),
        ],
    }
}

/// What the three other crates answer, in the order of their names here.
fn answers(robots: &str, target: &str) -> [(&'static str, bool); 3] {
    let url = format!("https://example.com{target}");
    let texting = texting_robots::Robot::new(AGENT, robots.as_bytes()).unwrap();
    let robotxt = robotxt::Robots::parse(robots.as_bytes(), AGENT);
    let folyd = robotstxt::DefaultMatcher::default().one_agent_allowed_by_robots(robots, AGENT, &url);
    [("texting_robots", texting.allowed(&url)), ("robotxt", robotxt.is_allowed(target)), ("robotstxt", folyd)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_from_other_crates_are_explained(robots in robots(), targets in vec(target(), 1..4)) {
        let rules = Rules::parse(robots.as_bytes(), &[ProductToken::new(AGENT).unwrap()]);
        for target in &targets {
            let ours = rules.verdict(&Target::new(target));
            for (peer, answer) in answers(&robots, target) {
                prop_assert!(
                    answer == ours.is_allowed() || explained(peer, &robots, target),
                    "{peer} says {answer} on {target}, we: {ours}"
                );
            }
        }
    }
}
