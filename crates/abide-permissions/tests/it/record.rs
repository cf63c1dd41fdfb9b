//! What a fetch changes of a record: the table, and the cases that caches get wrong.

use std::time::{Duration, SystemTime};

use abide_permissions::testing::strays;
use abide_permissions::{Fetched, Head, HeadEnd, Meta, PermissionRecord, ReadOptions};

use crate::{options, rows, scan};

type Fields<'a> = &'a [(&'a str, &'a [u8])];

/// What makes a 304 one about [`record`].
const TAG: (&str, &[u8]) = ("ETag", b"\"a\"");

fn day(n: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + n * 86_400)
}

fn head(content: &str, end: HeadEnd) -> Head {
    Head::from_metas([Meta::new("robots", content)], end)
}

fn unscanned() -> Head {
    Head::not_scanned(HeadEnd::NotScanned)
}

/// A record of a whole page.
fn of(fields: Fields<'_>, head: Head) -> PermissionRecord {
    PermissionRecord::new("u", &Fetched::new(200, fields, head, day(0)))
}

fn noindex(record: &PermissionRecord) -> Option<bool> {
    record.permissions(&options()).noindex_known()
}

/// A record that knows `noindex` from the field and `nofollow` from a meta.
fn record() -> PermissionRecord {
    let fields: Fields<'_> =
        &[("Robots-Tag", b"*;noindex"), TAG, ("Cache-Control", b"max-age=60"), ("Server", b"x")];
    PermissionRecord::new(
        "https://example.org/",
        &Fetched::new(200, fields, head("nofollow", HeadEnd::Ended), day(0)),
    )
}

fn rules(record: &PermissionRecord) -> String {
    record.rules(&options()).to_string()
}

/// Whether a fetch says anything, and whether the metas are of an earlier one then.
const NEW: (bool, bool) = (true, false);
const STALE: (bool, bool) = (true, true);
const KEPT: (bool, bool) = (false, false);

#[test]
fn each_kind_of_response_has_the_effect_that_the_table_says() {
    let nosnippet: Fields<'_> = &[("Robots-Tag", b"*;nosnippet")];
    for (what, status, fields, head, update, expected) in [
        ("scanned", 200, nosnippet, head("noai", HeadEnd::Ended), NEW, "nosnippet, noai"),
        ("scanned to its end", 200, &[], head("noai", HeadEnd::Eof), NEW, "noai"),
        ("not HTML", 200, nosnippet, Head::default(), NEW, "nosnippet"),
        ("not scanned", 200, nosnippet, unscanned(), STALE, "nofollow, nosnippet"),
        ("coded", 203, &[], Head::not_scanned(HeadEnd::Undecoded), STALE, "nofollow"),
        ("incomplete", 200, &[], head("noai", HeadEnd::ByteLimit), STALE, "nofollow, noai"),
        ("304, silent", 304, &[TAG], unscanned(), NEW, "noindex, nofollow"),
        ("304, speaking", 304, &[nosnippet[0], TAG], unscanned(), NEW, "nofollow, nosnippet"),
        ("304, of another version", 304, nosnippet, unscanned(), KEPT, "noindex, nofollow"),
        ("a part", 206, nosnippet, head("noai", HeadEnd::Eof), STALE, "noindex, nofollow, nosnippet, noai"),
        ("a whole part", 206, &[WHOLE], head("noai", HeadEnd::Eof), NEW, "noai"),
        ("changes", 226, nosnippet, Head::default(), STALE, "noindex, nofollow, nosnippet"),
        (
            "304, a new field",
            304,
            &[("X-Robots-Tag", b"noai"), TAG],
            unscanned(),
            NEW,
            "noindex, nofollow, noai",
        ),
        ("redirect", 301, nosnippet, unscanned(), STALE, "nofollow, nosnippet"),
        ("error", 500, nosnippet, unscanned(), KEPT, "noindex, nofollow"),
        ("slow down", 429, nosnippet, unscanned(), KEPT, "noindex, nofollow"),
        ("gone", 410, nosnippet, Head::default(), KEPT, "noindex, nofollow"),
        ("not found", 404, &[], Head::default(), KEPT, "noindex, nofollow"),
    ] {
        let mut record = record();
        let says_anything = record.update(&Fetched::new(status, fields, head, day(1)));
        assert_eq!((says_anything, record.metas_are_stale()), update, "{what}");
        assert_eq!(rules(&record), expected, "{what}");
        let received = if says_anything { day(1) } else { day(0) };
        assert_eq!(record.received_at(), received, "{what}");
    }
}

