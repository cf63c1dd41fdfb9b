//! In which order a shared store is told of holds, and that none is left out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "pacing_support/mod.rs"]
mod support;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use abide_gate::pacing::{
    Ask, Cause, Ended, LeaseAsk, LeaseId, MemoryPaceStore, PacePolicy, PaceStore, Pacer, Reply, ScopeAsk,
    ScopeKey, ScopeState, StoreError, StoreFuture,
};
use abide_gate::{Clock, SystemClock, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use support::{host, ms, s, url};

/// Grants everything, writes down what it is told, slowly, and refuses to hear of hosts that begin with `bad`.
#[derive(Debug, Default)]
struct Listener {
    takes: Duration,
    told: Mutex<Vec<String>>,
    losses: AtomicU64,
}

impl Listener {
    fn taking(takes: Duration) -> Arc<Self> {
        Arc::new(Self { takes, ..Self::default() })
    }

    fn lose(&self) {
        self.told.lock().unwrap().clear();
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

impl PaceStore for Listener {
    fn reserve<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async { Ok(Reply::Granted { wait: Duration::ZERO, strikes: 0 }) })
    }

    fn renew<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn release<'a>(&'a self, _: &'a [ScopeAsk], _: LeaseId, _: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        _: u8,
        _: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        Box::pin(async move {
            if !self.takes.is_zero() {
                sleep(self.takes).await;
            }
            if scope.as_str().starts_with("bad") {
                return Err(StoreError::new("wrong type"));
            }
            self.told.lock().unwrap().push(scope.to_string());
            Ok(until)
        })
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    fn peek<'a>(&'a self, _: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        Box::pin(async { Ok(ScopeState::default()) })
    }
}

/// Counts its losses by going through the pacer itself, and then panics.
#[derive(Debug, Default)]
struct Meddler {
    inner: MemoryPaceStore,
    pacer: OnceLock<Pacer>,
    calls: AtomicU64,
}

impl PaceStore for Meddler {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        self.inner.reserve(scopes, ask)
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        self.inner.renew(scopes, lease, ttl)
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        self.inner.release(scopes, lease, ended)
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        self.inner.hold(scope, until, strikes, cause)
    }

    fn losses(&self) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(pacer) = self.pacer.get().filter(|_| call == 1) {
            let other = url(&format!("http://h{call}.example/"));
            let mut asking = pin!(pacer.acquire(&other, Ask::new()));
            assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        panic!("the store's own mistake")
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        self.inner.peek(scope)
    }
}

/// Where a lock is held it waits for itself, so another thread watches.
#[test]
fn a_store_is_asked_for_its_losses_under_no_lock_and_may_panic() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(Meddler::default());
            let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
            store.pacer.set(pacer.clone()).unwrap();
            for name in ["a", "b"] {
                pacer.acquire(&url(&format!("http://{name}.example/")), Ask::new()).await.unwrap().finish();
            }
            tell.send(store.calls.load(Ordering::SeqCst)).unwrap();
        });
    });
    let calls = told.recv_timeout(s(60)).expect("nothing waits for itself, and no panic gets out");
    assert!(calls >= 3, "{calls}: once when it was built, and with each answer");
}

fn pacer(store: &Arc<Listener>) -> Pacer {
    Pacer::builder(PacePolicy::default()).store(store.clone()).build()
}

fn hold(pacer: &Pacer, name: &str) {
    pacer.hold(&host(name), SystemClock.wall().plus(s(7_200)), Cause::Operator);
}

/// So many hosts are held.
fn hold_many(pacer: &Pacer, count: usize) {
    (0..count).for_each(|n| hold(pacer, &format!("h{n}.example")));
}

/// A request, after which the pacer knows how the store is.
async fn ask(pacer: &Pacer) {
    pacer.acquire(&url("http://other.example/"), Ask::new()).await.unwrap().finish();
}

