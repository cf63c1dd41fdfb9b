//! What servers send for a text: RFC 9309 §2.3.1.5, §2.5.

use std::sync::Arc;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{RobotsEntry, RobotsPolicy, RobotsStore, Source};
use abide_gate::testing::MemoryStore;

async fn read(body: impl Into<bytes::Bytes>) -> Arc<RobotsEntry> {
    World::of(Scripted::text(body)).ask().await
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
async fn a_raised_limit_is_the_reader_s_too() {
    let text = format!("{GOOD}{}Disallow: /far\n", "# filler\n".repeat(100_000));
    assert!(allows(&read(text.clone()).await, "/far"));
    let policy = RobotsPolicy::default().with_body_limit(1 << 20);
    let answer = World::with_policy(ScriptedFetch::always(Scripted::text(text)), policy).ask().await;
    assert!(is_good(&answer) && !allows(&answer, "/far") && !answer.is_truncated());
    // What it has stored is not lost to a process with the usual limit, which cuts it, and fetches it again.
    let store = MemoryStore::new();
    store.save(&origin(), answer.record()).await.unwrap();
    let answer = World::with_store(ScriptedFetch::always(Scripted::status(500)), Arc::new(store)).ask().await;
    assert_eq!((answer.source(), answer.is_truncated()), (Source::LastGood, true));
    assert!(is_good(&answer) && allows(&answer, "/far"));
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
    let shown = |answer: &Arc<RobotsEntry>, path: &str| answer.explain(&path.into()).to_string();
    let good = read(GOOD).await;
    let of = "of https://a.example/robots.txt, fetched Fri, 15 Jan 2027 08:00:00 GMT";
    for (path, sentence) in [
        ("/closed", "disallowed by \"Disallow: /closed\" on line 2 (group *)"),
        ("/open", "allowed, because it matches no rule"),
        ("/robots.txt", "allowed, because robots.txt itself is exempt from the rules"),
    ] {
        assert_eq!(shown(&good, path), format!("{sentence} {of}"));
    }
    let other = read("User-agent: otherbot\nDisallow: /").await;
    assert_eq!(shown(&other, "/open"), format!("allowed, because no group is for the crawler {of}"));

    let gone = World::of(Scripted::status(403)).ask().await;
    assert_eq!(
        shown(&gone, "/x"),
        "allowed, because https://a.example/robots.txt is unavailable: it returned status 403"
    );
    let down = World::of(Scripted::status(500)).ask().await;
    let shown = shown(&down, "/x");
    let start = "disallowed for now, because https://a.example/robots.txt is unreachable since \
                 Fri, 15 Jan 2027 08:00:00 GMT: it returned status 500; next attempt at ";
    assert!(shown.starts_with(start), "{shown}");
    let itself = down.explain(&"/robots.txt".into());
    let start = "allowed, because robots.txt itself always is, though ";
    assert!(itself.is_allowed() && itself.to_string().starts_with(start), "{itself}");
}
