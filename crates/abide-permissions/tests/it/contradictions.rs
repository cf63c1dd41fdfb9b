//! Where the specifications contradict each other or say nothing, and what is done about it.
//! X12 to X18 concern App-Directives and are tested with them.

use abide_permissions::{Head, HeadEnd, ReadOptions, reading_of};

use crate::{options, read_with, scan};

fn strict(lines: &[(&str, &str)]) -> String {
    read_with(&options().with_strict_sf(true), lines, Head::default()).rules().to_string()
}

#[test]
fn strict_reading_is_that_of_rfc_9651() {
    for (lines, rules) in [
        (&[("Robots-Tag", "*;noindex, ExampleBot;nosnippet")][..], "noindex, nosnippet"),
        (&[("Robots-Tag", "*;noindex"), ("Robots-Tag", "*;nosnippet")], "noindex, nosnippet"),
        (&[("Robots-Tag", "*;noindex"), ("Robots-Tag", "???")], ""),
        (&[("Robots-Tag", "*;noindex,")], ""),
        (&[("Robots-Tag", "*;noindex, ???, ExampleBot;nosnippet")], ""),
        (&[("Robots-Tag", "")], ""),
        (&[("Robots-Tag", "*;NoIndex")], ""),
        (&[("Robots-Tag", "noindex, nofollow")], ""),
        // A string may span the join of two lines.
        (&[("Robots-Tag", "*;a=\"x"), ("Robots-Tag", "y\";noindex")], "noindex, a"),
        // The older field is always classified.
        (&[("X-Robots-Tag", "noindex")], "noindex"),
        (&[("X-Robots-Tag", "*;NoIndex, ???")], "noindex"),
        (&[("Robots-Tag", "???"), ("X-Robots-Tag", "noindex")], "noindex"),
    ] {
        assert_eq!(strict(lines), rules, "{lines:?}");
    }
}

#[test]
fn over_the_limit_even_the_strict_reading_salvages() {
    let value = format!("*;noindex, ???, {}", "OtherBot;a, ".repeat(1000));
    let options = options().with_strict_sf(true);
    let permissions = read_with(&options, &[("Robots-Tag", &value)], Head::default());
    assert_eq!(permissions.rules().to_string(), "noindex");
    assert!(permissions.is_truncated());
}

#[test]
fn tokens_with_a_leading_hyphen_are_written_as_strings() {
    for token in ["_bot", "-bot"] {
        let options = ReadOptions::new(token.parse().unwrap());
        let rules =
            |value: &str| read_with(&options, &[("Robots-Tag", value)], Head::default()).rules().to_string();
        assert_eq!(rules(&format!("\"{token}\";noindex")), "noindex");
        assert_eq!(rules(&format!("{token};noindex, *;nosnippet")), "nosnippet", "does not parse");
    }
}

#[test]
fn a_bot_named_like_a_rule_is_a_token() {
    let options = ReadOptions::new("archive".parse().unwrap());
    assert_eq!(reading_of(b"archive;noindex", &options), "sf");
    for value in ["archive;noindex", "archive: noindex", "archive=noindex"] {
        assert!(read_with(&options, &[("Robots-Tag", value)], Head::default()).rules().noindex(), "{value}");
    }
}

#[test]
fn with_the_scope_of_a_document_metas_in_the_body_count() {
    let options = options().with_body_metas(true);
    for (document, rules) in [
        ("<body><meta name=robots content=noindex>", "noindex"),
        (
            "<meta name=robots content=nofollow><p>x<div><meta name=robots content=noindex></div>",
            "noindex, nofollow",
        ),
        ("<p><template><meta name=robots content=noindex></template>", ""),
        (
            "<p><!-- <meta name=robots content=noindex> --><textarea><meta name=robots content=noindex></textarea>",
            "",
        ),
        ("<p><svg><title><meta name=robots content=noindex></title></svg>", "noindex"),
        ("<p><noscript><p><meta name=robots content=noindex></noscript>", "noindex"),
        ("<head></head><noscript><p><meta name=robots content=noindex></noscript>", "noindex"),
    ] {
        let head = scan(&options, document.as_bytes(), 7);
        assert_eq!(head.end(), HeadEnd::Eof);
        assert_eq!(read_with(&options, &[], head).rules().to_string(), rules, "{document}");
    }
}
