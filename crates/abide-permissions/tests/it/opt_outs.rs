//! No opt-out is lost to the way it was written: labels, values and carriers as sites have them, and what
//! surrounds them.

use abide_permissions::{
    Answer, Fetched, Head, Meta, PermissionRecord, Permissions, Preferences, Provenance, ReadOptions, Usage,
};
use abide_robots::{Rules, Target};
use proptest::prelude::*;

use crate::{options, rows};

fn of_robots(robots: &str, path: &str) -> Preferences {
    let rules = Rules::parse(robots.as_bytes(), options().tokens());
    let target = Target::new(path);
    Preferences::default().with_robots(&rules, &target).with_policy_tokens(robots.as_bytes(), &target)
}

fn of_fields(fields: &[(&str, &str)]) -> Preferences {
    let lines = || fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let permissions = Permissions::from_headers(&options(), fields.iter().copied());
    Preferences::default().with_fields(lines()).with_page(&permissions).with_tdm(None, lines(), &[])
}

fn of_page(html: &str) -> Preferences {
    let permissions = crate::page(html);
    Preferences::default().with_page(&permissions).with_tdm(None, [], permissions.metas())
}

fn of_tdmrep(file: &str) -> Preferences {
    Preferences::default().with_tdm(Some((file.as_bytes(), &Target::new("/p"))), [], &[])
}

/// Training and search, as the command prints them.
fn answers(preferences: &Preferences) -> String {
    let answers = [preferences.training(), preferences.answer(&Usage::Search)];
    answers.map(|answer| answer.as_str()).join(" ")
}

#[test]
fn each_row_of_opt_outs() {
    for row in rows(include_str!("../vectors/opt_outs.tsv")) {
        let [carrier, text, expected] = &row[..] else { panic!("{row:?}") };
        let found = match &**carrier {
            "robots" => of_robots(text, "/p"),
            "page" => of_page(text),
            "tdmrep" => of_tdmrep(text),
            name => of_fields(&[(name, text)]),
        };
        assert_eq!(answers(&found), *expected, "{carrier}: {text}");
    }
}

#[test]
fn an_unknown_answer_says_why_and_where() {
    let found =
        of_robots("User-agent: *\nContent-Usage: train-ai=maybe\nContent-Signal: ai-train=perhaps", "/p");
    let because = [
        "robots.txt line 2 (group *): Content-Usage: expected a yes or no to train-ai, found `train-ai=maybe`; what it \
         permits is unknown",
        "robots.txt line 3 (group *): Content-Signal: expected a yes or no to ai-train, found `ai-train=perhaps`; what it \
         permits is unknown",
    ];
    assert_eq!(found.training().unknown_because(), because);
    assert!(found.training().sources().is_empty() && !found.is_complete());
    let not_found = found.with_fields([("Content-Usage", b"train-ai=n".as_slice())]).training();
    assert_eq!(not_found.to_string(), "disallow: Content-Usage, field 1", "a no is known");
}

#[test]
fn a_token_of_training_is_read_where_the_page_stays_allowed() {
    let robots = "User-agent: *\nUser-agent: __usage_ai-training\nDisallow: /\nUser-agent: *\nAllow: /";
    let training = of_robots(robots, "/p").training();
    assert_eq!(training.to_string(), "disallow: robots.txt line 3 (group __usage_ai-training): Disallow /");
    let free = "User-agent: __usage_ai-training\nAllow: /";
    assert_eq!(of_robots(free, "/p").training().as_str(), "unset", "it allows nothing");
}

#[test]
fn a_record_with_too_many_statements_is_unknown() {
    for (lines, expected) in [(256, "unset"), (257, "unknown")] {
        let lines: String = (0..lines).map(|n| format!("Content-Signal: l{n}=yes\n")).collect();
        let robots = of_robots(&format!("User-agent: *\n{lines}"), "/p");
        let fetched = Fetched::new(200, &[], Head::default(), std::time::SystemTime::UNIX_EPOCH);
        let record = PermissionRecord::new("https://a.example/p", &fetched.with_preferences(&robots));
        let training = record.preferences(&options()).training();
        assert_eq!(training.as_str(), expected);
        assert_eq!(training.unknown_because().is_empty(), expected == "unset");
    }
}

