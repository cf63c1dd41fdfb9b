//! The store as the cache uses it: its failures change no decision.
//!
//! A store can fail, hang or panic. Then memory and network decide, and one warning is logged for each outage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::event::Event;
use crate::robots_cache::entry::Reuse;
use crate::robots_cache::{RobotsCache, RobotsRecord, RobotsStore, log};
use crate::store::StoreFuture;
use crate::{Origin, StoreError, WallMillis, caught_future};

/// How often a follower looks whether the other process has the record.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// For how many leases of others we wait before we fetch. Two: the holder of the first may have died, and the next needs a whole one.
const LEADERS_MAX: u32 = 2;
/// A lease that has ended by our clock but not by the store's is requested again after this.
const FOLLOW_AGAIN: Duration = Duration::from_millis(10);

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

    pub(super) async fn release_lease(&self, origin: &Origin) {
        if let Some(Err(error)) = self.guarded(|store| store.release(origin, self.holder)).await {
            self.fault(origin, &error, &self.writing_fails);
        }
    }

    /// The end of the lease that another process has of the origin. `None`: none has one, and now it is ours.
    pub(super) async fn lease(&self, origin: &Origin) -> Result<Option<WallMillis>, StoreError> {
        let (now, ttl) = (self.clock.wall(), self.lease_time());
        self.guarded(|store| store.lease(origin, self.holder, now, ttl)).await.unwrap_or(Ok(None))
    }

    /// Waits for another process that fetches this robots.txt already. `None`: we are to fetch it.
    pub(super) async fn wait_for_other_process(
        &self,
        origin: &Origin,
        previous: Option<&RobotsRecord>,
    ) -> Option<RobotsRecord> {
        self.store.as_ref()?;
        let (began, most) = (self.clock.now(), self.lease_time().saturating_mul(LEADERS_MAX));
        while self.clock.now().saturating_duration_since(began) < most {
            // Requested each time, because a leader that the pacer defers releases its lease without a record.
            match self.lease(origin).await {
                Ok(None) => {
                    // Saved between our load and our lease: there is nothing to fetch.
                    let record = self.load_newer(origin, previous).await?;
                    self.release_lease(origin).await;
                    return Some(record);
                }
                Ok(Some(until)) => {
                    let left = until.since(self.clock.wall()).max(FOLLOW_AGAIN);
                    sleep(FOLLOW_EVERY.min(left)).await;
                    if let Some(record) = self.load_newer(origin, previous).await {
                        return Some(record);
                    }
                }
                Err(error) => {
                    self.fault(origin, &error, &self.writing_fails);
                    return None;
                }
            }
        }
        None
    }

    /// A stored record that is newer than the one we know, and can be used. An older one is there if ours could not be saved.
    async fn load_newer(&self, origin: &Origin, previous: Option<&RobotsRecord>) -> Option<RobotsRecord> {
        let record = self.load_record(origin).await?;
        let now = self.clock.wall();
        // One from the future is older than any: the clock has been set back since.
        let is_old = |previous: &RobotsRecord| {
            previous.asked_at() < record.asked_at() || previous.is_from_the_future(now)
        };
        (previous.is_none_or(is_old) && record.reuse(now) != Reuse::Fetch).then_some(record)
    }

    /// As long as a fetch may take, and the two operations of the store around it. A shorter lease would end while its holder still fetches.
    fn lease_time(&self) -> Duration {
        self.policy.deadline.saturating_add(self.policy.slot_wait_max).saturating_add(Duration::from_secs(5))
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
