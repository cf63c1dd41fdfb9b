//! The store in memory: for several gates in one process, and for tests.
//!
//! A gate without a store needs none of it, because the cache itself remembers.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::robots_cache::{RobotsLeases, RobotsRecord, RobotsStore};
use crate::{HolderId, Origin, StoreFuture, WallMillis};

/// Records in memory, bounded by weight: the least recently used go first.
///
/// They have no time to live: stale records are the last good copies that an outage needs, and age is judged by our clock.
///
/// ```
/// # use abide_gate::robots_cache::MemoryRobotsStore;
/// let store = MemoryRobotsStore::with_capacity(64 * 1024 * 1024);
/// ```
pub struct MemoryRobotsStore {
    records: Cache<Origin, RobotsRecord>,
    leases: RobotsLeases,
}

/// 256 MiB: some hundred thousand hosts with robots.txt of common size.
const CAPACITY: u64 = 256 * 1024 * 1024;
/// Enough for one body of the largest size.
const CAPACITY_MIN: u64 = 32 * 1024 * 1024;

impl MemoryRobotsStore {
    /// A store of at most 256 MiB.
    pub fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// A store of about `bytes`, at least 32 MiB.
    pub fn with_capacity(bytes: u64) -> Self {
        let records = Cache::builder()
            .max_capacity(bytes.max(CAPACITY_MIN))
            .weigher(|_, record: &RobotsRecord| u32::try_from(record.weight()).unwrap_or(u32::MAX))
            // Least recently used, so that a new record is always taken in: a refused one would be fetched for every page.
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { records, leases: RobotsLeases::default() }
    }
}

impl Default for MemoryRobotsStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryRobotsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRobotsStore")
            .field("records", &self.records.entry_count())
            .finish_non_exhaustive()
    }
}

impl RobotsStore for MemoryRobotsStore {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(ready(Ok(self.records.get(origin))))
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        self.records.insert(origin.clone(), record.clone());
        self.leases.release(origin, None);
        Box::pin(ready(Ok(())))
    }

    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> StoreFuture<'a, Option<WallMillis>> {
        Box::pin(ready(Ok(self.leases.lease(origin, holder, now, ttl))))
    }

    fn release<'a>(&'a self, origin: &'a Origin, holder: HolderId) -> StoreFuture<'a, ()> {
        self.leases.release(origin, Some(holder));
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        let old: Vec<_> = self.records.iter().filter(|(_, record)| record.asked_at() < older_than).collect();
        old.iter().for_each(|(origin, _)| self.records.invalidate(origin.as_ref()));
        Box::pin(ready(Ok(old.len() as u64)))
    }
}
