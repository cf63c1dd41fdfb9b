//! What servers send for a text: RFC 9309 §2.3.1.5, §2.5.

use std::sync::Arc;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{RobotsEntry, RobotsPolicy};

async fn read(body: impl Into<bytes::Bytes>) -> Arc<RobotsEntry> {
    World::of(Scripted::text(body)).ask().await
}

#[tokio::test(start_paused = true)]
async fn html_with_rule_lines_counts_and_without_it_says_so() {
    let with = read(format!("<!DOCTYPE html>\n<pre>\n{GOOD}</pre>")).await;
    assert!(is_good(&with) && !with.is_not_text());
    let without = World::of(Scripted::text("<p>Welcome").header("content-type", b"text/html;charset=utf-8"))
        .ask()
        .await;
    assert!(allows_all(&without) && without.is_not_text());
    let shown = without.explain(&"/x".into()).to_string();
    assert!(shown.ends_with("which is an HTML page without rules"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn one_byte_order_mark_is_skipped_also_a_part_of_it() {
    for mark in [&b"\xef\xbb\xbf"[..], b"\xef\xbb", b"\xef"] {
        assert!(is_good(&read([mark, GOOD.as_bytes()].concat()).await), "{mark:x?}");
    }
}

#[tokio::test(start_paused = true)]
async fn utf_16_counts_with_a_mark_only() {
    let encode = |mark: &[u8], unit: fn(u16) -> [u8; 2]| {
        let units = GOOD.encode_utf16().flat_map(unit);
        mark.iter().copied().chain(units).collect::<Vec<u8>>()
    };
    assert!(is_good(&read(encode(b"\xff\xfe", u16::to_le_bytes)).await));
    assert!(is_good(&read(encode(b"\xfe\xff", u16::to_be_bytes)).await));
    let unmarked = read(encode(b"", u16::to_le_bytes)).await;
    assert!(allows_all(&unmarked) && !unmarked.remarks().is_empty());
    let utf_32: Vec<u8> = GOOD.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let utf_32 = read([&b"\xff\xfe\0\0"[..], &utf_32].concat()).await;
    assert!(allows_all(&utf_32) && !utf_32.remarks().is_empty());
    assert!(read(GOOD).await.remarks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_is_skipped_and_the_next_counts() {
    for bad in
        [&b"caf\xe9\n"[..], b"\xff\xff: \xfe\n", b"\0\0\n", b"\x0b\n", b"# lone CR\r", b"# CRCRLF\r\r\n"]
    {
        assert!(is_good(&read([bad, GOOD.as_bytes()].concat()).await), "{bad:x?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_counts_if_it_ends_at_the_limit() {
    let text = |end: usize, after: &str| {
        let (start, rule) = ("User-agent: *\nDisallow: /closed\n#", "\nDisallow: /secret");
        let filler = ".".repeat(end - start.len() - rule.len());
        format!("{start}{filler}{rule}{after}")
    };
    for (end, after, counts) in [
        (512_000, "", true),
        (512_000, "\n", true),
        (512_000, "\r\nAllow: /", true),
        (512_000, "\nAllow: /", true),
        (512_000, "/more", false),
        (512_001, "", false),
        (512_001, "\n", false),
    ] {
        let answer = read(text(end, after)).await;
        assert_eq!(!allows(&answer, "/secret"), counts, "{end} {after:?}");
        assert!(is_good(&answer), "what is before the limit counts");
        assert_eq!(answer.is_truncated(), end + after.len() > 512_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_is_the_reader_s_too() {
    let text = format!("{GOOD}{}Disallow: /far\n", "# filler\n".repeat(100_000));
    assert!(allows(&read(text.clone()).await, "/far"));
    let policy = RobotsPolicy::default().with_body_limit(1 << 20);
    let answer = World::with_policy(ScriptedFetch::always(Scripted::text(text)), policy).ask().await;
    assert!(is_good(&answer) && !allows(&answer, "/far") && !answer.is_truncated());
}

#[tokio::test(start_paused = true)]
async fn one_line_of_10_mb_leaves_what_came_before() {
    let world = World::of(Scripted::text(format!("{GOOD}Disallow: /")).body(vec![b'a'; 1 << 20]).endless());
    let answer = world.ask().await;
    assert!(is_good(&answer) && answer.is_truncated());
}

#[tokio::test(start_paused = true)]
async fn crawl_delays_that_make_no_sense_are_ignored() {
    for (written, millis) in
        [("1e309", None), ("NaN", None), ("-1", None), ("0.5", Some(500)), ("10", Some(10_000))]
    {
        let answer = read(format!("User-agent: *\nCrawl-delay: {written}\nDisallow: /closed\n")).await;
        assert_eq!(answer.crawl_delay().map(|delay| delay.as_millis()), millis, "{written}");
        assert!(is_good(&answer));
    }
}

#[tokio::test(start_paused = true)]
async fn preference_records_leave_the_rules_alone() {
    let long = "x".repeat(100_000);
    for record in ["App-Directives: ((((", "Content-Usage: \x07", &format!("App-Directives: {long}")] {
        assert!(is_good(&read(format!("User-agent: *\n{record}\nDisallow: /closed\n")).await));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_hostile_is_shown_raw() {
    let marker = "\u{1b}[31m\u{202e}";
    let long = "a".repeat(5000);
    let body = format!("User-agent: *\nDisallow: /{marker}{long}\nDisallow: /x{marker}\n");
    let answer = World::of(
        Scripted::text(body).header("content-type", b"text/\x80plain").header("etag", b"\"\xff\x80\""),
    )
    .ask()
    .await;
    let target = format!("/{marker}{long}");
    let explanation = answer.explain(&target.as_str().into());
    assert!(!explanation.is_allowed());
    for shown in
        [format!("{explanation}"), format!("{explanation:?}"), format!("{answer:?} {:?}", answer.record())]
    {
        assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{shown}");
        assert!(shown.chars().count() < 900, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_explanation_is_one_sentence() {
    let world = World::of(Scripted::text(GOOD));
    let answer = world.ask().await;
    let shown = |path: &str| answer.explain(&path.into()).to_string();
    let of = "of https://a.example/robots.txt, fetched Fri, 15 Jan 2027 08:00:00 GMT";
    assert_eq!(shown("/closed"), format!("disallowed by \"Disallow: /closed\" on line 2 (group *) {of}"));
    assert_eq!(shown("/open"), format!("allowed, as it matches no rule {of}"));
    assert_eq!(shown("/robots.txt"), format!("allowed, as robots.txt itself is exempt from the rules {of}"));
    let other = World::of(Scripted::text("User-agent: otherbot\nDisallow: /")).ask().await;
    assert_eq!(
        other.explain(&"/open".into()).to_string(),
        format!("allowed, as the crawler belongs to no group {of}")
    );

    let gone = World::of(Scripted::status(403)).ask().await;
    assert_eq!(
        gone.explain(&"/x".into()).to_string(),
        "allowed, as https://a.example/robots.txt is unavailable: it answered with status 403"
    );
    let down = World::new(ScriptedFetch::always(Scripted::status(500))).ask().await;
    let shown = down.explain(&"/x".into()).to_string();
    let start = "disallowed for now, as https://a.example/robots.txt is unreachable since \
                 Fri, 15 Jan 2027 08:00:00 GMT: it answered with status 500; asked again from ";
    assert!(shown.starts_with(start), "{shown}");
    assert!(down.explain(&"/robots.txt".into()).is_allowed());
}
