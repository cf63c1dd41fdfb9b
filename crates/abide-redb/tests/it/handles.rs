//! Handles, tasks and runtimes: what blocks, what does not, and which errors are returned.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use abide_gate::pacing::{BackoffCause, HostState, HostStore, LeaseStatus};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::{Clock, HolderId, ManualClock, WallMillis};
use abide_permissions::PermissionStore;
use abide_redb::{Error, Store};
use futures_executor::block_on;
use tokio::task::{JoinSet, yield_now};
use tokio::time::advance;

use crate::support::{
    Disk, HOUR, LEASED, START, THROTTLED, backoff, host, lease, left, load, load_permission, open, origin,
    permission, record, report, reporting, save, save_large, save_permission, url,
};

/// A clock that calls its own store whenever it is read, and panics then.
#[derive(Debug, Default)]
struct Meddler {
    store: OnceLock<Store>,
    is_asked: AtomicBool,
}

impl Meddler {
    fn meddle(&self) -> ! {
        if let Some(store) = self.store.get()
            && !self.is_asked.swap(true, Ordering::SeqCst)
        {
            let (host, ask) = (host(1), reporting(HostState::default()));
            let reply = store.exchange(&host, ask).as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(reply.is_ready());
            self.is_asked.store(false, Ordering::SeqCst);
        }
        panic!("the clock's own mistake")
    }
}

impl Clock for Meddler {
    fn now(&self) -> std::time::Instant {
        self.meddle()
    }

    fn wall(&self) -> WallMillis {
        self.meddle()
    }
}

/// If a lock were held the store would wait for itself, so another thread watches.
#[test]
fn a_clock_is_read_under_no_lock_and_may_panic() {
    let (says, said) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = Arc::new(Meddler::default());
            let store = Store::builder().clock(clock.clone()).open_backend(Disk::default()).unwrap();
            clock.store.set(store.clone()).unwrap();
            let reply = report(&store, &host(1), operators()).await.unwrap();
            store.close().await.unwrap();
            says.send(reply.1.backoff).unwrap();
        });
    });
    let found =
        said.recv_timeout(Duration::from_secs(60)).expect("nothing waits for itself, and no panic gets out");
    assert!(found.is_some());
}

/// A backoff that the operator set.
fn operators() -> HostState {
    backoff(HOUR, 0, BackoffCause::Operator)
}

/// On a runtime of one thread, so that what blocks it stops the test.
#[tokio::test(flavor = "current_thread")]
async fn a_disk_that_hangs_blocks_only_what_waits_for_it() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    save(&store, 1, 1).await.unwrap();
    store.flush().await.unwrap();
    let before = disk.syncs();
    disk.stall(true);
    let mut reports = JoinSet::new();
    // More than tokio has threads for blocking work, which looking up names needs, too.
    for n in 0..600 {
        let store = store.clone();
        reports.spawn(async move { report(&store, &host(n), operators()).await });
    }
    let asks = async |n| lease(&store, &host(n), HolderId(1), HostState::default()).await;
    while asks(599).await.1.backoff.is_none() {
        yield_now().await;
    }
    save(&store, 2, 1).await.unwrap();
    save_permission(&store, 2, 1).await;
    assert_eq!(load(&store, 2).await, Some(record(2, 1)));
    assert_eq!(load_permission(&store, 2).await, Some(permission(2, 1)));
    assert_eq!(load(&store, 1).await, Some(record(1, 1)), "also from the disk");
    assert_eq!(asks(700).await.0, LEASED, "and leases need no disk");
    while disk.syncs() == before {
        yield_now().await;
    }
    let (key, mut context) = (host(0), Context::from_waker(Waker::noop()));
    let mut again = store.exchange(&key, reporting(operators()));
    let (again, first) = (again.as_mut().poll(&mut context), reports.try_join_next());
    // Before anything is asserted: the store would wait for its disk at the end of a test that fails.
    disk.stall(false);
    assert!(again.is_pending(), "reported by another pacer while it is on its way");
    assert!(first.is_none(), "no backoff is acknowledged before it is on the disk");

    assert!(reports.join_all().await.iter().all(Result::is_ok));
    let commits = disk.syncs() - before;
    assert!(commits < 20, "six hundred backoffs are not six hundred commits: {commits}");
}