#[tokio::test(start_paused = true)]
async fn a_new_hold_is_told_before_those_that_are_told_again() {
    let store = Listener::taking(ms(10));
    let pacer = pacer(&store);
    hold_many(&pacer, 1_000);
    assert!(pacer.settled(s(60)).await);
    store.lose();
    ask(&pacer).await;
    sleep(ms(95)).await;
    hold(&pacer, "new.example");
    sleep(ms(30)).await;
    let told = store.told();
    assert!(told.len() > 5 && told.len() < 20, "it is being told again: {}", told.len());
    assert!(told.contains(&"new.example".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_hold_that_waits_is_told_though_the_store_loses_what_it_knew() {
    let store = Listener::taking(ms(10));
    let pacer = pacer(&store);
    hold_many(&pacer, 11_000);
    assert!(pacer.settled(s(600)).await);
    store.lose();
    ask(&pacer).await;
    let new = ["new1.example", "new2.example", "new3.example"];
    new.iter().for_each(|name| hold(&pacer, name));
    // Again, while they wait.
    store.lose();
    sleep(s(2)).await;
    ask(&pacer).await;
    sleep(ms(50)).await;
    let told: Vec<_> = store.told().into_iter().filter(|name| name.starts_with("new")).collect();
    assert_eq!(told, new, "in their order");
}

#[tokio::test(start_paused = true)]
async fn all_holds_are_told_again_however_many_there_are() {
    let store = Listener::taking(ms(0));
    let pacer = pacer(&store);
    hold_many(&pacer, 12_000);
    assert!(pacer.settled(s(60)).await);
    store.lose();
    ask(&pacer).await;
    hold(&pacer, "new.example");
    assert!(pacer.settled(s(60)).await);
    let told: HashSet<_> = store.told().into_iter().collect();
    assert_eq!(told.len(), 12_001);
}

#[tokio::test(start_paused = true)]
async fn more_new_holds_than_are_kept_are_told_in_the_end() {
    let store = Listener::taking(ms(1));
    let pacer = pacer(&store);
    hold_many(&pacer, 12_000);
    assert!(pacer.settled(s(600)).await);
    let told: HashSet<_> = store.told().into_iter().collect();
    assert_eq!(told.len(), 12_000);
}

#[tokio::test(start_paused = true)]
async fn holds_in_force_are_told_again_before_strikes() {
    let store = Listener::taking(ms(0));
    let pacer = pacer(&store);
    for n in 0..200 {
        let permit = pacer.acquire(&url(&format!("http://s{n}.example/")), Ask::new()).await.unwrap();
        permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    }
    sleep(s(100)).await;
    hold_many(&pacer, 50);
    assert!(pacer.settled(s(60)).await);
    store.lose();
    ask(&pacer).await;
    assert!(pacer.settled(s(60)).await);
    let told = store.told();
    assert_eq!(told.len(), 250);
    assert!(told[..50].iter().all(|name| name.starts_with('h')), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_be_told_keeps_no_other_waiting() {
    let store = Listener::taking(ms(0));
    let pacer = pacer(&store);
    for n in 0..2 {
        hold(&pacer, &format!("bad{n}.example"));
    }
    hold_many(&pacer, 50);
    for n in 2..4 {
        hold(&pacer, &format!("bad{n}.example"));
    }
    assert!(!pacer.settled(s(60)).await, "some are not told");
    assert_eq!(store.told().len(), 50);
    // Nor when all are told again.
    store.lose();
    ask(&pacer).await;
    assert!(!pacer.settled(s(60)).await);
    ask(&pacer).await;
    assert!(!pacer.settled(s(60)).await);
    let told: HashSet<_> = store.told().into_iter().collect();
    assert_eq!(told.len(), 50);
}

/// Somebody else wants to know how many hosts there are, while the clock is asked for the wall time.
#[derive(Debug, Default)]
struct Nosy {
    pacer: OnceLock<Pacer>,
    was_stuck: AtomicBool,
}

impl Clock for Nosy {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        if let Some(pacer) = self.pacer.get().cloned() {
            let (tell, told) = mpsc::channel();
            thread::spawn(move || tell.send(pacer.stats()));
            self.was_stuck.fetch_or(told.recv_timeout(s(5)).is_err(), Ordering::SeqCst);
        }
        SystemClock.wall()
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_not_asked_while_the_table_is_locked() {
    let (store, clock) = (Listener::taking(ms(0)), Arc::new(Nosy::default()));
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).clock(clock.clone()).build();
    hold(&pacer, "a.example");
    assert!(pacer.settled(s(60)).await);
    store.lose();
    clock.pacer.set(pacer.clone()).unwrap();
    ask(&pacer).await;
    assert!(pacer.settled(s(60)).await);
    assert_eq!(store.told(), ["a.example"]);
    assert!(!clock.was_stuck.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_strike_that_makes_no_hold_longer_is_told() {
    let store = Arc::new(MemoryPaceStore::default());
    let pacer = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    hold(&pacer, "a.example");
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    assert!(pacer.settled(s(60)).await);
    let state = store.peek(&ScopeKey::from("a.example")).await.unwrap();
    assert_eq!(state.strikes, 1);
    assert!(state.held > s(7_100) && state.held <= s(7_200), "{:?}", state.held);
}