#[test]
fn the_beginning_of_an_overlong_record_forbids_and_allows_nothing() {
    let other = ", foo=n".repeat(3000);
    let of =
        |value: &str| of_robots(&format!("User-agent: *\nContent-Usage: {value}{other}"), "/p").training();
    assert_eq!(of("train-ai=n").as_str(), "no");
    assert_eq!(of("train-ai=y").as_str(), "unknown");
}

#[test]
fn a_record_keeps_metas_words_and_what_is_unknown() {
    let html = "<meta name=content-signal content='ai-train=no'>";
    let fields: [(&str, &[u8]); 2] = [("x-robots-tag", b"noml"), ("content-signals", b"search=perhaps")];
    let head = crate::page(html).head().clone();
    let fetched = Fetched::new(200, &fields, head, std::time::SystemTime::UNIX_EPOCH);
    let found = PermissionRecord::new("https://a.example/p", &fetched).preferences(&options());
    assert_eq!(answers(&found), "no unknown");
    let sources: Vec<String> = found.training().sources().iter().map(Provenance::to_string).collect();
    assert_eq!(sources, ["meta 1 named content-signal", "X-Robots-Tag, field 1 (legacy): noml"]);
}

#[test]
fn by_the_letter_of_the_drafts_what_is_invalid_states_nothing() {
    let strict = Preferences::new(&ReadOptions::for_tokens([]).with_strict_sf(true));
    let fields = [("Content-Usage", b"ai=n, train-ai=no".as_slice()), ("Content-Signal", b"train-ai=no, x")];
    assert_eq!(strict.with_fields(fields).training().as_str(), "unset");
}

/// A no to training in each carrier, with what surrounds it.
fn in_carrier(carrier: usize, label: &str, value: &str) -> Answer {
    let text = format!("{label}={value}");
    match carrier {
        0 => of_robots(&format!("User-agent: *\nContent-Usage: {text}"), "/p").training(),
        1 => of_robots(&format!("Content-Signal: {text}\nUser-agent: *\nAllow: /"), "/p").training(),
        2 => of_fields(&[("Content-Usage", &text)]).training(),
        3 => of_fields(&[("content-signals", &text)]).training(),
        _ => {
            let page =
                Head::from_metas([Meta::new("Content-Usage", text)], abide_permissions::HeadEnd::Ended);
            let read = Permissions::read(&options(), [], page, std::time::SystemTime::UNIX_EPOCH);
            Preferences::default().with_page(&read).training()
        }
    }
}

const LABELS: [&str; 12] = [
    "train-ai",
    "ai-train",
    "ai_train",
    "TrainAI",
    "train-genai",
    "genai",
    "ai",
    "tdm",
    "bots",
    "all",
    "ml",
    "AI-Training",
];

#[test]
fn each_label_with_each_no_is_a_no_in_each_carrier() {
    for label in LABELS {
        for value in [
            "n",
            "no",
            "N",
            "\"n\"",
            "?0",
            "false",
            "0",
            "deny",
            "disallow",
            "none",
            "n.",
            "(no)",
            "n\u{200b}",
        ] {
            for carrier in 0..5 {
                assert_eq!(in_carrier(carrier, label, value).as_str(), "no", "{carrier}: {label}={value}");
            }
        }
        for (carrier, value) in (0..5).flat_map(|carrier| ["y", "yes"].map(|value| (carrier, value))) {
            let is_own = matches!((carrier, label, value), (0 | 2, "train-ai", "y") | (1, "ai-train", "yes"));
            let answer = in_carrier(carrier, label, value);
            assert_eq!(answer.is_allowed(), is_own, "{carrier}: {label}={value}");
            assert!(!answer.is_disallowed(), "{carrier}: {label}={value}");
        }
    }
}

proptest! {
    #[test]
    fn nothing_around_a_no_makes_it_a_yes_or_nothing(
        label in proptest::sample::select(LABELS.to_vec()),
        value in proptest::sample::select(vec!["n", "no", "NO", "false", "deny", "0"]),
        before in "[\\p{P}\\p{S}\\p{Z}\\p{Cf}]{0,4}",
        after in "[\\p{P}\\p{S}\\p{Z}\\p{Cf}]{0,4}",
        carrier in 0_usize..5,
    ) {
        let answer = in_carrier(carrier, label, &format!("{before}{value}{after}"));
        prop_assert!(matches!(answer.as_str(), "no" | "unknown"), "{answer}");
    }
}
