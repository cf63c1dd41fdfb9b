//! What holds for every file and every target.

use abide_robots::{ProductToken, Robots, Rules, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::naive::UNSEEN;

/// Pieces that patterns and targets are made of: few, so that they meet.
const PIECES: &[&str] = &[
    "/", "a", "b", "ab", "*", "$", "?", "%", "%2F", "%2f", "/", "%41", "A", "%3F", "%3a", ":", "@", "%40",
    "%24", "%2A", "é", "%C3%A9", "%c3", "index", "cat", "&", "%26", "=", " ", "%20", "[", "%5B", "~", "%7E",
    "4", "1", "2F", "aaaa", "aaab", "abcd", "'", "%27", "\u{a0}", "\u{200b}",
];

fn text(pieces: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    vec(select(PIECES), pieces).prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => text(0..6).prop_map(|rest| format!("/{rest}")),
        1 => text(0..6).prop_map(|rest| format!("*{rest}")),
        1 => text(0..4),
    ]
}

fn target() -> impl Strategy<Value = String> {
    text(0..9).prop_map(|rest| format!("/{rest}"))
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (select(&["Allow", "Disallow", "disallow ", "ALLOW", "\u{feff}Disallow", "Allow\u{a0}"][..]), pattern())
            .prop_map(|(key, pattern)| format!("{key}: {pattern}")),
        2 => select(&["foobot", "*", "barbot", "FooBot/2", "foo", "foobot-news", "", "* x", "\u{a0}foobot", "*\u{3000}"][..])
            .prop_map(|agent| format!("User-agent: {agent}")),
        1 => select(&["", "# note", "Sitemap: https://a/", "Crawl-delay: 1", "foo: bar", "App-Directives: a;b", "x"][..])
            .prop_map(String::from),
    ]
}

fn robots(lines: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    (vec(line(), lines), select(&["\n", "\r\n", "\r"][..]))
        .prop_map(|(lines, end)| lines.iter().flat_map(|line| [line.as_str(), end]).collect::<String>())
}

/// Characters that nobody sees, and that end no line.
fn unseen() -> impl Strategy<Value = Vec<String>> {
    let letters = UNSEEN.iter().filter(|letter| !matches!(letter, '\n' | '\r')).collect::<Vec<_>>();
    vec(vec(select(letters), 0..3).prop_map(|letters| letters.into_iter().collect()), 1..9)
}

/// The lines with `unseen` around keys and values.
fn surrounded<'a>(lines: impl IntoIterator<Item = &'a String>, unseen: &[String]) -> String {
    let mut unseen = unseen.iter().cycle();
    let mut around = |text: &str| format!("{}{text}{}", unseen.next().unwrap(), unseen.next().unwrap());
    let surrounded = |line: &String| match line.split_once(':') {
        Some((key, value)) => format!("{}:{}\n", around(key), around(value)),
        None => format!("{line}\n"),
    };
    lines.into_iter().map(surrounded).collect()
}

fn is_allow(line: &str) -> bool {
    line.split(':').next().unwrap().eq_ignore_ascii_case("allow")
}

fn foobot() -> [ProductToken; 1] {
    [ProductToken::new("foobot").unwrap()]
}

