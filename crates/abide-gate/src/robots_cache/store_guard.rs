//! The store as the cache uses it: its failures change no decision.
//!
//! A store can fail, hang or panic. Then memory and network decide, and one warning is logged for each
//! outage.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::timeout;

use crate::event::Event;
use crate::robots_cache::entry::Reuse;
use crate::robots_cache::{RobotsCache, RobotsRecord, RobotsStore, log};
use crate::store::StoreFuture;
use crate::{Origin, StoreError, caught_future};

impl RobotsCache {
    /// The stored record, if there is one that can be used.
    pub(super) async fn load_record(&self, origin: &Origin) -> Option<RobotsRecord> {
        let loaded = self.guarded(|store| store.load(origin)).await?;
        let record = self.note(origin, loaded, &self.reading_fails)??;
        // A store that mixes up keys must not give one site's rules to another.
        (record.origin() == origin).then(|| record.cut(self.policy.body_limit))
    }

    pub(super) async fn save_record(&self, record: &RobotsRecord) {
        if let Some(saved) = self.guarded(|store| store.save(record.origin(), record)).await {
            self.note(record.origin(), saved, &self.writing_fails);
        }
    }

    /// A stored record that is newer than the one we know, and can be used. An older one is there if ours
    /// could not be saved.
    pub(super) async fn load_newer(
        &self,
        origin: &Origin,
        previous: Option<&RobotsRecord>,
    ) -> Option<RobotsRecord> {
        let record = self.load_record(origin).await?;
        let now = self.clock.wall();
        // One from the future is older than any: the clock has been set back since.
        let is_old = |previous: &RobotsRecord| {
            previous.asked_at() < record.asked_at() || previous.is_from_the_future(now)
        };
        (previous.is_none_or(is_old) && record.reuse(now) != Reuse::Fetch).then_some(record)
    }

    /// Runs an operation of the store, if there is one, for a limited time, and catches its panic.
    async fn guarded<'a, T>(
        &'a self,
        operation: impl FnOnce(&'a dyn RobotsStore) -> StoreFuture<'a, T>,
    ) -> Option<Result<T, StoreError>> {
        let store = self.store.as_deref()?;
        let fault = |what| Err(StoreError::new(what));
        let caught = caught_future(async { operation(store).await });
        Some(match timeout(self.policy.store_timeout, caught).await {
            Ok(result) => result.unwrap_or_else(|| fault("it panicked")),
            Err(_) => fault("it did not answer in time"),
        })
    }

    fn note<T>(&self, origin: &Origin, result: Result<T, StoreError>, fails: &AtomicBool) -> Option<T> {
        // Read first: in good times nothing is written.
        if result.is_ok() && fails.load(Ordering::Relaxed) && fails.swap(false, Ordering::Relaxed) {
            log::store_back();
        }
        result.inspect_err(|error| self.fault(origin, error, fails)).ok()
    }

    fn fault(&self, origin: &Origin, error: &StoreError, fails: &AtomicBool) {
        self.count(1, |stats| &mut stats.robots_store_faults);
        if !fails.swap(true, Ordering::Relaxed) {
            log::store_down(error);
        }
        self.observers.notify(&Event::RobotsStoreFailed { origin, error });
    }
}
