//! Where the specifications contradict each other or say nothing, and what is done about it.
//! X12 to X18 concern App-Directives and are tested with them.

use abide_permissions::{Head, HeadEnd, reading_of};

use crate::{meta_rules, options, page, read, read_with, robots_tag, scan, x_robots_tag};

fn strict(lines: &[(&str, &str)]) -> String {
    read_with(&options().with_strict_sf(true), lines, Head::default()).rules().to_string()
}

#[test]
fn a_bad_member_is_left_out_and_voids_a_strict_field() {
    let value = "*;noindex, ???, ExampleBot;nosnippet";
    assert_eq!(robots_tag(value), "noindex, nosnippet");
    assert_eq!(strict(&[("Robots-Tag", value)]), "");
    let read = read(&[("Robots-Tag", value)]);
    let problems: Vec<_> = read.warnings().iter().map(|(_, problem)| problem).collect();
    assert_eq!(problems, ["expected a product token with rules as parameters"]);
}

#[test]
fn strict_reading_is_that_of_rfc_9651() {
    for (lines, rules) in [
        (&[("Robots-Tag", "*;noindex, ExampleBot;nosnippet")][..], "noindex, nosnippet"),
        (&[("Robots-Tag", "*;noindex"), ("Robots-Tag", "*;nosnippet")], "noindex, nosnippet"),
        (&[("Robots-Tag", "*;noindex"), ("Robots-Tag", "???")], ""),
        (&[("Robots-Tag", "*;noindex,")], ""),
        (&[("Robots-Tag", "")], ""),
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
fn case_is_folded_before_the_field_is_parsed() {
    assert_eq!(robots_tag("*;NoIndex;Max-Snippet=20"), "noindex, max-snippet:20");
    assert_eq!(strict(&[("Robots-Tag", "*;NoIndex")]), "");
}

#[test]
fn tokens_and_strings_name_products_and_other_types_nobody() {
    assert_eq!(robots_tag("\"ExampleBot\";noindex"), "noindex");
    for other in ["42", "(a b)", ":YQ==:", "?1", "1.5", "@1", "%\"ExampleBot\""] {
        assert_eq!(robots_tag(&format!("{other};noindex, *;nosnippet")), "nosnippet", "{other}");
    }
}

#[test]
fn tokens_with_a_leading_hyphen_are_written_as_strings() {
    for token in ["_bot", "-bot"] {
        let options = abide_permissions::ReadOptions::new(token.parse().unwrap());
        let rules =
            |value: &str| read_with(&options, &[("Robots-Tag", value)], Head::default()).rules().to_string();
        assert_eq!(rules(&format!("\"{token}\";noindex")), "noindex");
        assert_eq!(rules(&format!("{token};noindex, *;nosnippet")), "nosnippet", "does not parse");
    }
}

#[test]
fn the_star_as_a_string_is_global() {
    assert_eq!(robots_tag("\"*\";noindex"), "noindex");
}

#[test]
fn the_opt_out_of_the_first_draft_is_overruled() {
    assert_eq!(robots_tag("*=noindex, nosnippet; ExampleBot=;"), "noindex, nosnippet");
}

#[test]
fn a_legacy_value_in_the_new_field_is_read_as_such() {
    assert_eq!(robots_tag("noindex, nofollow"), "noindex, nofollow");
    assert_eq!(strict(&[("Robots-Tag", "noindex, nofollow")]), "");
    assert_eq!(robots_tag("googlebot:noindex"), "");
    assert_eq!(robots_tag("max-snippet:20"), "max-snippet:20");
}

#[test]
fn a_bot_named_like_a_rule_is_a_token() {
    let options = abide_permissions::ReadOptions::new("archive".parse().unwrap());
    assert_eq!(reading_of(b"archive;noindex", &options), "sf");
    for value in ["archive;noindex", "archive: noindex", "archive=noindex"] {
        assert!(read_with(&options, &[("Robots-Tag", value)], Head::default()).rules().noindex(), "{value}");
    }
}

#[test]
fn neither_field_switches_the_other_off() {
    for lines in [
        [("Robots-Tag", "*"), ("X-Robots-Tag", "noindex")],
        [("Robots-Tag", "*;noindex"), ("X-Robots-Tag", "index")],
        [("Robots-Tag", ""), ("X-Robots-Tag", "noindex")],
    ] {
        assert_eq!(read(&lines).rules().to_string(), "noindex", "{lines:?}");
    }
}

#[test]
fn the_limit_is_counted_over_all_lines_of_one_name() {
    let filler = format!("OtherBot;a=\"{}\"", "x".repeat(8192 - 13 - 2 - 9));
    for (second, rules, truncated) in [("*;noindex", "noindex", false), ("*;noindexx, *;nofollow", "", true)]
    {
        let permissions = read(&[("Robots-Tag", &filler), ("Robots-Tag", second)]);
        assert_eq!(permissions.rules().to_string(), rules, "{second}");
        assert_eq!(permissions.is_truncated(), truncated, "{second}");
    }
    // Each name has its own count.
    let lines = [
        ("Robots-Tag", &*filler),
        ("X-Robots-Tag", &filler),
        ("Robots-Tag", "*;noindex"),
        ("X-Robots-Tag", "a"),
    ];
    assert!(!read(&lines).is_truncated());
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

#[test]
fn expiry_asks_for_a_recrawl_and_takes_no_rule_away() {
    let visit = [("Robots-Tag", b"*;noindex".as_slice()), ("Cache-Control", b"no-store")];
    let visit =
        abide_permissions::Fetched::new(200, &visit, Head::default(), std::time::SystemTime::UNIX_EPOCH);
    let record = abide_permissions::PermissionRecord::new("https://example.org/", &visit);
    assert_eq!(record.fresh_until(&options()), std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(record.rules(&options()).to_string(), "noindex");
}

#[test]
fn robots_is_global_in_fields_and_the_star_is_nobody_in_metas() {
    assert_eq!(robots_tag("robots;noindex"), "noindex");
    assert_eq!(x_robots_tag("robots: noindex"), "noindex");
    assert_eq!(robots_tag("robots=noindex"), "noindex");
    assert_eq!(meta_rules("<meta name=* content=noindex>"), "");
}

#[test]
fn templates_hold_no_metas_and_noscript_is_read_both_ways() {
    assert_eq!(meta_rules("<template><meta name=robots content=noindex></template>"), "");
    let permissions =
        page("<noscript><meta name=robots content=noindex></noscript><meta name=robots content=nofollow>");
    assert_eq!(permissions.rules().to_string(), "noindex, nofollow");
    assert_eq!(permissions.metas().len(), 1);
    assert_eq!(permissions.head().noscript_metas().len(), 1);
}

#[test]
fn permitting_rules_relax_nothing() {
    assert_eq!(x_robots_tag("noindex, all, index, follow, archive"), "noindex");
    let rules = read(&[("X-Robots-Tag", "noindex, indexifembedded")]);
    assert!(rules.rules().states("indexifembedded") && !rules.may_index());
}

#[test]
fn a_permitting_rule_does_not_win() {
    assert_eq!(
        meta_rules("<meta name=robots content='index, noindex'><meta name=robots content=all>"),
        "noindex"
    );
}

#[test]
fn the_scope_of_an_agent_ends_with_its_line() {
    let lines = [("X-Robots-Tag", "googlebot: nofollow"), ("X-Robots-Tag", "noindex")];
    assert_eq!(read(&lines).rules().to_string(), "noindex");
    assert_eq!(x_robots_tag("BadBot: noindex, nofollow, examplebot: nofollow"), "nofollow");
}

#[test]
fn a_redirect_and_an_error_keep_their_rules_for_their_own_url() {
    let now = std::time::SystemTime::UNIX_EPOCH;
    let fields = [("Robots-Tag", b"*;noindex".as_slice())];
    let redirect = abide_permissions::Fetched::new(301, &fields, Head::default(), now);
    let target = abide_permissions::Fetched::new(200, &[], Head::default(), now);
    let from = abide_permissions::PermissionRecord::new("https://example.org/from", &redirect);
    let mut to = abide_permissions::PermissionRecord::new("https://example.org/to", &target);
    assert!(from.rules(&options()).noindex());
    assert!(to.rules(&options()).is_empty());
    let error = abide_permissions::Fetched::new(500, &fields, Head::default(), now);
    assert!(!to.update(&error));
    assert!(to.rules(&options()).is_empty());
}
