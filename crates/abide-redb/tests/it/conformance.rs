//! The suites that every store passes.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use abide_gate::pacing::{DELAY_MAX, HostState, HostStore};
use abide_gate::testing::hosts::{self, Beginning};
use abide_gate::testing::robots_cache;
use abide_gate::{Clock, ManualClock, WallMillis};
use abide_permissions::{MemoryPermissionStore, PermissionStore, testing as permissions};
use abide_redb::Store;
use redb::backends::InMemoryBackend;

use crate::support::{Disk, START, open, permission, url};

fn in_memory() -> Store {
    Store::builder().open_backend(InMemoryBackend::new()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_a_robots_store() {
    robots_cache::conformance(async || in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_a_permission_store() {
    permissions::conformance(async || in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_records_in_a_file_that_is_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let n = std::cell::Cell::new(0);
    let open = async || {
        n.set(n.get() + 1);
        let path = directory.path().join(format!("{}.redb", n.get()));
        Store::builder().write_behind(Duration::ZERO).open(path).unwrap()
    };
    robots_cache::conformance(open).await;
    permissions::conformance(open).await;
}

#[tokio::test]
async fn records_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let open = async || Store::open(directory.path().join("a.redb")).unwrap();
    robots_cache::survives_reopening(open).await;
    permissions::survives_reopening(open).await;
}

/// Whatever of them still waits and whatever is on the disk already.
#[tokio::test]
async fn records_of_permissions_are_those_that_memory_would_keep() {
    let year = 365 * 86_400_000;
    let steps = [Some(2), Some(1), None, Some(1), Some(year), Some(1), None];
    for flushes in 0..1_u32 << steps.len() {
        let (store, url) = (open(&Disk::default()).unwrap(), url(1));
        let model = MemoryPermissionStore::new(NonZeroUsize::MIN);
        for (n, step) in steps.into_iter().enumerate() {
            for store in [&store as &dyn PermissionStore, &model] {
                let done = match step {
                    Some(version) => store.save(&permission(1, version)).await,
                    None => store.remove(&url).await,
                };
                done.unwrap();
            }
            if flushes & 1 << n != 0 {
                store.flush().await.unwrap();
            }
            let found = PermissionStore::load(&store, &url).await.unwrap();
            assert_eq!(found, model.load(&url).await.unwrap(), "step {n}, flushes {flushes:b}");
        }
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn it_is_a_host_store() {
    hosts::conformance(Arc::new(in_memory()), tokio::time::sleep).await;
}

/// A clock that goes on as a test says.
#[derive(Debug)]
struct Stepped(Mutex<Instant>);

impl Clock for Stepped {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn wall(&self) -> WallMillis {
        START
    }
}

/// Which has a line of time that began a day before it was opened, when every host may have had a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_exchanges_equal_the_plain_function() {
    let opened = Instant::now();
    let clock = Arc::new(Stepped(Mutex::new(opened)));
    let store = Arc::new(Store::builder().clock(clock.clone()).open_backend(InMemoryBackend::new()).unwrap());
    let known = HostState { quiet: Some(Duration::ZERO), ..HostState::default() };
    let beginning = Beginning { now: DELAY_MAX, known, ..Beginning::default() };
    hosts::exchanges_equal_the_plain_function(beginning, |host, ask, now| {
        *clock.0.lock().unwrap() = opened + (now - DELAY_MAX);
        let store = Arc::clone(&store);
        async move { store.exchange(&host, ask).await.unwrap() }
    })
    .await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn it_forgives_throttle_counts() {
    hosts::throttle_counts_are_forgiven(Arc::new(in_memory()), tokio::time::sleep).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn the_wall_clock_does_not_matter_while_it_is_open() {
    let clock = Arc::new(ManualClock::starting_at(START));
    let store = Store::builder().clock(clock.clone()).open_backend(InMemoryBackend::new()).unwrap();
    hosts::survives_a_clock_set_back(Arc::new(store), tokio::time::sleep, |by| {
        clock.jump_to(START.minus(by))
    })
    .await;
}

#[tokio::test]
async fn backoffs_survive_reopening_also_with_a_clock_set_back() {
    let directory = tempfile::tempdir().unwrap();
    for set_back in [0, 1, 100].map(|hours| Duration::from_secs(hours * 3_600)) {
        let path = directory.path().join(format!("{set_back:?}.redb"));
        let clock = Arc::new(ManualClock::starting_at(START));
        let open = || Arc::new(Store::builder().clock(clock.clone()).open(&path).unwrap());
        hosts::backoffs_survive_reload(open(), async |store| {
            drop(store);
            if !set_back.is_zero() {
                clock.jump_to(START.minus(set_back));
            }
            open() as Arc<_>
        })
        .await;
    }
}
