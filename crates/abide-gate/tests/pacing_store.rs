//! The pacer with a shared store: what processes keep together, and what each keeps when the store fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "pacing_support/mod.rs"]
mod support;

#[path = "pacing_support/faulty.rs"]
mod faulty;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::{
    Ask, Cause, DeferReason, Ended, LeaseAsk, LeaseId, MemoryPaceStore, PaceEvent, PaceObserver, PacePolicy,
    PaceStore, Pacer, Refusal, Reply, ScopeAsk, ScopeKey, ScopeState, StoreError, StoreFuture,
};
use abide_gate::{Clock, SystemClock, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use faulty::{Fault, Faulty};
use support::{Log, deferral, host, ms, s, url};

#[tokio::test(start_paused = true)]
async fn the_memory_store_passes_the_suite() {
    abide_gate::testing::pacing::pace_store(Arc::new(MemoryPaceStore::default())).await;
}

#[tokio::test(start_paused = true)]
async fn the_memory_store_forgives_strikes() {
    abide_gate::testing::pacing::strikes_are_forgiven(Arc::new(MemoryPaceStore::default()), sleep).await;
}

#[tokio::test(start_paused = true)]
async fn two_pacers_keep_every_gap_together() {
    let (store, log) = (Arc::new(MemoryPaceStore::default()), Log::default());
    let policy = || PacePolicy::default().danger_min_gap(ms(100)).max_wait(s(300));
    let pacers = [0, 1].map(|_| Pacer::builder(policy()).store(store.clone()).build());
    let mut tasks = Vec::new();
    for n in 0..100 {
        let (pacer, log) = (pacers[n % 2].clone(), log.clone());
        tasks.push(tokio::spawn(async move {
            sleep(ms(n as u64 * 3)).await;
            log.fetch_as(n, &pacer, &url("http://a.example/"), Ask::new(), ms(30)).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    log.judge(ms(100));
    assert_eq!(log.order().len(), 100);
    // Not lazy either: 100 gaps and answers, and the polling of the other pacer, a quarter of a gap at most.
    assert!(log.now() < ms(170 * 100), "{:?}", log.now());
    let key = ScopeKey::from("a.example");
    sleep(s(1)).await;
    assert_eq!(store.peek(&key).await.unwrap().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_shared() {
    let store = Arc::new(MemoryPaceStore::default());
    let pacers = [0, 1].map(|_| Pacer::builder(PacePolicy::default()).store(store.clone()).build());
    let a = url("http://a.example/");
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "600".parse().unwrap());
    pacers[0].acquire(&a, Ask::new()).await.unwrap().finish_with(StatusCode::TOO_MANY_REQUESTS, &headers);
    sleep(ms(10)).await;
    let deferral = deferral(pacers[1].acquire(&a, Ask::new()).await);
    assert!(matches!(deferral.reason(), DeferReason::Hold { status: Some(429), .. }), "{deferral}");
    assert!(deferral.wait() > s(599));
    // Nothing was taken in vain.
    assert_eq!(pacers[1].stats().in_flight(), 0);
    assert_eq!(store.peek(&ScopeKey::from("a.example")).await.unwrap().in_flight, 0);
}

/// A request is answered with 429 and no Retry-After, and its host is held for so long then, and for the jitter.
async fn complain(pacer: &Pacer, expected: u64) {
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()).unwrap();
    drop(permit);
    assert!(pacer.settled(s(1)).await);
    let held = until.since(SystemClock.wall()).as_secs();
    assert!((expected..=expected + expected / 10).contains(&held), "{held} s, not {expected}");
}

#[tokio::test(start_paused = true)]
async fn strikes_are_shared_and_outlive_a_process() {
    let store = Arc::new(MemoryPaceStore::default());
    let process = || Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    let (one, other) = (process(), process());
    complain(&one, 60).await;
    // Has not asked while the host was held, so the grant tells it.
    sleep(s(70)).await;
    complain(&other, 120).await;
    // Has asked while it was held.
    deferral(one.acquire(&url("http://a.example/"), Ask::new()).await);
    sleep(s(140)).await;
    complain(&one, 240).await;
    // A process that has never heard anything goes on where they stopped.
    sleep(s(280)).await;
    complain(&process(), 480).await;
    // 29 quiet minutes after the end; and 31.
    sleep(s(528 + 28 * 60)).await;
    complain(&process(), 960).await;
    sleep(s(1_056 + 31 * 60)).await;
    complain(&process(), 60).await;
}

#[tokio::test(start_paused = true)]
async fn eight_in_flight_of_two_processes_that_are_all_refused_are_one_strike() {
    let store = Arc::new(MemoryPaceStore::default());
    let policy = || PacePolicy::default().danger_max_in_flight(8).danger_min_gap(ms(0));
    let pacers = [0, 1].map(|_| Pacer::builder(policy()).store(store.clone()).build());
    let mut permits = Vec::new();
    for n in 0..8 {
        permits.push(pacers[n % 2].acquire(&url("http://a.example/"), Ask::new()).await.unwrap());
    }
    for permit in &permits {
        sleep(ms(50)).await;
        permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    }
    sleep(ms(50)).await;
    assert_eq!(store.peek(&ScopeKey::from("a.example")).await.unwrap().strikes, 1);
}

/// Loses everything, and notices it when it is asked the next time.
#[derive(Debug, Default)]
struct Flushed {
    inner: Mutex<Arc<MemoryPaceStore>>,
    losses: std::sync::atomic::AtomicU64,
}

impl Flushed {
    fn inner(&self) -> Arc<MemoryPaceStore> {
        self.inner.lock().unwrap().clone()
    }

    fn flush(&self) {
        *self.inner.lock().unwrap() = Arc::default();
        self.losses.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

impl PaceStore for Flushed {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async move { self.inner().reserve(scopes, ask).await })
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.inner().renew(scopes, lease, ttl).await })
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.inner().release(scopes, lease, ended).await })
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        Box::pin(async move { self.inner().hold(scope, until, strikes, cause).await })
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        Box::pin(async move { self.inner().peek(scope).await })
    }

    fn losses(&self) -> u64 {
        self.losses.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_lost_what_it_knew_is_told_again_of_holds_and_strikes() {
    let store = Arc::new(Flushed::default());
    let pacers = [0, 1].map(|_| Pacer::builder(PacePolicy::default()).store(store.clone()).build());
    // Of the one host the strike is left, of another the hold as well; a third is held by the operator for a moment only.
    complain(&pacers[0], 60).await;
    sleep(s(70)).await;
    let b = url("http://b.example/");
    pacers[0]
        .acquire(&b, Ask::new())
        .await
        .unwrap()
        .finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    pacers[0].hold(&host("c.example"), SystemClock.wall().plus(s(1)), Cause::Operator);
    // The other process has learnt of the second hold, and never heard of the first.
    sleep(s(2)).await;
    deferral(pacers[1].acquire(&b, Ask::new()).await);
    for (n, known) in [(0, [(false, 1), (true, 1), (false, 0)]), (1, [(false, 0), (true, 1), (false, 0)])] {
        store.flush();
        pacers[n].acquire(&url("http://d.example/"), Ask::new()).await.unwrap().finish();
        assert!(pacers[n].settled(s(1)).await);
        for (name, (is_held, strikes)) in ["a.example", "b.example", "c.example"].into_iter().zip(known) {
            let state = store.peek(&ScopeKey::from(name)).await.unwrap();
            assert_eq!((!state.held.is_zero(), state.strikes), (is_held, strikes), "{name}, told by {n}");
        }
    }
    // They count from the end of their hold, however late the store is told of them.
    for (minutes, strikes) in [(25, 1), (4, 1), (2, 0)] {
        sleep(s(minutes * 60)).await;
        if minutes != 2 {
            store.flush();
            pacers[0].acquire(&url("http://d.example/"), Ask::new()).await.unwrap().finish();
            assert!(pacers[0].settled(s(1)).await);
        }
        let state = store.peek(&ScopeKey::from("a.example")).await.unwrap();
        assert_eq!(state.strikes, strikes, "{minutes} minutes later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_begins_while_the_store_lets_us_wait_is_seen() {
    let store = Arc::new(MemoryPaceStore::default());
    let pacers =
        [0, 1].map(|_| Pacer::builder(PacePolicy::default().gap(s(10))).store(store.clone()).build());
    let a = url("http://a.example/");
    pacers[0].acquire(&a, Ask::new()).await.unwrap().finish();
    let waiting = tokio::spawn({
        let (pacer, a) = (pacers[1].clone(), a.clone());
        async move { pacer.acquire(&a, Ask::new()).await.map(drop) }
    });
    sleep(s(4)).await;
    let until = SystemClock.wall().plus(s(600));
    store.hold(&ScopeKey::from("a.example"), until, 0, Cause::Operator).await.unwrap();
    assert!(matches!(deferral(waiting.await.unwrap()).reason(), DeferReason::Hold { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_our_own_that_begins_meanwhile_is_seen_soon() {
    let store = Arc::new(MemoryPaceStore::default());
    let pacers =
        [0, 1].map(|_| Pacer::builder(PacePolicy::default().gap(s(20))).store(store.clone()).build());
    let a = url("http://a.example/");
    pacers[0].acquire(&a, Ask::new()).await.unwrap().finish();
    let waiting = tokio::spawn({
        let (pacer, a) = (pacers[1].clone(), a.clone());
        async move { pacer.acquire(&a, Ask::new()).await.map(drop) }
    });
    sleep(s(4)).await;
    pacers[1].hold(&host("a.example"), SystemClock.wall().plus(s(600)), Cause::Operator);
    let began = Instant::now();
    assert!(matches!(deferral(waiting.await.unwrap()).reason(), DeferReason::Hold { .. }));
    assert!(began.elapsed() <= ms(250), "{:?}, not after the 16 s that were left", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_body_of_another_process_keeps_us_waiting_and_then_deferred() {
    let store = Arc::new(MemoryPaceStore::default());
    let pacers = [0, 1].map(|_| Pacer::builder(PacePolicy::default()).store(store.clone()).build());
    let a = url("http://a.example/");
    let open = pacers[0].acquire(&a, Ask::new()).await.unwrap();
    let began = Instant::now();
    let deferral = deferral(pacers[1].acquire(&a, Ask::new()).await);
    assert!(matches!(deferral.reason(), DeferReason::InFlight { .. }));
    assert!(began.elapsed() <= s(30));
    // The lease is renewed while the body is open, however long that is.
    sleep(s(600)).await;
    assert_eq!(store.peek(&ScopeKey::from("a.example")).await.unwrap().in_flight, 1);
    drop(open);
    sleep(ms(10)).await;
    assert_eq!(store.peek(&ScopeKey::from("a.example")).await.unwrap().in_flight, 0);
}

/// Counts the outages it hears of.
#[derive(Debug, Default)]
struct Outages(Mutex<(usize, usize)>);

impl PaceObserver for Outages {
    fn observe(&self, event: &PaceEvent<'_>) {
        let mut heard = self.0.lock().unwrap();
        match event {
            PaceEvent::StoreDown { .. } => heard.0 += 1,
            PaceEvent::StoreBack => heard.1 += 1,
            _ => {}
        }
    }
}

/// Ten requests through a store that fails somewhere; the second answers 429 and is held for 5 s.
async fn ten_requests(store: Arc<Faulty>) -> Log {
    let policy = PacePolicy::default().max_wait(s(100_000)).lease(s(6));
    let (pacer, log) = (Pacer::builder(policy).store(store).build(), Log::default());
    let a = url("http://a.example/");
    for n in 0..10 {
        let permit = pacer.acquire(&a, Ask::new()).await.unwrap();
        if n == 1 {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", "5".parse().unwrap());
            permit.observe(StatusCode::SERVICE_UNAVAILABLE, &headers);
        }
        log.serve(n, &a, s(3), permit).await;
    }
    assert_eq!((pacer.stats().in_flight(), pacer.stats().waiting()), (0, 0));
    log
}

#[tokio::test(start_paused = true)]
async fn trap_store_fails_at_call_k_for_all_k() {
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some("the store's own mistake") {
            panics(info);
        }
    }));
    let healthy = Faulty::new(|_, _| false, 0, Fault::Error);
    ten_requests(healthy.clone()).await;
    let calls = healthy.calls();
    assert!(calls >= 30, "{calls}");
    for fault in [Fault::Error, Fault::Lost, Fault::Hang, Fault::Panic] {
        for k in 0..calls {
            let store = Faulty::new(|call, k| call == k, k, fault);
            let log = ten_requests(store.clone()).await;
            // The process keeps its own promise, whatever the store does.
            log.judge(s(1));
            let starts = log.starts("a.example");
            assert!(starts[2] - starts[1] >= s(5), "the hold, with {fault:?} at call {k}");
            // And it is not lost: ten requests, a few slower polls, and a lease or two that had to expire.
            assert!(log.now() < s(120), "{:?} with {fault:?} at call {k}", log.now());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trap_store_down_means_local_limits_with_a_longer_gap_and_one_warning() {
    let (store, outages) = (Faulty::from_the_start(), Arc::new(Outages::default()));
    let policy = PacePolicy::default().expected_workers(4).max_wait(s(100));
    let pacer = Pacer::builder(policy).store(store.clone()).observer(outages.clone()).build();
    let (log, a) = (Log::default(), url("http://a.example/"));
    for _ in 0..6 {
        log.fetch(&pacer, &a, Ask::new(), ms(0)).await.unwrap();
    }
    assert_eq!(log.starts("a.example"), [0, 4, 8, 12, 16, 20].map(s));
    assert_eq!(*outages.0.lock().unwrap(), (1, 0));
    // Back again: no burst, one full gap for every host, and the ordinary gap after that.
    store.heal();
    for _ in 0..4 {
        log.fetch(&pacer, &a, Ask::new(), ms(0)).await.unwrap();
    }
    log.judge(s(1));
    assert_eq!(*outages.0.lock().unwrap(), (1, 1));
    let starts = log.starts("a.example");
    assert!(starts[9] - starts[8] == s(1), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_each_host_waits_one_full_gap() {
    let store = Faulty::from_the_start();
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap().finish();
    store.heal();
    sleep(s(10)).await;
    // Who finds out that it is back waits too: nobody knows what the others have just sent.
    let waited = async |name: &str| {
        let permit = pacer.acquire(&url(&format!("http://{name}.example/")), Ask::new()).await.unwrap();
        permit.waited()
    };
    let (first, second) = tokio::join!(waited("b"), async {
        sleep(ms(200)).await;
        waited("c").await
    });
    assert_eq!((first, second), (s(1), ms(800)));
    sleep(s(10)).await;
    assert_eq!(waited("d").await, s(0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_costs_a_second_at_most_once_in_two() {
    let store = Faulty::new(|call, until| call < until, usize::MAX, Fault::Hang);
    let pacer = Pacer::builder(PacePolicy::default()).store(store).build();
    let began = Instant::now();
    for n in 0..20 {
        pacer.acquire(&url(&format!("http://h{n}.example/")), Ask::new()).await.unwrap().finish();
    }
    assert_eq!(began.elapsed(), s(1), "the first finds out, the others go on without");
}

#[tokio::test(start_paused = true)]
async fn fail_closed_sends_nothing() {
    let pacer = Pacer::builder(PacePolicy::default().fail_closed()).store(Faulty::from_the_start()).build();
    for _ in 0..3 {
        let refusal = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap_err();
        assert_eq!(refusal, Refusal::Store { reason: "connection refused".into() });
    }
    assert_eq!(pacer.report(&host("a.example")).unwrap().requests(), 0);
}

/// Grants everything, after so long.
#[derive(Debug)]
struct Yes(Duration);

impl PaceStore for Yes {
    fn reserve<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async {
            sleep(self.0).await;
            Ok(Reply::Granted { wait: Duration::ZERO, strikes: 0 })
        })
    }

    fn renew<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn release<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn hold<'a>(&'a self, _: &'a ScopeKey, _: WallMillis, _: u8, _: Cause) -> StoreFuture<'a, WallMillis> {
        Box::pin(async { Ok(WallMillis(0)) })
    }

    fn peek<'a>(&'a self, _: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        Box::pin(async { Ok(ScopeState::default()) })
    }
}

/// Forgets the first lease that was waited for, as a shared store that is restarted does.
#[derive(Debug, Default)]
struct Forgetful {
    asked: Mutex<Vec<(Instant, bool)>>,
}

impl PaceStore for Forgetful {
    fn reserve<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseAsk) -> StoreFuture<'a, Reply> {
        self.asked.lock().unwrap().push((Instant::now(), false));
        Box::pin(async { Ok(Reply::Granted { wait: ms(700), strikes: 0 }) })
    }

    fn renew<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn release<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn confirm<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, bool> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((Instant::now(), true));
        let is_first = asked.len() == 2;
        Box::pin(async move { Ok(!is_first) })
    }

    fn hold<'a>(&'a self, _: &'a ScopeKey, _: WallMillis, _: u8, _: Cause) -> StoreFuture<'a, WallMillis> {
        Box::pin(async { Ok(WallMillis(0)) })
    }

    fn peek<'a>(&'a self, _: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        Box::pin(async { Ok(ScopeState::default()) })
    }
}

/// Granted for the end of the hold, and not asked for again because of it.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_waited_for_ends_with_one_request_at_its_end() {
    let store = Faulty::new(|_, _| false, 0, Fault::Error);
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    store.hold(&ScopeKey::from("a.example"), SystemClock.wall().plus(s(9)), 1, Cause::Shared).await.unwrap();
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    assert_eq!(permit.waited(), s(9));
    assert_eq!(store.calls(), 3, "told of the hold, asked, and asked again whether that stands");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_the_store_has_forgotten_is_asked_for_again() {
    let (store, began) = (Arc::new(Forgetful::default()), Instant::now());
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    assert_eq!(permit.waited(), ms(1_375));
    let asked: Vec<_> = store.asked.lock().unwrap().iter().map(|(at, last)| (*at - began, *last)).collect();
    // Asked, waited, asked whether it still stands: it does not, so the same again.
    assert_eq!(asked, [(ms(0), false), (ms(675), true), (ms(675), false), (ms(1_350), true)]);
}

/// Another process has a response open for ten seconds.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_four_times_a_gap_at_most_and_between_once_and_fifty_times_a_second() {
    for (gap, least, most) in
        [(10, 400, 500), (80, 400, 500), (200, 160, 200), (1_000, 32, 40), (60_000, 8, 10)]
    {
        let store = Faulty::new(|_, _| false, 0, Fault::Error);
        let policy = || PacePolicy::default().danger_min_gap(ms(gap)).max_wait(s(100));
        let [one, other] = [0, 1].map(|_| Pacer::builder(policy()).store(store.clone()).build());
        let a = url("http://a.example/");
        let open = one.acquire(&a, Ask::new()).await.unwrap();
        let before = store.calls();
        let waiting = tokio::time::timeout(s(10), other.acquire(&a, Ask::new())).await;
        assert!(waiting.is_err());
        let asked = store.calls() - before;
        assert!((least..=most + 1).contains(&asked), "{asked} questions with a gap of {gap} ms");
        drop(open);
    }
}

/// Another process has been granted the turn for later; nobody else gets it before that.
#[tokio::test(start_paused = true)]
async fn a_waiter_does_not_ask_again_before_the_request_in_flight_has_started() {
    let store = Faulty::new(|_, _| false, 0, Fault::Error);
    let pacers = [0, 1, 2].map(|_| Pacer::builder(PacePolicy::default()).store(store.clone()).build());
    let a = url("http://a.example/");
    pacers[0].acquire(&a, Ask::new()).await.unwrap().finish();
    assert!(pacers[0].settled(s(1)).await);
    let before = store.calls();
    let (first, asked) = tokio::join!(pacers[1].acquire(&a, Ask::new()), async {
        sleep(ms(300)).await;
        assert!(tokio::time::timeout(ms(695), pacers[2].acquire(&a, Ask::new())).await.is_err());
        store.calls() - before
    });
    assert_eq!(first.unwrap().waited(), s(1));
    assert_eq!(asked, 3, "the second has asked, and asked whether it stands; the third has asked once");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_come_before_another_process_and_its_gap_is_deferred_at_once() {
    let store = Arc::new(MemoryPaceStore::default());
    let policy = || PacePolicy::default().gap(s(20));
    let pacers = [0, 1, 2].map(|_| Pacer::builder(policy()).store(store.clone()).build());
    let a = url("http://a.example/");
    pacers[0].acquire(&a, Ask::new()).await.unwrap().finish();
    assert!(pacers[0].settled(s(1)).await);
    let (first, deferral) = tokio::join!(pacers[1].acquire(&a, Ask::new()), async {
        sleep(s(1)).await;
        let began = Instant::now();
        let deferral = deferral(pacers[2].acquire(&a, Ask::new()).await);
        assert_eq!(began.elapsed(), s(0));
        deferral
    });
    assert_eq!(first.unwrap().waited(), s(20));
    assert_eq!((deferral.wait(), deferral.reason()), (s(39), &DeferReason::Gap { delay: s(20) }));
}

#[tokio::test(start_paused = true)]
async fn local_pacing_runs_on_top_of_whatever_the_store_says() {
    let (pacer, log) =
        (Pacer::builder(PacePolicy::default()).store(Arc::new(Yes(ms(0)))).build(), Log::default());
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let (pacer, log) = (pacer.clone(), log.clone());
            tokio::spawn(async move {
                log.fetch_as(n, &pacer, &url("http://a.example/"), Ask::new(), ms(50)).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    log.judge(s(1));
    assert_eq!(log.order(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_begins_while_the_store_is_asked_is_seen() {
    let pacer = Pacer::builder(PacePolicy::default()).store(Arc::new(Yes(ms(500)))).build();
    let a = url("http://a.example/");
    let (result, ()) = tokio::join!(pacer.acquire(&a, Ask::new()), async {
        sleep(ms(200)).await;
        pacer.hold(&host("a.example"), SystemClock.wall().plus(s(600)), Cause::Operator);
    });
    assert!(matches!(deferral(result).reason(), DeferReason::Hold { .. }));
    assert_eq!(pacer.stats().in_flight(), 0);
}

#[test]
fn a_permit_with_a_lease_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let store = Arc::new(MemoryPaceStore::default());
    let pacer = Pacer::builder(PacePolicy::default()).store(store).build();
    let permit = runtime.block_on(pacer.acquire(&url("http://a.example/"), Ask::new())).unwrap();
    drop(runtime);
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    drop(permit);
    assert_eq!(pacer.stats().in_flight(), 0);
}

/// Takes its time with holds and releases.
#[derive(Debug, Default)]
struct Leisurely(MemoryPaceStore);

impl PaceStore for Leisurely {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        self.0.reserve(scopes, ask)
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        self.0.renew(scopes, lease, ttl)
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            sleep(ms(300)).await;
            self.0.release(scopes, lease, ended).await
        })
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        Box::pin(async move {
            sleep(ms(900)).await;
            self.0.hold(scope, until, strikes, cause).await
        })
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        self.0.peek(scope)
    }
}

#[tokio::test(start_paused = true)]
async fn a_pacer_is_settled_when_the_store_knows_of_the_last_turn_and_the_last_hold() {
    let store = Arc::new(Leisurely::default());
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    assert!(pacer.settled(ms(0)).await, "nothing was asked yet");
    let a = url("http://a.example/");
    let permit = pacer.acquire(&a, Ask::new()).await.unwrap();
    assert!(!pacer.settled(s(5)).await, "a turn is out");
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    let began = Instant::now();
    assert!(!pacer.settled(ms(100)).await, "neither has arrived");
    assert!(pacer.settled(s(5)).await);
    assert_eq!(began.elapsed(), ms(900), "no longer than it takes");
    let state = store.peek(&ScopeKey::from("a.example")).await.unwrap();
    assert!(state.in_flight == 0 && state.held > s(58), "{state:?}");
    let alone = Pacer::new(PacePolicy::default());
    let _open = alone.acquire(&a, Ask::new()).await.unwrap();
    assert!(alone.settled(ms(0)).await, "there is no store");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_extended_while_the_store_is_told_of_it_is_told_again() {
    let store = Arc::new(Leisurely::default());
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    for hours in [1, 2] {
        pacer.hold(&host("a.example"), SystemClock.wall().plus(s(hours * 3_600)), Cause::Operator);
        sleep(ms(100)).await;
    }
    assert!(pacer.settled(s(5)).await);
    let held = store.peek(&ScopeKey::from("a.example")).await.unwrap().held;
    assert!(held > s(7_000), "{held:?}");
}

/// Grants everything for later, and does not answer whether that still stands.
#[derive(Debug)]
struct Mute {
    peeks: bool,
}

impl PaceStore for Mute {
    fn reserve<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async { Ok(Reply::Granted { wait: ms(700), strikes: 0 }) })
    }

    fn renew<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn release<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn confirm<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreError::new("connection reset")) })
    }

    fn hold<'a>(&'a self, _: &'a ScopeKey, _: WallMillis, _: u8, _: Cause) -> StoreFuture<'a, WallMillis> {
        Box::pin(async { Ok(WallMillis(0)) })
    }

    fn peek<'a>(&'a self, _: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        match self.peeks {
            true => Box::pin(async { Ok(ScopeState::default()) }),
            false => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_say_whether_its_grant_stands_is_down() {
    for peeks in [true, false] {
        let (outages, a) = (Arc::new(Outages::default()), url("http://a.example/"));
        let policy = PacePolicy::default().expected_workers(4);
        let pacer = Pacer::builder(policy).store(Arc::new(Mute { peeks })).observer(outages.clone()).build();
        let (log, both) = (Log::default(), [(); 2]);
        for () in both {
            log.fetch(&pacer, &a, Ask::new(), ms(0)).await.unwrap();
        }
        let starts = log.starts("a.example");
        let between = starts[1] - starts[0];
        // It answers now and then, and is asked again in between.
        assert!(between >= s(4) && between <= s(7), "local limits, with a longer gap: {between:?}");
        assert!(outages.0.lock().unwrap().0 >= 1, "it is told");
        let pacer =
            Pacer::builder(PacePolicy::default().fail_closed()).store(Arc::new(Mute { peeks })).build();
        let refusal = pacer.acquire(&a, Ask::new()).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Store { .. }), "{refusal}");
        assert_eq!(pacer.stats().in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_cannot_be_confirmed_is_waited_for_to_its_start_and_no_longer() {
    let pacer = Pacer::builder(PacePolicy::default()).store(Arc::new(Mute { peeks: true })).build();
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    assert_eq!(permit.waited(), ms(700));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_set_while_the_store_is_away_is_shared_when_it_is_back() {
    let store = Faulty::from_the_start();
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    let until = SystemClock.wall().plus(s(7_200));
    pacer.hold(&host("a.example"), until, Cause::Operator);
    pacer.hold(&host("b.example"), until, Cause::Operator);
    assert!(!pacer.settled(s(60)).await, "the store has not been told");
    sleep(s(600)).await;
    store.heal();
    assert!(store.peek(&ScopeKey::from("a.example")).await.unwrap().held.is_zero());
    pacer.acquire(&url("http://c.example/"), Ask::new()).await.unwrap().finish();
    assert!(pacer.settled(s(5)).await);
    for name in ["a.example", "b.example"] {
        let held = store.peek(&ScopeKey::from(name)).await.unwrap().held;
        assert!(held > s(6_000) && held <= s(7_200), "{name}: {held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_told_again_of_the_holds_in_force() {
    // The first call tells it of the hold, which it forgets; the second finds it down.
    let store = Faulty::new(|call, _| call == 1, 0, Fault::Error);
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    pacer.hold(&host("a.example"), SystemClock.wall().plus(s(7_200)), Cause::Operator);
    assert!(pacer.settled(s(5)).await);
    pacer.acquire(&url("http://b.example/"), Ask::new()).await.unwrap().finish();
    assert!(pacer.settled(s(10)).await);
    let calls = store.calls();
    sleep(s(10)).await;
    pacer.acquire(&url("http://c.example/"), Ask::new()).await.unwrap().finish();
    assert!(pacer.settled(s(5)).await);
    // Asked, told of the hold again, given back; and asked twice whether the turn still stands.
    assert_eq!(store.holds(), 2, "{calls}");
}
