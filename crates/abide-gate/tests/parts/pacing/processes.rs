//! The pacer with a shared store: what processes keep together, and what each keeps when the store fails.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::pacing::Pacer;
use crate::store::StoreFuture;
use abide_gate::pacing::{
    BackoffCause, DeferReason, HostState, HostStore, LeaseAsk, LeaseReply, LeaseStatus, OnStoreOutage,
    PacePolicy, Want,
};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::hosts::{conformance, throttle_counts_are_forgiven};
use abide_gate::{BoxFuture, HolderId, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::parts::support::faulty::{Fault, Faulty, is_free, state};
use crate::parts::support::pacing::{
    Events, Log, deferral, group, host, joined, left, ms, one_second, page, retry_after, s,
};

/// The life of a lease, by default.
const LEASE: Duration = Duration::from_secs(7);

fn process(store: &Arc<Faulty>, policy: PacePolicy) -> Arc<Pacer> {
    Pacer::builder(policy).host_store(store.clone()).pacer()
}

fn healthy() -> Arc<Faulty> {
    Arc::new(Faulty::new(0..0, Fault::Error))
}

#[tokio::test(start_paused = true)]
async fn the_memory_store_passes_the_suites() {
    conformance(Arc::new(MemoryStore::new()), sleep).await;
    throttle_counts_are_forgiven(Arc::new(MemoryStore::new()), sleep).await;
}

/// Processes that want a page of each of four hosts all the time, for a minute. Pages of each process, and
/// commands of the store.
async fn crowd(processes: usize, delay: Duration) -> (Vec<usize>, usize) {
    let (store, log) = (healthy(), Log::default());
    let policy = one_second().danger_min_delay(delay).with_max_wait(s(120));
    let mut tasks = JoinSet::new();
    for who in 0..processes {
        let pacer = Pacer::builder(policy.clone()).host_store(store.clone()).seed(who as u64).pacer();
        for n in 0..4 {
            let (end, host) = (Instant::now() + s(60), format!("h{n}.example"));
            tasks.spawn(log.clone().send_until(end, who, pacer.clone(), host, ms(5)));
        }
    }
    tasks.join_all().await;
    log.check(delay);
    let order = log.order();
    let pages = (0..processes).map(|who| order.iter().filter(|by| **by == who).count()).collect();
    (pages, store.calls())
}

#[tokio::test(start_paused = true)]
async fn shares_and_commands_of_processes_that_want_the_same_hosts() {
    for (processes, delay, commands_max) in [
        (1, s(1), 0.5),
        (1, ms(100), 0.5),
        (2, s(1), 4.0),
        (4, s(1), 4.0),
        (4, ms(100), 4.0),
        (8, s(1), 4.0),
        (8, ms(100), 4.0),
    ] {
        let (pages, commands) = crowd(processes, delay).await;
        let sum: usize = pages.iter().sum();
        let commands = commands as f64 / sum as f64;
        println!("{processes} processes, {delay:?}: pages {pages:?}, {commands:.2} commands a page");
        assert!(commands <= commands_max, "{processes} processes, {delay:?}: {commands:.2} commands a page");
        assert!(
            pages.iter().all(|pages| *pages >= sum / 10 || processes > 4 && *pages >= sum / 20),
            "{processes} processes, {delay:?}: shares {pages:?}"
        );
        // Not lazy either: of the pages that one process alone would get at least three in four.
        let alone = 4.0 * 60.0 / (delay + ms(5)).as_secs_f64();
        assert!(sum as f64 >= alone * 0.75, "{processes} processes, {delay:?}: {sum} pages of {alone}");
    }
}

/// Notes when it was called, and what it was asked.
#[derive(Debug, Default)]
struct Counted {
    store: MemoryStore,
    calls: Mutex<Vec<(Instant, Vec<LeaseAsk>)>>,
}

impl HostStore for Counted {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        self.calls.lock().unwrap().push((Instant::now(), vec![ask]));
        self.store.exchange(host, ask)
    }

    fn exchange_all<'a>(&'a self, asks: &'a [(Arc<str>, LeaseAsk)]) -> BoxFuture<'a, Vec<LeaseReply>> {
        let asked = asks.iter().map(|(_, ask)| *ask).collect();
        self.calls.lock().unwrap().push((Instant::now(), asked));
        self.store.exchange_all(asks)
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_many_hosts_are_renewed_in_one_call() {
    let (store, log) = (Arc::new(Counted::default()), Log::default());
    let pacer = Pacer::builder(one_second()).host_store(store.clone()).pacer();
    let (end, mut tasks) = (Instant::now() + s(60), JoinSet::new());
    for n in 0..60 {
        let (log, pacer) = (log.clone(), pacer.clone());
        tasks.spawn(async move {
            sleep(ms(n * 50)).await;
            log.send_until(end, 0, pacer, format!("h{n}.example"), ms(5)).await;
        });
    }
    tasks.join_all().await;
    log.check(s(1));
    let calls = std::mem::take(&mut *store.calls.lock().unwrap());
    let (alone, together): (Vec<_>, Vec<_>) = calls.iter().partition(|(_, asks)| asks.len() == 1);
    let pages = log.order().len();
    println!("{pages} pages, {} calls about one host, {} about several", alone.len(), together.len());
    assert!(pages > 60 * 55, "no lease has ended: {pages} pages");
    assert!(alone.len() <= 2 * 60, "the first, and at the end: {}", alone.len());
    assert!(together.len() <= 60, "{}", together.len());
    assert!(together.iter().any(|(_, asks)| asks.len() > 10));
}

/// Whether one request waits, or one after the other is deferred.
#[tokio::test(start_paused = true)]
async fn a_process_asks_for_the_lease_of_another_twice_a_second_at_most() {
    for is_patient in [true, false] {
        let store = Arc::new(Counted::default());
        let policy = one_second().danger_min_delay(ms(10)).with_max_wait(s(20));
        let [one, other] = [0, 1].map(|_| Pacer::builder(policy.clone()).host_store(store.clone()).pacer());
        let open = one.take("a.example").await;
        let holder = store.calls.lock().unwrap()[0].1[0].holder;
        let (end, wait) = (Instant::now() + s(20), if is_patient { s(20) } else { ms(30) });
        while Instant::now() < end {
            let deferral = deferral(other.take_within("a.example", wait).await);
            assert_eq!(deferral.reason, DeferReason::OtherProcess, "{deferral:?}");
            sleep(ms(50)).await;
        }
        let calls = store.calls.lock().unwrap();
        let is_theirs = |(_, asks): &&(Instant, Vec<LeaseAsk>)| {
            asks.iter().any(|ask| ask.holder != holder && ask.want != Want::Release)
        };
        let times: Vec<_> = calls.iter().filter(is_theirs).map(|(at, _)| *at).collect();
        assert!(times.len() > 10, "{is_patient}: {} calls", times.len());
        for pair in times.windows(2) {
            assert!(pair[1] - pair[0] >= ms(500), "{is_patient}: {:?}", pair[1] - pair[0]);
        }
        drop(open);
    }
}

/// Says when a lease is given up.
#[derive(Debug, Default)]
struct Telling {
    store: MemoryStore,
    given_up: Notify,
}

impl HostStore for Telling {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let reply = self.store.exchange(host, ask).await;
            if ask.want == Want::Release {
                self.given_up.notify_waiters();
            }
            reply
        })
    }

    fn given_up<'a>(&'a self, _: &'a str, _: HolderId) -> BoxFuture<'a, ()> {
        Box::pin(self.given_up.notified())
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hears_that_it_is_next_asks_at_once() {
    let store = Arc::new(Telling::default());
    // By itself it would ask again after three seconds.
    let policy = one_second().danger_min_delay(s(3)).with_max_wait(s(60));
    let [one, other] = [0, 1].map(|_| Pacer::builder(policy.clone()).host_store(store.clone()).pacer());
    drop(one.take("a.example").await);
    let waiting = tokio::spawn(async move { other.take("a.example").await });
    sleep(ms(3_500)).await;
    let given_up = Instant::now();
    assert!(one.settled(s(10)).await);
    drop(waiting.await.unwrap());
    assert!(given_up.elapsed() < ms(10), "{:?}", given_up.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_backoff_is_shared() {
    let store = healthy();
    let pacers = [0, 1].map(|_| process(&store, one_second()));
    let permit = pacers[0].take("a.example").await;
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &retry_after("600"));
    assert!(!permit.is_saved(), "the store does not know yet");
    permit.saved().await;
    let left = store.state("a.example").await.backoff.expect("the store knows before the caller does").left;
    assert!(left > s(599), "{left:?}");
    assert!(permit.is_saved(), "the store knows");
    drop(permit);
    sleep(s(10)).await;
    let deferral = deferral(pacers[1].try_take("a.example").await);
    assert!(matches!(deferral.reason, DeferReason::Backoff { status: Some(429), .. }), "{deferral:?}");
    assert!(deferral.wait > s(580));
    assert_eq!(pacers[1].stats().in_flight, 0, "nothing was taken in vain");
}

/// The way to it takes 150 ms, and the way back.
#[derive(Debug, Default)]
struct Far(MemoryStore);

impl HostStore for Far {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            sleep(ms(150)).await;
            let reply = self.0.exchange(host, ask).await;
            sleep(ms(150)).await;
            reply
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_backoff_does_not_grow_on_its_way_to_the_store_and_back() {
    let store = Arc::new(Far::default());
    let pacers = [0, 1].map(|_| Pacer::builder(one_second()).host_store(store.clone()).pacer());
    let permit = pacers[0].take("a.example").await;
    let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &retry_after("60")).unwrap();
    permit.saved().await;
    drop(permit);
    let waits = pacers.each_ref().map(|pacer| pacer.spawn_take("a.example", s(120)));
    let backed_off_until =
        |pacer: &Pacer| WallMillis::from(pacer.report_of("a.example").backed_off_until.unwrap());
    sleep(s(50)).await;
    for (pacer, way) in pacers.iter().zip([0, 300]) {
        let ends = backed_off_until(pacer);
        // Each is rounded by itself.
        assert!(until <= ends.plus(ms(2)) && ends <= until.plus(ms(way + 2)), "{ends:?}, not {until:?}");
    }
    // Less than the way, and news all the same.
    let later = until.plus(ms(400));
    pacers[0].back_off("a.example", later, BackoffCause::Operator);
    sleep(s(5)).await;
    assert!(backed_off_until(&pacers[1]).plus(ms(2)) >= later);
    drop(waits);
}

/// A request is answered with 429 and no Retry-After, and its host is backed off for so long then, and for
/// the jitter.
async fn throttle(pacer: &Arc<Pacer>, expected: u64) {
    let permit = pacer.take("a.example").await;
    let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()).unwrap();
    drop(permit);
    assert!(pacer.settled(s(1)).await);
    let held = left(until).as_secs();
    assert!((expected..=expected + expected / 10).contains(&held), "{held} s, not {expected}");
}

#[tokio::test(start_paused = true)]
async fn throttle_counts_are_shared_and_outlive_a_process() {
    let store = healthy();
    let process = || process(&store, one_second());
    let (one, other) = (process(), process());
    throttle(&one, 60).await;
    // Has not asked during the backoff, so the lease brings the count.
    sleep(s(70)).await;
    throttle(&other, 120).await;
    // This one has asked during the backoff.
    deferral(one.try_take("a.example").await);
    sleep(s(140)).await;
    throttle(&one, 240).await;
    // A new process continues with the count of the others.
    sleep(s(280)).await;
    throttle(&process(), 480).await;
    // 29 quiet minutes after the end; and 31.
    sleep(s(528 + 28 * 60)).await;
    throttle(&process(), 960).await;
    sleep(s(1_056 + 31 * 60)).await;
    throttle(&process(), 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_backoff_of_another_process_reaches_waiters() {
    let store = healthy();
    let pacers = [0, 1, 2].map(|_| process(&store, one_second().with_delay(s(10))));
    let open = pacers[0].take("a.example").await;
    let waiting = pacers[1].spawn_take("a.example", s(30));
    sleep(s(4)).await;
    pacers[2].back_off_for("a.example", s(600));
    let began = Instant::now();
    let (result, at) = waiting.await.unwrap();
    assert!(matches!(deferral(result).reason, DeferReason::Backoff { .. }));
    assert!(at - began <= s(4), "{:?}", at - began);
    // The holder gets it with its next renewal.
    sleep(LEASE / 2).await;
    drop(open);
    assert!(matches!(deferral(pacers[0].try_take("a.example").await).reason, DeferReason::Backoff { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_open_response_of_another_process_defers_us() {
    let store = healthy();
    let pacers = [0, 1].map(|_| process(&store, one_second()));
    let open = pacers[0].take("a.example").await;
    let began = Instant::now();
    let deferral = deferral(pacers[1].try_take("a.example").await);
    assert_eq!(deferral.reason, DeferReason::OtherProcess, "{deferral:?}");
    assert_eq!(began.elapsed(), s(30), "as long as a call may wait");
    // The lease is renewed while the body is open, however long that is.
    sleep(s(600)).await;
    assert!(!is_free(&*store, "a.example").await);
    drop(open);
    sleep(LEASE).await;
    assert!(is_free(&*store, "a.example").await, "nothing needs it");
}

#[tokio::test(start_paused = true)]
async fn hosts_of_a_killed_process_are_served_by_others() {
    let (store, log) = (healthy(), Log::default());
    let [one, other] = [0, 1].map(|_| process(&store, one_second()));
    for _ in 0..5 {
        log.send(0, &one, "a.example", ms(10)).await;
    }
    let killed = log.now();
    // Its tasks end with it and give nothing up.
    drop(one);
    log.send(0, &other, "a.example", ms(10)).await;
    let next = log.starts("a.example")[5];
    assert!(next - killed >= s(1), "no other process got the lease while it lasted");
    assert!(next - killed <= s(20), "{:?}", next - killed);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_renews_its_lease_first() {
    let store = healthy();
    let stopped = store.of_another_process(Fault::Hang);
    let one = process(&stopped, one_second());
    let other = process(&store, one_second());
    let open = one.take("a.example").await;
    // It is stopped while it renews its lease: all its timers fire late, and at once.
    stopped.goes_down();
    sleep(LEASE / 2 + LEASE / 8 + ms(10)).await;
    tokio::time::advance(LEASE * 2).await;
    let theirs = other.take("a.example").await;
    drop(open);
    for is_away in [true, false] {
        let deferral = deferral(one.take_within("a.example", s(5)).await);
        assert_eq!(deferral.reason, DeferReason::OtherProcess, "{is_away}: {deferral:?}");
        stopped.heal();
    }
    drop(theirs);
    one.take("a.example").await.finish();
}

#[tokio::test(start_paused = true)]
async fn an_idle_host_is_given_up_soon() {
    let store = healthy();
    let [one, other] = [0, 1].map(|_| process(&store, one_second()));
    one.take("a.example").await.finish();
    let permit = other.take_within("a.example", s(6)).await.unwrap();
    assert!(permit.waited() >= s(1), "{:?}", permit.waited());
}

#[tokio::test(start_paused = true)]
async fn a_lease_survives_an_outage_that_outlasts_it() {
    let store = healthy();
    let [one, other] = [0, 1].map(|_| process(&store, one_second()));
    let open = one.take("a.example").await;
    store.goes_down();
    sleep(LEASE * 2).await;
    store.heal();
    sleep(s(3)).await;
    assert!(!is_free(&*store, "a.example").await, "its response is still open");
    drop(open);
    let began = Instant::now();
    other.take("a.example").await.finish();
    assert!(began.elapsed() >= s(1), "one whole delay after its end: {:?}", began.elapsed());
}

/// Ten requests through a store that fails somewhere; the second answers 503 and is backed off for 5 s.
async fn ten_requests(store: Arc<Faulty>) -> (Log, Duration) {
    let (pacer, log) =
        (process(&store, one_second().with_max_wait(s(100_000)).with_lease(s(6))), Log::default());
    let mut throttled = s(0);
    for n in 0..10 {
        let permit = pacer.take("a.example").await;
        if n == 1 {
            permit.observe(StatusCode::SERVICE_UNAVAILABLE, &retry_after("5"));
            throttled = log.now();
            let began = Instant::now();
            permit.saved().await;
            assert!(began.elapsed() <= s(1), "{:?}", began.elapsed());
        }
        log.serve(n, &page("a.example"), s(3), permit).await;
    }
    assert_eq!((pacer.stats().in_flight, pacer.stats().waiting), (0, 0));
    assert!(pacer.settled(s(30)).await, "nothing is left to save");
    (log, throttled)
}

#[tokio::test(start_paused = true)]
async fn the_store_may_fail_at_any_call() {
    let well = healthy();
    ten_requests(well.clone()).await;
    let calls = well.calls();
    assert!(calls >= 8, "{calls}");
    for fault in [Fault::Error, Fault::Lost, Fault::Hang, Fault::Panic] {
        for k in 0..calls {
            let store = Arc::new(Faulty::new(k..k + 1, fault));
            let (log, throttled) = ten_requests(store.clone()).await;
            // The process keeps its own promise, whatever the store does.
            log.check(s(1));
            let starts = log.starts("a.example");
            assert!(starts[2] - throttled >= s(5), "the backoff, with {fault:?} at call {k}");
            assert!(log.now() < s(70), "{:?} with {fault:?} at call {k}", log.now());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_outage_means_a_longer_delay_and_one_warning() {
    let (store, events, log) = (Faulty::from_the_start(), Arc::new(Events::default()), Log::default());
    let policy = one_second().with_store_outage(OnStoreOutage::Continue { workers: 4 }).with_max_wait(s(100));
    let pacer = Pacer::builder(policy).host_store(store.clone()).observer(events.observer()).pacer();
    for _ in 0..6 {
        log.send(0, &pacer, "a.example", ms(0)).await;
    }
    log.check(s(4));
    let starts = log.starts("a.example");
    let is_random_then_even = starts[0] < s(4) && starts[5] - starts[0] == s(20);
    assert!(is_random_then_even, "a random start, then four delays each: {starts:?}");
    assert_eq!(events.take(), ["store down"]);
    store.heal();
    for _ in 0..8 {
        log.send(0, &pacer, "a.example", ms(0)).await;
    }
    log.check(s(1));
    assert_eq!(events.take(), ["store back"]);
    let starts = log.starts("a.example");
    assert_eq!(starts[13] - starts[12], s(1), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_a_holder_goes_on_and_others_keep_off() {
    let (store, log) = (healthy(), Log::default());
    let [one, other] = [0, 1].map(|_| process(&store, one_second()));
    log.send(1, &one, "a.example", ms(10)).await;
    // It finds that another process has the host.
    deferral(other.take_within("a.example", ms(50)).await);
    let waiting = other.spawn_take("a.example", s(25));
    sleep(ms(100)).await;
    store.goes_down();
    let down = log.now();
    for _ in 0..25 {
        log.send(1, &one, "a.example", ms(10)).await;
    }
    log.check(s(1));
    let last = log.starts("a.example")[25];
    assert!(last - down < s(27), "no longer delay than with the store, longer than its lease: {last:?}");
    assert_eq!(deferral(waiting.await.unwrap().0).reason, DeferReason::OtherProcess);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_every_host_is_served_in_ten_seconds() {
    for away in [5, 7, 14, 60] {
        let (store, log) = (healthy(), Log::default());
        let policy = one_second().with_max_wait(s(300));
        let pacers = [0, 1, 2].map(|_| process(&store, policy.clone()));
        let began = Instant::now();
        let (down, back) = (s(10), s(10 + away));
        let mut tasks = JoinSet::new();
        for (who, pacer) in pacers.iter().enumerate() {
            // Hosts of one process each, and hosts that all of them want.
            for n in (0..6).filter(|n| n % 3 == who || *n >= 3) {
                let (end, host) = (began + back + s(30), format!("h{n}.example"));
                tasks.spawn(log.clone().send_until(end, who, pacer.clone(), host, ms(200)));
            }
        }
        sleep_until(began + down).await;
        store.goes_down();
        sleep_until(began + back).await;
        store.heal();
        tasks.join_all().await;
        log.check(s(1));
        for n in 0..6 {
            let starts = log.starts(&format!("h{n}.example"));
            let next = starts.iter().find(|start| **start >= back).unwrap();
            assert!(*next - back <= s(10), "away for {away} s: h{n} was served {:?} after it", *next - back);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nothing_is_sent_without_a_lease() {
    for on_outage in [OnStoreOutage::Defer, OnStoreOutage::FailClosed] {
        let store = healthy();
        let pacer = process(&store, one_second().with_store_outage(on_outage));
        pacer.take("a.example").await.finish();
        store.goes_down();
        for n in 0..2 {
            let deferral = deferral(pacer.take_within("b.example", s(20)).await);
            let reason = DeferReason::Store { reason: "connection refused".to_owned() };
            assert_eq!((deferral.reason, deferral.wait), (reason, s(2)), "{n}");
        }
        // One that waits is served as soon as one that comes then.
        let waiting = pacer.spawn_take("b.example", s(60));
        sleep(s(1)).await;
        store.heal();
        let back = Instant::now();
        let (permit, at) = waiting.await.unwrap();
        assert!(permit.is_ok());
        assert!(at - back <= s(10), "{:?}", at - back);
    }
}

/// Many processes that want the same hosts, none of which any of them has when the store goes away.
#[tokio::test(start_paused = true)]
async fn no_delay_is_shortened_while_the_store_is_away() {
    let (store, log) = (healthy(), Log::default());
    store.goes_down();
    let pacers = [0, 1, 2, 3].map(|_| process(&store, one_second().with_max_wait(s(300))));
    let end = Instant::now() + s(60);
    let mut tasks = JoinSet::new();
    for (who, pacer) in pacers.iter().enumerate() {
        for n in 0..4 {
            tasks.spawn(log.clone().send_until(end, who, pacer.clone(), format!("h{n}.example"), ms(200)));
        }
    }
    sleep(s(20)).await;
    let back = log.now();
    store.heal();
    tasks.join_all().await;
    log.check(s(1));
    for n in 0..4 {
        let starts = log.starts(&format!("h{n}.example"));
        assert!(starts[0] >= back && starts[0] - back <= s(10), "{:?}", starts[0] - back);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_costs_one_command_and_then_nothing() {
    let store = Arc::new(Faulty::new(0..usize::MAX, Fault::Hang));
    let goes_on = OnStoreOutage::Continue { workers: 1 };
    let pacer = process(&store, one_second().with_store_outage(goes_on).with_store_timeout(ms(40)));
    let began = Instant::now();
    pacer.take("a.example").await.finish();
    let first = began.elapsed();
    assert!(first >= ms(40) && first <= s(1) + ms(40), "and a random start within a delay: {first:?}");
    sleep(s(2)).await;
    let began = Instant::now();
    pacer.take("b.example").await.finish();
    assert_eq!(began.elapsed(), s(0));
}

/// Leases everything, after this long.
#[derive(Debug)]
struct Yes(Duration);

impl HostStore for Yes {
    fn exchange<'a>(&'a self, _: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            sleep(self.0).await;
            Ok((LeaseStatus::Leased { is_wanted: true }, ask.state))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn local_pacing_runs_on_top_of_any_store() {
    let (pacer, log) =
        (Pacer::builder(one_second()).host_store(Arc::new(Yes(ms(0)))).pacer(), Log::default());
    joined(log.crowd(20, &pacer, ms(50))).await;
    log.check(s(1));
    assert_eq!(log.order(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_backoff_set_during_an_exchange_is_seen() {
    let pacer = Pacer::builder(one_second()).host_store(Arc::new(Yes(ms(500)))).pacer();
    let (result, ()) = tokio::join!(pacer.try_take("a.example"), async {
        sleep(ms(200)).await;
        pacer.back_off_for("a.example", s(600));
    });
    assert!(matches!(deferral(result).reason, DeferReason::Backoff { .. }));
    assert_eq!(pacer.stats().in_flight, 0);
}

#[test]
fn a_permit_with_a_lease_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let pacer = Pacer::builder(one_second()).host_store(Arc::new(MemoryStore::new())).pacer();
    let permit = runtime.block_on(pacer.take("a.example"));
    drop(runtime);
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    assert_eq!(pacer.stats().in_flight, 0);
}

#[test]
fn a_pacer_outlives_the_runtime_that_asked_for_its_leases() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let pacer = Pacer::builder(one_second()).host_store(Arc::new(MemoryStore::new())).pacer();
    for n in 0..2 {
        let permit = runtime().block_on(pacer.try_take("a.example"));
        assert!(permit.is_ok(), "in runtime {n}: {permit:?}");
    }
}

#[test]
fn a_host_whose_task_never_ran_is_leased_in_the_next_runtime() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let pacer = process(&healthy(), one_second());
    // The runtime ends before the task begins.
    let begun = async {
        pin!(pacer.try_take("a.example")).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    assert!(runtime().block_on(begun));
    let permit = runtime().block_on(pacer.try_take("a.example"));
    assert!(permit.is_ok(), "{permit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pacer_is_settled_when_the_store_has_its_leases_back() {
    let store = healthy();
    let pacer = process(&store, one_second());
    assert!(pacer.settled(ms(0)).await, "nothing was asked yet");
    let permit = pacer.take("a.example").await;
    assert!(!pacer.settled(s(5)).await, "a response is open");
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    assert!(pacer.settled(s(1)).await);
    assert!(is_free(&*store, "a.example").await);
    assert!(store.state("a.example").await.backoff.unwrap().left > s(58));
    let alone = Pacer::new(one_second());
    let _open = alone.take("a.example").await;
    assert!(alone.settled(ms(0)).await, "there is no store");
}

#[tokio::test(start_paused = true)]
async fn a_backoff_set_without_the_store_is_shared_later() {
    let store = Faulty::from_the_start();
    let pacer = process(&store, one_second());
    for name in ["a.example", "b.example"] {
        pacer.back_off_for(name, s(7_200));
    }
    assert!(!pacer.settled(s(60)).await, "the store does not know");
    sleep(s(600)).await;
    assert!(store.state("a.example").await.backoff.is_none());
    store.heal();
    assert!(pacer.settled(s(5)).await);
    for name in ["a.example", "b.example"] {
        let left = store.state(name).await.backoff.unwrap().left;
        assert!(left > s(6_000) && left <= s(7_200), "{name}: {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_of_ones_own_can_be_left_out_of_leases() {
    let store = healthy();
    let own = || [host("own.example")];
    let policy = || one_second().with_own_sites(own()).danger_unleased(own());
    let pacers = [0, 1].map(|_| process(&store, policy()));
    let both = [pacers[0].take("own.example").await, pacers[1].take("own.example").await];
    assert_eq!(store.calls(), 0);
    drop(both);
    let open = pacers[0].take("a.example").await;
    deferral(pacers[1].take_within("a.example", s(5)).await);
    drop(open);
}

#[tokio::test(start_paused = true)]
async fn a_group_of_hosts_is_leased_as_one() {
    let (store, log) = (Arc::new(MemoryStore::new()), Log::default());
    let policy = one_second().danger_min_delay(s(2)).with_key(group("farm")).with_max_wait(s(300));
    let mut tasks = JoinSet::new();
    for who in 0..3 {
        let pacer = Pacer::builder(policy.clone()).host_store(store.clone()).pacer();
        for n in 0..2 {
            let (pacer, log) = (pacer.clone(), log.clone());
            tasks.spawn(async move {
                for _ in 0..5 {
                    let permit = pacer.take(&format!("h{n}.example")).await;
                    // One server for all.
                    log.serve(who, &page("farm.example"), ms(100), permit).await;
                }
            });
        }
    }
    timeout(s(300), tasks.join_all()).await.unwrap();
    log.check(s(2));
    assert_eq!(log.order().len(), 30);
    assert!(state(&*store, "farm").await.quiet.is_some());
}

#[derive(Debug, Default)]
struct BusyForEver(AtomicU32);

impl HostStore for BusyForEver {
    fn exchange<'a>(&'a self, _: &'a str, _: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        self.0.fetch_add(1, SeqCst);
        let status = LeaseStatus::Busy { wait: Duration::MAX, is_next: false };
        Box::pin(async move { Ok((status, HostState::default())) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_may_name_any_wait() {
    let store = Arc::new(BusyForEver::default());
    let pacer = Pacer::builder(one_second()).host_store(store.clone()).pacer();
    deferral(pacer.take_within("a.example", s(60)).await);
    assert!(store.0.load(SeqCst) > 10, "it is asked again");
}
