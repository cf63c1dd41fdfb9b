//! The store in memory: for several gates in one process, for tests, and the model for other stores.
//!
//! A gate without a store needs none of it, because its cache and its pacer have their own tables.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::pacing::{HostEntry, HostState, HostStore, LeaseAsk, LeaseStatus};
use crate::robots_cache::{RobotsRecord, RobotsStore};
use crate::store::StoreFuture;
use crate::{Clock, Origin, SystemClock, WallMillis, caught_clock};

/// A [`RobotsStore`] and a [`HostStore`] in memory. After a restart it knows nothing; use a durable store
/// where that matters.
///
/// Records of robots.txt have no time to live: stale ones are the last good copies that an outage needs, and
/// the gate checks their age. They are bounded by weight: the least recently used go first.
///
/// ```
/// # use std::sync::Arc;
/// # use abide_gate::{Gate, testing::MemoryStore};
/// let store = Arc::new(MemoryStore::new().with_capacity(64 * 1024 * 1024));
/// let one = Gate::builder().robots_store(store.clone()).host_store(store.clone());
/// let other = Gate::builder().robots_store(store.clone()).host_store(store);
/// ```
#[must_use]
pub struct MemoryStore {
    records: Cache<Origin, RobotsRecord>,
    clock: Arc<dyn Clock>,
    began: Instant,
    hosts: Mutex<Hosts>,
}

#[derive(Default)]
struct Hosts {
    entries: HashMap<Arc<str>, HostEntry>,
    exchanges: u32,
}

/// 256 MiB: some hundred thousand hosts with robots.txt of common size.
const CAPACITY: u64 = 256 * 1024 * 1024;
/// Enough for one body of the largest size.
const CAPACITY_MIN: u64 = 32 * 1024 * 1024;

/// Unused hosts are removed after so many exchanges: rarely enough to cost nothing, and most that are kept
/// are of the last few minutes.
const CLEAN_EVERY: u32 = 1_024;

impl MemoryStore {
    /// An empty store with at most 256 MiB of records.
    pub fn new() -> Self {
        let clock = caught_clock(Arc::new(SystemClock));
        Self { records: records(CAPACITY), began: clock.now(), clock, hosts: Mutex::default() }
    }

    /// Keeps about so many bytes of records, at least 32 MiB. What was saved before is forgotten.
    pub fn with_capacity(self, bytes: u64) -> Self {
        Self { records: records(bytes.max(CAPACITY_MIN)), ..self }
    }

    /// Counts the times of hosts by another clock. Where it panics, the machine's clock stands in.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let clock = caught_clock(clock);
        Self { began: clock.now(), clock, ..self }
    }
}

fn records(capacity: u64) -> Cache<Origin, RobotsRecord> {
    Cache::builder()
        .max_capacity(capacity)
        .weigher(|_, record: &RobotsRecord| u32::try_from(record.weight()).unwrap_or(u32::MAX))
        // Least recently used, so that a new record is always taken in: a refused one would be fetched for
        // every page.
        .eviction_policy(EvictionPolicy::lru())
        .build()
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("records", &self.records.entry_count()).finish_non_exhaustive()
    }
}

impl RobotsStore for MemoryStore {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(ready(Ok(self.records.get(origin))))
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        self.records.insert(origin.clone(), record.clone());
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        let old: Vec<_> = self.records.iter().filter(|(_, record)| record.asked_at() < older_than).collect();
        old.iter().for_each(|(origin, _)| self.records.invalidate(origin.as_ref()));
        Box::pin(ready(Ok(old.len() as u64)))
    }
}

impl HostStore for MemoryStore {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock: an exchange with an earlier time than the last one would be a clock that was
            // set back.
            let now = self.clock.now().saturating_duration_since(self.began);
            hosts.exchanges = hosts.exchanges.wrapping_add(1);
            if hosts.exchanges.is_multiple_of(CLEAN_EVERY) {
                hosts.entries.retain(|_, entry| entry.is_in_use(now));
            }
            Ok(hosts.entries.entry(host.into()).or_default().exchange(&ask, now, Duration::ZERO))
        })
    }
}
