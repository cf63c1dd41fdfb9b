//! The budget of a call for all its permits; clocks that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{SECOND, built, clock, gate, one_second, origin, page, url};
use abide_gate::pacing::DeferReason;
use abide_gate::robots_cache::{RobotsPolicy, Source};
use abide_gate::testing::hosts;
use abide_gate::{Clock, DeniedKind, Event, Gate, Host, SignRequest, SystemClock, WallMillis};
use http::{HeaderMap, Method, StatusCode};
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;

fn rules() -> Scripted {
    Scripted::text("User-agent: *\nDisallow: /x")
}

/// Ten seconds between requests, and one has just gone out. robots.txt takes four seconds on the wire.
async fn busy_gate() -> Gate {
    let fetch = ScriptedFetch::always(rules().head_after(4 * SECOND));
    let gate = built(Gate::builder().pace(one_second().with_delay(10 * SECOND)), &fetch);
    drop(hosts::acquire(&gate, &page(), Duration::ZERO, gate.max_wait()).await.unwrap());
    gate
}

#[tokio::test(start_paused = true)]
async fn waiting_for_robots_txt_uses_the_budget_its_wire_does_not() {
    let gate = busy_gate().await;
    let mut left = 25 * SECOND;
    assert!(gate.check(&page(), &mut left).await.unwrap().is_allowed());
    assert!((14 * SECOND..=15 * SECOND).contains(&left), "{left:?} of 25 s");
    let before = left;
    gate.check(&page(), &mut left).await.unwrap();
    assert_eq!(left, before, "what is known is not waited for");
}

