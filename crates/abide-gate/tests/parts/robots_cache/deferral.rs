//! How long a deferral counts, to the millisecond. The request had gone out, to be redirected to a host that
//! is backed off: until that is over it would be sent for nothing.

use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use tokio::time::sleep;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The host that it is redirected to is backed off for an hour, as the first request finds.
async fn world() -> World {
    let world = World::new(ScriptedFetch::new(|request, times| match (request.hop(), times) {
        (0, _) => Scripted::redirect("https://b.example/robots.txt"),
        (_, 0) => deferred(START.plus(HOUR)),
        _ => Scripted::text(GOOD),
    }));
    assert!(is_refused(&world).await);
    world
}

async fn is_refused(world: &World) -> bool {
    match world.cache.get(&origin()).await {
        Err(refusal) => refusal.retry_at == Some(START.plus(HOUR)),
        Ok(entry) => {
            assert!(is_good(&entry));
            false
        }
    }
}

/// Also if the clock is set back meanwhile.
#[tokio::test(start_paused = true)]
async fn a_deferral_is_over_at_its_end_and_not_a_millisecond_before() {
    for back in [Duration::ZERO, 20 * HOUR] {
        let world = world().await;
        world.clock.jump_to(START.minus(back));
        sleep(HOUR - MILLISECOND).await;
        assert!(is_refused(&world).await, "{back:?}");
        sleep(MILLISECOND).await;
        assert!(!is_refused(&world).await, "{back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deferral_that_is_over_does_not_come_back_with_the_clock() {
    let world = world().await;
    sleep(HOUR).await;
    assert!(!is_refused(&world).await);
    // By then the answer is from the future, and asked for again.
    world.clock.jump_to(START);
    assert!(!is_refused(&world).await);
    assert_eq!(world.fetch.count(), 5, "twice with the redirect; what was deferred goes on after it");
}

#[tokio::test(start_paused = true)]
async fn an_invalidated_origin_is_fetched_though_it_was_deferred() {
    let world = world().await;
    assert!(is_refused(&world).await);
    world.cache.invalidate(&origin()).await;
    assert!(!is_refused(&world).await);
}
