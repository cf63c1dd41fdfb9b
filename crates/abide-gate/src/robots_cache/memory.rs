//! The store in memory: for several gates in one process, and for tests.
//!
//! A gate without a store needs none of it, because the cache itself remembers.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::robots_cache::RobotsRecord;
use crate::robots_cache::store::RobotsStore;
use crate::{BoxFuture, HolderId, Origin, StoreError, WallMillis};

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
    leases: Mutex<HashMap<Origin, (HolderId, WallMillis)>>,
}

/// 256 MiB: some hundred thousand hosts with robots.txt of common size.
const CAPACITY: u64 = 256 * 1024 * 1024;
/// Enough for one body of the largest size.
const CAPACITY_MIN: u64 = 32 * 1024 * 1024;
/// More leases than a process has fetches; beyond it, those that are over are forgotten, then all.
const LEASES_MAX: usize = 65_536;

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
        Self { records, leases: Mutex::default() }
    }

    fn lease_now(
        &self,
        origin: &Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> Option<WallMillis> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        match leases.get(origin) {
            // A lease that ends later than one begun now could was given by a clock that has been set back since.
            Some(&(other, until)) if other != holder && now < until && until <= now.plus(ttl) => Some(until),
            _ => {
                if leases.len() >= LEASES_MAX {
                    leases.retain(|_, (_, until)| now < *until);
                }
                if leases.len() >= LEASES_MAX {
                    leases.clear();
                }
                leases.insert(origin.clone(), (holder, now.plus(ttl)));
                None
            }
        }
    }

    fn release_now(&self, origin: &Origin, holder: Option<HolderId>) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.get(origin).is_some_and(|(other, _)| holder.is_none_or(|holder| holder == *other)) {
            leases.remove(origin);
        }
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
    fn load<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Result<Option<RobotsRecord>, StoreError>> {
        Box::pin(ready(Ok(self.records.get(origin))))
    }

    fn save<'a>(
        &'a self,
        origin: &'a Origin,
        record: &'a RobotsRecord,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.records.insert(origin.clone(), record.clone());
        self.release_now(origin, None);
        Box::pin(ready(Ok(())))
    }

    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: HolderId,
        now: WallMillis,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<WallMillis>, StoreError>> {
        Box::pin(ready(Ok(self.lease_now(origin, holder, now, ttl))))
    }

    fn release<'a>(&'a self, origin: &'a Origin, holder: HolderId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.release_now(origin, Some(holder));
        Box::pin(ready(Ok(())))
    }

    fn sweep(&self, older_than: WallMillis) -> BoxFuture<'_, Result<u64, StoreError>> {
        let old: Vec<_> = self.records.iter().filter(|(_, record)| record.asked_at() < older_than).collect();
        old.iter().for_each(|(origin, _)| self.records.invalidate(origin.as_ref()));
        Box::pin(ready(Ok(old.len() as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u32) -> Origin {
        format!("https://h{n}.example").parse().unwrap()
    }

    #[test]
    fn a_lease_ends_at_its_end_and_not_a_millisecond_before() {
        let store = MemoryRobotsStore::new();
        let ttl = Duration::from_millis(10);
        let lease =
            |holder, now| store.lease_now(&origin(1), HolderId(holder), WallMillis::from_millis(now), ttl);
        assert_eq!(lease(1, 100), None);
        assert_eq!(lease(2, 109), Some(WallMillis::from_millis(110)));
        assert_eq!(lease(2, 110), None);
    }

    #[test]
    fn where_leases_are_too_many_those_that_have_ended_go_first() {
        let store = MemoryRobotsStore::new();
        let most = u32::try_from(LEASES_MAX).unwrap();
        let lease = |n, holder, now, millis| {
            store.lease_now(
                &origin(n),
                HolderId(holder),
                WallMillis::from_millis(now),
                Duration::from_millis(millis),
            )
        };
        // One that lasts, one that ends in the instant in which room is needed, and many that have ended before.
        lease(0, 1, 0, 60_000);
        lease(1, 1, 0, 1_000);
        for n in 2..most {
            lease(n, 1, 0, 10);
        }
        assert_eq!(store.leases.lock().unwrap().len(), LEASES_MAX);
        lease(most, 1, 1_000, 10);
        assert_eq!(lease(0, 2, 1_000, 60_000), Some(WallMillis::from_millis(60_000)));
        assert_eq!(store.leases.lock().unwrap().len(), 2);
        // Where none has ended, all go: a lease only saves a second fetch.
        for n in 2..=most + 1 {
            lease(n, 1, 1_000, 60_000);
        }
        assert!(store.leases.lock().unwrap().len() <= LEASES_MAX);
    }
}
