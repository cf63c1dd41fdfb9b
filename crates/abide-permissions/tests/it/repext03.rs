//! draft-illyes-repext-03, requirement by requirement.

use std::time::{Duration, SystemTime};

use abide_permissions::{
    Fetched, Head, HeadEnd, Meta, PermissionRecord, Permissions, Provenance, write_field,
};

use crate::{meta_rules, options, page, read, read_with, robots_tag, scan, x_robots_tag};

#[test]
fn rules_say_what_may_be_done_and_never_that_a_fetch_is_forbidden() {
    let permissions = read(&[("Robots-Tag", "*;noindex")]);
    // Everything the answer offers is about use; what is told of `noindex` is that an index is not permitted.
    assert!(!permissions.may_index());
    assert!(permissions.may_follow());
    assert_eq!(permissions.snippet_limit(), None);
}

#[test]
fn the_field_is_a_list_of_tokens_with_rules_as_parameters() {
    assert_eq!(robots_tag("*;nosnippet, ExampleBot;noindex"), "noindex, nosnippet");
}

#[test]
fn x_robots_tag_is_supported_in_both_grammars() {
    assert_eq!(x_robots_tag("noindex"), "noindex");
    assert_eq!(x_robots_tag("*;noindex"), "noindex");
}

#[test]
fn tokens_are_matched_without_case() {
    assert_eq!(robots_tag("OtherBot;noindex"), "");
    assert_eq!(robots_tag("EXAMPLEBOT;noindex"), "noindex");
}

#[test]
fn absence_of_a_rule_is_no_instruction() {
    for value in ["*", "ExampleBot", ""] {
        assert!(read(&[("Robots-Tag", value)]).rules().is_empty(), "{value:?}");
    }
    assert!(read(&[]).rules().is_empty());
}

