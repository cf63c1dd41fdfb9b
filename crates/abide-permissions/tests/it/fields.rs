//! How fields and metas are read: the tables `vectors/fields.tsv` and `vectors/metas.tsv`.

use std::time::SystemTime;

use abide_permissions::testing::reading_of;
use abide_permissions::{Head, HeadEnd, Meta, Permissions, Preference, Question, TagRules};

use crate::{options, page, read, read_with, rows};

/// The rules without the unknown ones.
fn known(rules: &TagRules) -> String {
    let text = rules.to_string();
    let words: Vec<&str> = text.split(", ").collect();
    words[..words.len() - rules.unknown().count()].join(", ")
}

/// The questions whose answer is unknown.
fn unknown(permissions: &Permissions) -> String {
    let is_unknown = |question: &Question| permissions.answer(*question).preference() == Preference::Unknown;
    let names: Vec<_> = Question::ALL.into_iter().filter(is_unknown).map(Question::as_str).collect();
    names.join(", ")
}

#[test]
fn every_row_of_the_table_is_read_as_it_says() {
    let mut count = 0;
    for columns in rows(include_str!("../vectors/fields.tsv")) {
        let value = &columns[0];
        let column = |index: usize| columns.get(index).map(String::as_str).unwrap_or_default();
        for name in ["Robots-Tag", "x-robots-tag"] {
            let permissions = read(&[(name, value)]);
            let rules = permissions.rules();
            assert_eq!(reading_of(value.as_bytes(), &options()), columns[1], "{value}");
            assert_eq!(known(rules), columns[2], "{value}");
            assert_eq!(unknown(&permissions), column(4), "{value}");
            // No other rule lifts a noindex: neither `indexifembedded` nor `all`.
            let is_free = !columns[2].contains("noindex") && !column(4).contains("index");
            assert_eq!(permissions.may_index(), is_free, "{value}");
            if let Some(unknown) = columns.get(3) {
                assert_eq!(rules.unknown().collect::<Vec<_>>().join(", "), *unknown, "{value}");
            }
            assert!(!permissions.is_truncated(), "{value}");
        }
        count += 1;
    }
    assert!(count > 150, "{count} rows");
}

#[test]
fn every_row_of_metas_is_read_as_it_says() {
    for columns in rows(include_str!("../vectors/metas.tsv")) {
        let permissions = page(&columns[0]);
        assert_eq!(permissions.rules().to_string(), columns[1], "{}", columns[0]);
        assert_eq!(permissions.rules().is_empty(), columns[1].is_empty(), "{}", columns[0]);
        assert_eq!(
            unknown(&permissions),
            columns.get(2).map(String::as_str).unwrap_or_default(),
            "{}",
            columns[0]
        );
    }
}

#[test]
fn obs_text_is_harmless() {
    for value in
        [&b"*;noindex, \xff\xfe;nosnippet"[..], b"noindex, caf\xe9", b"caf\xe9=x, noindex", b"noindex,\x80"]
    {
        let permissions =
            Permissions::read(&options(), [("robots-tag", value)], Head::default(), SystemTime::UNIX_EPOCH);
        assert!(permissions.rules().noindex(), "{}", value.escape_ascii());
    }
}

#[test]
fn an_empty_line_states_nothing_and_earns_no_remark() {
    for value in ["", "  ", "\t"] {
        let permissions = read(&[("Robots-Tag", value), ("X-Robots-Tag", value)]);
        assert!(permissions.rules().is_empty() && permissions.warnings().is_empty(), "{value:?}");
    }
    // Of a line that the limit cuts within its first member, the limit is what there is to say.
    let cut = "a".repeat(9_000);
    assert_eq!(read(&[("Robots-Tag", &cut)]).warnings().len(), 1);
}