#[tokio::test]
async fn what_waits_is_written_unasked() {
    let disk = Disk::default();
    let store = Store::builder().write_behind(Duration::from_millis(10)).open_backend(disk).unwrap();
    save(&store, 1, 1).await.unwrap();
    let written = async {
        while store.usage().await.unwrap().robots == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), written).await.expect("it is written some time");
}

/// A crawler that saves faster than the disk writes waits for it, so that what waits stays small.
#[tokio::test]
async fn a_fast_crawler_waits_for_a_slow_disk() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.stall(true);
    let mut saves = JoinSet::new();
    for n in 0..40 {
        let store = store.clone();
        saves.spawn(async move { save_large(&store, n, 500_000).await });
    }
    for _ in 0..200 {
        yield_now().await;
    }
    let mut done = 0;
    while saves.try_join_next().is_some() {
        done += 1;
    }
    // Before anything else: a task that waits for this disk keeps a failing test from ending.
    disk.stall(false);
    assert!((10..=17).contains(&done), "eight MiB of them: {done}");
    assert!(saves.join_all().await.iter().all(Result::is_ok));
    store.flush().await.unwrap();
    assert_eq!(store.usage().await.unwrap().robots, 40);
}

#[tokio::test]
async fn a_backoff_is_written_also_if_its_caller_does_not_wait() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.stall(true);
    for n in 0..20 {
        let key = host(n);
        let exchange = pin!(store.exchange(&key, reporting(operators())));
        // Polled once, and dropped.
        assert!(matches!(exchange.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    disk.stall(false);
    store.flush().await.unwrap();
    let after = open(&Disk::holding(disk.bytes())).unwrap();
    for n in 0..20 {
        assert!(!left(&after, &host(n)).await.is_zero(), "{n}");
    }
}

#[tokio::test]
async fn every_close_waits_until_the_file_is_given_back() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    save(&store, 1, 1).await.unwrap();
    let before = disk.syncs();
    disk.stall(true);
    let (mut closing, let_go) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    for _ in 0..3 {
        let (store, let_go) = (store.clone(), Arc::clone(&let_go));
        closing.spawn(async move { (store.close().await, let_go.load(Ordering::SeqCst)) });
    }
    while disk.syncs() == before {
        yield_now().await;
    }
    let_go.store(true, Ordering::SeqCst);
    disk.stall(false);
    for (closed, was_let_go) in closing.join_all().await {
        closed.unwrap();
        assert!(was_let_go, "it was not written yet");
    }
}

#[tokio::test]
async fn a_closed_store_says_so_and_closing_again_is_no_error() {
    let store = open(&Disk::default()).unwrap();
    let other = store.clone();
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert!(matches!(other.flush().await, Err(Error::Closed { .. })));
    assert!(matches!(other.usage().await, Err(Error::Closed { .. })));
    let said = "has been closed";
    let errors = [
        RobotsStore::load(&other, &origin(1)).await.unwrap_err().to_string(),
        save(&other, 1, 1).await.unwrap_err().to_string(),
        RobotsStore::sweep(&other, WallMillis::from_millis(1)).await.unwrap_err().to_string(),
        PermissionStore::load(&other, &url(1)).await.unwrap_err().to_string(),
        PermissionStore::remove(&other, &url(1)).await.unwrap_err().to_string(),
        report(&other, &host(1), operators()).await.unwrap_err().to_string(),
        report(&other, &host(1), HostState::default()).await.unwrap_err().to_string(),
    ];
    assert!(errors.iter().all(|error| error.contains(said)), "{errors:?}");
}

#[tokio::test]
async fn leases_belong_to_the_process_and_end_with_it() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let take = async |store: &Store, n| lease(store, &host(1), HolderId(n), HostState::default()).await;
    assert_eq!(take(&store, 1).await.0, LEASED);
    let busy = take(&store.clone(), 2).await.0;
    assert!(matches!(busy, LeaseStatus::Busy { .. }), "a clone is the same store: {busy:?}");
    store.close().await.unwrap();
    let store = open(&disk).unwrap();
    let reply = take(&store, 2).await;
    assert_eq!((reply.0, reply.1.quiet), (LEASED, Some(Duration::ZERO)));
}

