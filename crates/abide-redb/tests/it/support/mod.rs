//! What the tests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide_gate::access::{AccessCache, AccessStore, MemoryAccessStore, Record};
use abide_gate::pacing::{Cause, PaceStore, ScopeKey};
use abide_gate::testing::access::{Scripted, ScriptedFetch, sample_record};
use abide_gate::{Clock, Origin, SystemClock, WallMillis};
use abide_permissions::{Head, PermissionRecord, PermissionStore, Visit};
use abide_redb::{Error, Store};
use tokio::time::Instant;

mod disk;

pub(crate) use disk::{Disk, Fault};

/// Chance that follows from a number (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for n in (1..list.len()).rev() {
            list.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}

/// The time that tests count from; now, to the second, since holds are only kept while they last.
pub(crate) fn start() -> WallMillis {
    WallMillis(SystemClock.wall().0 / 1_000 * 1_000)
}

pub(crate) fn origin(n: u64) -> Origin {
    format!("https://h{n}.example").parse().unwrap()
}

pub(crate) fn scope(n: u64) -> ScopeKey {
    ScopeKey::from(format!("h{n}.example").as_str())
}

/// The `version`th record of an origin. The version is in its time and in its text, so that a mixture of two is seen.
pub(crate) fn record(n: u64, version: u64) -> Record {
    let text = format!("User-agent: *\nDisallow: /{n}/{version}/\n").repeat(1 + (n % 7) as usize * 9);
    sample_record(&origin(n), WallMillis(1_800_000_000_000 + version), text)
}

/// The `version`th record of an origin that answers 503.
pub(crate) async fn failing(n: u64, version: u64) -> Record {
    #[derive(Debug)]
    struct At(WallMillis);
    impl Clock for At {
        fn now(&self) -> Instant {
            Instant::now()
        }
        fn wall(&self) -> WallMillis {
            self.0
        }
    }
    let (store, origin) = (Arc::new(MemoryAccessStore::new()), down(n));
    let fetch = ScriptedFetch::always(Scripted::status(503));
    let cache = AccessCache::builder(vec!["TestBot".parse().unwrap()], Arc::new(fetch))
        .store(store.clone())
        .clock(Arc::new(At(WallMillis(1_800_000_000_000 + version))))
        .seed(n)
        .build();
    cache.of(&origin).await.unwrap();
    let record = store.load(&origin).await.unwrap().unwrap();
    assert!(record.failing_since().is_some());
    record
}

pub(crate) fn down(n: u64) -> Origin {
    format!("https://down{n}.example").parse().unwrap()
}

pub(crate) fn version_of(record: &Record) -> u64 {
    record.asked_at().0 - 1_800_000_000_000
}

pub(crate) fn url(n: u64) -> String {
    format!("https://h{n}.example/page")
}

pub(crate) fn permission(n: u64, version: u64) -> PermissionRecord {
    let line = format!("*;noindex, OtherBot;v{version}");
    let received = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + version);
    PermissionRecord::new(
        url(n),
        &Visit::new(200, &[("robots-tag", line.as_bytes())], Head::default(), received),
    )
}

pub(crate) fn permission_version(record: &PermissionRecord) -> u64 {
    let since = record.received_at().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_millis() as u64 - 1_800_000_000_000
}

/// The hold of a scope's `version`: an hour, and a twentieth of a second more for each.
pub(crate) fn hold_end(start: WallMillis, version: u64) -> WallMillis {
    start.plus(Duration::from_secs(3_600) + HOLD_STEP * u32::try_from(version).unwrap())
}

const HOLD_STEP: Duration = Duration::from_millis(50);

/// The strikes of a hold's `version`: never fewer than of the one before.
fn strikes(version: u64) -> u8 {
    u8::try_from(version.isqrt() / 3).unwrap_or(u8::MAX)
}

pub(crate) const COMPLAINT: Cause = Cause::Answer { status: 429, retry_after: Some(Duration::from_secs(60)) };

/// What a store was given and what it has acknowledged: what may be found in it, and what must be.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) start: WallMillis,
    entries: BTreeMap<(Kind, u64), Versions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Robots,
    Failing,
    Permission,
    Hold,
}

#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    acknowledged: Option<u64>,
    given: Option<u64>,
}

/// One thing that is done to a store: a version of something, or everything to the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Put(Kind, u64, u64),
    Flush,
}

/// Some steps, the same for the same number, with versions from `first`.
pub(crate) fn steps(seed: u64, first: u64, count: u64, keys: u64) -> Vec<Step> {
    let mut dice = Dice(seed);
    (first..first + count)
        .map(|version| match (dice.below(35), dice.below(keys)) {
            (0..4, _) => Step::Flush,
            (4..9, n) => Step::Put(Kind::Hold, n, version),
            (9..12, n) => Step::Put(Kind::Failing, n, version),
            (12..22, n) => Step::Put(Kind::Permission, n, version),
            (_, n) => Step::Put(Kind::Robots, n, version),
        })
        .collect()
}

