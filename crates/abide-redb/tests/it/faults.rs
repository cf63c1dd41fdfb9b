//! The disk fails: once, from then on, or because it is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::HostState;
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::hosts;
use abide_gate::testing::robots_cache::{sample_record, unpaced};
use abide_gate::{Event, Gate, HolderId};
use abide_redb::{Error, Store};
use http::StatusCode;
use tokio::time::sleep;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{
    Disk, Fault, HOUR, LEASED, Ledger, START, Still, THROTTLED, backoff, host, lease, left, load, open,
    origin, page, record, report, retry_after, save, save_large, steps,
};

/// One operation of the disk fails, each in turn. What was acknowledged is there after the next opening; and
/// what was not is written as soon as the disk works again.
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
    save(store, n, 1).await.unwrap_err();
    assert_eq!(load(store, n).await, Some(record(n, 1)), "what could not be written is in memory");

    let error = report(store, &host(n), backoff(HOUR, 1, THROTTLED)).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read or written"), "{error}");
    let reply = lease(store, &host(n), HolderId(1), HostState::default()).await;
    assert!(reply.1.backoff.is_some(), "and the backoff counts");
    let reply = lease(store, &host(n + 1), HolderId(1), HostState::default()).await;
    assert_eq!(reply.0, LEASED, "and leases need no disk");
}

/// The pacer reports it again until the store has replied. So the store must not reply while it has it only
/// in memory.
#[tokio::test(start_paused = true)]
async fn a_backoff_that_cannot_be_written_is_one_outage() {
    let (disk, outages) = (Disk::default(), Arc::new(Mutex::new(Vec::new())));
    let (store, recorder) = (open(&disk).unwrap(), Arc::clone(&outages));
    let observer = move |event: &Event<'_>| match event {
        Event::StoreDown { .. } => recorder.lock().unwrap().push("down"),
        Event::StoreBack => recorder.lock().unwrap().push("back"),
        _ => {}
    };
    let gate = hosts::gate(Gate::builder().host_store(Arc::new(store)).observer(Arc::new(observer)));
    let permit = hosts::acquire(&gate, &page(1), Duration::ZERO, HOUR).await.unwrap();
    disk.fail(Fault::From(0));
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &retry_after("80000")).unwrap();
    permit.saved().await;
    for n in 2..30 {
        sleep(Duration::from_secs(1)).await;
        hosts::acquire(&gate, &page(n), Duration::ZERO, HOUR).await.unwrap().finish();
    }
    assert_eq!(*outages.lock().unwrap(), ["down"], "the crawler goes on, and nothing is written");

    disk.fail(Fault::None);
    tokio::time::resume();
    while outages.lock().unwrap().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let after = open(&Disk::holding(disk.bytes())).unwrap();
    assert!(left(&after, &host(1)).await > HOUR);
}

/// Writes large records until one cannot be written, and returns how many could.
async fn fill(store: &Store) -> u64 {
    for n in 0..1_000 {
        let _ = save_large(store, n, 20_000).await;
        match store.flush().await {
            Ok(()) => {}
            Err(Error::Io { .. }) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk was not full after 20 MB");
}

async fn has_all(store: &Store, records: impl IntoIterator<Item = u64>, why: &str) {
    for n in records {
        assert!(load(store, n).await.is_some(), "{why}: {n}");
    }
}

/// A disk is filled, and then gets more room.
async fn is_full_for_a_while(open: impl Fn() -> Store, make_room: impl FnOnce()) {
    let store = open();
    let written = fill(&store).await;
    assert!(written > 5, "{written}");
    goes_on_in_memory(&store).await;
    has_all(&store, 0..=written, "a full disk still reads").await;
    make_room();
    store.flush().await.unwrap();
    store.close().await.unwrap();
    let store = open();
    has_all(&store, (0..=written).chain([7_000]), "written when there was room").await;
    assert!(!left(&store, &host(7_000)).await.is_zero(), "and so was the backoff");
}

#[tokio::test]
async fn a_full_disk_stops_the_writing_and_nothing_else() {
    let disk = Disk::of_size(2 << 20);
    is_full_for_a_while(|| open(&disk).unwrap(), || disk.set_room(None)).await;
}

#[tokio::test]
async fn a_full_disk_at_close_is_an_error_and_loses_nothing_written() {
    let disk = Disk::of_size(2 << 20);
    let store = open(&disk).unwrap();
    let written = fill(&store).await;
    for _ in 0..3 {
        assert!(matches!(store.close().await, Err(Error::Io { .. })));
    }
    assert!(matches!(store.flush().await, Err(Error::Closed { .. })));
    disk.set_room(None);
    has_all(&open(&disk).unwrap(), 0..written, "it was written").await;
}

/// A record of a site that has answered 503 since its robots.txt of 500 kB was read. It is written before
/// others.
async fn failing(n: u64) -> RobotsRecord {
    let (store, origin) = (Arc::new(MemoryStore::new()), origin(n));
    store.save(&origin, &sample_record(&origin, START, vec![b'#'; 500_000])).await.unwrap();
    let settings = Gate::builder().robots_store(store.clone()).clock(Still::at(START.plus(HOUR * 48)));
    let fetch = Arc::new(ScriptedFetch::always(Scripted::status(503)));
    unpaced(settings, vec!["TestBot".parse().unwrap()], fetch).entry(&origin).await.unwrap();
    store.load(&origin).await.unwrap().unwrap()
}

/// While the disk fails what waits is bounded.
#[tokio::test]
async fn a_disk_that_is_gone_does_not_fill_the_memory() {
    for is_failing in [false, true] {
        let disk = Disk::default();
        let store = open(&disk).unwrap();
        disk.fail(Fault::From(0));
        for n in 0..200 {
            let _ = match is_failing {
                true => RobotsStore::save(&store, &origin(n), &failing(n).await).await,
                false => save_large(&store, n, 500_000).await,
            };
        }
        let mut waiting = 0;
        for n in 0..200 {
            waiting += u64::from(matches!(RobotsStore::load(&store, &origin(n)).await, Ok(Some(_))));
        }
        assert!((50..90).contains(&waiting), "32 MiB, and 8 more that have just come: {waiting}");
    }
}

/// redb returns an error of the file system for every read after it, until the file is opened again.
#[tokio::test]
async fn a_read_that_fails_once_is_tried_again() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    for n in 0..2_000 {
        save(&store, n, n).await.unwrap();
    }
    store.close().await.unwrap();
    let store = Store::builder().cache_size(0).clock(Still::at(START)).open_backend(disk.clone()).unwrap();
    disk.fail(Fault::Once(disk.operations()));
    has_all(&store, (0..2_000).step_by(100), "the disk has failed once").await;
}

/// A file system in memory, for as long as this lives.
struct FileSystem(PathBuf);

impl FileSystem {
    fn mount(at: &Path, options: &str) -> Result<Self, String> {
        let mut mount = Command::new("mount");
        match mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output() {
            Ok(output) if output.status.success() => Ok(Self(at.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_file_system_stops_the_writing_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let _mounted = match FileSystem::mount(directory.path(), "size=1m") {
        Ok(mounted) => mounted,
        Err(why) => return eprintln!("SKIPPED: no file system of 1 MiB could be mounted: {why}"),
    };
    let path = directory.path().join("abide.redb");
    let open = || Store::builder().write_behind(HOUR).clock(Still::at(START)).open(&path).unwrap();
    let make_room = || std::mem::forget(FileSystem::mount(directory.path(), "remount,size=8m").unwrap());
    is_full_for_a_while(open, make_room).await;
}
