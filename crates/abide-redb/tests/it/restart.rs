//! Gaps and holds over restarts: orderly ones, and others. On a manual clock.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::access::AccessStore;
use abide_gate::pacing::{
    Ask, Busy, Cause, Ended, LeaseAsk, LeaseId, PacePolicy, PaceStore, Pacer, Reply, ScopeAsk, ScopeKey,
};
use abide_gate::{Clock, ManualClock, WallMillis};
use abide_redb::Store;
use http::{HeaderMap, StatusCode};
use tokio::time::{advance, sleep};

use crate::support::{Disk, origin, record};

const START: WallMillis = WallMillis(1_800_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
const ASKED: Cause = Cause::Answer { status: 429, retry_after: Some(HOUR) };

/// A disk, and the clock of the machine that it is in.
struct Machine {
    disk: Disk,
    clock: Arc<ManualClock>,
}

impl Machine {
    fn new() -> Self {
        Self { disk: Disk::default(), clock: Arc::new(ManualClock::starting_at(START)) }
    }

    fn open(&self) -> Store {
        let builder = Store::builder().write_behind(HOUR).clock(self.clock.clone());
        builder.open_backend(self.disk.clone()).unwrap()
    }

    /// The machine as it is after its process was killed now.
    fn after_a_kill(&self) -> Self {
        Self { disk: Disk::holding(self.disk.bytes()), clock: self.clock.clone() }
    }
}

fn of(host: &str, gap: Duration) -> [ScopeAsk; 1] {
    [ScopeAsk::new(host.into(), gap, 1)]
}

/// One request that is answered at once.
async fn request(store: &Store, host: &str) {
    let (scopes, lease) = (of(host, SECOND), LeaseId::random());
    let ask = LeaseAsk { lease, max_wait: Duration::ZERO, ttl: 60 * SECOND };
    assert!(matches!(store.reserve(&scopes, ask).await.unwrap(), Reply::Granted { .. }));
    PaceStore::release(store, &scopes, lease, Ended::Response).await.unwrap();
}

/// How long a request would have to wait, and for what. Changes nothing.
async fn wait(store: &Store, host: &str, gap: Duration) -> (Duration, Option<Busy>) {
    let ask = LeaseAsk { lease: LeaseId(1), max_wait: Duration::ZERO, ttl: SECOND };
    match store.reserve(&of(host, gap), ask).await.unwrap() {
        Reply::Refused { wait, reason, .. } => (wait, Some(reason)),
        Reply::Granted { wait, .. } => {
            PaceStore::release(store, &of(host, gap), LeaseId(1), Ended::Unsent).await.unwrap();
            (wait, None)
        }
    }
}

/// Within the milliseconds that rounding takes, and never early.
fn is_about(found: Duration, expected: Duration) -> bool {
    found >= expected && found <= expected + Duration::from_millis(5)
}

#[tokio::test(start_paused = true)]
async fn a_new_file_owes_nobody_anything() {
    let machine = Machine::new();
    assert_eq!(wait(&machine.open(), "a.example", HOUR).await, (Duration::ZERO, None));
}

/// Whether it was closed, dropped or killed, and whatever the wall clock says now.
#[tokio::test(start_paused = true)]
async fn after_every_opening_every_host_waits_a_whole_gap() {
    for jump in [START.minus(YEAR), START.minus(HOUR), START, START.plus(30 * SECOND), START.plus(YEAR)] {
        for end in ["closed", "dropped", "killed"] {
            let machine = Machine::new();
            let store = machine.open();
            request(&store, "a.example").await;
            let killed = machine.after_a_kill();
            if end == "closed" {
                store.close().await.unwrap();
            }
            drop(store);
            let machine = if end == "killed" { killed } else { machine };
            machine.clock.jump_to(jump);
            let store = machine.open();
            for host in ["a.example", "never-asked.example"] {
                for gap in [SECOND, 60 * SECOND, HOUR] {
                    let (wait, reason) = wait(&store, host, gap).await;
                    assert!(wait == gap && reason == Some(Busy::Gap), "{end}, {jump:?}, {host}: {wait:?}");
                }
            }
            sleep(SECOND).await;
            request(&store, "a.example").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_writes_what_is_left() {
    let machine = Machine::new();
    let store = machine.open();
    let other = store.clone();
    drop(store);
    AccessStore::save(&other, &origin(1), &record(1, 1)).await.unwrap();
    drop(other);
    assert_eq!(AccessStore::load(&machine.open(), &origin(1)).await.unwrap(), Some(record(1, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_begins_anew_owes_every_host_a_whole_gap() {
    let machine = Machine::new();
    let store = machine.open();
    request(&store, "a.example").await;
    drop(store);
    let mut bytes = machine.disk.bytes();
    bytes[..64].fill(0xff);
    let damaged = Disk::holding(bytes);
    let builder = || Store::builder().clock(machine.clock.clone());
    assert!(builder().open_backend(damaged.clone()).unwrap_err().is_corrupt());
    let store = builder().rebuild_if_corrupt(true).open_backend(damaged).unwrap();
    let (wait, reason) = wait(&store, "a.example", 60 * SECOND).await;
    assert!(is_about(wait, 60 * SECOND) && reason == Some(Busy::Gap), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_lost_all_its_bytes_is_no_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    drop(Store::open(&path).unwrap());
    std::fs::File::create(&path).unwrap();
    let clock = Arc::new(ManualClock::starting_at(START));
    let store = Store::builder().clock(clock).open(&path).unwrap();
    assert!(is_about(wait(&store, "a.example", 60 * SECOND).await.0, 60 * SECOND));
}

/// The process was killed after the damaged file had been moved aside, and before the new one was there.
#[tokio::test(start_paused = true)]
async fn where_a_damaged_file_was_moved_aside_nothing_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.redb");
    let open = || {
        let clock = Arc::new(ManualClock::starting_at(START));
        Store::builder().clock(clock).rebuild_if_corrupt(true).open(&path).unwrap()
    };
    std::fs::write(directory.path().join("abide.redb2.corrupt-1"), "of another store").unwrap();
    std::fs::write(directory.path().join("other.abide.redb.corrupt-1"), "of another one").unwrap();
    assert_eq!(wait(&open(), "a.example", HOUR).await.0, Duration::ZERO, "it is new");
    std::fs::write(&path, "damaged").unwrap();
    drop(open());
    std::fs::remove_file(&path).unwrap();
    let (wait, reason) = wait(&open(), "a.example", 60 * SECOND).await;
    assert!(is_about(wait, 60 * SECOND) && reason == Some(Busy::Gap), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_outlives_restarts_and_kills() {
    let mut machine = Machine::new();
    let until = START.plus(10 * HOUR);
    let store = machine.open();
    store.hold(&"a.example".into(), until, 1, ASKED).await.unwrap();
    store.hold(&"b.example".into(), START.plus(SECOND), 0, Cause::Operator).await.unwrap();
    // As often as a machine may restart in nine hours: the end stays what it was.
    for n in 1..=9 * 60 {
        sleep(60 * SECOND).await;
        match n % 2 {
            0 => machine.open().close().await.unwrap(),
            _ => {
                let store = machine.open();
                machine = machine.after_a_kill();
                drop(store);
            }
        }
    }
    let store = machine.open();
    let (left, reason) = wait(&store, "a.example", SECOND).await;
    assert!(is_about(left, HOUR), "{left:?}");
    assert_eq!(reason, Some(Busy::Hold { cause: ASKED, strikes: 1 }), "and why it is held");
    assert!(store.peek(&"b.example".into()).await.unwrap().held.is_zero(), "it was over");
    sleep(HOUR).await;
    sleep(SECOND).await;
    assert_eq!(wait(&store, "a.example", SECOND).await.1, None);
}

/// With the whole pacer, which begins anew each time: killed while the host is held, closed then, or killed when the hold is over.
#[tokio::test(start_paused = true)]
async fn the_next_429_after_a_restart_or_a_kill_doubles_from_where_it_stood() {
    let mut machine = Machine::new();
    let url = "http://a.example/".parse().unwrap();
    for (n, expected) in [60, 120, 240, 480, 960, 1_920].into_iter().enumerate() {
        let store = machine.open();
        let pacer = Pacer::builder(PacePolicy::default())
            .store(Arc::new(store.clone()))
            .clock(machine.clock.clone())
            .build();
        let permit = pacer.acquire(&url, Ask::new().budget(HOUR)).await.unwrap();
        let until = permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()).unwrap();
        let held = until.since(machine.clock.wall()).as_secs();
        assert!((expected..=expected + expected / 10).contains(&held), "life {n}: {held}, not {expected}");
        drop(permit);
        // While the disk is waited for, a clock that stands still would run ahead, by minutes on a busy machine.
        tokio::time::resume();
        assert!(pacer.settled(60 * SECOND).await);
        tokio::time::pause();
        if n % 3 == 2 {
            sleep(Duration::from_secs(held + 1) + 25 * 60 * SECOND).await;
        }
        if n % 3 == 1 {
            store.close().await.unwrap();
        }
        machine = machine.after_a_kill();
        drop((pacer, store));
    }
    // Half an hour after the last hold has ended its row is not needed any more.
    sleep(Duration::from_secs(1_920 + 192 + 31 * 60)).await;
    let store = machine.open();
    assert_eq!(store.peek(&"a.example".into()).await.unwrap().strikes, 0);
    store.close().await.unwrap();
    assert_eq!(rows(&machine), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_only_extended_also_over_a_restart() {
    let machine = Machine::new();
    let (store, key) = (machine.open(), ScopeKey::from("a.example"));
    store.hold(&key, START.plus(2 * HOUR), 1, ASKED).await.unwrap();
    store.close().await.unwrap();
    let store = machine.open();
    let end = store.hold(&key, START.plus(HOUR), 0, Cause::Operator).await.unwrap();
    assert_eq!(end, START.plus(2 * HOUR), "a shorter one changes nothing");
    assert_eq!(store.hold(&key, START.plus(3 * HOUR), 1, ASKED).await.unwrap(), START.plus(3 * HOUR));
    let store = machine.after_a_kill().open();
    assert!(is_about(store.peek(&key).await.unwrap().held, 3 * HOUR));
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_by_the_wall_clock_also_over_a_restart_and_locks_nothing_for_ever() {
    for (jump, is_back) in [(YEAR, true), (HOUR, true), (YEAR, false), (HOUR, false)] {
        let machine = Machine::new();
        let store = machine.open();
        store.hold(&"b.example".into(), START.plus(2 * HOUR), 1, ASKED).await.unwrap();
        store.close().await.unwrap();
        let wall = machine.clock.wall();
        machine.clock.jump_to(if is_back { wall.minus(jump) } else { wall.plus(jump) });
        let store = machine.open();
        let held = store.peek(&"b.example".into()).await.unwrap().held;
        match (is_back, jump) {
            // A server's next answer sets it again.
            (false, YEAR) => assert_eq!(held, Duration::ZERO),
            (false, _) => assert!(is_about(held, HOUR), "{held:?}"),
            (true, HOUR) => assert!(is_about(held, 3 * HOUR), "{held:?}"),
            (true, _) => assert_eq!(held, 24 * HOUR, "a hold too far ahead is cut"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_owed_leaves_the_file_at_its_end_and_at_its_opening() {
    let machine = Machine::new();
    let store = machine.open();
    for n in 0..50 {
        store
            .hold(&ScopeKey::from(format!("h{n}.example").as_str()), START.plus(SECOND), 0, ASKED)
            .await
            .unwrap();
    }
    store.close().await.unwrap();
    assert_eq!(rows(&machine), 50);
    let store = machine.open();
    advance(3 * HOUR).await;
    store.hold(&ScopeKey::from("late.example"), START.plus(4 * HOUR), 1, ASKED).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows(&machine), 1);
    advance(3 * HOUR).await;
    machine.open().close().await.unwrap();
    assert_eq!(rows(&machine), 0);
}

/// How many holds are in the file.
fn rows(machine: &Machine) -> u64 {
    use redb::{ReadableDatabase, ReadableTableMetadata};
    const HOLDS: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("holds");
    let disk = Disk::holding(machine.disk.bytes());
    let database = redb::Database::builder().create_with_backend(disk).unwrap();
    database.begin_read().unwrap().open_table(HOLDS).unwrap().len().unwrap()
}
