//! Delays and backoffs over restarts: orderly ones, and others. On a manual clock.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::{BackoffCause, HostState, PacePolicy};
use abide_gate::testing::hosts;
use abide_gate::{Clock, Gate, ManualClock};
use abide_redb::Store;
use tokio::time::{Instant, advance, sleep};

use crate::support::{
    Disk, HOUR, START, THROTTLED, backoff, host, left, load, page, record, report, save, state,
};

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

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
        let builder = Store::builder().write_behind(HOUR).rebuild_if_corrupt(true).clock(self.clock.clone());
        builder.open_backend(self.disk.clone()).unwrap()
    }

    fn jump(&self, by: Duration, is_back: bool) {
        let wall = self.clock.wall();
        self.clock.jump_to(if is_back { wall.minus(by) } else { wall.plus(by) });
    }

    fn after_a_kill(&self) -> Self {
        Self { disk: Disk::holding(self.disk.bytes()), clock: self.clock.clone() }
    }
}

/// One request that is answered at once.
async fn request(store: &Store, n: u64) {
    let knows = HostState { quiet: Some(Duration::ZERO), delay: SECOND, backoff: None };
    report(store, &host(n), knows).await.unwrap();
}

/// Within the milliseconds that rounding takes, and never early.
fn is_about(found: Duration, expected: Duration) -> bool {
    found >= expected && found <= expected + Duration::from_millis(5)
}

