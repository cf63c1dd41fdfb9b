//! The robots.txt cache as the gate uses it: an entry from memory if one may be used, else a fetch that all callers share.
//!
//! A crawler checks robots.txt before every request, so nearly every check must find its entry in memory, and callers that wait for the same
//! robots.txt must share one fetch. This file has the state that all clones of a cache share, and the look-up in memory; `fetch_task.rs` has
//! the fetch.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_robots::ProductToken;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use url::Url;

use crate::event::Observers;
use crate::jitter::Jitter;
use crate::origin::OriginOf;
use crate::pacing::Refusal;
use crate::robots_cache::bounded_table::BoundedTable;
use crate::robots_cache::chain::DeferredFetch;
use crate::robots_cache::entry::RobotsEntry;
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::fetch_task::{Progress, Urgency};
use crate::robots_cache::interner::Interner;
use crate::robots_cache::reuse::Reuse;
use crate::robots_cache::single_flight::SingleFlight;
use crate::robots_cache::{RobotsPolicy, RobotsRecord, RobotsStore};
use crate::{Clock, DeniedKind, HolderId, Origin, Stats, WallMillis};

/// The access results of RFC 9309 §2.3–2.4: the robots.txt of each origin, fetched once for all callers that wait, used while it is fresh, and
/// kept through outages. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RobotsCache {
    pub(super) inner: Arc<Inner>,
}

/// What one process knows of robots.txt files, and how it fetches them.
pub(super) struct Inner {
    pub(super) tokens: Vec<ProductToken>,
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) policy: RobotsPolicy,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observers: Observers,
    /// None: the cache is all there is, and what it forgets is fetched again.
    pub(super) store: Option<Arc<dyn RobotsStore>>,
    /// The name of this process at the store.
    pub(super) holder: HolderId,
    /// One warning per outage of the store. Two flags: a full disk still reads.
    pub(super) reading_fails: AtomicBool,
    pub(super) writing_fails: AtomicBool,
    /// With rules compiled for our own tokens; the store has what the server sent.
    pub(super) entries: BoundedTable,
    /// The texts of the entries, equal ones once.
    pub(super) texts: Interner,
    pub(super) deferrals: Cache<Origin, DeferredFetch>,
    pub(super) in_flight: SingleFlight<Origin, Progress>,
    pub(super) fetch_permits: Semaphore,
    pub(super) jitter: Jitter,
    pub(super) stats: Mutex<Stats>,
}

impl RobotsCache {
    /// The entry of the origin: from memory, or fetched, once for all callers that wait.
    ///
    /// The fetch belongs to no caller: dropping this future does not cancel it. Within a tokio runtime only.
    ///
    /// # Errors
    /// [`Refusal`] if robots.txt could not be requested now. Then nothing may be fetched from the origin, either.
    pub(crate) async fn get(&self, origin: &Origin) -> Result<Arc<RobotsEntry>, Refusal> {
        self.get_timed(origin, &mut Duration::default()).await
    }

    /// The same; adds to `waited` how long the request waited for its permits, without its time on the wire.
    pub(crate) async fn get_timed(
        &self,
        origin: &Origin,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let now = self.inner.clock.wall();
        match self.inner.lookup(origin, now) {
            Some((answer, Reuse::Use)) => Ok(answer),
            Some((answer, Reuse::UseAndRefresh)) => {
                // No caller waits for it, so it does not matter whether it could begin.
                let _ = self.inner.join(origin, now, Urgency::Background);
                Ok(answer)
            }
            Some((_, Reuse::Fetch)) | None => {
                let progress = self.inner.join(origin, now, Urgency::Now)?;
                // Boxed, because waits are rare: other calls do not carry the room for one.
                Box::pin(self.wait(progress, waited)).await
            }
        }
    }

    /// The entry for a URL if it is in memory and fresh, as it is for most requests. Allocates nothing.
    pub(crate) fn at_hand(&self, url: &Url) -> Option<Arc<RobotsEntry>> {
        let (origin, now) = (OriginOf::of(url)?, self.inner.clock.wall());
        self.inner.entries.get_if(origin, |entry| entry.next(now) == Some(Reuse::Use))
    }