fn answers_as_the_naive_matcher(robots: &str, targets: &[String]) -> Result<(), TestCaseError> {
    let rules = Rules::parse(robots.as_bytes(), &foobot());
    for target in targets {
        // A fragment is no part of a target; none of the pieces has one.
        let expected = crate::naive::is_allowed(robots.as_bytes(), "foobot", target.as_bytes());
        let verdict = rules.verdict(&Target::new(target));
        prop_assert_eq!(verdict.is_allowed(), expected, "{}: {}", target, verdict);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_that_of_the_naive_matcher(robots in robots(0..12), targets in vec(target(), 1..8)) {
        answers_as_the_naive_matcher(&robots, &targets)?;
    }

    #[test]
    fn many_wildcards_give_the_answer_of_the_naive_matcher(
        patterns in vec((any::<bool>(), pattern()), 60..160),
        targets in vec(target(), 1..12),
    ) {
        let mut robots = String::from("user-agent: *\n");
        for (allow, pattern) in &patterns {
            robots += &format!("{}: {pattern}\n", if *allow { "allow" } else { "disallow" });
        }
        answers_as_the_naive_matcher(&robots, &targets)?;
    }

    #[test]
    fn unseen_characters_change_nothing_around_others_than_allow(
        lines in vec(line(), 0..12),
        unseen in unseen(),
        target in target(),
    ) {
        let plain: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let with: String = lines
            .iter()
            .map(|line| if is_allow(line) { format!("{line}\n") } else { surrounded([line], &unseen) })
            .collect();
        let [plain, with] = [&plain, &with].map(|text| Rules::parse(text.as_bytes(), &foobot()));
        let target = Target::new(&target);
        prop_assert_eq!(with.is_allowed(&target), plain.is_allowed(&target));
        prop_assert_eq!(with.crawl_delay(), plain.crawl_delay());
        prop_assert!(with.group().eq(plain.group()) && with.sitemaps().eq(plain.sitemaps()));
    }

    #[test]
    fn unseen_characters_lift_nothing(
        rules in vec((any::<bool>(), pattern()), 0..12),
        unseen in unseen(),
        target in "[/ab?A4=~é%-]{0,12}",
    ) {
        let line = |(allow, pattern): &(bool, String)| format!("{}: {pattern}", if *allow { "Allow" } else { "Disallow" });
        let lines: Vec<String> = [String::from("User-agent: foobot")].into_iter().chain(rules.iter().map(line)).collect();
        let (plain, with) = (lines.join("\n"), surrounded(&lines, &unseen));
        let [plain, with] = [&plain, &with].map(|text| Rules::parse(text.as_bytes(), &foobot()));
        let target = Target::new(&target);
        prop_assert!(plain.is_allowed(&target) || !with.is_allowed(&target), "{}", with.verdict(&target));
    }

    #[test]
    fn any_bytes_are_read(body in vec(any::<u8>(), 0..400), target in target()) {
        let rules = Rules::parse(&body, &foobot());
        let verdict = rules.verdict(&Target::new(&target));
        prop_assert_eq!(verdict.is_allowed(), rules.is_allowed(&Target::new(&target)));
        prop_assert_eq!(Robots::parse(&body).rules(&foobot()), rules);
    }

    #[test]
    fn an_unrelated_group_changes_nothing(robots in robots(0..12), other in robots(0..6), target in target()) {
        let other = other.replace("foobot", "q").replace("FooBot", "q").replace(": *", ": q");
        let robots = format!("user-agent: foobot\n{robots}");
        let with = format!("user-agent: zbot\ndisallow: /\n{other}\n{robots}");
        prop_assert_eq!(
            Rules::parse(with.as_bytes(), &foobot()).is_allowed(&Target::new(&target)),
            Rules::parse(robots.as_bytes(), &foobot()).is_allowed(&Target::new(&target))
        );
    }

    #[test]
    fn the_normal_form_of_a_target_is_its_own(target in "[ -~é]{0,30}") {
        let once = Target::new(&target).as_str().to_string();
        let again = Target::new(&once);
        prop_assert_eq!(again.as_str(), &once);
    }

    #[test]
    fn a_pattern_on_its_own_matches_as_a_rule_does(pattern in pattern(), target in target()) {
        prop_assume!(Target::new(&target).as_str() != "/robots.txt");
        let robots = format!("user-agent: *\ndisallow: {pattern}");
        let target = Target::new(&target);
        let on_its_own = target.covered_by(pattern.trim_matches(UNSEEN).as_bytes());
        prop_assert_eq!(on_its_own.is_some(), !Rules::parse(robots.as_bytes(), &foobot()).is_allowed(&target));
    }
}

#[test]
fn each_unseen_character_restricts_as_if_it_were_not_there() {
    let allowed = |robots: &str| {
        let (robots, target) = (robots.as_bytes(), Target::new("/a"));
        Rules::parse(robots, &foobot()).is_allowed(&target)
    };
    for letter in UNSEEN.into_iter().filter(|letter| !matches!(letter, '\n' | '\r')) {
        for agent in [
            "{}User-agent: *",
            "User-agent{}: *",
            "User-agent:{}*",
            "User-agent: *{}",
            "User-agent: *{}# all",
        ] {
            let agent = agent.replace("{}", &letter.to_string());
            assert!(!allowed(&format!("{agent}\nDisallow: /")), "{agent:?}");
        }
        for rule in ["{}!: /a", "!{}: /a", "!:{}/a", "!: /a{}", "!: /a{}# why", " {}!\t{}:{} /a {} "] {
            let rule = rule.replace("{}", &letter.to_string());
            let [allow, disallow] = ["Allow", "Disallow"].map(|key| rule.replace('!', key));
            assert!(!allowed(&format!("User-agent: *\n{disallow}")), "{disallow:?}");
            // SP and TAB are space around everything (RFC 9309 §2.2).
            let is_space = matches!(letter, ' ' | '\t');
            assert_eq!(allowed(&format!("User-agent: *\nDisallow: /\n{allow}")), is_space, "{allow:?}");
        }
    }
}