const WHOLE: (&str, &[u8]) = ("Content-Range", b"bytes 0-99/100");

#[test]
fn a_part_leaves_the_record_incomplete_until_a_whole_page_comes() {
    for range in [
        "bytes 0-20/100",
        "bytes 0-99/*",
        "bytes 1-99/100",
        "bytes 0-99/100, bytes 0-99/100",
        "items 0-99/100",
        "bytes */100",
        "",
        "bytes 0-18446744073709551615/0",
        "bytes 0--1/0",
    ] {
        let fields = [("content-range", range.as_bytes())];
        let part = Fetched::new(206, &fields, head("noai", HeadEnd::Eof), day(1));
        let mut record = of(&[TAG], Head::default());
        assert_eq!(noindex(&record), Some(false));
        assert!(record.update(&part), "{range}");
        assert_eq!(noindex(&record), None, "{range}");
        record.update(&Fetched::new(304, &[TAG], unscanned(), day(2)));
        assert_eq!(noindex(&record), None, "{range}");
        let first = PermissionRecord::new("u", &part);
        assert_eq!(noindex(&first), None, "{range}");
        assert!(!first.preferences(&options()).is_complete(), "metas of TDMRep may follow");
        let whole = Fetched::new(200, &[], Head::default(), day(3));
        assert!(record.update(&whole));
        assert_eq!(noindex(&record), Some(false), "{range}");
    }
    let resumed =
        Fetched::new(206, &[WHOLE], Head::default(), day(1)).with_request(&[("if-range", b"\"1\"")]);
    let mut closed = of(&[("Robots-Tag", b"*;noindex"), TAG], Head::default());
    assert!(closed.update(&resumed));
    assert_eq!(noindex(&closed), Some(true), "its fields need not be repeated");
    let twice = [WHOLE, WHOLE];
    let mut record = record();
    assert!(record.update(&Fetched::new(206, &twice, head("a", HeadEnd::Eof), day(1))));
    assert!(record.metas_are_stale());
}

#[test]
fn many_parts_of_a_page_have_their_lines_once() {
    let mut record = record();
    for second in 0..3 {
        let date = format!("Thu, 01 Jan 2026 00:00:0{second} GMT");
        let fields: Fields<'_> =
            &[("Robots-Tag", b"*;nosnippet"), ("Content-Usage", b"train-ai=n"), ("Date", date.as_bytes())];
        record.update(&Fetched::new(206, fields, unscanned(), day(1)));
    }
    let kept = ["robots-tag", "content-usage", "date"].map(|name| record.lines(name).count());
    assert_eq!(kept, [2, 1, 1]);
    assert!(record.lines("date").all(|date| date.ends_with(b"02 GMT")), "freshness is that of the last part");
}

#[test]
fn what_is_no_page_makes_no_complete_record() {
    for status in [206, 226, 304, 404, 429, 500] {
        let record = PermissionRecord::new("u", &Fetched::new(status, &[], Head::default(), day(0)));
        assert_eq!(noindex(&record), None, "{status}");
        assert!(!record.permissions(&options()).may_index(), "{status}");
    }
    let redirect = Fetched::new(301, &[("Robots-Tag", b"*;noindex")], Head::default(), day(0));
    assert_eq!(rules(&PermissionRecord::new("u", &redirect)), "noindex", "that of the URL which redirects");
}

#[test]
fn a_304_is_about_the_record_only_with_its_validators() {
    let dates = [("<THEN>", "Fri, 01 Jan 2027 00:00:00 GMT"), ("<LATER>", "Sat, 02 Jan 2027 00:00:00 GMT")];
    for row in rows(include_str!("../vectors/validators.tsv")) {
        let row = row
            .iter()
            .map(|column| dates.iter().fold(column.clone(), |text, (name, date)| text.replace(name, date)));
        let row: Vec<String> = row.collect();
        let fields = |column: usize| -> Vec<(&str, &[u8])> {
            let lines = row[column].split(" | ").filter_map(|line| line.split_once(": "));
            lines.map(|(name, value)| (name, value.as_bytes())).collect()
        };
        let (what, is_about_it) = (&row[0], row[4] == "yes");
        let (kept, brought, asked) = (fields(1), fields(2), fields(3));
        let mut record = of(&kept, head("noai", HeadEnd::Ended));
        let before = record.clone();
        let fetched = Fetched::new(304, &brought, unscanned(), day(1)).with_request(&asked);
        assert_eq!(record.update(&fetched), is_about_it, "{what}");
        assert_eq!(record == before, !is_about_it, "{what}");
    }
}

