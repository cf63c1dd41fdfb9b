//! What the tests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::robots_cache::{sample_record, unpaced};
use abide_gate::{Clock, Gate, HolderId, Origin, StoreError, WallMillis};
use abide_permissions::{Fetched, Head, PermissionRecord, PermissionStore};
use abide_redb::{Error, Store};
use fastrand::Rng;
use http::HeaderMap;
use reqwest::Url;

use crate::scripted::{Scripted, ScriptedFetch};

mod disk;

pub(crate) use disk::{Disk, Fault};

/// The time that tests count from.
pub(crate) const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);

/// A clock that stands still, so that a backoff ends exactly when a test says, however busy the machine is.
#[derive(Debug)]
pub(crate) struct Still(Instant, WallMillis);

impl Still {
    pub(crate) fn at(wall: WallMillis) -> Arc<Self> {
        Arc::new(Self(Instant::now(), wall))
    }
}

impl Clock for Still {
    fn now(&self) -> Instant {
        self.0
    }

    fn wall(&self) -> WallMillis {
        self.1
    }
}

pub(crate) fn origin(n: u64) -> Origin {
    format!("https://h{n}.example").parse().unwrap()
}

pub(crate) fn host(n: u64) -> Arc<str> {
    Arc::from(format!("h{n}.example").as_str())
}

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) const THROTTLED: BackoffCause =
    BackoffCause::Answer { status: 429, retry_after: Some(Duration::from_secs(60)) };

pub(crate) fn backoff(left: Duration, throttles: u8, cause: BackoffCause) -> HostState {
    let backoff = Backoff { left, over: Duration::ZERO, throttles, cause };
    HostState { backoff: Some(backoff), ..HostState::default() }
}

/// Reports the state of a host to a store, and takes no lease.
pub(crate) fn reporting(state: HostState) -> LeaseAsk {
    LeaseAsk { holder: HolderId::random(), number: 0, want: Want::Release, state }
}

pub(crate) async fn report(
    store: &Store,
    host: &str,
    state: HostState,
) -> Result<(LeaseStatus, HostState), StoreError> {
    store.exchange(host, reporting(state)).await
}

pub(crate) async fn state(store: &Store, host: &str) -> HostState {
    report(store, host, HostState::default()).await.unwrap().1
}

pub(crate) async fn left(store: &Store, host: &str) -> Duration {
    state(store, host).await.backoff.map_or(Duration::ZERO, |backoff| backoff.left)
}

/// Takes or renews the lease of a host for 8 s.
pub(crate) async fn lease(
    store: &Store,
    host: &str,
    holder: HolderId,
    state: HostState,
) -> (LeaseStatus, HostState) {
    let want = Want::Lease { ttl: Duration::from_secs(8), again_in: Duration::from_secs(1), is_held: false };
    store.exchange(host, LeaseAsk { holder, number: 0, want, state }).await.unwrap()
}

pub(crate) const LEASED: LeaseStatus = LeaseStatus::Leased { is_wanted: false };

/// The `version`th record of an origin. The version is in its time and in its text, so that a mixture of two
/// is seen.
pub(crate) fn record(n: u64, version: u64) -> RobotsRecord {
    let text = format!("User-agent: *\nDisallow: /{n}/{version}/\n").repeat(1 + (n % 7) as usize * 9);
    sample_record(&origin(n), nth(version), text)
}

pub(crate) async fn failing(n: u64, version: u64) -> RobotsRecord {
    let (store, origin) = (Arc::new(MemoryStore::new()), down(n));
    let fetch = ScriptedFetch::always(Scripted::status(503));
    let settings = Gate::builder().robots_store(store.clone()).clock(Still::at(nth(version))).seed(n);
    let gate = unpaced(settings, vec!["TestBot".parse().unwrap()], Arc::new(fetch));
    gate.entry(&origin).await.unwrap();
    let record = store.load(&origin).await.unwrap().unwrap();
    assert!(record.failing_since().is_some());
    record
}

pub(crate) async fn save(store: &Store, n: u64, version: u64) -> Result<(), StoreError> {
    RobotsStore::save(store, &origin(n), &record(n, version)).await
}

pub(crate) async fn load(store: &Store, n: u64) -> Option<RobotsRecord> {
    RobotsStore::load(store, &origin(n)).await.unwrap()
}

/// Saves a record with a body of this many bytes.
pub(crate) async fn save_large(store: &Store, n: u64, len: usize) -> Result<(), StoreError> {
    let record = sample_record(&origin(n), nth(n), vec![b'#'; len]);
    RobotsStore::save(store, &origin(n), &record).await
}

pub(crate) async fn save_permission(store: &Store, n: u64, version: u64) {
    PermissionStore::save(store, &permission(n, version)).await.unwrap();
}

