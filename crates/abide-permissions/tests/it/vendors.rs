//! What other implementations get wrong, each once.

use crate::{meta_rules, page, read, x_robots_tag};

#[test]
fn no_rule_is_found_within_another_word() {
    for value in ["nonexistent", "noindexfoo", "xnoindex", "no-index", "no index"] {
        assert_eq!(read(&[("X-Robots-Tag", value)]).rules().flags().count(), 0, "{value}");
        assert_eq!(
            page(&format!("<meta name=robots content='{value}'>")).rules().flags().count(),
            0,
            "{value}"
        );
    }
    assert_eq!(x_robots_tag("max-image-preview:none"), "max-image-preview:none");
    assert_eq!(meta_rules("<meta name=robots content=max-image-preview:none>"), "max-image-preview:none");
}

#[test]
fn each_line_is_split_at_its_commas() {
    let lines = [("X-Robots-Tag", "noindex, nofollow"), ("X-Robots-Tag", "nosnippet")];
    assert_eq!(read(&lines).rules().to_string(), "noindex, nofollow, nosnippet");
}

#[test]
fn names_are_compared_whole_trimmed_and_decoded() {
    for (name, expected) in [
        ("ROBOTS  ", "noindex"),
        ("\n robots\t", "noindex"),
        ("&#114;obots", "noindex"),
        ("examplebot", "noindex"),
        ("notrobots", ""),
        ("robot", ""),
        ("my robots", ""),
    ] {
        assert_eq!(meta_rules(&format!("<meta name='{name}' content=noindex>")), expected, "{name}");
    }
}

#[test]
fn a_meta_does_not_hide_the_field() {
    let head = crate::scan(&crate::options(), b"<meta name=robots content=index><p>", usize::MAX);
    let permissions = crate::read_with(&crate::options(), &[("X-Robots-Tag", "noindex")], head);
    assert_eq!(permissions.rules().to_string(), "noindex");
}

#[test]
fn the_end_tag_of_the_head_does_not_end_it_for_metas() {
    assert_eq!(meta_rules("<head></head><meta name=robots content=noindex>"), "noindex");
    assert_eq!(meta_rules("<head><script>'</head>'</script><meta name=robots content=noindex>"), "noindex");
}

#[test]
fn valued_rules_are_no_agents_and_agents_are_without_case() {
    assert_eq!(x_robots_tag("max-snippet: 5, noindex"), "noindex, max-snippet:5");
    assert_eq!(x_robots_tag("eXaMpLeBoT: noindex"), "noindex");
    assert_eq!(
        x_robots_tag("unavailable_after: 2025-12-31, noindex"),
        "noindex, unavailable_after:2025-12-31T00:00:00Z"
    );
}

#[test]
fn an_agent_may_stand_in_any_element() {
    assert_eq!(x_robots_tag("noindex, googlebot: nofollow"), "noindex");
    assert_eq!(x_robots_tag("noindex, googlebot: nofollow, examplebot: nosnippet"), "noindex, nosnippet");
}

#[test]
fn dates_keep_their_colons_and_commas() {
    assert_eq!(
        x_robots_tag("unavailable_after: Wed, 31 Dec 2025 23:59:59 GMT, examplebot: noindex"),
        "noindex, unavailable_after:2025-12-31T23:59:59Z"
    );
}

#[test]
fn the_last_line_and_the_first_do_not_stand_alone() {
    for order in [["noindex", "nosnippet"], ["nosnippet", "noindex"]] {
        let lines = order.map(|value| ("X-Robots-Tag", value));
        assert_eq!(read(&lines).rules().to_string(), "noindex, nosnippet");
    }
}

#[test]
fn the_most_specific_agent_does_not_replace_the_others() {
    assert_eq!(x_robots_tag("noindex, examplebot: nosnippet"), "noindex, nosnippet");
    assert_eq!(
        meta_rules("<meta name=robots content=noindex><meta name=examplebot content=nosnippet>"),
        "noindex, nosnippet"
    );
}

#[test]
fn upper_case_tags_count_and_raw_text_does_not() {
    assert_eq!(meta_rules("<HEAD><META NAME=ROBOTS CONTENT=NOINDEX>"), "noindex");
    for element in ["title", "script", "style", "noframes"] {
        assert_eq!(
            meta_rules(&format!("<{element}><meta name=robots content=noindex></{element}>")),
            "",
            "{element}"
        );
    }
}

#[test]
fn content_is_read_by_the_same_grammar_without_agents() {
    for (content, expected) in [
        ("noindex,nofollow", "noindex, nofollow"),
        ("noindex;nofollow", "noindex, nofollow"),
        ("noindex nofollow", "noindex, nofollow"),
        ("NOINDEX:", "noindex"),
        ("max-snippet=5, max-video-preview : -1", "max-snippet:5, max-video-preview:-1"),
        (
            "unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, noindex",
            "noindex, unavailable_after:2010-06-25T15:00:00Z",
        ),
        ("otherbot: noindex, nosnippet", "nosnippet, otherbot: noindex"),
        ("examplebot: noindex", "examplebot: noindex"),
        ("", ""),
        (" , ;", ""),
    ] {
        assert_eq!(meta_rules(&format!("<meta name=robots content='{content}'>")), expected, "{content}");
    }
}