/// Whether it was closed, dropped, killed, damaged or never there, and whatever the wall clock says now.
#[tokio::test(start_paused = true)]
async fn after_every_opening_every_host_waits_a_whole_delay() {
    for jump in [START.minus(YEAR), START.minus(HOUR), START, START.plus(30 * SECOND), START.plus(YEAR)] {
        for end in ["closed", "dropped", "killed", "damaged", "new"] {
            let machine = Machine::new();
            let store = machine.open();
            request(&store, 1).await;
            sleep(2 * SECOND).await;
            let killed = machine.after_a_kill();
            if end == "closed" {
                store.close().await.unwrap();
            }
            drop(store);
            let disk = match end {
                "killed" => killed.disk,
                "damaged" => Disk::holding(vec![0xff; 10_000]),
                "new" => Disk::default(),
                _ => machine.disk,
            };
            let machine = Machine { disk, ..killed };
            machine.clock.jump_to(jump);
            let (store, opened) = (machine.open(), Instant::now());
            let gate = hosts::gate(Gate::builder().host_store(Arc::new(store.clone())));
            for (n, delay) in [(1, PacePolicy::DELAY), (2, 60 * SECOND), (3, 600 * SECOND)] {
                let quiet = state(&store, &host(n)).await.quiet;
                assert_eq!(quiet, Some(opened.elapsed()), "{end}, {jump:?}, host {n}");
                hosts::acquire(&gate, &page(n), delay, 2 * HOUR).await.unwrap().finish();
                let found = opened.elapsed();
                assert!(is_about(found, delay), "{end}, {jump:?}, host {n}: {found:?} after the opening");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_writes_what_is_left() {
    let machine = Machine::new();
    let store = machine.open();
    let other = store.clone();
    drop(store);
    save(&other, 1, 1).await.unwrap();
    drop(other);
    assert_eq!(load(&machine.open(), 1).await, Some(record(1, 1)));
}

#[tokio::test(start_paused = true)]
async fn retry_after_outlives_restarts_and_kills() {
    let mut machine = Machine::new();
    let store = machine.open();
    report(&store, &host(1), backoff(10 * HOUR, 1, THROTTLED)).await.unwrap();
    report(&store, &host(2), backoff(SECOND, 0, BackoffCause::Operator)).await.unwrap();
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
    let found = state(&store, &host(1)).await.backoff.unwrap();
    assert!(is_about(found.left, HOUR), "{found:?}");
    assert_eq!((found.throttles, found.cause), (1, THROTTLED), "and why it is backed off");
    assert_eq!(state(&store, &host(2)).await.backoff, None, "it was over");
    sleep(HOUR + SECOND).await;
    assert_eq!(left(&store, &host(1)).await, Duration::ZERO);
}

/// A clock that is set in one life changes nothing there. The next life goes by the wall clock, and cuts what
/// is too far ahead: once, so that it also ends if that life is killed.
#[tokio::test(start_paused = true)]
async fn a_backoff_ends_by_the_wall_clock_over_a_restart() {
    for (is_open, jump, is_back, next) in [
        (true, YEAR, false, HOUR),
        (true, HOUR, false, HOUR),
        (true, HOUR, true, 2 * HOUR),
        (true, YEAR, true, 24 * HOUR),
        // A server's next answer sets it again.
        (false, YEAR, false, Duration::ZERO),
        (false, HOUR, false, Duration::ZERO),
        (false, HOUR, true, 2 * HOUR),
        (false, YEAR, true, 24 * HOUR),
    ] {
        let machine = Machine::new();
        let store = machine.open();
        report(&store, &host(1), backoff(2 * HOUR, 1, THROTTLED)).await.unwrap();
        if is_open {
            machine.jump(jump, is_back);
        }
        assert_eq!(left(&store, &host(1)).await, 2 * HOUR);
        sleep(HOUR).await;
        assert_eq!(left(&store, &host(1)).await, HOUR);
        store.close().await.unwrap();
        if !is_open {
            machine.jump(jump, is_back);
        }
        let store = machine.open();
        let found = left(&store, &host(1)).await;
        assert!(is_about(found, next), "set while open: {is_open}, {jump:?} back: {is_back}: {found:?}");
        store.flush().await.unwrap();
        let after = machine.after_a_kill();
        sleep(HOUR / 2).await;
        let found = left(&after.open(), &host(1)).await;
        assert!(is_about(found, next.saturating_sub(HOUR / 2)), "and after a kill: {found:?}");
    }
}

/// Both clocks run in finer steps than the file knows, and an end that is later by less than its step is not
/// written.
#[tokio::test(start_paused = true)]
async fn no_part_of_a_millisecond_is_lost_by_a_restart() {
    for (shift, part, again) in [(0, 0, 999), (1, 999, 0), (999, 1, 999), (999, 999, 999)] {
        let machine = Machine::new();
        advance(Duration::from_micros(shift)).await;
        let store = machine.open();
        for part in [part, part + again] {
            let state = backoff(HOUR + Duration::from_micros(part), 1, THROTTLED);
            report(&store, &host(1), state).await.unwrap();
        }
        let after = machine.after_a_kill();
        advance(Duration::from_micros(1_000 - shift)).await;
        let expected = left(&store, &host(1)).await;
        let found = left(&after.open(), &host(1)).await;
        assert!(is_about(found, expected), "{shift}, {part}, {again}: {found:?} of {expected:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_owed_leaves_the_file() {
    let mut machine = Machine::new();
    let store = machine.open();
    for n in 0..50 {
        report(&store, &host(n), backoff(SECOND, 0, THROTTLED)).await.unwrap();
    }
    let killed = machine.after_a_kill();
    assert_eq!(rows(&killed), 50);
    advance(HOUR).await;
    for _ in 0..1_024 {
        report(&store, &host(60), HostState::default()).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(rows(&machine.after_a_kill()), 0, "forgotten, after so many exchanges");
    let store = killed.open();
    store.flush().await.unwrap();
    assert_eq!(rows(&killed.after_a_kill()), 0, "at the opening");

    report(&store, &host(1), backoff(SECOND, 0, THROTTLED)).await.unwrap();
    report(&store, &host(2), backoff(4 * HOUR, 1, THROTTLED)).await.unwrap();
    advance(HOUR).await;
    machine = killed;
    store.close().await.unwrap();
    assert_eq!(rows(&machine), 1, "at the end");
}

/// How many backoffs are in the file.
fn rows(machine: &Machine) -> u64 {
    use redb::{ReadableDatabase, ReadableTableMetadata};
    const BACKOFFS: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("backoffs");
    let disk = Disk::holding(machine.disk.bytes());
    let database = redb::Database::builder().create_with_backend(disk).unwrap();
    database.begin_read().unwrap().open_table(BACKOFFS).unwrap().len().unwrap()
}
