//! App-Directives (C), Content-Usage, Content-Signal, TDMRep, and how their statements are resolved.

use abide_permissions::{
    AppDirectives, Head, HeadScanner, Meta, Permissions, Preference, Preferences, Provenance, Question,
    SfValue, Usage, licenses,
};
use abide_robots::{ProductToken, Rules, Target};
use proptest::prelude::*;

use crate::preference_table::resolved;
use crate::{options, read, rows};

fn rules(robots: &str, token: &str) -> Rules {
    let token: ProductToken = token.parse().unwrap();
    Rules::parse(robots.as_bytes(), &[token])
}

fn for_everybody(lines: &str) -> Rules {
    rules(&format!("User-agent: *\n{}", lines), "ExampleBot")
}

fn shown(value: &SfValue) -> String {
    match value {
        SfValue::Boolean(value) => value.to_string(),
        SfValue::Integer(value) | SfValue::Date(value) => value.to_string(),
        SfValue::Decimal(value) => value.to_string(),
        SfValue::Bytes(value) => format!("{value:?}"),
        other => other.as_str().unwrap().to_owned(),
    }
}

/// The last value of each directive: `x=true y=1`; `null` when nothing names the application.
fn app_directives(rules: &Rules, path: &str, app: &str) -> String {
    let all = AppDirectives::of(rules, &Target::new(path));
    let Some(own) = all.for_app(app) else { return "null".to_owned() };
    let names: std::collections::BTreeSet<&str> = own.iter().map(|(name, ..)| *name).collect();
    let words = names.into_iter().map(|name| format!("{name}={}", shown(all.get(app, name).unwrap())));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_row_of_app_directives() {
    for row in rows(include_str!("../vectors/app_directives.tsv")) {
        let [lines, path, app, expected, token @ ..] = &row[..] else { panic!("{row:?}") };
        let rules = token.first().map_or_else(|| for_everybody(lines), |token| rules(lines, token));
        assert_eq!(app_directives(&rules, path, app), *expected, "{lines}");
    }
}

#[test]
fn of_repeated_names_the_last_counts_and_all_are_shown() {
    let rules = for_everybody("App-Directives: a;x=1, a;x=2\nApp-Directives: a;x=3");
    let directives = AppDirectives::of(&rules, &Target::new("/"));
    assert_eq!(directives.get("A", "x").and_then(SfValue::as_integer), Some(3));
    assert!(directives.get("A", "X").is_none(), "only applications are compared without case");
    let all = directives.for_app("A").unwrap();
    assert!(all.iter().filter_map(|(_, value, _)| value.as_integer()).eq([1, 2, 3]));
}

/// By the letter of the drafts, and with salvage, of which only restrictions come.
#[test]
fn each_row_of_preferences() {
    for row in rows(include_str!("../vectors/preferences.tsv")) {
        let [lines, strict, salvaged] = &row[..] else { panic!("{row:?}") };
        for (is_strict, expected) in [(true, strict), (false, salvaged)] {
            let nothing_yet = || Preferences::new(&options().with_strict_sf(is_strict));
            let robots = nothing_yet().with_robots(&for_everybody(lines), &Target::new("/foo/1"));
            assert_eq!(resolved(&robots), *expected, "{lines}, strict: {is_strict}");
            // Fields have no paths and no comments.
            let is_record_only = lines.contains(['\n', '/', '#']) || lines.starts_with("TDM");
            let field = lines.split_once(": ").filter(|_| !is_record_only);
            if let Some((name, value)) = field {
                let field = nothing_yet().with_fields([(name, value.as_bytes())]);
                assert_eq!(resolved(&field), *expected, "{lines}, strict: {is_strict}, as a field");
            }
        }
    }
}

#[test]
fn a_policy_token_states_a_preference_and_gates_nothing() {
    let file = b"User-agent: *\nDisallow: /private\n\nUser-agent: No-Training\nDisallow: /poems";
    let options = options().with_policy_token("no-training".parse().unwrap(), Usage::TrainAi, false);
    let target = Target::new("/poems/1");
    let preferences = Preferences::new(&options).with_policy_tokens(file, &target);
    let [statement] = preferences.statements() else { panic!("{preferences:?}") };
    assert_eq!(statement.source().to_string(), "robots.txt line 5 (group no-training): Disallow /poems");
    assert_eq!((statement.usage(), statement.text()), (&Usage::TrainAi, "Disallow: /poems"));
    assert!(Rules::parse(file, options.tokens()).is_allowed(&target));
}

#[test]
fn labels_outside_the_vocabulary_are_bounded() {
    let labels: String = (0..1000).map(|n| format!("a{n}=y,")).collect();
    let fields = [
        ("Content-Usage", format!("{labels}train-ai=n")),
        ("Content-Signal", format!("{},ai-train=no", labels.replace("=y", "=yes"))),
    ];
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let preferences = Preferences::default().with_fields(fields);
    assert_eq!(preferences.statements().len(), 2 * 65);
    assert_eq!(preferences.decided_by(&Usage::TrainAi).count(), 2);
    assert_eq!(Usage::Other("a\nb".into()).to_string(), "other:a\\nb");
}

#[test]
fn remarks_say_what_was_dropped() {
    let rules = for_everybody(
        "Content-Usage: Train-AI=n\nContent-Usage: /foo/train-ai=n\nContent-Signal: /x search=no\n\
         Content-Usage: train-ai=maybe, search=n\nContent-Usage: =n\nContent-Signal: ai-train",
    );
    let preferences = Preferences::default().with_robots(&rules, &Target::new("/"));
    let problems: Vec<&str> = preferences.warnings().iter().map(|(_, problem)| &**problem).collect();
    let expected = [
        "expected a dictionary such as `train-ai=n`, found `Train-AI=n`; of it only what is disallowed counts",
        "expected a preference behind the path",
        "expected a yes or no to train-ai, found `train-ai=maybe`; what it permits is unknown",
        "expected a dictionary such as `train-ai=n`, found `=n`; what it permits is unknown",
        "expected signals, found a path, which Content-Signal does not have",
        "expected a signal such as `ai-train=no`, found `ai-train`; what it permits is unknown",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn an_application_may_leave_the_preferences_of_the_same_file_out() {
    let rules =
        for_everybody("Content-Usage: search=n\nContent-Signal: use=immediate\nApp-Directives: a;snippets");
    let fields =
        [("Content-Usage", b"search=y".as_slice()), ("Content-Signal", b"use=full"), ("tdm-policy", b"/p")];
    let preferences = Preferences::default().with_robots(&rules, &Target::new("/")).with_fields(fields);
    let preferences = preferences.with_tdm(None, fields, &[]);
    let check = |found: &Preferences, search, content_use, policy| {
        assert_eq!(found.resolve(&Usage::Search), search);
        assert_eq!((found.content_signal_use(), found.tdm_policy()), (content_use, policy));
    };
    check(&preferences, Preference::Disallow, Some("immediate"), Some("/p"));
    let without = preferences.without(Provenance::is_robots_txt);
    check(&without, Preference::Allow, Some("full"), Some("/p"));
    check(&without.without(|_| true), Preference::Unset, None, None);
}

fn of_tdmrep(json: &str, path: &str) -> Preferences {
    Preferences::default().with_tdm(Some((json.as_bytes(), &Target::new(path))), [], &[])
}

fn is_reserved(preferences: &Preferences) -> Option<bool> {
    match preferences.resolve(&Usage::Tdm) {
        Preference::Unset | Preference::Unknown => None,
        preference => Some(preference == Preference::Disallow),
    }
}

fn robots_line() -> impl Strategy<Value = String> {
    let fixed = [
        "Content-Usage: train-ai=n",
        "Content-Usage: train-ai=y",
        "Content-Usage: /a search=n",
        "Content-Usage: /a* train-ai=y",
        "Content-Usage: x",
        "Content-Usage: ,",
        "Content-Signal: ai-train=no",
        "Content-Signal: search=yes, use=full",
        "App-Directives: a;x",
        "App-Directives: /a a;y",
        "App-Directives: a;;",
        "Crawl-delay: 1",
    ];
    prop_oneof![3 => proptest::sample::select(fixed.map(str::to_owned).to_vec()), 1 => "(Content-Usage|App-Directives|Content-Signal): [ -~]{0,16}"]
}

proptest! {
    #[test]
    fn the_order_of_lines_changes_no_answer_and_no_verdict(
        lines in proptest::collection::vec(robots_line(), 0..6)
            .prop_flat_map(|lines| (Just(lines.clone()), Just(lines).prop_shuffle())),
    ) {
        let [first, second] = [&lines.0, &lines.1].map(|lines| {
            rules(&format!("User-agent: *\nDisallow: /private\n{}", lines.join("\n")), "ExampleBot")
        });
        for path in ["/", "/a/b", "/private"] {
            let target = Target::new(path);
            let [p, q] = [&first, &second].map(|rules| Preferences::default().with_robots(rules, &target));
            for usage in [Usage::TrainAi, Usage::Search, Usage::AiInput] {
                prop_assert_eq!(p.resolve(&usage), q.resolve(&usage));
            }
            prop_assert_eq!(first.is_allowed(&target), path != "/private");
            prop_assert_eq!(
                AppDirectives::of(&first, &target).for_app("a").is_some(),
                AppDirectives::of(&second, &target).for_app("a").is_some()
            );
        }
    }

}

#[test]
fn each_directive_has_its_line_and_a_bad_one_spoils_no_other() {
    let rules = for_everybody(
        "App-Directives: a;x\nApp-Directives: a;;y\nApp-Directives: /foo/ b;y=2\nApp-Directives: /foo* b;x\nApp-Directives: c",
    );
    let directives = AppDirectives::of(&rules, &Target::new("/foo/1"));
    assert_eq!(directives.dropped(), [3]);
    let places = |app: &str| {
        let found = directives.for_app(app).unwrap();
        found.iter().map(|(name, _, place)| format!("{name}: {place}")).collect::<Vec<_>>()
    };
    assert_eq!(places("a"), ["x: robots.txt line 2 (group *): App-Directives"]);
    let of_equal_length = [
        "y: robots.txt line 4 (group *): App-Directives /foo/",
        "x: robots.txt line 5 (group *): App-Directives /foo*",
    ];
    assert_eq!(places("b"), of_equal_length);
    assert_eq!(places("c"), [""; 0]);
}

#[test]
fn a_statement_keeps_the_text_that_it_was_read_from() {
    let rules = for_everybody("Content-Usage: /x train-ai=n\nContent-Signal: search=no");
    let preferences = Preferences::default().with_robots(&rules, &Target::new("/x"));
    let texts: Vec<&str> = preferences.statements().iter().map(|statement| statement.text()).collect();
    assert_eq!(texts, ["train-ai=n", "search=no"]);
    assert!(preferences.warnings().is_empty(), "a path with a preference behind it is as it should be");
}

#[test]
fn noai_is_a_preference_only_when_asked_for() {
    for (permissions, text) in [
        (read(&[("X-Robots-Tag", "NoAI, noindex")]), Some("NoAI, noindex")),
        (crate::page("<meta name=robots content='noai, nofollow'>"), Some("noai")),
        (read(&[]), None),
    ] {
        let preferences = Preferences::default().with_noai(&permissions);
        assert!(preferences.statements().iter().all(|statement| Some(statement.text()) == text));
        let expected = text.map_or("", |_| "ai-input=disallow train-ai=disallow");
        assert_eq!(resolved(&preferences), expected);
    }
}

#[test]
fn a_signal_with_a_key_that_is_no_usage_states_none() {
    let fields: [(&str, &[u8]); 1] = [("Content-Signal", b"use=no, use=yes, search=no, foo=maybe, foo")];
    let preferences = Preferences::default().with_fields(fields);
    let stated: Vec<_> =
        preferences.statements().iter().map(|statement| statement.usage().to_string()).collect();
    assert_eq!(stated, ["search"]);
}

#[test]
fn a_line_that_says_the_same_again_states_it_once() {
    let line = "ai-train=yes, ai-train=no, x=no,".repeat(10_000);
    let preferences = Preferences::default().with_fields([("Content-Signal", line.as_bytes())]);
    assert_eq!(preferences.statements().len(), 2);
    assert_eq!(preferences.resolve(&Usage::TrainAi), Preference::Disallow);
}

#[test]
fn remarks_on_preferences_are_bounded() {
    for (times, expected) in [(3, 3), (100, 32)] {
        let fields = vec![("Content-Usage", b"?".as_slice()); times];
        assert_eq!(Preferences::default().with_fields(fields).warnings().len(), expected);
    }
}

#[test]
fn the_policy_is_that_of_the_entry_that_counts() {
    let file = r#"[{"location": "/a/*.html$", "tdm-reservation": 0},
                   {"location": "/", "tdm-reservation": 1, "tdm-policy": "https://example.org/p"}]"#;
    assert_eq!(of_tdmrep(file, "/a/b.html").tdm_policy(), None);
    assert_eq!(of_tdmrep(file, "/a/b.png").tdm_policy(), Some("https://example.org/p"));
    let fields = [("tdm-policy", b" ".as_slice()), ("TDM-Policy", b"/p")];
    let found = Preferences::default().with_tdm(None, fields, &[Meta::new("tdm-policy", "")]);
    assert_eq!(found.tdm_policy(), Some("/p"));
}

#[test]
fn entries_of_tdmrep_beyond_the_bound_are_ignored() {
    for (others, expected) in [(32_767, Some(true)), (32_768, None)] {
        let others = r#"{"location":"/other"},"#.repeat(others);
        let file = format!(r#"[{others}{{"location":"/x","tdm-reservation":1}}]"#);
        assert_eq!(is_reserved(&of_tdmrep(&file, "/x")), expected);
    }
}

#[test]
fn a_tdmrep_that_cannot_be_read_says_where() {
    for (json, expected) in [
        (
            "[{\"location\": \"/\",\n \"tdm-reservation\": }]",
            "found none: expected value at line 2 column 21",
        ),
        ("", "found none: EOF while parsing a value at line 1 column 0"),
        ("<html>", "found none: expected value at line 1 column 1"),
        ("7", "found another JSON value"),
    ] {
        let preferences = of_tdmrep(json, "/");
        assert!(!preferences.is_complete());
        let (_, problem) = &preferences.warnings()[0];
        assert!(problem.ends_with(expected), "{problem}");
    }
}

#[test]
fn a_tdmrep_is_read_as_it_was_meant() {
    for row in rows(include_str!("../vectors/tdmrep.tsv")) {
        let found = is_reserved(&of_tdmrep(&row[0], "/a"));
        let expected = if row[1].is_empty() { None } else { Some(row[1] == "1") };
        assert_eq!(found, expected, "{}", row[0]);
    }
}

#[test]
fn what_was_not_read_is_not_allowed_but_unknown() {
    let allowed = Preferences::default().with_fields([("Content-Usage", b"train-ai=y".as_slice())]);
    assert_eq!(allowed.training().to_string(), "allow: Content-Usage, field 1");
    let partly = allowed.with_unread_source("a head");
    assert!(!partly.is_complete());
    assert_eq!(partly.training().to_string(), "unknown: a head");
    let forbidden =
        partly.with_fields([("tdm-reservation", b"1".as_slice()), ("Content-Signal", b"ai-train=no")]);
    assert_eq!(forbidden.training().to_string(), "disallow: Content-Signal, field 1");
    assert_eq!(forbidden.input().unknown_because(), ["a head"]);
    let both = forbidden.with_tdm(None, [("tdm-reservation", b"1".as_slice())], &[]).training();
    assert_eq!(both.to_string(), "disallow: Content-Signal, field 1; tdm-reservation, field 1");
    assert!(both.is_disallowed());
}

#[test]
fn permissions_answer_with_the_places_that_decided() {
    let permissions = read(&[("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "max-snippet:0, nofollow")]);
    assert_eq!(
        permissions.answer(Question::Index).to_string(),
        "disallow: X-Robots-Tag, field 1 (legacy): noindex"
    );
    assert_eq!(permissions.answer(Question::Snippet).sources().len(), 1);
    assert_eq!(permissions.answer(Question::Snippet).preference(), Preference::Disallow);
    let free = read(&[("X-Robots-Tag", "max-snippet:20")]);
    assert_eq!(
        [Question::Index, Question::Snippet]
            .map(|question| free.answer(question))
            .map(|answer| answer.to_string()),
        ["allow", "allow"]
    );
    let unread = Permissions::default();
    assert_eq!(unread.answer(Question::Index).preference(), Preference::Unknown);
    assert_eq!(unread.answer(Question::Snippet).preference(), Preference::Unknown);
}

#[test]
fn licences_are_found_in_robots_txt_fields_and_the_head() {
    let file =
        "License: https://a.example/l.xml\nUser-agent: *\nDisallow: /\nLicense: https://b.example/l.xml";
    let found = |rules: Option<&Rules>, head: Option<&Head>| {
        licenses(rules, [], head).iter().map(|(url, place)| format!("{url} {place}")).collect::<Vec<_>>()
    };
    let line = |url: &str, line| format!("{url} robots.txt line {line} (outside groups): License");
    let lines = [line("https://a.example/l.xml", 1), line("https://b.example/l.xml", 4)];
    assert_eq!(found(Some(&rules(file, "ExampleBot")), None), lines);
    let html = "<link rel=stylesheet href=/s><LINK REL='next license' TYPE=application/rsl+xml href=' /a&amp;b '>\
                <link rel=license href=/cc><template><link rel=license type=application/rsl+xml href=/t></template>\
                <body><link rel=license type=application/rsl+xml href=/late>";
    let expected = ["/a&b link 1 to a licence"];
    assert_eq!(found(None, Some(crate::page(html).head())), expected);
    let xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><head>\
                 <link rel='license' type='application/rsl+xml' href='/a&amp;b'/></head><body/></html>";
    let mut scanner = HeadScanner::new(&options(), Some("application/xhtml+xml"));
    let _ = scanner.feed(xhtml.as_bytes());
    assert_eq!(found(None, Some(&scanner.finish())), expected);
}
