//! The disk fails: once, from then on, or because it is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::HostState;
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::hosts;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Event, Gate, HolderId};
use abide_redb::{Error, Store};
use http::{HeaderMap, StatusCode};
use tokio::time::sleep;

use crate::support::{
    Disk, Fault, HOUR, LEASED, Ledger, THROTTLED, backoff, host, lease, left, open, origin, record, steps,
    tell,
};

/// One operation of the disk fails, each in turn. What was acknowledged is there after the next opening; and what was not is written
/// as soon as the disk works again.
#[tokio::test]
async fn a_disk_that_fails_once_loses_nothing() {
    let steps = steps(2, 1, 24, 4);
    let mut total = u64::MAX;
    let mut k = 0;
    while k < total {
        let (disk, mut ledger) = (Disk::default(), Ledger::default());
        disk.fail(Fault::Once(k));
        let Ok(store) = open(&disk) else {
            k += 1;
            continue;
        };
        for step in &steps {
            ledger.step(&store, *step).await;
        }
        disk.fail(Fault::None);
        store.flush().await.unwrap_or_else(|error| panic!("{k}: it works again: {error}"));
        ledger.acknowledged();
        ledger.check(&store, &format!("fault {k}, the same process")).await;
        store.close().await.unwrap();
        ledger.check(&open(&disk).unwrap(), &format!("fault {k}, the next process")).await;
        total = disk.operations().min(total);
        k += 1;
    }
    assert!(k > 100, "{k}");
}

/// What a store must still do when nothing can be written any more.
async fn goes_on_in_memory(store: &Store) {
    let n = 7_000;
    RobotsStore::save(store, &origin(n), &record(n, 1)).await.unwrap_err();
    let found = RobotsStore::load(store, &origin(n)).await.unwrap();
    assert_eq!(found, Some(record(n, 1)), "what could not be written is in memory");

    let error = tell(store, &host(n), backoff(HOUR, 1, THROTTLED)).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read or written"), "{error}");
    let reply = lease(store, &host(n), HolderId(1), HostState::default()).await;
    assert!(reply.1.backoff.is_some(), "and the backoff counts");
    let reply = lease(store, &host(n + 1), HolderId(1), HostState::default()).await;
    assert_eq!(reply.0, LEASED, "and leases need no disk");
}

/// The pacer tells a backoff until the store has replied. So a reply must not come because the backoff is known, while it is only known.
#[tokio::test]
async fn a_backoff_saved_again_is_on_the_disk_or_an_error_again() {
    let (disk, told) = (Disk::default(), backoff(HOUR, 1, THROTTLED));
    let store = open(&disk).unwrap();
    disk.fail(Fault::From(0));
    for told in [told, told, HostState::default()] {
        tell(&store, &host(1), told).await.unwrap_err();
    }
    tell(&store, &host(2), HostState::default()).await.unwrap();
    disk.fail(Fault::None);
    tell(&store, &host(1), told).await.unwrap();
    let after = open(&Disk::holding(disk.bytes())).unwrap();
    assert!(!left(&after, &host(1)).await.is_zero());
}

/// What the pacer said of its store.
#[derive(Debug, Default)]
struct Outages(Mutex<Vec<&'static str>>);

impl Outages {
    fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::StoreDown { .. } => self.0.lock().unwrap().push("down"),
            Event::StoreBack => self.0.lock().unwrap().push("back"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_cannot_be_written_is_one_outage() {
    let (disk, outages) = (Disk::default(), Arc::new(Outages::default()));
    let store = open(&disk).unwrap();
    let gate = hosts::gate(Gate::builder().host_store(Arc::new(store)).observer(outages.observer()));
    let url = |n| format!("http://h{n}.example/").parse().unwrap();
    let permit = hosts::acquire(&gate, &url(1), Duration::ZERO, HOUR).await.unwrap();
    disk.fail(Fault::From(0));
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, "80000".parse().unwrap())]);
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &headers).unwrap();
    permit.saved().await;
    for n in 2..30 {
        sleep(Duration::from_secs(1)).await;
        hosts::acquire(&gate, &url(n), Duration::ZERO, HOUR).await.unwrap().finish();
    }
    assert_eq!(*outages.0.lock().unwrap(), ["down"], "the crawler goes on, and nothing is written");

    disk.fail(Fault::None);
    tokio::time::resume();
    while outages.0.lock().unwrap().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let after = open(&Disk::holding(disk.bytes())).unwrap();
    assert!(left(&after, &host(1)).await > HOUR);
}