/// Does a step. Returns whether the store says that it, and so everything before it, is on the disk. A fault is none.
pub(crate) async fn perform(store: &Store, start: WallMillis, step: Step) -> bool {
    match step {
        Step::Put(Kind::Robots, n, version) => {
            let _ = AccessStore::save(store, &origin(n), &record(n, version)).await;
            false
        }
        Step::Put(Kind::Permission, n, version) => {
            let _ = PermissionStore::save(store, &permission(n, version)).await;
            false
        }
        Step::Put(Kind::Failing, n, version) => {
            AccessStore::save(store, &down(n), &failing(n, version).await).await.is_ok()
        }
        Step::Put(Kind::Hold, n, version) => {
            let (until, strikes) = (hold_end(start, version), strikes(version));
            store.hold(&scope(n), until, strikes, COMPLAINT).await.is_ok()
        }
        Step::Flush => store.flush().await.is_ok(),
    }
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self { start: start(), entries: BTreeMap::new() }
    }

    /// Does a step, and writes it down.
    pub(crate) async fn step(&mut self, store: &Store, step: Step) {
        self.given(step);
        if perform(store, self.start, step).await {
            self.acknowledged();
        }
    }

    pub(crate) fn given(&mut self, step: Step) {
        if let Step::Put(kind, n, version) = step {
            self.entries.entry((kind, n)).or_default().given = Some(version);
        }
    }

    /// A commit holds everything that was handed over before it.
    pub(crate) fn acknowledged(&mut self) {
        for versions in self.entries.values_mut() {
            versions.acknowledged = versions.given;
        }
    }

    /// The same, where anything may be missing: only what nobody wrote must not be found.
    pub(crate) fn forgiving(&self) -> Self {
        let mut ledger = self.clone();
        ledger.entries.values_mut().for_each(|versions| versions.acknowledged = None);
        ledger
    }

    /// Nothing was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.values().all(|versions| versions.acknowledged.is_none())
    }

    /// Compares a store with what must and what may be in it. From then on, that is what it is known to hold.
    pub(crate) async fn check(&mut self, store: &Store, what: &str) {
        for (&(kind, n), versions) in &mut self.entries {
            let found = self::found(store, self.start, kind, n).await;
            assert!(
                found >= versions.acknowledged,
                "{what}: {kind:?} {n}: {found:?} is older than {versions:?}"
            );
            assert!(found <= versions.given, "{what}: {kind:?} {n}: {found:?} is newer than {versions:?}");
            *versions = Versions { acknowledged: found, given: found };
        }
    }
}

/// The version that is found. What is found is exactly what was written.
async fn found(store: &Store, start: WallMillis, kind: Kind, n: u64) -> Option<u64> {
    match kind {
        Kind::Robots => {
            let found = AccessStore::load(store, &origin(n)).await.unwrap()?;
            assert_eq!(found, record(n, version_of(&found)));
            Some(version_of(&found))
        }
        Kind::Failing => {
            let found = AccessStore::load(store, &down(n)).await.unwrap()?;
            assert_eq!(found, failing(n, version_of(&found)).await);
            Some(version_of(&found))
        }
        Kind::Permission => {
            let found = PermissionStore::load(store, &url(n)).await.unwrap()?;
            assert_eq!(found, permission(n, permission_version(&found)));
            Some(permission_version(&found))
        }
        Kind::Hold => held(store, start, n).await,
    }
}

async fn held(store: &Store, start: WallMillis, n: u64) -> Option<u64> {
    loop {
        let before = SystemClock.wall();
        let state = store.peek(&scope(n)).await.unwrap();
        if SystemClock.wall().since(before) > HOLD_STEP / 10 {
            continue; // The machine was busy elsewhere: the two times do not belong together.
        }
        if state.held.is_zero() {
            return None;
        }
        let ahead = before.plus(state.held).since(hold_end(start, 0)) + HOLD_STEP / 2;
        let version = (ahead.as_millis() / HOLD_STEP.as_millis()) as u64;
        assert_eq!(state.strikes, strikes(version), "the hold and its strikes are one row");
        return Some(version);
    }
}

/// Whether the long form of the tests is asked for, which takes minutes.
pub(crate) fn is_long() -> bool {
    std::env::var_os("ABIDE_REDB_LONG").is_some()
}

/// A store that writes only when it is asked to, so that a run is the same every time.
pub(crate) fn open(disk: &Disk) -> Result<Store, Error> {
    Store::builder().write_behind(Duration::from_secs(3_600)).open_backend(disk.clone())
}