#[tokio::test(start_paused = true)]
async fn joining_a_fetch_on_the_wire_costs_no_budget() {
    let gate = busy_gate().await;
    let other = gate.clone();
    let first = tokio::spawn(async move { other.check(&page(), &mut { 30 * SECOND }).await });
    tokio::time::sleep(12 * SECOND).await;
    let mut left = 30 * SECOND;
    gate.check(&page(), &mut left).await.unwrap();
    assert_eq!(left, 30 * SECOND);
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_budget_covers_robots_txt_and_page_together() {
    let error = busy_gate().await.admit(&page(), 15 * SECOND).await.unwrap_err();
    assert!(
        matches!(error.kind(), DeniedKind::Deferred { reason: DeferReason::Delay { .. } }),
        "{error:?}: ten seconds for robots.txt, and nearly ten for the page"
    );
    assert!(busy_gate().await.admit(&page(), 21 * SECOND).await.is_ok());
}

/// Repeats what was refused, and panics at a 402.
#[derive(Debug)]
struct Repeating;

impl SignRequest for Repeating {
    fn sign(
        &self,
        _: &Method,
        _: &Url,
        _: &mut HeaderMap,
        _: WallMillis,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn asked(&self, status: StatusCode, _: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
        assert_ne!(status, 402, "the signer is broken");
        status.is_client_error().then(|| Arc::new(Self) as Arc<_>)
    }
}

#[tokio::test(start_paused = true)]
async fn a_signed_repetition_has_the_time_that_is_left() {
    let refused = |status| Scripted::status(status).head_after(10 * SECOND);
    for (first, requests, is_reached) in [
        (refused(403), 2, true),
        (refused(403).head_after(20 * SECOND), 2, false),
        (refused(429).header("retry-after", b"5"), 2, true),
        // The host is backed off for longer than a request may wait.
        (refused(429), 1, true),
        (refused(402), 1, true),
    ] {
        let what = format!("{first:?}");
        let second = rules().head_after(5 * SECOND).chunk_after(5 * SECOND);
        let fetch = ScriptedFetch::by_url([("https://a.example/robots.txt", vec![first, second])]);
        let gate = built(Gate::builder().pace(one_second()).sign_requests(Arc::new(Repeating)), &fetch);
        let entry = gate.entry(&origin()).await.unwrap();
        let found = (fetch.count(), !matches!(entry.source(), Source::Unreachable(_)));
        assert_eq!(found, (requests, is_reached), "{what}");
    }
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
        let gate = built(Gate::builder().pace(one_second()).clock(clock), &ScriptedFetch::always(rules()));
        let mut refused = 0;
        for _ in 0..3 {
            if let Err(error) = gate.admit(&page(), 30 * SECOND).await {
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

/// Calls wait ten seconds at most, and the host is backed off for twenty.
fn backed_off_gate() -> Gate {
    let builder = Gate::builder().pace(one_second()).max_wait(10 * SECOND).clock(clock());
    let gate = built(builder, &ScriptedFetch::always(rules()));
    gate.back_off(Host::of(&page()).unwrap(), gate.wall().plus(20 * SECOND));
    gate
}

#[tokio::test(start_paused = true)]
async fn a_larger_budget_waits_longer_for_robots_txt() {
    for (budget, goes) in [(60, true), (12, false)] {
        let began = Instant::now();
        let answer = backed_off_gate().admit(&page(), budget * SECOND).await;
        assert_eq!(answer.is_ok(), goes, "{budget} s: {answer:?}");
        let waited = began.elapsed();
        assert!(if goes { waited >= 20 * SECOND } else { waited.is_zero() }, "{budget} s: {waited:?}");
    }
    let mut left = 60 * SECOND;
    backed_off_gate().check(&page(), &mut left).await.unwrap();
    assert!((39 * SECOND..=40 * SECOND).contains(&left), "{left:?} of 60 s");
}

#[tokio::test(start_paused = true)]
async fn all_hops_of_a_robots_txt_wait_as_long_as_one_call() {
    let hop = |from: &'static str, to: &str| (from, vec![Scripted::redirect(to)]);
    let fetch = ScriptedFetch::by_url([
        hop("https://a.example/robots.txt", "/1"),
        hop("https://a.example/1", "/2"),
        hop("https://a.example/2", "/3"),
        ("https://a.example/3", vec![rules()]),
    ]);
    let gate = built(Gate::builder().pace(one_second().with_delay(25 * SECOND)).clock(clock()), &fetch);
    let began = Instant::now();
    let error = gate.check(&page(), &mut { 30 * SECOND }).await.unwrap_err();
    assert!(matches!(error.kind(), DeniedKind::Deferred { .. }), "{error:?}");
    assert!(began.elapsed() <= 30 * SECOND, "{:?}", began.elapsed());
    while gate.check(&page(), &mut { 30 * SECOND }).await.is_err() {
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(fetch.count(), 4, "it goes on where it was");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_place_among_the_fetches_counts_and_ends() {
    let fetch = ScriptedFetch::always(rules().stalls());
    let builder = Gate::builder().pace(one_second()).robots(RobotsPolicy::default().with_fetches_max(1));
    let gate = built(builder.clock(clock()), &fetch);
    for host in ["b", "c"] {
        let (gate, url) = (gate.clone(), url(&format!("https://{host}.example/")));
        tokio::spawn(async move { gate.check(&url, &mut { 30 * SECOND }).await.map(drop) });
    }
    tokio::task::yield_now().await;
    let (began, mut left) = (Instant::now(), 30 * SECOND);
    let error = gate.check(&page(), &mut left).await.unwrap_err();
    assert!(matches!(error.kind(), DeniedKind::Deferred { reason: DeferReason::Robots }), "{error:?}");
    assert_eq!((began.elapsed(), left), (30 * SECOND, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn at_most_512_robots_txt_are_fetched_at_a_time_in_order() {
    let fetch = ScriptedFetch::always(rules().head_after(SECOND));
    let (permits, counter) = (Arc::new(AtomicUsize::new(0)), Ordering::SeqCst);
    let observed = Arc::clone(&permits);
    let observer = move |event: &Event<'_>| {
        observed.fetch_add(matches!(event, Event::Granted { .. }).into(), counter);
    };
    let gate = built(Gate::builder().observer(Arc::new(observer)), &fetch);
    let began = Instant::now();
    let callers: JoinSet<bool> = (0..5_120)
        .map(|n| (gate.clone(), format!("https://h{n}.example").parse().unwrap()))
        .map(|(gate, origin)| async move { gate.entry(&origin).await.is_ok() })
        .collect();
    assert!(callers.join_all().await.iter().all(|is_ok| *is_ok));
    assert_eq!(permits.load(counter), 5_120, "each is reported once");
    let mut waves = std::collections::BTreeMap::<u64, usize>::new();
    for asked in fetch.asked() {
        *waves.entry(asked.at.duration_since(began).as_secs()).or_default() += 1;
    }
    assert_eq!(waves.into_iter().collect::<Vec<_>>(), (0..10).map(|wave| (wave, 512)).collect::<Vec<_>>());
    assert!(fetch.urls()[..512].contains(&"https://h0.example/robots.txt".to_owned()));
}

/// Whether their head or their body is what does not come.
#[tokio::test(start_paused = true)]
async fn origins_that_drip_their_robots_txt_delay_themselves_alone() {
    for (slow, within) in [(64, SECOND), (400, SECOND), (4_000, 60 * SECOND)] {
        let fetch = ScriptedFetch::new(|request, _| {
            match request.url().host_str().unwrap_or_default().as_bytes().first() {
                Some(b's') => rules().stalls(),
                Some(b'd') => rules().head_after(Duration::from_secs(20)),
                _ => rules(),
            }
        });
        // Those that come later wait for a place, so that they are behind the slow ones.
        let builder = Gate::builder().pace(one_second()).max_wait(60 * SECOND);
        let gate = built(builder.clock(clock()), &fetch);
        for n in 0..slow {
            let kind = if n % 2 == 0 { "s" } else { "d" };
            let (gate, origin) = (gate.clone(), format!("https://{kind}{n}.example").parse().unwrap());
            tokio::spawn(async move { gate.entry(&origin).await.map(drop) });
        }
        tokio::task::yield_now().await;
        let began = Instant::now();
        let honest: JoinSet<bool> = (0..10)
            .map(|n| (gate.clone(), format!("https://h{n}.example").parse().unwrap()))
            .map(|(gate, origin)| async move { gate.entry(&origin).await.is_ok() })
            .collect();
        assert!(honest.join_all().await.into_iter().all(|is_ok| is_ok), "beside {slow}");
        assert!(began.elapsed() < within, "beside {slow} after {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_for_its_delay_takes_no_place_among_the_fetches() {
    let fetch = ScriptedFetch::always(rules());
    let pace = one_second().with_delay(20 * SECOND);
    let robots = RobotsPolicy::default().with_fetches_max(1);
    let gate = built(Gate::builder().pace(pace).robots(robots).clock(clock()), &fetch);
    gate.entry(&origin()).await.unwrap();
    gate.invalidate(&origin()).await;
    let (began, [waits, is_free]) = (Instant::now(), [origin(), "https://b.example".parse().unwrap()]);
    let ((), ()) = tokio::join!(
        async { assert_eq!((gate.entry(&waits).await.is_ok(), began.elapsed()), (true, 20 * SECOND)) },
        async { assert_eq!((gate.entry(&is_free).await.is_ok(), began.elapsed()), (true, Duration::ZERO)) },
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_budget_ends_before_a_robots_txt_that_keeps_the_crawl_delay() {
    let gate = gate(&ScriptedFetch::always(Scripted::text("User-agent: *\nCrawl-delay: 10")));
    drop(gate.admit(&page(), 30 * SECOND).await.unwrap());
    gate.invalidate(&origin()).await;
    let began = Instant::now();
    let error = gate.check(&page(), &mut { 2 * SECOND }).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::ZERO, "{error:?}");
    assert_eq!(error.retry_at(), Some(gate.wall().plus(10 * SECOND).to_system_time()));
}

/// The thread stands still for 5 ms before one reading of the wall clock.
#[derive(Debug)]
struct Interrupted {
    began: Instant,
    calls: AtomicUsize,
    at: usize,
    latest: AtomicU64,
}

impl Interrupted {
    /// Milliseconds since the start. tokio's clock, which is paused, catches up later.
    fn elapsed(&self, pause: u64) -> u64 {
        let now = self.began.elapsed().as_millis() as u64 + pause;
        self.latest.fetch_max(now, Ordering::SeqCst).max(now)
    }
}

impl Clock for Interrupted {
    fn now(&self) -> std::time::Instant {
        self.began.into_std() + Duration::from_millis(self.elapsed(0))
    }

    fn wall(&self) -> WallMillis {
        let is_interrupted = self.calls.fetch_add(1, Ordering::SeqCst) == self.at;
        WallMillis::from_millis(1_800_000_000_000 + self.elapsed(if is_interrupted { 5 } else { 0 }))
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_429_robots_txt_is_fetched_before_the_page() {
    for at in 0..40 {
        let (began, calls, latest) = (Instant::now(), AtomicUsize::new(0), AtomicU64::new(0));
        let clock = Arc::new(Interrupted { began, calls, at, latest });
        let gate = built(Gate::builder().pace(one_second()).clock(clock), &throttling(1));
        let admitted = gate.admit(&url("http://a.example/x"), 30 * SECOND).await;
        let Err(denied) = admitted else { panic!("interrupted at reading {at}: {admitted:?}") };
        assert!(denied.is_disallowed(), "interrupted at reading {at}: {denied:?}");
    }
}

/// robots.txt returns 429 so many times, and asks for a second each time.
fn throttling(throttles: usize) -> ScriptedFetch {
    ScriptedFetch::new(move |_, times| match times < throttles {
        true => Scripted::status(429).header("retry-after", b"1"),
        false => rules(),
    })
}

#[tokio::test(start_paused = true)]
async fn repeated_429s_of_robots_txt_lengthen_the_backoff_to_an_hour() {
    const THROTTLES: usize = 10;
    let fetch = throttling(THROTTLES);
    let gate = gate(&fetch);
    let began = Instant::now();
    let admitted = loop {
        match gate.admit(&page(), SECOND).await {
            Ok(_) => break Instant::now(),
            Err(error) => assert!(matches!(error.kind(), DeniedKind::Deferred { .. }), "{error:?}"),
        }
        // A caller that is too early changes nothing.
        tokio::time::sleep(10 * SECOND).await;
    };
    let asked: Vec<Instant> = fetch.asked().iter().map(|asked| asked.at).collect();
    let delays: Vec<u64> = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(delays[0] <= 11, "{delays:?}");
    for (delay, least) in delays[1..].iter().zip([60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]) {
        // A backoff is longer by a tenth at most, as was the one that it doubles; and the next caller comes
        // within ten seconds.
        assert!((least..=least * 2).contains(delay), "{delay} of at least {least}: {delays:?}");
        assert!(*delay <= 3_600 * 11 / 10 + 11, "{delays:?}");
    }
    assert_eq!((delays.len(), asked.len()), (THROTTLES, THROTTLES + 1));
    assert!(admitted >= *asked.last().unwrap() && admitted > began + 3 * 3_600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn no_call_waits_longer_than_its_budget_for_a_robots_txt_behind_an_open_response() {
    let gate = gate(&ScriptedFetch::always(rules()));
    let permit = gate.admit(&page(), 30 * SECOND).await.unwrap();
    let other_port = url("https://a.example:8443/");
    for budget in [2, 2, 40] {
        let (began, mut left) = (Instant::now(), budget * SECOND);
        let error = gate.check(&other_port, &mut left).await.unwrap_err();
        assert!(matches!(error.kind(), DeniedKind::Deferred { .. }) && left.is_zero(), "{left:?}: {error:?}");
        let waited = began.elapsed();
        assert!((budget * SECOND..budget * SECOND + SECOND / 10).contains(&waited), "{budget} s: {waited:?}");
    }
    drop(permit);
    assert!(gate.check(&other_port, &mut { 2 * SECOND }).await.is_ok());
}
