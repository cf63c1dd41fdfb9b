//! Unreachable for a while, and for long: RFC 9309 §2.3.1.4.

use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{RobotsPolicy, Source};
use abide_gate::{Failure, WallMillis};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn the_last_good_copy_outlives_faults() {
    for (id, fault) in [
        ("503", Scripted::status(503)),
        ("reset", Scripted::error(Failure::Reset)),
        ("hang", Scripted::text("").stalls()),
        ("short body", Scripted::text("User-agent: *\nAllow: /\n").breaks()),
        ("coded", Scripted::text("User-agent: *\nAllow: /\n").header("content-encoding", b"gzip")),
    ] {
        let new = "User-agent: *\nDisallow: /open\n";
        let fetch = ScriptedFetch::new(move |_, times| match times {
            0 => Scripted::text(GOOD),
            1..=5 => fault.clone(),
            _ => Scripted::text(new),
        });
        let world = World::new(fetch);
        world.ask().await;
        sleep(DAY).await;
        // The answer was fresh for a day and nothing was refreshed ahead, so this one waits, and then the
        // copy stands in.
        let mut answer = world.ask().await;
        for attempt in 1..=5 {
            assert_eq!((answer.source(), answer.attempts()), (Source::LastGood, attempt), "{id}");
            assert!(is_good(&answer), "{id}");
            let shown = answer.explain(&"/closed".into()).to_string();
            assert!(shown.contains("last good copy of https://a.example/robots.txt"), "{shown}");
            sleep(answer.retry_at().since(world.wall())).await;
            answer = world.ask_and_settle().await;
        }
        assert_eq!(answer.source(), Source::Fresh, "{id}: one step after the fault");
        assert!(!allows(&answer, "/open") && answer.failing_since().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_truth_replaces_the_copy() {
    for (id, then) in [
        ("404", Scripted::status(404)),
        ("empty", Scripted::text("")),
        ("html", Scripted::text("<html><p>Hello</p>").header("content-type", b"text/html")),
    ] {
        let world = World::good_then(then);
        world.ask().await;
        sleep(DAY).await;
        assert!(allows_all(&world.ask().await), "{id}");
    }
}

/// Asks every `every` for `days`, and says what came out at last.
async fn after_days(world: &World, days: u32, every: Duration) -> Source {
    let end = world.wall().plus(DAY * days);
    while world.wall() < end {
        world.ask_and_settle().await;
        sleep(every).await;
    }
    world.ask_and_settle().await.source()
}

#[tokio::test(start_paused = true)]
async fn after_thirty_days_of_failures_without_a_copy_unavailable() {
    let world = World::of(Scripted::status(503));
    assert!(matches!(after_days(&world, 29, DAY).await, Source::Unreachable(_)));
    assert_eq!(after_days(&world, 2, DAY).await, Source::LongOutage);
    let answer = world.ask().await;
    assert!(allows_all(&answer));
    let shown = answer.explain(&"/x".into()).to_string();
    let start = "allowed, because https://a.example/robots.txt counts as unavailable, unreachable since ";
    assert!(shown.starts_with(start) && shown.ends_with(": it returned status 503"), "{shown}");
    // It is still asked on schedule, and the first answer ends it.
    let before = world.fetch.count();
    sleep(2 * HOUR).await;
    world.ask_and_settle().await;
    assert_eq!(world.fetch.count(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_being_used_after_thirty_days() {
    let world = World::good_then(Scripted::status(503));
    world.ask().await;
    assert_eq!(after_days(&world, 60, DAY).await, Source::LastGood);
    assert!(is_good(&world.ask().await));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_opens_nothing() {
    let world = World::of(Scripted::status(503));
    world.ask().await;
    for days in [31, 400, 3650] {
        world.clock.jump_to(START.plus(DAY * days));
        assert!(disallows_all(&world.ask().await), "{days} days ahead");
        world.clock.jump_to(START);
        assert!(disallows_all(&world.ask().await), "and back");
    }
    world.clock.jump_to(WallMillis::from_millis(0));
    assert!(disallows_all(&world.ask().await));
    world.clock.jump_to(WallMillis::from_millis(u64::MAX - 1));
    assert!(disallows_all(&world.ask().await));
}

#[tokio::test(start_paused = true)]
async fn two_processes_whose_clocks_differ_by_months_open_nothing() {
    let first = World::of(Scripted::status(503));
    for life in 0..100 {
        let world = World::with_store(first.fetch.clone(), first.store.clone());
        world.clock.jump_to(first.wall().plus(DAY * 60 * (life % 2)));
        assert!(disallows_all(&world.ask().await), "{life}");
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_attempts_take_twenty_days_however_often_asked() {
    let world = World::of(Scripted::status(503));
    // With a clock that lies by 30 days after an hour of failures, the attempts are still missing.
    assert!(matches!(after_days(&world, 1, 10 * MINUTE).await, Source::Unreachable(_)));
    world.clock.jump_to(START.plus(DAY * 40));
    assert!(matches!(after_days(&world, 14, 12 * HOUR).await, Source::Unreachable(_)));
    assert_eq!(after_days(&world, 10, 12 * HOUR).await, Source::LongOutage);
}

#[tokio::test(start_paused = true)]
async fn options_never_open_or_always() {
    let fault = || ScriptedFetch::always(Scripted::status(503));
    let never = World::with_policy(fault(), RobotsPolicy::default().with_lasting_disallow());
    assert!(matches!(after_days(&never, 90, DAY).await, Source::Unreachable(_)));
    let always = World::with_policy(fault(), RobotsPolicy::default().danger_allow_when_unreachable());
    assert_eq!(always.ask().await.source(), Source::LongOutage);
    assert!(allows_all(&always.ask().await));
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_costs_a_request_and_opens_nothing() {
    let world = World::of(Scripted::text(GOOD));
    world.ask().await;
    world.clock.jump_to(START.minus(DAY));
    assert!(is_good(&world.ask().await));
    assert_eq!(world.fetch.count(), 2);
    assert!(world.ask().await.asked_at() < START);

    // A schedule from a clock that was wrong does not delay us for a year.
    let world = World::of(Scripted::status(503));
    world.clock.jump_to(START.plus(DAY * 365));
    world.ask().await;
    world.clock.jump_to(START);
    world.ask().await;
    assert_eq!(world.fetch.count(), 2);
}

fn good_503_then(answer: Scripted) -> World {
    World::in_turn([Scripted::text(GOOD), Scripted::status(503), answer, Scripted::status(503)])
}

#[tokio::test(start_paused = true)]
async fn a_408_in_an_outage_leaves_the_copy_in_force() {
    let world = good_503_then(Scripted::status(408));
    world.ask().await;
    sleep(DAY).await;
    sleep(world.ask().await.retry_at().since(world.wall())).await;
    let momentary = world.ask_and_settle().await;
    assert!(is_good(&momentary) && momentary.source() == Source::LastGood, "{momentary:?}");
    sleep(momentary.retry_at().since(world.wall())).await;
    let before = tokio::time::Instant::now();
    let after = world.ask().await;
    assert_eq!((after.source(), before.elapsed()), (Source::LastGood, Duration::ZERO));
    assert!(is_good(&after));
}

#[tokio::test(start_paused = true)]
async fn a_429_in_an_outage_leaves_the_copy_in_force() {
    let held = START.plus(DAY * 2 + 3 * HOUR);
    let world = good_503_then(Scripted::status(429).backed_off_until(held));
    world.ask().await;
    sleep(DAY).await;
    sleep(world.ask().await.retry_at().since(world.wall())).await;
    let answer = world.ask_and_settle().await;
    assert!(is_good(&answer));
    assert_eq!(answer.fresh_until(), answer.asked_at().plus(DAY));
    sleep(DAY).await;
    let after = world.ask_and_settle().await;
    assert!(is_good(&after));
    assert_eq!(
        (after.source(), world.fetch.count()),
        (Source::LastGood, 3),
        "not fetched before the backoff ends"
    );
}

#[tokio::test(start_paused = true)]
async fn too_many_redirects_in_an_outage_give_way_to_the_copy() {
    let world = good_503_then(Scripted::redirect("/robots.txt"));
    world.ask().await;
    sleep(DAY).await;
    sleep(world.ask().await.retry_at().since(world.wall())).await;
    let momentary = world.ask_and_settle().await;
    assert!(allows_all(&momentary) && momentary.source() == Source::TooManyRedirects, "{momentary:?}");
    sleep(HOUR).await;
    let after = world.ask().await;
    assert!(is_good(&after) && after.source() == Source::LastGood, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_429_in_an_outage_without_a_copy_allows_for_a_day() {
    let held = START.plus(DAY * 2);
    let world = World::in_turn([Scripted::status(503), Scripted::status(429).backed_off_until(held)]);
    sleep(world.ask().await.retry_at().since(world.wall())).await;
    let momentary = world.ask().await;
    assert!(allows_all(&momentary) && momentary.source() == Source::Unavailable(429), "{momentary:?}");
    sleep(DAY).await;
    let after = world.ask().await;
    assert_eq!(after.source(), Source::Unreachable(Failure::Status(429)));
    assert!(disallows_all(&after) && world.fetch.count() == 2, "it is not fetched before the backoff ends");
}

/// Good rules, one 503 a day later, and from then on a file that closes the site.
fn closed_after_a_503() -> World {
    let closed = Scripted::text("User-agent: *\nDisallow: /\n");
    World::in_turn([Scripted::text(GOOD), Scripted::status(503), closed])
}

#[tokio::test(start_paused = true)]
async fn a_copy_unused_for_27_h_is_fetched_first() {
    for unasked in [27 * HOUR, 40 * DAY] {
        for is_restarted in [false, true] {
            let mut world = closed_after_a_503();
            world.ask().await;
            sleep(DAY).await;
            assert!(is_good(&world.ask().await));
            sleep(unasked).await;
            if is_restarted {
                let next = World::with_store(world.fetch.clone(), world.store.clone());
                next.clock.jump_to(world.wall());
                world = next;
            }
            assert!(world.cache.cached(&origin()).is_none(), "{unasked:?}: nothing that may be used");
            assert!(disallows_all(&world.ask().await), "{unasked:?}, restarted: {is_restarted}");
            assert_eq!(world.fetch.count(), 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_seen_within_27_h_is_refreshed_in_the_background() {
    let world = closed_after_a_503();
    world.ask().await;
    sleep(DAY).await;
    world.ask().await;
    sleep(27 * HOUR - MINUTE).await;
    assert!(is_good(&world.ask().await), "the copy, while it is asked for");
    world.settle().await;
    assert!(disallows_all(&world.ask().await));
}
