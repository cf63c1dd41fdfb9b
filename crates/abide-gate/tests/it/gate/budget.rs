//! The budget of a call for all its permits; clocks that panic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use abide_gate::pacing::{DeferReason, PacePolicy};
use abide_gate::testing::hosts;
use abide_gate::{Clock, DeniedKind, Gate, Host, ManualClock, SystemClock, WallMillis};
use tokio::time::Instant;
use url::Url;

const SECOND: Duration = Duration::from_secs(1);

fn one_second() -> PacePolicy {
    PacePolicy::default().danger_min_delay(SECOND)
}

/// Ten seconds between requests, and one has just gone out. robots.txt takes four seconds on the wire.
async fn busy_gate() -> (Gate, Url) {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /x").head_after(4 * SECOND));
    let gate = Gate::builder()
        .pace(one_second())
        .pace(one_second().with_delay(10 * SECOND))
        .build(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch));
    let url: Url = "https://a.example/page".parse().unwrap();
    drop(hosts::acquire(&gate, &url, Duration::ZERO, gate.max_wait()).await.unwrap());
    (gate, url)
}

#[tokio::test(start_paused = true)]
async fn waiting_for_robots_txt_uses_the_budget_its_wire_does_not() {
    let (gate, url) = busy_gate().await;
    let mut left = 25 * SECOND;
    assert!(gate.check(&url, &mut left).await.unwrap().is_allowed());
    assert!((14 * SECOND..=15 * SECOND).contains(&left), "{left:?} of 25 s");
    let before = left;
    gate.check(&url, &mut left).await.unwrap();
    assert_eq!(left, before, "what is known is not waited for");
}