#[test]
fn the_same_token_several_times_is_a_union() {
    assert_eq!(robots_tag("ExampleBot;noindex, ExampleBot;nosnippet"), "noindex, nosnippet");
    let lines = [("Robots-Tag", "ExampleBot;noindex"), ("Robots-Tag", "ExampleBot;nosnippet")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nosnippet");
    let lines = [("X-Robots-Tag", "noindex, nofollow"), ("X-Robots-Tag", "nosnippet")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nofollow, nosnippet");
}

#[test]
fn specific_and_global_rules_are_a_union_in_any_order() {
    assert_eq!(robots_tag("ExampleBot;noindex, *;nosnippet"), "noindex, nosnippet");
    assert_eq!(robots_tag("*;nosnippet, ExampleBot;noindex"), "noindex, nosnippet");
}

#[test]
fn a_global_restriction_binds_those_who_are_named_without_it() {
    assert_eq!(robots_tag("*;noindex, ExampleBot"), "noindex");
    assert_eq!(robots_tag("*;noindex, ExampleBot;all"), "noindex");
}

#[test]
fn members_are_as_written_and_effective_rules_are_united() {
    let value = "*;nosnippet, ExampleBot;noindex";
    let read = read(&[("Robots-Tag", value)]);
    let written: Vec<_> =
        read.statements().iter().map(|(place, rules)| (place.to_string(), rules.to_string())).collect();
    let expected = [("*;nosnippet", "nosnippet"), ("ExampleBot;noindex", "noindex")];
    let place = |member| format!("Robots-Tag, field 1 (sf): {member}");
    assert_eq!(written, expected.map(|(member, rules)| (place(member), rules.to_owned())));
    assert_eq!(robots_tag(value), "noindex, nosnippet");
}

#[test]
fn the_parsing_limit_is_16_kib_unless_configured() {
    let options = abide_permissions::ReadOptions::new("ExampleBot".parse().unwrap());
    assert_eq!(options.field_limit(), 16 * 1024);
    assert_eq!(options.with_field_limit(100_000).unwrap().field_limit(), 100_000);
}

#[test]
fn a_limit_below_8_kib_is_refused() {
    let error = options().with_field_limit(8191).unwrap_err();
    assert_eq!(error.to_string(), "expected a field limit of at least 8192 bytes, found 8191");
    assert!(options().with_field_limit(8192).is_ok());
    assert!(options().with_content_limit(8191).is_err());
}

#[test]
fn above_the_limit_the_complete_members_within_it_are_honoured() {
    let value = format!("*;noindex, {}ExampleBot;nosnippet", "OtherBot;nosnippet, ".repeat(1000));
    assert_eq!(value.len(), 20_031);
    let permissions = read(&[("Robots-Tag", &value)]);
    assert_eq!(permissions.rules().to_string(), "noindex");
    assert!(permissions.is_truncated());
    let whole =
        read_with(&options().with_field_limit(20_031).unwrap(), &[("Robots-Tag", &value)], Head::default());
    assert_eq!(whole.rules().to_string(), "noindex, nosnippet");
    assert!(!whole.is_truncated());
}

#[test]
fn the_truncated_member_is_ignored() {
    let value = format!("{}ExampleBot;noindex", "OtherBot;nosnippet, ".repeat(409));
    assert_eq!(value.len(), 8198);
    for (limit, rules) in [(8198, "noindex"), (8197, ""), (8192, "")] {
        let options = options().with_field_limit(limit).unwrap();
        for strict in [false, true] {
            let options = options.clone().with_strict_sf(strict);
            let permissions =
                read_with(&options, &[("Robots-Tag", &value.to_ascii_lowercase())], Head::default());
            assert_eq!(permissions.rules().to_string(), rules, "limit {limit}, strict {strict}");
            assert_eq!(permissions.is_truncated(), limit < 8198);
        }
    }
}

#[test]
fn a_cut_name_is_not_the_rule_that_it_begins_with() {
    for tail in ["ExampleBot;noindexfoo", "ExampleBot;noindex-bar, *;nofollow"] {
        let filler = "x".repeat(8192 - "*;a=\"\", ExampleBot;noindex".len());
        let value = format!("*;a=\"{filler}\", {tail}");
        let permissions = read(&[("Robots-Tag", &value)]);
        assert!(!permissions.rules().noindex() && permissions.is_truncated(), "{tail}");
    }
}

#[test]
fn the_name_of_a_meta_is_a_token_and_its_content_rules() {
    assert_eq!(meta_rules("<meta name=examplebot content=\"nosnippet, noindex\">"), "noindex, nosnippet");
}

#[test]
fn robots_is_the_global_name() {
    assert_eq!(meta_rules("<meta name=\"robots\" content=\"noindex\">"), "noindex");
}

#[test]
fn other_names_bind_others() {
    for name in
        ["otherbot", "robots2", "notrobots", "robots,examplebot", "examplebot2", "examplebot/1.0", "*"]
    {
        assert_eq!(meta_rules(&format!("<meta name='{name}' content=noindex>")), "", "{name}");
    }
    assert_eq!(
        meta_rules("<meta http-equiv=robots content=noindex><meta property=robots content=noindex>"),
        ""
    );
}

#[test]
fn all_metas_that_apply_are_united() {
    for second in ["robots", "examplebot"] {
        let document = format!("<meta name=robots content=noindex><meta name={second} content=nosnippet>");
        assert_eq!(meta_rules(&document), "noindex, nosnippet");
    }
}

#[test]
fn global_and_specific_metas_are_united() {
    let document = "<meta name=examplebot content=nosnippet><meta name=robots content=noindex>";
    assert_eq!(meta_rules(document), "noindex, nosnippet");
}

#[test]
fn nobody_opts_out_by_being_named() {
    for content in ["all", "index", "index, follow", "", "max-snippet:-1"] {
        let document =
            format!("<meta name=robots content=noindex><meta name=examplebot content='{content}'>");
        assert!(page(&document).rules().noindex(), "{content}");
    }
}

#[test]
fn the_two_rules_of_the_draft_are_known() {
    let rules = read(&[("Robots-Tag", "*;noindex;nosnippet")]).rules().clone();
    assert!(rules.noindex() && rules.nosnippet());
    assert_eq!(rules.flags().collect::<Vec<_>>(), ["noindex", "nosnippet"]);
}

#[test]
fn rules_are_case_insensitive_in_every_carrier() {
    assert_eq!(meta_rules("<meta name=robots content=NoIndex>"), "noindex");
    assert_eq!(x_robots_tag("NOINDEX"), "noindex");
    assert_eq!(robots_tag("*;NoIndex"), "noindex");
}

#[test]
fn other_rules_are_supported_alike_in_every_carrier() {
    let rules = "noindex, nofollow, nosnippet, noarchive, nocache, noimageindex, notranslate, indexifembedded, noai, \
                 noimageai, max-snippet:20, max-image-preview:standard, max-video-preview:0, \
                 unavailable_after:2025-01-01T00:00:00Z, foo";
    assert_eq!(x_robots_tag(rules), rules);
    assert_eq!(meta_rules(&format!("<meta name=robots content='{rules}'>")), rules);
    let structured =
        rules.replace(", ", ";").replace("after:2025-01-01T00:00:00Z", "after=@1735689600").replace(':', "=");
    assert_eq!(robots_tag(&format!("*;{structured}")), rules);
}

#[test]
fn rules_stay_in_force_until_the_next_fetch() {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let fields = [("Robots-Tag", b"*;noindex".as_slice()), ("Cache-Control", b"max-age=60")];
    let record =
        PermissionRecord::new("https://example.org/", &Fetched::new(200, &fields, Head::default(), then));
    assert_eq!(record.fresh_until(&options()), then + Duration::from_secs(60));
    assert_eq!(record.rules(&options()).to_string(), "noindex");
}

#[test]
fn a_304_leaves_the_rules_unchanged() {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let head = scan(&options(), b"<meta name=robots content=nofollow><p>", usize::MAX);
    let tag = ("ETag", b"\"1\"".as_slice());
    let fields = [("Robots-Tag", b"*;noindex".as_slice()), tag];
    let mut record = PermissionRecord::new("https://example.org/", &Fetched::new(200, &fields, head, then));
    for n in 1..3 {
        let now = then + Duration::from_secs(n * 86_400);
        record.update(&Fetched::new(304, &[tag], Head::not_scanned(HeadEnd::NotScanned), now));
        assert_eq!(record.rules(&options()).to_string(), "noindex, nofollow");
        assert_eq!(record.received_at(), now);
    }
}

#[test]
fn the_source_of_each_rule_is_told() {
    let head = scan(
        &options(),
        b"<meta name=viewport content=x><meta name=' Robots' content=noindex><p>",
        usize::MAX,
    );
    let lines = [
        ("Robots-Tag", "otherbot;noai"),
        ("robots-tag", "*;noai,ExampleBot;nosnippet"),
        ("X-Robots-Tag", "noml"),
    ];
    let permissions = read_with(&options(), &lines, head);
    let told: Vec<String> =
        permissions.statements().iter().map(|(place, rules)| format!("{place}: {rules}")).collect();
    assert_eq!(
        told,
        [
            "Robots-Tag, field 2 (sf): *;noai: noai",
            "Robots-Tag, field 2 (sf): ExampleBot;nosnippet: nosnippet",
            "X-Robots-Tag, field 1 (legacy): noml: noml",
            "meta 2 named  Robots: noindex",
        ]
    );
}

#[test]
fn only_metas_in_the_head_element_count() {
    assert_eq!(meta_rules("<body><meta name=robots content=noindex>"), "");
    assert_eq!(meta_rules("<p>Text<meta name=robots content=noindex>"), "");
    assert_eq!(meta_rules("<head></head><meta name=robots content=noindex><body>"), "noindex");
}

#[test]
fn the_rendered_document_adds_and_never_replaces() {
    let initial = page("<meta name=robots content=noindex><p>");
    let rendered = initial.clone().union_rendered(&options(), &[]);
    assert_eq!(rendered.rules().to_string(), "noindex");
    let rendered = initial.union_rendered(&options(), &[Meta::new("robots", "all")]);
    assert_eq!(rendered.rules().to_string(), "noindex");
    let rendered = page("<p>").union_rendered(&options(), &[Meta::new("robots", "nosnippet")]);
    assert_eq!(rendered.rules().to_string(), "nosnippet");
    assert!(matches!(rendered.statements()[0].0, Provenance::Rendered { index: 0, .. }));
}

#[test]
fn the_scan_of_the_head_is_limited() {
    let default = abide_permissions::ReadOptions::new("ExampleBot".parse().unwrap());
    assert_eq!(default.head_limit(), 512 * 1024);
    assert!(options().with_head_limit(8191).is_err());
    let options = options().with_head_limit(8192).unwrap();
    let document = format!(
        "<meta name=robots content=nosnippet><!--{}--><meta name=robots content=noindex>",
        " ".repeat(9000)
    );
    let head = scan(&options, document.as_bytes(), 1000);
    assert_eq!((head.end(), head.bytes()), (HeadEnd::ByteLimit, 8192));
    assert_eq!(read_with(&options, &[], head).rules().to_string(), "nosnippet");
}

#[test]
fn what_is_written_is_robots_tag() {
    let rules = read(&[("X-Robots-Tag", "noindex, nofollow, max-snippet: 20, foo")]).rules().clone();
    let token = "_bot".parse().unwrap();
    let (name, value) = write_field([(None, &rules), (Some(&token), &rules)]).unwrap();
    assert_eq!(name, "Robots-Tag");
    assert_eq!(value, "*;noindex;nofollow;max-snippet=20;foo, \"_bot\";noindex;nofollow;max-snippet=20;foo");
    assert_eq!(read(&[(name, &value)]).rules(), &rules);
    assert_eq!(write_field([(None, Permissions::default().rules())]), None);
}

#[test]
fn x_robots_tag_is_read_beside_the_new_field() {
    let lines = [("X-Robots-Tag", "nofollow"), ("Robots-Tag", "*;noindex")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nofollow");
}

#[test]
fn several_lines_of_a_field_are_united() {
    let lines = [("Robots-Tag", "*;nosnippet"), ("Robots-Tag", "ExampleBot;noindex")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nosnippet");
    let lines = [("Robots-Tag", "*;nosnippet"), ("X-Robots-Tag", "noindex")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nosnippet");
}