#[test]
fn what_a_record_has_no_room_for_is_unknown() {
    let noscript = format!("<noscript>{}</noscript><p>", " ".repeat(70_000));
    let noscript = scan(&options(), noscript.as_bytes(), usize::MAX);
    let many = (0..1100).map(|n| Meta::new("robots", format!("x{n}")));
    let large = options().with_field_limit(1 << 20).unwrap();
    let line = "OtherBot;a, ".repeat(6000);
    let fields = [("robots-tag", line.as_bytes()), ("robots-tag", b"*;noindex")];
    for (fields, head) in [
        (&fields[..0], noscript),
        (&fields[..0], Head::from_metas(many, HeadEnd::Ended)),
        (&fields[..], Head::default()),
    ] {
        let mut record = of(fields, head);
        assert_eq!(record.permissions(&large).noindex_known(), None);
        let small = of(&[], Head::default());
        assert!(!small.covers(&record) && !record.covers(&small));
        record.update(&Fetched::new(200, &[], Head::default(), day(1)));
        assert_eq!(record.permissions(&large).noindex_known(), Some(false));
    }
}

#[test]
fn it_is_forgotten_when_the_caller_says_so() {
    let mut record = record();
    record.union_rendered([Meta::new("examplebot", "noai")]);
    assert_eq!(rules(&record), "noindex, nofollow, noai");
    record.forget();
    assert_eq!(rules(&record), "");
    assert_eq!(record.url(), "https://example.org/");
}

#[test]
fn a_304_replaces_the_fields_that_it_has_and_keeps_the_others() {
    let (noindex, nosnippet) =
        (("ROBOTS-TAG", b"*;noindex".as_slice()), ("Robots-Tag", b"ExampleBot;nosnippet".as_slice()));
    for (kept, brought, expected) in [
        (&[noindex, nosnippet, TAG][..], &[TAG][..], "noindex, nosnippet"),
        (&[TAG], &[noindex, TAG], "noindex"),
        (&[("robots-tag", b"*;nofollow"), TAG], &[noindex, nosnippet, TAG], "noindex, nosnippet"),
    ] {
        let mut record = of(kept, Head::default());
        record.update(&Fetched::new(304, brought, unscanned(), day(1)));
        assert_eq!(rules(&record), expected, "{kept:?} and {brought:?}");
    }
}

