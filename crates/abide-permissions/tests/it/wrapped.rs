//! A restriction that is stated stays one, whatever marks stand around it.

use abide_permissions::{Head, HeadEnd, Meta, Permissions, Preference, Question};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{options, read, read_with};

const RESTRICTIONS: [(&str, Question); 8] = [
    ("noindex", Question::Index),
    ("none", Question::Index),
    ("nofollow", Question::Follow),
    ("nosnippet", Question::Snippet),
    ("noarchive", Question::Archive),
    ("noimageindex", Question::ImageIndex),
    ("notranslate", Question::Translate),
    ("max-snippet:0", Question::Snippet),
];

/// Marks, blanks, and characters that nobody sees. A comma and a semicolon separate, which is no less.
fn marks() -> impl Strategy<Value = String> {
    let ascii = proptest::sample::select(
        (b'!'..=b'~').filter(u8::is_ascii_punctuation).map(char::from).collect::<Vec<_>>(),
    );
    let other = proptest::sample::select(
        "“”‘’«»（），．／｜：；＝、。…·–—\u{a0}\u{2003}\u{3000}\u{ad}\u{200b}\u{200e}\u{2060}\u{feff}\u{3164}\u{fe0f}\t ".chars().collect::<Vec<_>>(),
    );
    vec(prop_oneof![ascii, other], 0..4).prop_map(|marks| marks.into_iter().collect())
}

/// What may stand before and behind it in a line or a content.
const NEIGHBOURS: [(&str, &str); 8] = [
    ("", ""),
    ("index, ", ""),
    ("", ", follow"),
    ("foo, ", ", bar"),
    ("max-image-preview:large, ", ", max-snippet:-1"),
    ("unavailable_after: 2099-12-31, ", ""),
    ("all ", " all"),
    ("examplebot: ", ""),
];

fn of_field(name: &str, text: &str) -> Permissions {
    read(&[(name, text)])
}

fn of_meta(text: &str) -> Permissions {
    read_with(&options(), &[], Head::from_metas([Meta::new("robots", text)], HeadEnd::Ended))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn marks_around_a_restriction_never_make_it_a_yes(
        (before, behind) in (marks(), marks()),
        (restriction, question) in proptest::sample::select(RESTRICTIONS.to_vec()),
        (left, right) in proptest::sample::select(NEIGHBOURS.to_vec()),
        other in proptest::sample::select(vec!["", "*;noai, ", "foo;bar, ", "OtherBot;noindex, "]),
        shout in any::<bool>(),
    ) {
        let restriction = if shout { restriction.to_uppercase() } else { restriction.to_owned() };
        let text = format!("{left}{before}{restriction}{behind}{right}");
        let is_no_less = |permissions: &Permissions| permissions.answer(question).preference() != Preference::Allow;
        prop_assert!(is_no_less(&of_meta(&text)), "meta {text:?}");
        prop_assert!(is_no_less(&of_field("X-Robots-Tag", &text)), "X-Robots-Tag: {text:?}");
        let beside = format!("{other}{before}{restriction}{behind}");
        prop_assert!(is_no_less(&of_field("Robots-Tag", &beside)), "Robots-Tag: {beside:?}");
    }

    #[test]
    fn marks_between_two_restrictions_separate_them(between in marks().prop_filter("a mark", |marks| !marks.is_empty())) {
        let text = format!("noindex{between}nofollow");
        for read in [of_meta(&text), of_field("X-Robots-Tag", &text)] {
            prop_assert!(!read.may_index() && !read.may_follow(), "{text:?}: {:?}", read.rules());
        }
    }
}

/// An over-strict reading is a fault as well.
#[test]
fn what_names_no_restriction_for_us_stays_a_yes() {
    for value in [
        "noindexfoo",
        "nonexistent",
        "noodp, noydir",
        "index, follow",
        "max-image-preview:large",
        "OtherBot: noindex",
        "OtherBot: noindex/nofollow",
        "OtherBot: “noindex”, nofollow.",
        "nositelinkssearchbox",
        "googlebot: none; otherbot: noindex",
        "OtherBot;noindex",
        "OtherBot;no-index",
        "*;noindex=?0",
        "nosuchrule=1",
        "index/follow",
        "“all”",
        "archive.org_bot: noarchive",
        "indexifembedded",
        "noai",
        "max-snippet:-1, max-video-preview:-1",
        "snippet",
        "unavailable_after: 2099-12-31",
    ] {
        let read = of_field("X-Robots-Tag", value);
        for question in Question::ALL {
            assert_eq!(read.answer(question).as_str(), "yes", "{value}: {question:?}");
        }
        assert!(read.is_complete(), "{value}");
    }
    for (name, content) in [
        ("description", "noindex"),
        ("otherbot", "noindex"),
        ("robots-policy", "noindex"),
        ("notrobots", "none"),
    ] {
        let head = Head::from_metas([Meta::new(name, content)], HeadEnd::Ended);
        assert!(read_with(&options(), &[], head).may_index(), "{name}");
    }
}
