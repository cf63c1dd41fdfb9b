//! Handles, tasks and runtimes: what blocks, what does not, and who is told what.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use abide_gate::access::{AccessStore, Lease, LeaseHolder};
use abide_gate::pacing::{Ask, Cause, PacePolicy, PaceStore, Pacer};
use abide_gate::testing::access::sample_record;
use abide_gate::{Clock, SystemClock, WallMillis};
use abide_permissions::PermissionStore;
use abide_redb::{Error, Store};
use http::{HeaderMap, StatusCode};
use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;

use crate::support::{Disk, Fault, open, origin, permission, record, scope, url};

/// Asks its own store whatever it is asked, and panics then.
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
            let peeked =
                PaceStore::peek(store, &scope(1)).as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(peeked.is_ready());
            self.is_asked.store(false, Ordering::SeqCst);
        }
        panic!("the clock's own mistake")
    }
}

impl Clock for Meddler {
    fn now(&self) -> Instant {
        self.meddle()
    }

    fn wall(&self) -> WallMillis {
        self.meddle()
    }
}

/// Where a lock is held it waits for itself, so another thread watches.
#[test]
fn a_clock_is_asked_under_no_lock_and_may_panic() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = Arc::new(Meddler::default());
            let store = Store::builder().clock(clock.clone()).open_backend(Disk::default()).unwrap();
            clock.store.set(store.clone()).unwrap();
            store.hold(&scope(1), hour(), 0, Cause::Operator).await.unwrap();
            let held = store.peek(&scope(1)).await.unwrap().held;
            store.close().await.unwrap();
            tell.send(held).unwrap();
        });
    });
    let held =
        told.recv_timeout(Duration::from_secs(60)).expect("nothing waits for itself, and no panic gets out");
    assert!(!held.is_zero());
}

fn hour() -> WallMillis {
    SystemClock.wall().plus(Duration::from_secs(3_600))
}

/// On a runtime of one thread, so that whoever blocks it stops the test.
#[tokio::test(flavor = "current_thread")]
async fn a_disk_that_hangs_blocks_nobody_but_those_who_wait_for_it() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    AccessStore::save(&store, &origin(1), &record(1, 1)).await.unwrap();
    store.flush().await.unwrap();
    disk.stall(true);
    let mut holds = JoinSet::new();
    // More than tokio has threads for blocking work, which looking up names needs, too.
    for n in 0..600 {
        let store = store.clone();
        holds.spawn(async move { store.hold(&scope(n), hour(), 0, Cause::Operator).await });
    }
    while store.peek(&scope(599)).await.unwrap().held.is_zero() {
        yield_now().await;
    }
    AccessStore::save(&store, &origin(2), &record(2, 1)).await.unwrap();
    PermissionStore::save(&store, &permission(2, 1)).await.unwrap();
    assert_eq!(AccessStore::load(&store, &origin(2)).await.unwrap(), Some(record(2, 1)));
    assert_eq!(PermissionStore::load(&store, &url(2)).await.unwrap(), Some(permission(2, 1)));
    assert_eq!(
        AccessStore::load(&store, &origin(1)).await.unwrap(),
        Some(record(1, 1)),
        "also from the disk"
    );
    assert!(holds.try_join_next().is_none(), "no hold is acknowledged before it is on the disk");

    let before = disk.syncs();
    disk.stall(false);
    while let Some(held) = holds.join_next().await {
        held.unwrap().unwrap();
    }
    assert!(
        disk.syncs() - before < 20,
        "six hundred holds are not six hundred commits: {}",
        disk.syncs() - before
    );
}

#[tokio::test]
async fn what_waits_is_written_without_being_asked_for() {
    let disk = Disk::default();
    let store = Store::builder().write_behind(Duration::from_millis(10)).open_backend(disk).unwrap();
    AccessStore::save(&store, &origin(1), &record(1, 1)).await.unwrap();
    let written = async {
        while store.usage().await.unwrap().robots == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), written).await.expect("it is written some time");
}

/// Whoever saves faster than the disk writes waits for it, so that what waits stays small.
#[tokio::test]
async fn a_fast_crawler_waits_for_a_slow_disk() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.stall(true);
    let mut saves = JoinSet::new();
    for n in 0..40 {
        let store = store.clone();
        saves.spawn(async move {
            let large = sample_record(&origin(n), WallMillis(1_800_000_000_000), vec![b'#'; 500_000]);
            AccessStore::save(&store, &origin(n), &large).await
        });
    }
    for _ in 0..200 {
        yield_now().await;
    }
    let mut done = 0;
    while saves.try_join_next().is_some() {
        done += 1;
    }
    // Before anything else: whoever waits for this disk keeps a failing test from ending.
    disk.stall(false);
    assert!((10..=17).contains(&done), "eight MiB of them: {done}");
    while let Some(saved) = saves.join_next().await {
        saved.unwrap().unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(store.usage().await.unwrap().robots, 40);
}

