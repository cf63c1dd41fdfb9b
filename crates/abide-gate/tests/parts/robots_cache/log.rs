//! What is said in logs: once per outage, with origins only, nothing secret and nothing raw.

#[path = "../../../../../tests/src/capture.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of what the tests of the whole use")]
mod capture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::Failure;
use capture::{Captured, listen};
use tokio::time::sleep;

fn counts<const N: usize>(captured: &Captured, levels: [&str; N]) -> [usize; N] {
    levels.map(|level| captured.ours().iter().filter(|said| said.level == level).count())
}

#[tokio::test(start_paused = true)]
async fn a_store_outage_is_one_warning_and_its_end_one_line() {
    let (captured, _guard) = listen();
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&is_full);
    // A full disk still reads.
    let store = Arc::new(Hooked::failing(move |op| op == Op::Save && disk.load(Ordering::SeqCst)));
    let fetch = ScriptedFetch::always(Scripted::text(GOOD));
    let world = World::with_store(fetch, store);
    for outage in 1..=2 {
        is_full.store(true, Ordering::SeqCst);
        for _ in 0..5 {
            world.ask().await;
            sleep(DAY).await;
        }
        is_full.store(false, Ordering::SeqCst);
        world.ask().await;
        sleep(DAY).await;
        assert_eq!(counts(&captured, ["warn", "info"]), [outage, outage], "{:?}", captured.ours());
    }
}

/// The cause is one that no other test of this file has: what was logged as a warning counts for the whole
/// process.
#[tokio::test(start_paused = true)]
async fn an_outage_is_a_warning_once_per_cause_and_ten_minutes() {
    let (captured, _guard) = listen();
    let world = World::of(Scripted::error(Failure::HeadTooLarge));
    for round in 1..=2 {
        for number in 0..20 {
            let origin = format!("https://{round}-{number}.example").parse().unwrap();
            world.cache.get(&origin).await.unwrap();
        }
        // Each of the others has a span, and says two things: how the request failed, and what it means.
        assert_eq!(counts(&captured, ["warn", "debug"]), [round, round * 60], "{:?}", captured.ours());
        sleep(Duration::from_secs(600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn logs_have_origins_only() {
    let (captured, _guard) = listen();
    let marker = "MARKER";
    let hostile = format!("{marker}\u{1b}[31m\n");
    for answer in [
        Scripted::text(format!("User-agent: *\nDisallow: /{hostile}")).header("etag", b"\"MARKER\""),
        Scripted::status(404).body(hostile.clone()).header("set-cookie", b"MARKER=1"),
        Scripted::status(503).header("retry-after", b"MARKER"),
        Scripted::redirect("https://user:MARKER@b.example/?MARKER"),
        Scripted::redirect("ftp://MARKER/"),
        Scripted::error(Failure::Tls),
        Scripted::panic(),
    ] {
        let world = World::good_then(answer.clone());
        for _ in 0..3 {
            let _ = world.cache.get(&origin()).await;
            sleep(DAY).await;
        }
    }
    let captured = captured.ours();
    assert!(captured.len() > 10);
    for line in captured.into_iter().map(|said| said.text) {
        assert!(!line.contains(marker) && line.chars().all(|c| !c.is_control()), "{line:?}");
        assert!(!line.contains("robots.txt?") && !line.contains("/robots.txt"), "no URL: {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_way_in_which_a_fetch_fails_is_logged() {
    for (answer, sentence) in [
        (Scripted::error(Failure::Tls), "the robots.txt request failed"),
        (deferred(START.plus(HOUR)), "the robots.txt request was deferred by the pacing"),
    ] {
        let (captured, _guard) = listen();
        let _ = World::of(answer).cache.get(&origin()).await;
        let captured = captured.ours();
        let lines: Vec<_> = captured.iter().filter(|said| said.text.contains(sentence)).collect();
        assert!(
            matches!(lines[..], [said] if said.level == "debug" && said.text.contains("https://a.example")),
            "{captured:?}"
        );
    }
}
