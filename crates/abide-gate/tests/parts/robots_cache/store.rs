//! The memory store passes the suite of stores; a slow one loses nothing.

use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abide_gate::robots_cache::{RobotsPolicy, RobotsStore, Source};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::robots_cache::conformance;
use abide_gate::{Origin, StoreError};
use tokio::time::sleep;

use crate::parts::support::robots_cache::*;

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance(|| async { MemoryStore::new() }).await;
}

/// Old rules, new rules, and then the site is down.
#[tokio::test(start_paused = true)]
async fn a_fetch_during_an_invalidation_is_not_lost() {
    let fetch = ScriptedFetch::in_turn([
        Scripted::text("User-agent: *\nAllow: /\n"),
        Scripted::text(GOOD).head_after(Duration::from_millis(200)),
        Scripted::status(503),
    ]);
    let late = Arc::new(AtomicU64::new(0));
    let next = Arc::clone(&late);
    // The next record is written late.
    let store = Arc::new(Hooked::new(move |op| {
        let millis = if op == Op::Save { next.swap(0, Ordering::SeqCst) } else { 0 };
        async move {
            sleep(Duration::from_millis(millis)).await;
            Ok(())
        }
    }));
    let world = World::with_store(fetch, store.clone());
    world.ask().await;
    sleep(DAY).await;
    let (renewed, ()) = tokio::join!(world.ask(), async {
        sleep(Duration::from_millis(100)).await;
        late.store(500, Ordering::SeqCst);
        world.cache.invalidate(&origin()).await;
    });
    assert!(is_good(&renewed));
    world.settle().await;
    let answer = world.ask_and_settle().await;
    assert_eq!(answer.source(), Source::LastGood, "it was fetched again, as the record says: {answer:?}");
    assert!(is_good(&answer), "by the last good copy: {answer:?}");
    let stored = store.load(&origin()).await.unwrap().unwrap();
    assert_eq!(stored.copy().unwrap().body(), GOOD.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn the_hot_cache_is_bounded_by_weight_whatever_callers_hold() {
    for holds in [false, true] {
        the_hot_cache_is_bounded(holds).await;
    }
}

async fn the_hot_cache_is_bounded(holds: bool) {
    let small = RobotsPolicy::default().with_memory_max(0);
    let fetch = ScriptedFetch::new(|request, _| {
        let filler = "x".repeat(150 * 1024);
        Scripted::text(format!("User-agent: *\nDisallow: /closed\n# {} {filler}", request.url()))
    });
    let world = World::with_policy(fetch, small);
    let origins: Vec<Origin> = (0..200).map(|n| format!("https://h{n}.example").parse().unwrap()).collect();
    let mut held = Vec::new();
    for origin in &origins {
        held.extend(Some(world.cache.get(origin).await.unwrap()).filter(|_| holds));
    }
    let at_hand = origins.iter().filter(|origin| world.cache.cached(origin).is_some()).count();
    assert!((20..30).contains(&at_hand), "{at_hand} of 150 KiB each, where 4 MiB may be kept");
    for origin in &origins {
        assert!(is_good(&world.cache.get(origin).await.unwrap()));
    }
    assert_eq!(world.fetch.count(), origins.len(), "the store has them");
}

#[test]
fn what_a_store_says_is_escaped() {
    let error = StoreError::new("disk\n\u{1b}[31mfull");
    assert_eq!(error.to_string(), "disk\\n\\u{1b}[31mfull");
    assert_eq!(format!("{error:?}"), "StoreError(disk\\n\\u{1b}[31mfull)");
}
