//! Processes that share a store: who holds the lease of a fetch, for how long, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::HolderId;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const OTHER: HolderId = HolderId(42);

fn put_off() -> Scripted {
    deferred(START.plus(HOUR))
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_as_long_as_its_fetch_may_take() {
    let slowest = Scripted::text(GOOD).slot_after(59 * SECOND).head_after(29 * SECOND);
    let first = World::of(slowest);
    let second = World::with_store(first.fetch.clone(), first.store.clone());
    let (one, other) = tokio::join!(first.ask(), second.ask());
    assert!(is_good(&one) && is_good(&other));
    assert_eq!(first.fetch.count(), 1, "the second process waited for the first");
}

#[tokio::test(start_paused = true)]
async fn leaders_that_bring_nothing_are_waited_for_during_two_leases() {
    let world = World::of(Scripted::text(GOOD));
    let (store, clock) = (world.store.clone(), world.clock.clone());
    let leading = tokio::spawn(async move {
        loop {
            let wall = abide_gate::Clock::wall(&*clock);
            assert_eq!(store.lease(&origin(), OTHER, wall, 20 * SECOND).await.unwrap(), None);
            sleep(10 * SECOND).await;
        }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    assert!(is_good(&world.ask().await));
    assert_eq!(began.elapsed(), 190 * SECOND);
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deferred_fetch_gives_its_lease_back() {
    let first = World::of(put_off());
    first.cache.get(&origin()).await.unwrap_err();
    let second = World::with_store(ScriptedFetch::always(Scripted::text(GOOD)), first.store.clone());
    let began = Instant::now();
    assert!(is_good(&second.ask().await));
    assert_eq!(began.elapsed(), Duration::ZERO, "no other process is asking");
}

#[tokio::test(start_paused = true)]
async fn an_origin_invalidated_during_a_fetch_elsewhere_is_fetched_once() {
    let first = World::of(Scripted::text(GOOD).head_after(2 * SECOND));
    let second = World::with_store(first.fetch.clone(), first.store.clone());
    first.ask().await;
    sleep(DAY).await;
    let (one, other) = tokio::join!(first.ask(), async {
        sleep(SECOND).await;
        second.cache.invalidate(&origin()).await;
        second.ask().await
    });
    assert!(is_good(&one) && is_good(&other));
    assert_eq!(first.fetch.count(), 2, "the second process waited for the first");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_given_back_is_a_fault_of_the_store() {
    let store = Arc::new(Hooked::failing(|op| op == Op::Release));
    let world = World::with_store(ScriptedFetch::always(put_off()), store);
    world.cache.get(&origin()).await.unwrap_err();
    assert_eq!(world.cache.stats().robots_store_faults, 1);
}

#[tokio::test(start_paused = true)]
async fn after_all_clocks_were_set_back_one_process_fetches_for_all() {
    let first = World::of(Scripted::text(GOOD).head_after(2 * SECOND));
    let [second, third] = [0, 1].map(|_| World::with_store(first.fetch.clone(), first.store.clone()));
    let worlds = [&first, &second, &third];
    for world in worlds {
        assert!(is_good(&world.ask().await));
    }
    for world in worlds {
        world.clock.jump_to(START.minus(HOUR));
    }
    let _ = tokio::join!(first.ask(), second.ask(), third.ask());
    assert_eq!(first.fetch.count(), 2, "one for what was from the future then");
}
