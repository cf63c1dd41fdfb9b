//! What answers mean, row by row: RFC 9309 §2.3.1.

use std::sync::Arc;
use std::time::Duration;

use crate::parts::support::pacing::Lagging;
use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use crate::robots_cache::RobotsCache;
use abide_gate::Failure;
use abide_gate::robots_cache::{RobotsPolicy, Source};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_refusing_host_is_asked_after_1_2_4_up_to_60_minutes() {
    let world = World::of(Scripted::error(Failure::Connect));
    for step in [1, 2, 4, 8, 16, 32, 60, 60, 60_u32] {
        let before = world.fetch.count();
        let answer = world.ask().await;
        assert!(disallows_all(&answer));
        assert_eq!(world.fetch.count(), before + 1, "it is asked once per step");
        let wait = answer.retry_at().since(answer.asked_at());
        assert!(wait >= step * MINUTE * 9 / 10 && wait <= step * MINUTE * 11 / 10, "{step}: {wait:?}");
        // Meanwhile the answer is there at once, without a request.
        let asked = Instant::now();
        assert!(disallows_all(&world.ask().await));
        assert_eq!((world.fetch.count(), asked.elapsed()), (before + 1, Duration::ZERO));
        sleep(wait).await;
    }
}

#[tokio::test(start_paused = true)]
async fn head_and_body_share_one_deadline() {
    let seconds = Duration::from_secs;
    let started = Instant::now();
    let answer = World::of(Scripted::text(GOOD).head_after(seconds(20)).chunk_after(seconds(11))).ask().await;
    assert_eq!(answer.source(), Source::Unreachable(Failure::Timeout));
    assert_eq!(started.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_slots_is_not_part_of_the_deadline() {
    let fetch = ScriptedFetch::new(|request, _| {
        let answer = match request.hop() {
            hop @ 0..=4 => Scripted::redirect(&format!("/robots.txt?{hop}")),
            _ => Scripted::text(GOOD),
        };
        answer.slot_after(Duration::from_secs(29)).head_after(Duration::from_secs(4))
    });
    let started = Instant::now();
    assert!(is_good(&World::new(fetch).ask().await));
    assert_eq!(started.elapsed().as_secs(), 6 * 33);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_lags_behind_the_timers_ends_no_body() {
    let fetch = ScriptedFetch::always(Scripted::text(GOOD).chunk_after(Duration::from_secs(1)));
    let mut cache = RobotsCache::new(tokens(), Arc::new(fetch), RobotsPolicy::default());
    cache.clock = Arc::new(Lagging(Instant::now()));
    let cache = Arc::new(cache);
    sleep(Duration::from_secs(300)).await;
    assert!(is_good(&cache.get(&origin()).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_never_answers_is_ended() {
    let world = World::of(Scripted::status(200).slot_after(DAY));
    let started = Instant::now();
    assert_eq!(world.ask().await.source(), Source::Unreachable(Failure::Timeout));
    assert_eq!(started.elapsed().as_secs(), 30 + 60 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_429_allows_all_and_is_fetched_again_after_the_backoff() {
    let held = START.plus(17 * MINUTE);
    let world = World::of(Scripted::status(429).backed_off_until(held));
    let answer = world.ask().await;
    assert!(allows_all(&answer));
    assert_eq!((answer.retry_at(), answer.fresh_until(), answer.attempts()), (held, held, 0));
    sleep(17 * MINUTE - Duration::from_secs(1)).await;
    world.ask().await;
    assert_eq!(world.fetch.count(), 1, "not before");
    sleep(Duration::from_secs(2)).await;
    world.ask().await;
    assert_eq!(world.fetch.count(), 2, "then");
}

#[tokio::test(start_paused = true)]
async fn a_429_without_backoff_leaves_the_copy_in_force_for_a_minute() {
    let world = World::good_then(Scripted::status(429));
    world.ask().await;
    sleep(DAY).await;
    let answer = world.ask().await;
    assert!(is_good(&answer) && answer.source() == Source::LastGood, "{answer:?}");
    assert!(answer.retry_at().since(answer.asked_at()) <= MINUTE * 11 / 10);
    let shown = answer.explain(&"/closed".into()).to_string();
    assert!(
        shown.contains("of the last good copy of") && shown.ends_with("it returned status 429"),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_asks_to_wait_leaves_the_copy_in_force_whatever_its_status() {
    let later = |status| Scripted::status(status).header("retry-after", b"600");
    for (reply, is_kept) in [
        (Scripted::status(420), true),
        (Scripted::status(429), true),
        (Scripted::status(430), true),
        (Scripted::status(509), true),
        (later(403), true),
        (later(404), true),
        (later(410), true),
        (later(408), true),
        (Scripted::status(403), false),
        (Scripted::status(404), false),
        (Scripted::status(410), false),
        (Scripted::status(404).header("retry-after", b"soon"), false),
    ] {
        let shown = format!("{reply:?}");
        let world = World::good_then(reply);
        world.ask().await;
        sleep(DAY).await;
        let answer = world.ask().await;
        assert_eq!((is_good(&answer), allows_all(&answer)), (is_kept, !is_kept), "{shown}: {answer:?}");
        assert_eq!(answer.source() == Source::LastGood, is_kept, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_404_with_a_short_retry_after_is_asked_for_less_and_less_often() {
    let fetch = ScriptedFetch::new(|_, _| Scripted::status(404).header("retry-after", b"1"));
    let world = World::new(fetch);
    for _ in 0..24 * 60 {
        assert!(allows_all(&world.ask_and_settle().await));
        sleep(MINUTE).await;
    }
    assert!(world.fetch.count() < 40, "{}", world.fetch.count());
}

#[tokio::test(start_paused = true)]
async fn a_503_and_a_cautious_429_wait_for_the_later_backoff() {
    let held = START.plus(3 * HOUR);
    let fetch = || ScriptedFetch::always(Scripted::status(429).backed_off_until(held));
    let cautious = World::with_policy(fetch(), RobotsPolicy::cautious()).ask().await;
    assert!(disallows_all(&cautious), "by default a 429 allows all");
    assert_eq!(cautious.retry_at(), held);
    assert_eq!(World::of(Scripted::status(503).backed_off_until(held)).ask().await.retry_at(), held);
    let soon = World::of(Scripted::status(503).backed_off_until(START.plus(MINUTE / 2))).ask().await;
    assert!(soon.retry_at() >= START.plus(MINUTE * 9 / 10));
}

#[tokio::test(start_paused = true)]
async fn a_408_421_425_change_nothing_and_are_fetched_soon() {
    for status in [408, 421, 425] {
        for has_copy in [true, false] {
            let answer = Scripted::status(status);
            let world = if has_copy { World::good_then(answer) } else { World::of(answer) };
            if has_copy {
                world.ask().await;
                sleep(DAY).await;
            }
            for attempts in 1..=3 {
                let answer = world.ask().await;
                match has_copy {
                    true => assert!(is_good(&answer) && answer.source() == Source::LastGood, "{answer:?}"),
                    false => assert!(allows_all(&answer), "{status}"),
                }
                assert_eq!((answer.attempts(), answer.failing_since()), (attempts, None));
                sleep(answer.retry_at().since(answer.asked_at())).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_204_or_205_is_empty_whatever_coding_it_names() {
    for (status, coding) in [(204, "gzip"), (205, "gzip"), (204, "x-what"), (205, "br, gzip")] {
        let empty = Scripted::status(status).header("content-encoding", coding.as_bytes());
        assert!(allows_all(&World::of(empty).ask().await), "{status} without a body, in {coding}");
    }
}

#[tokio::test(start_paused = true)]
async fn html_without_rules_can_be_unreachable() {
    let page = Scripted::text("<!doctype html><p>Blocked</p>");
    let strict = RobotsPolicy::default().with_html_unreachable();
    let answer = World::with_policy(ScriptedFetch::always(page.clone()), strict.clone()).ask().await;
    assert_eq!(answer.source(), Source::Unreachable(Failure::Html));
    assert!(disallows_all(&answer));
    let with_rules = Scripted::text(format!("<html>\n{GOOD}</html>"));
    assert!(is_good(&World::with_policy(ScriptedFetch::always(with_rules.clone()), strict).ask().await));
    assert!(is_good(&World::of(with_rules).ask().await));
    let lenient = World::of(page).ask().await;
    assert!(allows_all(&lenient) && lenient.is_not_text());
    let shown = lenient.explain(&"/x".into()).to_string();
    assert!(shown.ends_with("which is an HTML page without rules"), "{shown}");
}