#[tokio::test(start_paused = true)]
async fn joining_a_fetch_on_the_wire_costs_no_budget() {
    let (gate, url) = busy_gate().await;
    let first = tokio::spawn({
        let (gate, url) = (gate.clone(), url.clone());
        async move { gate.check(&url, &mut { 30 * SECOND }).await }
    });
    tokio::time::sleep(12 * SECOND).await;
    let mut left = 30 * SECOND;
    gate.check(&url, &mut left).await.unwrap();
    assert_eq!(left, 30 * SECOND);
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_budget_covers_robots_txt_and_page_together() {
    let (gate, url) = busy_gate().await;
    let error = gate.admit(&url, 15 * SECOND).await.unwrap_err();
    assert!(
        matches!(error.kind(), DeniedKind::Deferred { reason: DeferReason::Delay { .. } }),
        "{error:?}: ten seconds for robots.txt, and nearly ten for the page"
    );
    let (gate, url) = busy_gate().await;
    assert!(gate.admit(&url, 21 * SECOND).await.is_ok());
}

/// Panics at one call.
#[derive(Debug)]
struct Broken {
    calls: AtomicUsize,
    at: usize,
}

impl Broken {
    fn tick(&self) {
        assert_ne!(self.calls.fetch_add(1, Ordering::SeqCst), self.at, "the clock is broken");
    }
}

impl Clock for Broken {
    fn now(&self) -> std::time::Instant {
        self.tick();
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        self.tick();
        SystemClock.wall()
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_panics_at_any_call_refuses_the_url_at_most() {
    let mut refusals = 0;
    for at in 0..80 {
        let clock = Arc::new(Broken { calls: AtomicUsize::new(0), at });
        let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /x"));
        let gate = Gate::builder()
            .pace(one_second())
            .clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .build(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch));
        let url: Url = "https://a.example/page".parse().unwrap();
        let mut refused = 0;
        for _ in 0..3 {
            if let Err(error) = gate.admit(&url, 30 * SECOND).await {
                refused += 1;
                let is_named = matches!(error.kind(), DeniedKind::Panicked { callback: "clock" });
                assert!(is_named, "call {at}: {error:?}");
            }
            let _ = (gate.now(), gate.wall());
        }
        assert!(refused <= 1, "call {at}: no permit leaks");
        refusals += refused;
    }
    assert!(refusals > 0, "the pacer needs the clock");
}

/// Waits of ten seconds at most, and the host is held for twenty.
fn held_gate() -> (Gate, Url) {
    let gate = Gate::builder().pace(one_second()).max_wait(10 * SECOND).build(
        vec!["ExampleBot".parse().unwrap()],
        Arc::new(ScriptedFetch::always(Scripted::text("User-agent: *"))),
    );
    let url: Url = "https://a.example/page".parse().unwrap();
    gate.back_off(Host::of(&url).unwrap(), gate.wall().plus(20 * SECOND));
    (gate, url)
}

#[tokio::test(start_paused = true)]
async fn a_larger_budget_waits_longer_for_robots_txt() {
    for (budget, goes) in [(60, true), (12, false)] {
        let (gate, url) = held_gate();
        let began = Instant::now();
        let answer = gate.admit(&url, budget * SECOND).await;
        assert_eq!(answer.is_ok(), goes, "{budget} s: {answer:?}");
        let waited = began.elapsed();
        assert!(if goes { waited >= 20 * SECOND } else { waited.is_zero() }, "{budget} s: {waited:?}");
    }
    let (gate, url) = held_gate();
    let mut left = 60 * SECOND;
    gate.check(&url, &mut left).await.unwrap();
    assert!((39 * SECOND..=40 * SECOND).contains(&left), "{left:?} of 60 s");
}

/// A gate whose wall clock goes with the paused one.
fn timed_gate(fetch: ScriptedFetch) -> Gate {
    let clock = ManualClock::starting_at(WallMillis::from_millis(1_800_000_000_000));
    Gate::builder()
        .pace(one_second())
        .clock(Arc::new(clock))
        .build(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch))
}

/// robots.txt that answers 429 and asks for a second each time, `complaints` times. When it was asked is written down.
fn complaining(complaints: usize) -> (ScriptedFetch, Arc<Mutex<Vec<Instant>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let times_asked = Arc::clone(&asked);
    let fetch = ScriptedFetch::new(move |_, times| {
        times_asked.lock().unwrap().push(Instant::now());
        match times < complaints {
            true => Scripted::status(429).header("retry-after", b"1"),
            false => Scripted::text("User-agent: *\nDisallow: /x"),
        }
    });
    (fetch, asked)
}

#[tokio::test(start_paused = true)]
async fn a_robots_txt_that_always_answers_429_is_fetched_less_often() {
    let (fetch, asked) = complaining(usize::MAX);
    let gate = timed_gate(fetch);
    let url: Url = "https://a.example/page".parse().unwrap();
    let error = gate.admit(&url, 30 * SECOND).await.unwrap_err();
    assert!(matches!(error.kind(), DeniedKind::Deferred { .. }), "{error:?}");
    assert_eq!(asked.lock().unwrap().len(), 2, "the first time it is taken at its word");
}

#[tokio::test(start_paused = true)]
async fn repeated_429s_of_robots_txt_lengthen_the_backoff_to_an_hour() {
    const COMPLAINTS: usize = 10;
    let (fetch, asked) = complaining(COMPLAINTS);
    let gate = timed_gate(fetch);
    let url: Url = "https://a.example/page".parse().unwrap();
    let began = Instant::now();
    let admitted = loop {
        match gate.admit(&url, SECOND).await {
            Ok(_) => break Instant::now(),
            Err(error) => assert!(matches!(error.kind(), DeniedKind::Deferred { .. }), "{error:?}"),
        }
        // A caller that is too early changes nothing.
        tokio::time::sleep(10 * SECOND).await;
    };
    let asked = asked.lock().unwrap().clone();
    let delays: Vec<u64> = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(delays[0] <= 11, "{delays:?}");
    for (delay, least) in delays[1..].iter().zip([60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]) {
        // A backoff is longer by a tenth at most, as was the one that it doubles; and the next caller comes within ten seconds.
        assert!((least..=least * 2).contains(delay), "{delay} of at least {least}: {delays:?}");
        assert!(*delay <= 3_600 * 11 / 10 + 11, "{delays:?}");
    }
    assert_eq!((delays.len(), asked.len()), (COMPLAINTS, COMPLAINTS + 1));
    assert!(admitted >= *asked.last().unwrap() && admitted > began + 3 * 3_600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_a_second_is_a_second_each_time() {
    let fetch = ScriptedFetch::always(Scripted::text("User-agent: *\nDisallow: /x"));
    let gate = timed_gate(fetch);
    let url: Url = "https://a.example/page".parse().unwrap();
    let fields =
        http::HeaderMap::from_iter([(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"))]);
    let began = Instant::now();
    for _ in 0..10 {
        let (_, permit) = gate.admit(&url, 30 * SECOND).await.unwrap();
        permit.finish_with(http::StatusCode::TOO_MANY_REQUESTS, &fields);
    }
    assert!(began.elapsed() < 15 * SECOND, "{:?}", began.elapsed());
}