/// Writes large records until one cannot be written, and returns how many could.
async fn fill(store: &Store) -> u64 {
    for n in 0..1_000 {
        let large = sample_record(
            &origin(n),
            abide_gate::WallMillis::from_millis(1_800_000_000_000 + n),
            vec![b'#'; 20_000],
        );
        let _ = RobotsStore::save(store, &origin(n), &large).await;
        match store.flush().await {
            Ok(()) => {}
            Err(Error::Io { .. }) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk was not full after 20 MB");
}

#[tokio::test]
async fn a_full_disk_stops_the_writing_and_nothing_else() {
    let disk = Disk::of_size(2 << 20);
    let store = open(&disk).unwrap();
    let written = fill(&store).await;
    assert!(written > 5, "{written}");
    goes_on_in_memory(&store).await;
    for n in 0..=written {
        assert!(
            RobotsStore::load(&store, &origin(n)).await.unwrap().is_some(),
            "a full disk still reads: {n}"
        );
    }
    disk.set_room(None);
    store.flush().await.unwrap();
    store.close().await.unwrap();
    let store = open(&disk).unwrap();
    for n in (0..=written).chain([7_000]) {
        assert!(
            RobotsStore::load(&store, &origin(n)).await.unwrap().is_some(),
            "written when there was room: {n}"
        );
    }
    assert!(!left(&store, &host(7_000)).await.is_zero(), "and so was the backoff");
}

#[tokio::test]
async fn a_full_disk_at_close_is_an_error_and_loses_nothing_written() {
    let disk = Disk::of_size(2 << 20);
    let store = open(&disk).unwrap();
    let written = fill(&store).await;
    assert!(matches!(store.close().await, Err(Error::Io { .. })));
    assert!(matches!(store.flush().await, Err(Error::Closed { .. })));
    disk.set_room(None);
    let store = open(&disk).unwrap();
    for n in 0..written {
        assert!(RobotsStore::load(&store, &origin(n)).await.unwrap().is_some());
    }
}

/// While the disk fails what waits is bounded.
#[tokio::test]
async fn a_disk_that_is_gone_does_not_fill_the_memory() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.fail(Fault::From(0));
    for n in 0..200 {
        let large = sample_record(
            &origin(n),
            abide_gate::WallMillis::from_millis(1_800_000_000_000 + n),
            vec![b'#'; 500_000],
        );
        let _ = RobotsStore::save(&store, &origin(n), &large).await;
    }
    let mut waiting = 0;
    for n in 0..200 {
        waiting += u64::from(matches!(RobotsStore::load(&store, &origin(n)).await, Ok(Some(_))));
    }
    assert!((50..90).contains(&waiting), "32 MiB, and 8 more that have just come: {waiting}");
}

/// A file system of 1 MiB, for as long as this lives.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Result<Self, String> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
        match mount {
            Ok(output) if output.status.success() => Ok(Self(at.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_file_system_stops_the_writing_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file_system = match Small::mount(directory.path()) {
        Ok(file_system) => file_system,
        Err(why) => {
            eprintln!("SKIPPED: no file system of 1 MiB could be mounted: {why}");
            return;
        }
    };
    let path = directory.path().join("abide.redb");
    let store = Store::builder().write_behind(Duration::from_secs(3_600)).open(&path).unwrap();
    let written = fill(&store).await;
    goes_on_in_memory(&store).await;
    for n in 0..written {
        assert!(RobotsStore::load(&store, &origin(n)).await.unwrap().is_some(), "{n}");
    }
    drop(store);
    let store = Store::open(&path).unwrap();
    for n in 0..written {
        assert!(RobotsStore::load(&store, &origin(n)).await.unwrap().is_some(), "{n}");
    }
    drop(store);
    drop(file_system);
}
