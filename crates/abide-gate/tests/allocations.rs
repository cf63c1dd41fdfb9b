//! A decision on a known host allocates nothing. In a process of its own: the allocator counts for all
//! threads, so for other tests, too.

#![allow(clippy::restriction, reason = "a failed unwrap is a failed test")]

use futures_util::FutureExt;
use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Gate, Origin};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use url::Url;

#[path = "it/scripted.rs"]
mod scripted;

use scripted::{Scripted, ScriptedFetch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// For the whole gate: robots.txt and pacing. The files have 350 bytes, and a quarter of them are distinct.
#[tokio::test(flavor = "current_thread")]
async fn a_known_host_takes_900_bytes_at_most() {
    const HOSTS: usize = 10_000;
    let _alone = ALONE.lock().await;
    let fetch = ScriptedFetch::new(|request, _| {
        let host = request.url().host_str().unwrap_or_default();
        let site: u64 = host.bytes().filter(u8::is_ascii_digit).fold(0, |n, b| n * 10 + u64::from(b - b'0'));
        let rules: String = (0..12).map(|rule| format!("Disallow: /private/{}/{rule}\n", site / 4)).collect();
        Scripted::text(format!("User-agent: *\n{rules}")).header("etag", b"\"65f2c1a3-12c\"")
    });
    let gate = Gate::builder().build(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch.clone()));
    let origins: Vec<Origin> =
        (0..HOSTS).map(|n| format!("https://www.site{n}.example").parse().unwrap()).collect();
    // What does not grow with the hosts is there after the first; and what the script writes down goes.
    gate.prefetch(origins[..1_000].iter().cloned()).await;
    fetch.forget();
    let region = Region::new(ALLOCATOR);
    gate.prefetch(origins[1_000..].iter().cloned()).await;
    fetch.forget();
    let heap = region.change();
    let each = (heap.bytes_allocated - heap.bytes_deallocated) / (HOSTS - 1_000);
    println!("{each} bytes a host");
    assert!(each <= 900, "{each}");
}

#[tokio::test(flavor = "current_thread")]
async fn check_acquire_and_end_on_a_known_host_allocate_nothing() {
    let _alone = ALONE.lock().await;
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO);
    let rules = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /private/\n"));
    let gate = Gate::builder().pace(pace).build(vec!["ExampleBot".parse().unwrap()], Arc::new(rules));
    let url: Url = "https://example.org/a".parse().unwrap();
    gate.entry(&Origin::of(&url).unwrap()).await.unwrap();
    let headers = http::HeaderMap::new();
    let decide = || {
        let mut left = Duration::ZERO;
        let Some(Ok(mut verdict)) = gate.check(&url, &mut left).now_or_never() else { return false };
        let permit = gate.acquire(&url, &mut verdict, &mut left).now_or_never();
        let Some(Ok(permit)) = permit else { return false };
        permit.finish_with(http::StatusCode::OK, &headers);
        true
    };
    // The first permit of a host makes its entry.
    let permit = gate.admit(&url, Duration::from_secs(1)).await.unwrap();
    drop(permit);
    assert!(decide());

    let count = |_| {
        let region = Region::new(ALLOCATOR);
        assert!((0..100).all(|_| decide()));
        region.change().allocations
    };
    // The thread that started the test may allocate once more, at any time.
    assert_eq!((0..9).map(count).min(), Some(0));
}