    /// The entry in memory, if it may be used. No I/O, not even with the store.
    pub(crate) fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        let now = self.inner.clock.wall();
        let (answer, next) = self.inner.lookup(origin, now)?;
        (next != Reuse::Fetch).then_some(answer)
    }

    /// Fetches what is not in memory of these origins, as many at a time as the policy allows, and waits for all.
    pub(crate) async fn prefetch(&self, origins: impl IntoIterator<Item = Origin>) {
        let mut waiting = JoinSet::new();
        for origin in origins {
            if waiting.len() >= self.inner.policy.fetches_max {
                waiting.join_next().await;
            }
            let cache = self.clone();
            waiting.spawn(async move { cache.get(&origin).await.is_ok() });
        }
        while waiting.join_next().await.is_some() {}
    }

    /// Expires the origin's entry, so that its next use fetches. The last good copy is kept, and is used without waiting while the origin is
    /// known to fail.
    ///
    /// Other processes with the same store see it when their own entries expire.
    pub(crate) async fn invalidate(&self, origin: &Origin) {
        self.inner.deferrals.invalidate(origin);
        let Some(mut record) = self.inner.newest_record(origin).await.map(RobotsRecord::expired) else {
            return;
        };
        self.inner.save_record(&record).await;
        // A fetch may have ended meanwhile. Its record must not be replaced by the older one.
        let at_hand = self.inner.entries.get(origin.as_slice());
        if let Some(newer) = at_hand.filter(|answer| answer.asked_at() > record.asked_at()) {
            record = newer.record().clone().expired();
            self.inner.save_record(&record).await;
        }
        self.inner.publish(record);
    }

    /// What has happened since the start, and how many fetches are in flight.
    pub(crate) fn stats(&self) -> Stats {
        let stats = *self.inner.stats.lock().unwrap_or_else(PoisonError::into_inner);
        Stats { robots_in_flight: self.inner.in_flight.len(), ..stats }
    }

    async fn wait(
        &self,
        mut progress: watch::Receiver<Option<Progress>>,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let came = self.inner.clock.now();
        loop {
            let last = progress.borrow_and_update().clone();
            match last {
                Some(Progress::Done(result, permit_wait)) => {
                    *waited = waited.saturating_add(permit_wait.since(came));
                    return result;
                }
                Some(Progress::Early(answer)) if self.inner.is_usable(&answer) => return Ok(answer),
                Some(Progress::Early(_)) | None => {}
            }
            if progress.changed().await.is_err() {
                return Err(DeniedKind::Interrupted.into());
            }
        }
    }
}

impl Inner {
    /// Adds to one of the counts.
    pub(super) fn count(&self, by: u64, counter: impl FnOnce(&mut Stats) -> &mut u64) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counter(&mut stats);
        *counter = counter.saturating_add(by);
    }

    /// The entry in memory, and what to do with it. Compiled again if it means something else now than when it was made.
    pub(super) fn lookup(&self, origin: &Origin, now: WallMillis) -> Option<(Arc<RobotsEntry>, Reuse)> {
        let answer = self.entries.get(origin.as_slice())?;
        match answer.next(now) {
            Some(next) => Some((answer, next)),
            None => {
                let answer = self.publish(answer.record().clone());
                answer.next(now).map(|next| (answer, next))
            }
        }
    }

    pub(super) fn is_usable(&self, answer: &RobotsEntry) -> bool {
        matches!(answer.next(self.clock.wall()), Some(Reuse::Use | Reuse::UseAndRefresh))
    }

    /// Compiles a record and keeps it in memory.
    pub(super) fn publish(&self, record: RobotsRecord) -> Arc<RobotsEntry> {
        let now = self.clock.wall();
        let answer = Arc::new(RobotsEntry::new(record, now, &self.policy, &self.tokens, &self.texts));
        self.entries.insert(Arc::clone(&answer));
        answer
    }

    /// The newest record of the origin: the store's, or ours if the store has failed.
    pub(super) async fn newest_record(&self, origin: &Origin) -> Option<RobotsRecord> {
        let own = self.entries.get(origin.as_slice()).map(|answer| answer.record().clone());
        let stored = self.load_record(origin).await;
        match (stored, own) {
            // Of two that were asked for at the same time, one was invalidated.
            (Some(stored), Some(own)) => {
                let order =
                    stored.asked_at().cmp(&own.asked_at()).then(own.fresh_until().cmp(&stored.fresh_until()));
                Some(if order.is_lt() { own } else { stored })
            }
            (stored, own) => stored.or(own),
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("policy", &self.policy)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
