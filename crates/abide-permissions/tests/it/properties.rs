//! Properties that hold for all input.

use abide_permissions::testing::reading_of;
use abide_permissions::{Head, HeadEnd, HeadScanner, Meta, ReadOptions, TagRules};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{options, read, read_with, scan};

/// Pieces that lines and contents are made of.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "*;noindex",
        "ExampleBot;nosnippet",
        "OtherBot;noindex",
        "\"ExampleBot\";noai",
        "*;max-snippet=20",
        "noindex",
        "nofollow",
        "examplebot: nosnippet",
        "otherbot: noindex",
        "max-snippet:5",
        "unavailable_after: 2025-12-31",
        "*",
        "???",
        "",
        " ",
        "(a b);noindex",
        "\"x",
        "*=noindex; ExampleBot=nofollow",
        "*;noindex=?0",
        "*;foo",
        "foo",
        "42;a",
        "unavailable_after: Friday",
        "25-Jun-10 15:00:00 UTC",
        "noindex:",
        "all",
        "none",
        "*;none;a=\"b,c\"",
        "\u{e9};noindex",
    ];
    prop_oneof![4 => proptest::sample::select(fixed.map(str::to_owned).to_vec()), 1 => "[ -~]{0,12}"]
}

fn line() -> impl Strategy<Value = String> {
    vec(piece(), 0..5).prop_map(|pieces| pieces.join(", "))
}

fn lines() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    vec((proptest::sample::select(vec!["Robots-Tag", "X-Robots-Tag", "Other"]), line()), 0..5)
}