/// Everything that names rules follows from the vocabulary, so a rule that is missing anywhere is found here.
#[test]
fn each_flag_is_read_and_shown_by_its_name_and_no_other() {
    for flag in TagRules::FLAGS {
        for text in [(*flag).to_owned(), flag.to_uppercase()] {
            let meta = Head::from_metas([Meta::new("robots", &*text)], HeadEnd::Ended);
            for read in [
                read(&[("Robots-Tag", &format!("*;{text}"))]),
                read(&[("X-Robots-Tag", &text)]),
                read(&[("Robots-Tag", &format!("*={text}"))]),
                read(&[("X-Robots-Tag", &format!("{text} really, *;nosnippet=?0"))]),
                read_with(&options(), &[], meta),
            ] {
                let rules = read.rules();
                assert_eq!(rules.flags().collect::<Vec<_>>(), [*flag], "{text}");
                assert!(TagRules::FLAGS.iter().all(|other| rules.states(other) == (other == flag)), "{text}");
                assert_eq!((rules.to_string(), rules.is_empty()), (flag.to_string(), false));
                assert_eq!(read.may_follow(), *flag != "nofollow");
            }
        }
    }
    let names: std::collections::HashSet<_> = TagRules::FLAGS.iter().collect();
    assert_eq!(names.len(), TagRules::FLAGS.len());
}

#[test]
fn valued_rules_have_their_values() {
    let valued =
        read(&[("X-Robots-Tag", "max-snippet: 20, max-image-preview: standard, max-video-preview: 5")]);
    let rules = valued.rules();
    assert_eq!((rules.max_snippet(), valued.snippet_limit()), (Some(20), Some(20)));
    assert_eq!(rules.max_image_preview(), Some("standard"));
    assert_eq!(rules.max_video_preview(), Some(5));
    assert_eq!(rules.unavailable_after(), None);
}

#[test]
fn what_ends_counts_at_the_time_at_which_the_page_was_received() {
    let ending = read(&[("Robots-Tag", "*;unavailable_after=@1000")]);
    assert_eq!(ending.rules().unavailable_after().unwrap().unix_seconds(), 1000);
    for (seconds, may_index) in [(999, true), (2000, false)] {
        let received = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let at_that_time = ending.clone().with_received_at(received);
        assert_eq!(at_that_time.received_at(), received);
        assert_eq!((at_that_time.may_index(), ending.may_index_at(received)), (may_index, may_index));
    }
}

#[test]
fn unknown_rules_are_the_same_in_any_order_and_others_are_not() {
    let of = |names: &str| read(&[("X-Robots-Tag", &format!("noindex, {names}"))]).rules().clone();
    assert_eq!(of("foo, bar"), of("bar, foo, bar"));
    for other in ["foo", "foo, baz", "foo, bar, baz", "", "baz, qux"] {
        assert_ne!(of("foo, bar"), of(other), "{other}");
        assert_ne!(of(other), of("foo, bar"), "{other}");
    }
}

#[test]
fn invalid_values_are_remarked_with_rule_and_place() {
    for (field, value, expected) in [
        ("X-Robots-Tag", "max-snippet: lots", "max-snippet: lots is no number"),
        (
            "Robots-Tag",
            "*;max-image-preview=huge",
            "max-image-preview: huge is none of none, standard and large",
        ),
        (
            "Robots-Tag",
            "*;max-image-preview=HUGE",
            "max-image-preview: HUGE is none of none, standard and large",
        ),
        ("Robots-Tag", "*;max-video-preview", "max-video-preview has no value"),
        (
            "Robots-Tag",
            "*;unavailable_after=never",
            "unavailable_after: never is no date that has one reading",
        ),
        ("Robots-Tag", r#"*;NoIndex;Max-Snippet="L\"Ots""#, r#"max-snippet: L\"Ots is no number"#),
        ("Robots-Tag", r#"*;max-snippet="\"20""#, r#"max-snippet: \"20 is no number"#),
        ("Robots-Tag", "*;noindex, max-snippet", "max-snippet has no value"),
    ] {
        let read = read(&[(field, value)]);
        let [(place, problem)] = read.warnings() else { panic!("{value}: {:?}", read.warnings()) };
        assert_eq!(problem, expected, "{value}");
        assert!(place.to_string().starts_with(&format!("{field}, field 1 (")), "{value}");
    }
}

#[test]
fn remarks_are_bounded_by_line_and_by_response() {
    let bad = |times: usize| vec!["max-snippet: x"; times].join(", ");
    for (value, lines, expected) in [(bad(7), 1, 7), (bad(100), 1, 8), (bad(100), 100, 32)] {
        let read = read(&vec![("X-Robots-Tag", value.as_str()); lines]);
        assert_eq!(read.warnings().len(), expected, "{lines} lines");
    }
}