#[test]
fn after_a_304_freshness_comes_from_the_merged_fields() {
    let mut record = record();
    let changes: [(Fields<'_>, u64); 3] =
        [(&[("Age", b"10"), TAG], 50), (&[TAG], 60), (&[("cache-control", b"max-age=5"), TAG], 5)];
    for ((fields, left), n) in changes.into_iter().zip(1..) {
        record.update(&Fetched::new(304, fields, unscanned(), day(n)));
        assert_eq!(record.fresh_until(&options()), day(n) + Duration::from_secs(left));
    }
}

#[test]
fn a_record_can_be_read_for_other_tokens() {
    let fields: Fields<'_> = &[("Robots-Tag", b"OtherBot;noindex, ExampleBot;nosnippet")];
    let head =
        Head::from_metas([Meta::new("otherbot", "noai"), Meta::new("twitter:card", "x")], HeadEnd::Ended);
    let record = of(fields, head);
    assert_eq!(rules(&record), "nosnippet");
    assert_eq!(record.rules(&ReadOptions::new("OtherBot".parse().unwrap())).to_string(), "noindex, noai");
    let chain = ["OtherBot", "ExampleBot"].map(|token| token.parse().unwrap());
    assert_eq!(record.rules(&ReadOptions::for_tokens(chain)).to_string(), "noindex, nosnippet, noai");
}

#[test]
fn a_passed_unavailable_after_counts_when_it_is_asked_later() {
    let fields: Fields<'_> = &[("X-Robots-Tag", b"unavailable_after: 2027-02-01")];
    let record = of(fields, Head::default());
    let permissions = record.permissions(&options());
    assert!(permissions.may_index() && permissions.may_index_at(day(10)));
    assert!(!permissions.may_index_at(day(30)));
}

#[test]
fn what_states_nothing_is_not_kept() {
    let record = record();
    assert_eq!(record.lines("server").count(), 0);
    assert_eq!(record.lines("etag").collect::<Vec<_>>(), [TAG.1], "for the next 304");
    assert_eq!(record.lines("robots-tag").collect::<Vec<_>>(), [b"*;noindex"]);
}

#[cfg(feature = "serde")]
#[test]
fn a_record_survives_storage() {
    let mut record = record();
    record.union_rendered([Meta::new("examplebot", "noai")]);
    let behind = scan(&options(), b"<body><meta name=robots content=noindex>", usize::MAX);
    assert!(record.update(&Fetched::new(206, &[], behind, day(0))));
    let stored = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<PermissionRecord>(&stored).unwrap(), record);
}

#[test]
fn preferences_are_those_of_the_time_of_the_fetch() {
    use abide_permissions::{Preference, Preferences, Usage};
    use abide_robots::{Rules, Target};

    let robots = |line: &str| {
        let rules =
            Rules::parse(format!("User-agent: *\n{line}").as_bytes(), &["ExampleBot".parse().unwrap()]);
        Preferences::default().with_robots(&rules, &Target::new("/"))
    };
    let fields: Fields<'_> = &[("Content-Usage", b"search=n"), ("tdm-reservation", b"1"), TAG];
    let first = Fetched::new(200, fields, Head::default(), day(0))
        .with_preferences(&robots("Content-Usage: train-ai=n"));
    let mut record = PermissionRecord::new("u", &first);
    let resolve = |record: &PermissionRecord, usage| record.preferences(&crate::options()).resolve(&usage);
    assert_eq!(resolve(&record, Usage::TrainAi), Preference::Disallow);
    assert_eq!(resolve(&record, Usage::Search), Preference::Disallow);
    assert_eq!(resolve(&record, Usage::Tdm), Preference::Disallow);

    // A 304 keeps the page and its statements, and adds those of the current copy.
    let again = Fetched::new(304, &[TAG], unscanned(), day(1))
        .with_preferences(&robots("Content-Usage: train-ai=y, search=y"));
    record.update(&again);
    assert_eq!(resolve(&record, Usage::TrainAi), Preference::Disallow);
    assert_eq!(record.preferences(&crate::options()).statements().len(), 5);

    // A new version of the page has new ones.
    let newer = Fetched::new(200, &[], Head::default(), day(2))
        .with_preferences(&robots("Content-Usage: train-ai=y"));
    record.update(&newer);
    assert_eq!(resolve(&record, Usage::TrainAi), Preference::Allow);
    assert_eq!(resolve(&record, Usage::Tdm), Preference::Unset);
}

#[test]
fn the_heuristic_can_be_changed_and_turned_off() {
    let plain = options().with_default_ttl(Duration::from_secs(60));
    let modified = httpdate::fmt_http_date(day(0) - Duration::from_secs(1000));
    let fields = [("Last-Modified", modified.as_bytes())];
    let record = of(&fields, unscanned());
    for (percent, seconds) in [(10, 100), (50, 500), (0, 60)] {
        let options = plain.clone().with_heuristic_percent(percent);
        assert_eq!(record.fresh_until(&options), day(0) + Duration::from_secs(seconds), "{percent} %");
    }
}

#[test]
fn the_time_is_kept_to_the_millisecond_before_1970_too() {
    let second = Duration::from_secs(1);
    for time in [SystemTime::UNIX_EPOCH - 86_400 * second, SystemTime::UNIX_EPOCH, day(3) + second / 1000] {
        let record = PermissionRecord::new("x", &Fetched::new(200, &[], unscanned(), time));
        assert_eq!(record.received_at(), time);
    }
}

#[test]
fn a_field_that_fits_to_the_byte_is_kept_whole() {
    let line = |bytes: usize| format!("*;noindex, {};noai", "a".repeat(bytes - 16));
    for (bytes, kept) in [(65_536, 65_536), (65_537, "*;noindex".len())] {
        let line = line(bytes);
        let fields = [("Robots-Tag", line.as_bytes()), ("Robots-Tag", b"*;noai")];
        let record = of(&fields, unscanned());
        let lengths: Vec<usize> = record.lines("robots-tag").map(<[u8]>::len).collect();
        let others = if bytes == kept { vec![] } else { vec!["*;noai".len()] };
        assert_eq!(lengths, [vec![kept], others].concat(), "{bytes}");
    }
}

#[test]
fn metas_that_can_name_nobody_are_not_kept() {
    let record = |metas: &[(&str, &str)]| {
        let metas = metas.iter().map(|(name, content)| Meta::new(*name, *content));
        let head = Head::from_metas(metas, HeadEnd::Ended);
        of(&[], head)
    };
    let plain = record(&[("robots", "noindex")]);
    assert_eq!(record(&[("twitter:card", "summary"), ("robots", "noindex"), ("og:type", "x")]), plain);
    assert_ne!(record(&[("robots", "noindex"), (" otherbot/ ", "noai")]), plain);
}

#[test]
fn metas_of_cut_heads_are_kept_once_and_within_bounds() {
    let cut = |contents: Vec<String>| {
        let metas = contents.into_iter().map(|content| Meta::new("robots", content));
        Fetched::new(200, &[], Head::from_metas(metas, HeadEnd::ByteLimit), day(0))
    };
    let stated = |record: &PermissionRecord| record.permissions(&options()).statements().len();
    let mut record = PermissionRecord::new("x", &cut(vec!["noindex".to_owned()]));
    for (contents, expected) in [
        (vec!["noindex".to_owned()], 1),
        (vec!["noindex".to_owned(), "nofollow".to_owned()], 2),
        ((0..2000).map(|n| format!("noai, x{n}")).collect(), 1024),
        (vec!["nosnippet".to_owned()], 1024),
    ] {
        record.update(&cut(contents));
        assert_eq!(stated(&record), expected);
    }
}

#[test]
fn a_record_covers_another_that_forbids_no_more() {
    let whole = |names: &[&str]| {
        Head::from_metas(names.iter().map(|name| Meta::new(*name, "noindex")), HeadEnd::Ended)
    };
    let both = || whole(&["robots", "otherbot"]);
    let tags: Fields<'_> =
        &[("Robots-Tag", b"*;noindex"), ("X-Robots-Tag", b"otherbot: nofollow"), ("ETag", b"1")];
    let full = of(tags, both());
    assert!(full.covers(&full));
    // What is less, and what says nothing of rules.
    for less in [
        of(&tags[..1], both()),
        of(tags, whole(&["robots"])),
        of(&[tags[0], tags[1], ("ETag", b"2"), ("Age", b"7")], whole(&["otherbot", "robots"])),
    ] {
        assert!(full.covers(&less), "{less:?}");
    }
    let mut rendered = full.clone();
    rendered.union_rendered([Meta::new("robots", "nosnippet")]);
    for more in [
        of(&[tags[0], tags[1], ("Robots-Tag", b"OtherBot;nosnippet")], both()),
        of(&[tags[0], ("X-Robots-Tag", b"otherbot: nosnippet")], both()),
        of(tags, whole(&["robots", "otherbot", "third"])),
        of(tags, Head::from_metas(both().metas().to_vec(), HeadEnd::ByteLimit)),
        of(&[tags[0], tags[1], ("Content-Usage", b"train-ai=n")], both()),
        of(&[tags[0], tags[1], ("tdm-reservation", b"1")], both()),
        rendered,
    ] {
        assert!(!full.covers(&more), "{more:?}");
    }
    let scanned = |page: &str| of(&[], scan(&options(), page.as_bytes(), usize::MAX));
    let plain = scanned("<title>x</title><body>");
    let unscripted = scanned("<noscript><meta name=robots content=noindex></noscript><body>");
    assert!(unscripted.covers(&plain) && !plain.covers(&unscripted));
}

#[test]
fn a_meta_that_stands_elsewhere_is_kept_as_those_of_the_head_are() {
    let page = |document: &str| scan(&options(), document.as_bytes(), usize::MAX);
    let names = |record: &PermissionRecord| -> Vec<String> {
        let read = record.permissions(&options());
        strays(read.head()).map(|meta| meta.name().to_owned()).collect()
    };
    let behind = page("<head></head><body><meta name=robots content=noindex>");
    let named_otherwise = page("<meta property=examplebot content=noindex>");
    let plain = page("<head></head><body>");
    let mut record = of(&[TAG], behind.clone());
    assert_eq!(names(&record), ["robots"]);
    assert!(record.update(&Fetched::new(304, &[TAG], Head::default(), day(1))));
    assert_eq!(names(&record), ["robots"], "a 304 keeps it");
    assert!(record.update(&Fetched::new(206, &[TAG], named_otherwise, day(2))));
    assert_eq!(names(&record), ["robots", "examplebot"], "a part adds to it");
    assert!(record.update(&Fetched::new(200, &[TAG], plain.clone(), day(3))));
    assert!(names(&record).is_empty(), "another page replaces it");
    assert!(
        !of(&[], plain.clone()).covers(&of(&[], behind.clone())) && of(&[], behind).covers(&of(&[], plain))
    );
}

#[test]
fn a_meta_whose_name_is_misspelt_is_kept() {
    let metas = [Meta::new("robots\u{a0}", "noindex"), Meta::new("\u{201d}robots\u{201d}", "noindex")];
    let record = of(&[], Head::from_metas(metas.clone(), HeadEnd::Ended));
    assert_eq!(record.permissions(&options()).metas(), metas);
}