fn rules_of(lines: &[(&'static str, String)]) -> TagRules {
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
    read(&lines).rules().clone()
}

fn rules_of_metas(metas: &[Meta]) -> TagRules {
    read_with(&options(), &[], Head::from_metas(metas.to_vec(), HeadEnd::Ended)).rules().clone()
}

fn metas() -> impl Strategy<Value = Vec<Meta>> {
    let meta = (proptest::sample::select(vec!["robots", "ExampleBot", "other"]), line());
    vec(meta.prop_map(|(name, content)| Meta::new(name, content)), 0..5)
}

fn contains(more: &TagRules, fewer: &TagRules) -> bool {
    fewer.clone().union(more) == *more
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_of_all_lines_are_the_union_of_those_of_each((a, b) in (lines(), lines())) {
        let both: Vec<_> = a.iter().chain(&b).cloned().collect();
        let (a, b) = (rules_of(&a), rules_of(&b));
        prop_assert_eq!(rules_of(&both), a.clone().union(&b));
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert_eq!(a.clone().union(&a), a.clone());
        prop_assert!(contains(&rules_of(&both), &a) && contains(&rules_of(&both), &b));
    }

    #[test]
    fn the_union_is_associative((a, b, c) in (lines(), lines(), lines())) {
        let (a, b, c) = (rules_of(&a), rules_of(&b), rules_of(&c));
        prop_assert_eq!(a.clone().union(&b).union(&c), a.union(&b.union(&c)));
    }

    #[test]
    fn capitals_do_not_matter(lines in lines()) {
        let capitals: Vec<_> = lines.iter().map(|(name, line)| (*name, line.to_ascii_uppercase())).collect();
        prop_assert_eq!(rules_of(&capitals), rules_of(&lines));
        for ((_, line), (_, capitals)) in lines.iter().zip(&capitals) {
            prop_assert_eq!(reading_of(capitals.as_bytes(), &options()), reading_of(line.as_bytes(), &options()));
        }
    }

    #[test]
    fn a_further_meta_takes_nothing_away((a, b) in (metas(), metas())) {
        let both: Vec<Meta> = a.iter().chain(&b).cloned().collect();
        prop_assert_eq!(rules_of_metas(&both), rules_of_metas(&a).union(&rules_of_metas(&b)));
    }

    #[test]
    fn a_good_member_more_takes_nothing_away_from_a_structured_line(
        line in vec(piece().prop_filter("structured", |piece| {
            !piece.trim().is_empty() && reading_of(piece.as_bytes(), &options()) == "sf"
        }), 1..5).prop_map(|pieces| pieces.join(",")),
        member in proptest::sample::select(vec!["*;noindex", "OtherBot;noai", "ExampleBot;foo"]),
        at_end in any::<bool>(),
    ) {
        prop_assert_eq!(reading_of(line.as_bytes(), &options()), "sf");
        let longer = if at_end { format!("{line}, {member}") } else { format!("{member}, {line}") };
        prop_assert!(contains(read(&[("Robots-Tag", &longer)]).rules(), read(&[("Robots-Tag", &line)]).rules()));
    }

    #[test]
    fn an_empty_agent_never_lifts_a_rule(
        before in vec(piece(), 0..3),
        agent in "[ -/:-@\\[-`{-~]{0,4}".prop_filter("no token", |agent| {
            !agent.contains(['*', ',', ';', ':', '=', '_', '-']) && agent.trim() == agent
        }),
        rule in proptest::sample::select(vec!["noindex", "nofollow", "noindex:", "max-snippet:5"]),
    ) {
        // A flag with a colon keeps every line in the older grammar.
        let before = before.iter().fold("nosnippet:".to_owned(), |line, piece| format!("{line}, {piece}"));
        let with = format!("{before}, {agent}: {rule}");
        let without = format!("{before}, {rule}");
        prop_assume!(reading_of(with.as_bytes(), &options()) == "legacy");
        prop_assume!(reading_of(without.as_bytes(), &options()) == "legacy");
        let rules = |line: &str| read(&[("X-Robots-Tag", line)]).rules().clone();
        prop_assert!(contains(&rules(&with), &rules(&without)), "{with:?} against {without:?}");
    }

    #[test]
    fn the_order_of_members_does_not_matter(
        members in vec(proptest::sample::select(vec![
            "*;noindex", "ExampleBot;nosnippet", "OtherBot;noai", "\"examplebot\";max-snippet=3", "*;max-snippet=2", "*;foo",
        ]), 1..6).prop_flat_map(|m| (Just(m.clone()), Just(m).prop_shuffle())),
    ) {
        let rules = |members: &[&str]| read(&[("Robots-Tag", &members.join(","))]).rules().clone();
        prop_assert_eq!(rules(&members.0), rules(&members.1));
    }
}

#[test]
fn at_every_cut_the_members_that_have_ended_count() {
    let member = |n: usize| match n % 5 {
        0 => "*;noindex".to_owned(),
        1 => format!("\"ExampleBot\";a{n}=\"x,\\\"y\""),
        2 => format!("ExampleBot;max-snippet={}", 10_000 - n),
        3 => format!("(a b);c{n}"),
        _ => format!("OtherBot;b{n}"),
    };
    let members: Vec<String> = (0..500).map(member).collect();
    let value = members.join(", ");
    assert!(value.len() > 9 * 1024);
    let options = ReadOptions::new("ExampleBot".parse().unwrap());
    let whole = read_with(
        &options.clone().with_field_limit(value.len()).unwrap(),
        &[("Robots-Tag", &value)],
        Head::default(),
    );
    let mut ended = TagRules::default();
    let mut next = 0;
    let mut comma = members[0].len();
    for cut in 0..value.len() {
        // A member counts when the comma behind it lies within the cut.
        while comma < cut {
            ended = ended.union(read(&[("Robots-Tag", &members[next])]).rules());
            next += 1;
            comma += members.get(next).map_or(usize::MAX / 2, String::len) + 2;
        }
        if cut < 8192 {
            continue;
        }
        let options = options.clone().with_field_limit(cut).unwrap();
        let cut_short = read_with(&options, &[("Robots-Tag", &value)], Head::default());
        assert!(cut_short.is_truncated());
        assert_eq!(cut_short.rules(), &ended, "cut at {cut}");
        assert!(contains(whole.rules(), cut_short.rules()));
    }
    assert!(next > 400);
}

#[test]
fn a_document_cut_anywhere_has_the_metas_that_have_ended() {
    let document = "<!doctype html><html><head><title>a</title><meta name=a content=1><script>'<meta>'</script>\
                    <noscript><meta name=n content=2></noscript><!-- c --><meta name=b content=3></head><p>x";
    let whole = scan(&options(), document.as_bytes(), usize::MAX);
    for cut in 0..document.len() {
        let mut scanner = HeadScanner::new(&options(), None);
        let progress = scanner.feed(&document.as_bytes()[..cut]);
        let head = scanner.finish();
        assert!(whole.metas().starts_with(head.metas()), "{cut}");
        assert_eq!(progress.is_break(), head.end() == HeadEnd::Ended, "{cut}");
    }
}