pub(crate) async fn load_permission(store: &Store, n: u64) -> Option<PermissionRecord> {
    PermissionStore::load(store, &url(n)).await.unwrap()
}

pub(crate) fn page(n: u64) -> Url {
    format!("http://h{n}.example/").parse().unwrap()
}

pub(crate) fn retry_after(seconds: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::RETRY_AFTER, seconds.parse().unwrap())])
}

pub(crate) fn down(n: u64) -> Origin {
    format!("https://down{n}.example").parse().unwrap()
}

pub(crate) fn nth(version: u64) -> WallMillis {
    START.plus(Duration::from_millis(version))
}

fn version_of(at: WallMillis) -> u64 {
    at.since(START).as_millis() as u64
}

pub(crate) fn url(n: u64) -> String {
    format!("https://h{n}.example/page")
}

pub(crate) fn permission(n: u64, version: u64) -> PermissionRecord {
    let line = format!("*;noindex, OtherBot;v{version}");
    let received = nth(version).to_system_time();
    PermissionRecord::new(
        url(n),
        &Fetched::new(200, &[("robots-tag", line.as_bytes())], Head::default(), received),
    )
}

/// The backoff of a host's `version`: an hour, and a twentieth of a second more for each.
fn backoff_of(version: u64) -> HostState {
    backoff(HOUR + STEP * u32::try_from(version).unwrap(), throttles(version), THROTTLED)
}

const STEP: Duration = Duration::from_millis(50);

/// The throttle count of a backoff's `version`: never lower than of the one before.
fn throttles(version: u64) -> u8 {
    u8::try_from(version.isqrt() / 3).unwrap_or(u8::MAX)
}

/// What a store was given and what it has acknowledged: what may be found in it, and what must be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<(Kind, u64), Versions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Robots,
    Failing,
    Permission,
    Backoff,
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
    let mut rng = Rng::with_seed(seed);
    (first..first + count)
        .map(|version| match (rng.u64(..35), rng.u64(..keys)) {
            (0..4, _) => Step::Flush,
            (4..9, n) => Step::Put(Kind::Backoff, n, version),
            (9..12, n) => Step::Put(Kind::Failing, n, version),
            (12..22, n) => Step::Put(Kind::Permission, n, version),
            (_, n) => Step::Put(Kind::Robots, n, version),
        })
        .collect()
}

/// Does a step. Returns whether the store says that it, and so everything before it, is on the disk. A fault
/// is none.
pub(crate) async fn perform(store: &Store, step: Step) -> bool {
    match step {
        Step::Put(Kind::Robots, n, version) => {
            let _ = save(store, n, version).await;
            false
        }
        Step::Put(Kind::Permission, n, version) => {
            let _ = PermissionStore::save(store, &permission(n, version)).await;
            false
        }
        Step::Put(Kind::Failing, n, version) => {
            RobotsStore::save(store, &down(n), &failing(n, version).await).await.is_ok()
        }
        Step::Put(Kind::Backoff, n, version) => report(store, &host(n), backoff_of(version)).await.is_ok(),
        Step::Flush => store.flush().await.is_ok(),
    }
}

impl Ledger {
    /// Does a step, and writes it down.
    pub(crate) async fn step(&mut self, store: &Store, step: Step) {
        self.given(step);
        if perform(store, step).await {
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

    /// The same, where anything may be missing: only what was never written must not be found.
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
            let found = self::found(store, kind, n).await;
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
async fn found(store: &Store, kind: Kind, n: u64) -> Option<u64> {
    match kind {
        Kind::Robots => {
            let found = load(store, n).await?;
            let version = version_of(found.asked_at());
            assert_eq!(found, record(n, version));
            Some(version)
        }
        Kind::Failing => {
            let found = RobotsStore::load(store, &down(n)).await.unwrap()?;
            let version = version_of(found.asked_at());
            assert_eq!(found, failing(n, version).await);
            Some(version)
        }
        Kind::Permission => {
            let found = load_permission(store, n).await?;
            let version = version_of(found.received_at().into());
            assert_eq!(found, permission(n, version));
            Some(version)
        }
        Kind::Backoff => {
            let found = state(store, &host(n)).await.backoff?;
            let version = ((found.left - HOUR).as_millis() / STEP.as_millis()) as u64;
            assert_eq!(
                (found.throttles, found.cause),
                (throttles(version), THROTTLED),
                "the end, the count and the cause are one row"
            );
            Some(version)
        }
    }
}

/// Whether the long form of the tests is asked for, which takes minutes.
pub(crate) fn is_long() -> bool {
    std::env::var_os("ABIDE_REDB_LONG").is_some()
}

/// A store that writes only when it is asked to, on a clock that stands still, so that a run is the same
/// every time.
pub(crate) fn open(disk: &Disk) -> Result<Store, Error> {
    Store::builder().write_behind(HOUR).clock(Still::at(START)).open_backend(disk.clone())
}
