//! Where records are kept between fetches.
//!
//! The last known rules hold until the next fetch, which may be in another process, so a crawler that
//! restarts needs a durable store.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use lru::LruCache;

use crate::error::PermissionError;
use crate::record::PermissionRecord;

/// Keeps permission records by URL. A store decides nothing.
///
/// `docs/stores.md` shows how to write one. Every implementation passes the suite `testing::conformance`
/// (feature `testing`), which checks what is promised here:
///
/// * **Keys** are URLs byte by byte: of any length, with any characters.
/// * **Format.** With the feature `serde` a record can be serialized. What cannot be read is absent, not an
///   error.
/// * **Time** is in the records. A store asks no clock and drops no record for being stale: the last known
///   rules hold until the page is fetched again.
/// * **Atomicity.** Comparing the times and keeping the record is one step, also between processes.
/// * **Clocks set back.** A record that was dated by a clock less than a day ahead stays until the clock has
///   caught up, or until [`remove`](Self::remove). One that was dated further ahead is replaced.
/// * **Cancellation.** A dropped call is done or not done, and leaves no lock behind.
/// * **Capacity.** A bounded store may forget any record: what is not known is not permitted.
///
/// A response, and its host's permit, wait for the store for at most two seconds. If the store takes longer,
/// fails or panics, the record is lost, which is logged (`abide.permissions.not_persisted`). If saving fails,
/// abide removes an older record unless it [`covers`](PermissionRecord::covers) the new one, because unknown
/// is safer than outdated. If that is not possible either, such as in an outage of `abide-redis`, the older
/// record stays and is used for a later 304 of its version.
pub trait PermissionStore: fmt::Debug + Send + Sync + 'static {
    /// The record of this URL, if there is one.
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>>;

    /// Keeps a record, unless the one that is there [outlives](PermissionRecord::outlives) it: responses may
    /// end in another order than they came, and several processes may share the store. Of two that were
    /// received at the same time the last writer wins.
    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>>;

    /// Removes the record of this URL, if there is one. Whatever is saved next is kept.
    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>>;
}

/// Keeps a bounded number of records in memory, and drops the least recently used ones.
///
/// ```
/// use std::num::NonZeroUsize;
/// use abide_permissions::MemoryPermissionStore;
///
/// let store = MemoryPermissionStore::new(NonZeroUsize::new(100_000).expect("not zero"));
/// assert!(store.is_empty());
/// ```
#[derive(Debug)]
pub struct MemoryPermissionStore {
    records_max: usize,
    records: Mutex<LruCache<Box<str>, PermissionRecord>>,
}

impl MemoryPermissionStore {
    /// A store for at most `records_max` records.
    pub fn new(records_max: std::num::NonZeroUsize) -> Self {
        // One with a bound takes the room for all of them at once.
        Self { records_max: records_max.get(), records: LruCache::unbounded().into() }
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Box<str>, PermissionRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermissionStore for MemoryPermissionStore {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(std::future::ready(Ok(self.lock().get(url).cloned())))
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        let mut records = self.lock();
        if !records.peek(record.url()).is_some_and(|kept| kept.outlives(record)) {
            records.put(record.url().into(), record.clone());
            if records.len() > self.records_max {
                records.pop_lru();
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        self.lock().pop(url);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::task::{Context, Poll, Waker};
    use std::time::SystemTime;

    use super::*;
    use crate::{Fetched, Head};

    fn now<T>(mut future: BoxFuture<'_, Result<T, PermissionError>>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.expect("memory does not fail"),
            Poll::Pending => panic!("memory does not wait"),
        }
    }

    fn record(url: &str) -> PermissionRecord {
        PermissionRecord::new(url, &Fetched::new(200, &[], Head::default(), SystemTime::UNIX_EPOCH))
    }

    #[test]
    fn the_record_used_longest_ago_makes_room() {
        let store = MemoryPermissionStore::new(NonZeroUsize::new(2).expect("two"));
        now(store.save(&record("a")));
        now(store.save(&record("b")));
        assert_eq!(now(store.load("a")), Some(record("a")));
        now(store.save(&record("c")));
        assert_eq!(now(store.load("b")), None);
        assert_eq!(now(store.load("a")), Some(record("a")));
        assert_eq!(store.len(), 2);
        now(store.remove("a"));
        now(store.remove("c"));
        assert!(store.is_empty());
    }
}
