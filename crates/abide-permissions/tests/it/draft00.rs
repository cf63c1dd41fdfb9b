//! draft-illyes-repext-00, where it differs from -03.

use crate::{meta_rules, robots_tag, x_robots_tag};

#[test]
fn both_names_take_the_first_grammar() {
    assert_eq!(robots_tag("*=noindex"), "noindex");
    assert_eq!(x_robots_tag("*=noindex"), "noindex");
}

#[test]
fn several_rules_for_a_token_as_in_the_example() {
    assert_eq!(robots_tag("*=noindex, nosnippet; ExampleBot=;"), "noindex, nosnippet");
}

#[test]
fn the_global_token_may_be_left_out() {
    assert_eq!(robots_tag("noindex, nosnippet; ExampleBot=;"), "noindex, nosnippet");
}

#[test]
fn duplicates_are_merged() {
    assert_eq!(robots_tag("ExampleBot=noindex; ExampleBot=nosnippet;"), "noindex, nosnippet");
    assert_eq!(robots_tag("ExampleBot=noindex, noindex; *=noindex;"), "noindex");
}

#[test]
fn the_limit_cuts_at_a_comma_here_too() {
    let value = format!("*=noindex, {}nosnippet; ExampleBot=nofollow", "foo, ".repeat(2000));
    assert_eq!(crate::read(&[("Robots-Tag", &value)]).rules().flags().count(), 1);
}

#[test]
fn being_named_without_rules_is_no_exemption() {
    assert_eq!(robots_tag("*=noindex; ExampleBot=nosnippet"), "noindex, nosnippet");
    assert_eq!(robots_tag("*=noindex; ExampleBot=;"), "noindex");
}

#[test]
fn unsupported_rules_are_kept_as_data() {
    assert_eq!(robots_tag("*;foo;noindex"), "noindex, foo");
}

#[test]
fn rules_hold_until_they_have_changed() {
    // The record's tests, A29, show it over time.
    let record = abide_permissions::PermissionRecord::new(
        "https://example.org/",
        &abide_permissions::Fetched::new(
            200,
            &[("Robots-Tag", b"*=noindex")],
            abide_permissions::Head::default(),
            std::time::SystemTime::UNIX_EPOCH,
        ),
    );
    assert_eq!(record.rules(&crate::options()).to_string(), "noindex");
}

#[test]
fn only_the_head_counts() {
    assert_eq!(meta_rules("<body><meta name=robots content=noindex>"), "");
}
