//! Around the network: the pacing that defers, the store that fails, other processes, observers that panic.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::event::Observers;
use crate::parts::support::pacing::BrokenClock;
use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use crate::robots_cache::RobotsCache;
use abide_gate::robots_cache::{RobotsEntry, RobotsPolicy, RobotsStore, Source};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Event, Failure, Gate};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_deferral_is_passed_on_and_is_no_attempt() {
    let then = START.plus(HOUR);
    let world = World::in_turn([deferred(then), deferred(then), Scripted::text(GOOD)]);
    for _ in 0..2 {
        assert_eq!(world.cache.get(&origin()).await.unwrap_err().retry_at, Some(then));
        assert_eq!(world.store.load(&origin()).await.unwrap(), None);
    }
    // The pacing decides again each time, since nothing was sent.
    assert!(is_good(&world.ask().await));
    assert_eq!((world.cache.stats().robots_deferred, world.cache.stats().robots_unreachable), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deferred_refresh_leaves_the_record_and_the_copy() {
    let world = World::good_then(deferred(START.plus(100 * DAY)));
    let first = world.ask().await;
    sleep(first.retry_at().since(world.wall())).await;
    assert!(is_good(&world.ask_and_settle().await));
    assert_eq!(world.store.load(&origin()).await.unwrap().as_ref(), Some(first.record()));
}

/// Bulk checks of a host that is held do not ask the pacing, and a store, for each of them.
#[tokio::test(start_paused = true)]
async fn a_deferred_refresh_is_not_tried_with_every_use() {
    let world = World::in_turn([Scripted::text(GOOD), deferred(START.plus(DAY)), Scripted::status(404)]);
    let first = world.ask().await;
    sleep(first.retry_at().since(world.wall())).await;
    for _ in 0..100 {
        assert!(is_good(&world.ask_and_settle().await));
    }
    assert_eq!(world.fetch.count(), 2);
    sleep(DAY).await;
    assert!(allows_all(&world.ask_and_settle().await));
}

/// A story of a site and a crawler, day by day: what the site answers, and what must follow.
type Story = (fn(usize) -> Scripted, &'static [fn(&Arc<RobotsEntry>) -> bool]);

const STORIES: [Story; 2] = [
    // Well, and then down: the copy goes on being used.
    (
        |times| if times == 0 { Scripted::text(GOOD) } else { Scripted::status(503) },
        &[is_good, is_good, is_good, is_good],
    ),
    // Down from the start: nothing is known, and nothing is opened. Then it is back.
    (
        |times| if times < 4 { Scripted::status(503) } else { Scripted::text(GOOD) },
        &[disallows_all, disallows_all, disallows_all, disallows_all, is_good, is_good],
    ),
];

/// Of the operation with this number, 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    operation: usize,
    /// And of those that follow it.
    goes_on: bool,
    panics: bool,
}

/// Plays a story with a store that fails so. How many operations there were.
async fn play((site, days): Story, fault: Fault) -> usize {
    let operations = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&operations);
    let store = Hooked::failing(move |_| {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = number == fault.operation || (fault.goes_on && number > fault.operation);
        assert!(!fails || !fault.panics, "the store's own mistake");
        fails
    });
    let world = World::with_store(ScriptedFetch::new(move |_, times| site(times)), Arc::new(store));
    for (day, is_right) in days.iter().enumerate() {
        let answer = world.ask_and_settle().await;
        assert!(is_right(&answer), "{fault:?}, day {day}: {answer:?}");
        sleep(DAY).await;
    }
    assert_eq!(world.fetch.count(), days.len(), "{fault:?}: asked once a day");
    operations.load(Ordering::SeqCst)
}

/// Every operation of a story fails once, and once for good (§6 of the reliability requirements: for every
/// k).
#[tokio::test(start_paused = true)]
async fn a_store_fault_at_any_operation_opens_nothing() {
    for story in STORIES {
        let healthy = play(story, Fault::default()).await;
        assert!(healthy >= 2 * story.1.len(), "a day takes some operations: {healthy}");
        for operation in 1..=healthy {
            for (goes_on, panics) in [(false, false), (false, true), (true, false), (true, true)] {
                let operations = play(story, Fault { operation, goes_on, panics }).await;
                assert!(operations >= operation, "operation {operation} has failed");
            }
        }
    }
}

/// Not asked for by a fetch: the caller himself asks the store.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_at_an_invalidation_changes_nothing() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let store = Arc::clone(&is_broken);
    let store = Hooked::failing(move |_| {
        assert!(!store.load(Ordering::SeqCst), "the store's own mistake");
        false
    });
    let world = World::with_store(ScriptedFetch::always(Scripted::text(GOOD)), Arc::new(store));
    world.ask().await;
    is_broken.store(true, Ordering::SeqCst);
    world.cache.invalidate(&origin()).await;
    assert!(is_good(&world.ask().await));
    assert_eq!(world.fetch.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_machines_clock_stands_in_for_one_that_panics() {
    let fetch = Arc::new(ScriptedFetch::always(Scripted::text(GOOD)));
    let clock = Arc::new(BrokenClock(true.into()));
    let settings = Gate::builder().clock(clock.clone());
    let cache = Arc::new(settings.robots_cache(tokens(), fetch, RobotsPolicy::default()));
    assert!(is_good(&cache.get(&origin()).await.unwrap()));
    let store = Arc::new(MemoryStore::new().with_clock(clock));
    abide_gate::testing::hosts::conformance(store, sleep).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_not_waited_for_long() {
    let store = Arc::new(Hooked::new(|_| std::future::pending()));
    let world = World::with_store(ScriptedFetch::always(Scripted::text(GOOD)), store);
    let started = Instant::now();
    assert!(is_good(&world.ask().await));
    assert_eq!(started.elapsed().as_secs(), 4, "two seconds each for load and save");
}

#[tokio::test(start_paused = true)]
async fn records_that_cannot_be_used_are_absent() {
    let good = sample_record(&"https://b.example".parse().unwrap(), START, "");
    let large = sample_record(&origin(), START, vec![b'\n'; 600_000]);
    for record in [good, large] {
        let world = World::of(Scripted::text(GOOD));
        world.store.save(&origin(), &record).await.unwrap();
        assert!(is_good(&world.ask().await));
        assert_eq!(world.fetch.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_with_the_stored_record() {
    let store: Arc<dyn RobotsStore> = Arc::new(MemoryStore::new());
    let world = || {
        let fetch = ScriptedFetch::new(|request, _| match request.is_conditional() {
            true => Scripted::status(304),
            false => Scripted::text(GOOD).header("etag", b"\"1\""),
        });
        World::with_store(fetch, store.clone())
    };
    let before = world();
    before.ask().await;
    let after = world();
    assert!(is_good(&after.ask().await));
    assert_eq!(after.fetch.count(), 0, "no request");
    after.clock.jump_to(START.plus(2 * DAY));
    assert_eq!(after.ask().await.source(), Source::Revalidated, "and its validators are known");
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_an_outage_serves_the_copy_at_once() {
    let slow = Scripted::status(500).head_after(Duration::from_secs(20));
    // The pacing defers before the caller has even been woken, and that is no attempt.
    for (answer, attempts) in [(slow, 2), (deferred(START.plus(100 * DAY)), 1)] {
        let before = World::good_then(Scripted::status(500));
        before.ask().await;
        sleep(DAY).await;
        let again = before.ask().await.retry_at();
        let after = World::with_store(ScriptedFetch::always(answer), before.store);
        after.clock.jump_to(again);
        let asked = Instant::now();
        let answer = after.ask().await;
        assert_eq!((answer.source(), asked.elapsed()), (Source::LastGood, Duration::ZERO));
        after.settle().await;
        assert_eq!((after.fetch.count(), after.ask().await.attempts()), (1, attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn observers_get_changes_and_their_panics_are_survived() {
    let observed = Arc::new(Mutex::new(Vec::new()));
    let fetch = ScriptedFetch::in_turn([
        Scripted::text(GOOD),
        Scripted::text(GOOD),
        Scripted::text("User-agent: *\nDisallow: /\n"),
        Scripted::error(Failure::Dns),
        Scripted::status(404),
    ]);
    let observer = {
        let observed = Arc::clone(&observed);
        move |event: &Event<'_>| {
            let name = match event {
                Event::RobotsAnswered { entry: answer } if answer.source() == Source::LastGood => "last good",
                Event::RobotsAnswered { .. } => "asked",
                Event::RobotsChanged { old: None, .. } => "first",
                Event::RobotsChanged { entry: answer, .. } if answer.copy().is_none() => "gone",
                Event::RobotsChanged { old: Some(old), entry: answer } => {
                    assert_eq!(old.body(), GOOD.as_bytes());
                    assert_ne!(answer.copy().unwrap().body(), old.body());
                    "changed"
                }
                Event::RobotsAttempted { .. } => return,
                _ => "other",
            };
            observed.lock().unwrap().push(name);
            assert_ne!(name, "asked", "an observer that panics");
        }
    };
    let mut cache = RobotsCache::new(tokens(), Arc::new(fetch), RobotsPolicy::default());
    cache.clock = Arc::new(abide_gate::ManualClock::starting_at(START));
    cache.observers = Observers::new(vec![Arc::new(observer)]);
    let cache = Arc::new(cache);
    for _ in 0..5 {
        cache.get(&origin()).await.unwrap();
        sleep(DAY).await;
    }
    let observed = observed.lock().unwrap().clone();
    assert_eq!(observed, ["asked", "first", "asked", "asked", "changed", "last good", "asked", "gone"]);
}

#[tokio::test(start_paused = true)]
async fn totals_add_up() {
    let good = Scripted::text(GOOD).header("etag", b"\"1\"");
    let world = World::in_turn([good, Scripted::status(304), Scripted::status(503), Scripted::status(404)]);
    for _ in 0..4 {
        world.ask_and_settle().await;
        sleep(DAY).await;
    }
    let stats = world.cache.stats();
    assert_eq!((stats.robots_read, stats.robots_revalidated), (1, 1));
    assert_eq!((stats.robots_unavailable, stats.robots_unreachable, stats.robots_last_good), (1, 1, 1));
    assert_eq!((stats.robots_requests, stats.robots_fetches), (4, 4));
    assert_eq!(stats.robots_bytes, GOOD.len() as u64);
}

/// The store kept an older record than memory has: it must not bring back a copy that was taken away.
#[tokio::test(start_paused = true)]
async fn the_last_fetch_counts_though_it_could_not_be_saved() {
    let fetch = ScriptedFetch::in_turn([Scripted::text(GOOD), Scripted::status(404), Scripted::status(503)]);
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&is_full);
    let store = Hooked::failing(move |op| op == Op::Save && disk.load(Ordering::SeqCst));
    let world = World::with_store(fetch, Arc::new(store));
    world.ask().await;
    is_full.store(true, Ordering::SeqCst);
    sleep(DAY).await;
    assert!(allows_all(&world.ask().await));
    sleep(DAY).await;
    assert!(disallows_all(&world.ask().await));
}