#[tokio::test]
async fn who_does_not_wait_for_his_hold_has_it_all_the_same() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.stall(true);
    for n in 0..20 {
        let (key, until) = (scope(n), hour());
        let hold = pin!(store.hold(&key, until, 0, Cause::Operator));
        // Polled once, and dropped.
        assert!(matches!(hold.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    disk.stall(false);
    store.flush().await.unwrap();
    let after = open(&Disk::holding(disk.bytes())).unwrap();
    for n in 0..20 {
        assert!(!after.peek(&scope(n)).await.unwrap().held.is_zero(), "{n}");
    }
}

#[tokio::test]
async fn whoever_closes_it_waits_until_the_file_is_given_back() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    AccessStore::save(&store, &origin(1), &record(1, 1)).await.unwrap();
    disk.stall(true);
    let mut closing = JoinSet::new();
    for _ in 0..3 {
        let store = store.clone();
        closing.spawn(async move { store.close().await });
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(closing.try_join_next().is_none(), "it is not written yet");
    }
    disk.stall(false);
    while let Some(closed) = closing.join_next().await {
        closed.unwrap().unwrap();
    }
}

#[tokio::test]
async fn whoever_closes_it_is_told_that_it_could_not_be_written() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    AccessStore::save(&store, &origin(1), &record(1, 1)).await.unwrap();
    disk.fail(Fault::From(0));
    for _ in 0..3 {
        assert!(matches!(store.close().await, Err(Error::Io { .. })));
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
        AccessStore::load(&other, &origin(1)).await.unwrap_err().to_string(),
        AccessStore::save(&other, &origin(1), &record(1, 1)).await.unwrap_err().to_string(),
        AccessStore::sweep(&other, WallMillis(1)).await.unwrap_err().to_string(),
        PermissionStore::load(&other, &url(1)).await.unwrap_err().to_string(),
        PermissionStore::remove(&other, &url(1)).await.unwrap_err().to_string(),
        other.hold(&scope(1), hour(), 0, Cause::Operator).await.unwrap_err().to_string(),
        other.peek(&scope(1)).await.unwrap_err().to_string(),
    ];
    assert!(errors.iter().all(|error| error.contains(said)), "{errors:?}");
}

/// The pacer hands a hold over in a task of its own, which another worker may be at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_the_last_answers_are_in_the_file_when_the_pacer_has_settled() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let pacer = Pacer::builder(PacePolicy::default()).store(Arc::new(store.clone())).build();
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, "3600".parse().unwrap())]);
    let mut permits = Vec::new();
    for n in 0..50 {
        let url = format!("http://h{n}.example/").parse().unwrap();
        permits.push(pacer.acquire(&url, Ask::new()).await.unwrap());
    }
    for permit in permits {
        permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &headers);
    }
    assert!(pacer.settled(Duration::from_secs(60)).await);
    store.close().await.unwrap();
    let store = open(&disk).unwrap();
    for n in 0..50 {
        assert!(store.peek(&scope(n)).await.unwrap().held > Duration::from_secs(3_000), "{n}");
    }
}

#[tokio::test]
async fn leases_belong_to_the_process_and_end_with_it() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let (minute, now) = (Duration::from_secs(60), SystemClock.wall());
    let lease = async |store: &Store, holder| {
        AccessStore::lease(store, &origin(1), LeaseHolder(holder), now, minute).await.unwrap()
    };
    assert_eq!(lease(&store, 1).await, Lease::Leader);
    assert!(matches!(lease(&store.clone(), 2).await, Lease::Follow { .. }), "a clone is the same store");
    store.close().await.unwrap();
    assert_eq!(lease(&open(&disk).unwrap(), 2).await, Lease::Leader, "who fetched it is gone");
}

#[test]
fn it_works_without_a_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("abide.redb")).unwrap();
    wait_for(PermissionStore::save(&store, &permission(1, 1))).unwrap();
    wait_for(store.flush()).unwrap();
    assert_eq!(wait_for(PermissionStore::load(&store, &url(1))).unwrap(), Some(permission(1, 1)));
    wait_for(store.close()).unwrap();
}

/// A runtime of one future.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Thread(std::thread::current()))));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}