#[tokio::test]
async fn an_exchange_that_changes_no_backoff_touches_no_disk() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    report(&store, &host(0), backoff(HOUR, 2, THROTTLED)).await.unwrap();
    let before = disk.operations();
    // Later by the time that a command takes; shorter; a lower count.
    for (left, throttles) in [(HOUR + Duration::from_micros(999), 2), (HOUR / 2, 2), (HOUR, 1)] {
        report(&store, &host(0), backoff(left, throttles, THROTTLED)).await.unwrap();
    }
    for n in 0..1_000 {
        let knows = HostState { quiet: Some(Duration::ZERO), delay: HOUR, backoff: None };
        lease(&store, &host(n % 10), HolderId(1), knows).await;
        report(&store, &host(n % 10), knows).await.unwrap();
    }
    // A flush comes after whatever the writer was asked for before.
    store.flush().await.unwrap();
    assert_eq!(disk.operations(), before);
    for (left, throttles) in [(HOUR + Duration::from_millis(2), 2), (HOUR, 3)] {
        let before = disk.operations();
        report(&store, &host(0), backoff(left, throttles, THROTTLED)).await.unwrap();
        assert!(disk.operations() > before, "{left:?}, {throttles}");
    }
}

/// A pacer counts what is left from the reply.
#[tokio::test(start_paused = true)]
async fn a_reply_counts_from_when_the_disk_has_written() {
    let (disk, clock) = (Disk::default(), Arc::new(ManualClock::starting_at(START)));
    let store = Store::builder().clock(clock).open_backend(disk.clone()).unwrap();
    disk.stall(true);
    let slow = store.clone();
    let reported = tokio::spawn(async move { report(&slow, &host(1), backoff(HOUR, 1, THROTTLED)).await });
    while lease(&store, &host(1), HolderId(1), HostState::default()).await.1.backoff.is_none() {
        yield_now().await;
    }
    advance(HOUR / 4).await;
    disk.stall(false);
    let reply = reported.await.unwrap().unwrap();
    assert_eq!(reply.1.backoff.unwrap().left, HOUR * 3 / 4);
}

/// Its holder may have sent a request until then, whatever was reported to the store before.
#[tokio::test(start_paused = true)]
async fn a_host_is_not_forgotten_within_a_delay_of_the_end_of_its_lease() {
    let clock = Arc::new(ManualClock::starting_at(START));
    let store = Store::builder().clock(clock).open_backend(Disk::default()).unwrap();
    let knows = HostState { delay: Duration::from_secs(60), ..HostState::default() };
    lease(&store, &host(1), HolderId(1), knows).await;
    advance(Duration::from_secs(9)).await;
    for n in 2..3_000 {
        report(&store, &host(n), HostState::default()).await.unwrap();
    }
    let reply = lease(&store, &host(1), HolderId(2), HostState::default()).await;
    assert_eq!((reply.0, reply.1.quiet), (LEASED, Some(Duration::from_secs(1))));
}

#[test]
fn it_works_without_a_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("abide.redb")).unwrap();
    block_on(save_permission(&store, 1, 1));
    block_on(store.flush()).unwrap();
    assert_eq!(block_on(load_permission(&store, 1)), Some(permission(1, 1)));
    block_on(store.close()).unwrap();
}
