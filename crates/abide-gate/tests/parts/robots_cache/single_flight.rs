//! One fetch for all callers, cancelled or not.

use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use crate::robots_cache::RobotsCache;
use abide_gate::DeniedKind;
use std::sync::Arc;
use std::time::Duration;

use abide_gate::Origin;
use abide_robots::Target;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::parts::support::robots_cache::*;

fn cache(fetch: &ScriptedFetch) -> Arc<RobotsCache> {
    World::new(fetch.clone()).cache
}

fn slow() -> Scripted {
    Scripted::text("User-agent: *\nDisallow: /x").head_after(Duration::from_millis(150))
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_for_each_of_100_origins_make_100_requests() {
    let fetch = ScriptedFetch::always(slow());
    let cache = cache(&fetch);
    let mut callers = JoinSet::new();
    for n in 0..100_000 {
        let cache = cache.clone();
        let origin: Origin = format!("https://h{}.example", n % 100).parse().unwrap();
        callers.spawn(async move { cache.get(&origin).await.unwrap() });
    }
    while let Some(answer) = callers.join_next().await {
        let answer = answer.unwrap();
        let known = cache.cached(answer.origin()).unwrap();
        assert!(Arc::ptr_eq(&answer, &known), "all get the same answer");
    }
    assert_eq!((fetch.count(), fetch.in_flight_max(), cache.stats().robots_in_flight), (100, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_leader_does_not_cancel_the_fetch() {
    let fetch = ScriptedFetch::always(slow());
    let cache = cache(&fetch);
    let caller = || {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get(&origin()).await.is_ok() })
    };
    let leader = caller();
    sleep(Duration::from_millis(50)).await;
    let follower = caller();
    sleep(Duration::from_millis(50)).await;
    leader.abort();
    assert!(follower.await.unwrap());
    assert_eq!(fetch.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_time_is_not_refused_for_a_wait_of_an_instant() {
    let fetch = ScriptedFetch::new(|request, _| {
        request.permit_wait.begin(Instant::now().into_std());
        slow().head_after(Duration::from_millis(40))
    });
    assert!(cache(&fetch).get_within(&origin(), &mut { Duration::ZERO }).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_flight_is_interrupted_and_the_next_caller_starts_again() {
    let fetch = ScriptedFetch::in_turn([Scripted::panic(), slow()]);
    let cache = cache(&fetch);
    let refused = cache.get(&origin()).await.unwrap_err();
    assert!(matches!(refused.kind, DeniedKind::Interrupted), "{refused:?}");
    assert_eq!(cache.stats().robots_in_flight, 0);
    assert_eq!(cache.stats().robots_lost, 1);
    assert!(cache.get(&origin()).await.unwrap().is_allowed(&Target::new("/y")));
}
