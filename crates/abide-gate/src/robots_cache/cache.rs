//! The robots.txt cache as the gate uses it: an entry from memory if one may be used, else a fetch that all callers share.
//!
//! A crawler checks robots.txt before every request, so nearly every check must find its entry in memory, and callers that wait for the same
//! robots.txt must share one fetch. This file has the state that all clones of a cache share, and the look-up in memory; `fetch_task.rs` has
//! the fetch.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide_robots::ProductToken;
use moka::sync::Cache;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use crate::event::{Observer, Observers};
use crate::jitter::{Jitter, random_seed};
use crate::origin::OriginOf;
use crate::pacing::Refusal;
use crate::robots_cache::bounded_table::BoundedTable;
use crate::robots_cache::chain::DeferredFetch;
use crate::robots_cache::entry::RobotsEntry;
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::fetch_task::{FetchProgress, Urgency};
use crate::robots_cache::interner::Interner;
use crate::robots_cache::reuse::Reuse;
use crate::robots_cache::single_flight::SingleFlight;
use crate::robots_cache::{RobotsPolicy, RobotsRecord, RobotsStore};
use crate::{Clock, DeniedKind, HolderId, Origin, Stats, SystemClock, WallMillis, caught_clock};

/// The access results of RFC 9309 §2.3–2.4: the robots.txt of each origin, fetched once for all callers that wait, used while it is fresh, and
/// kept through outages. One per process and file, behind an [`Arc`], because its fetches outlive their callers.
pub(crate) struct RobotsCache {
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
    pub(super) texts: Interner,
    /// Each with its end by the monotonic clock: the wall clock may be set back meanwhile.
    pub(super) deferrals: Cache<Origin, (DeferredFetch, Instant)>,
    pub(super) in_flight: SingleFlight<Origin, FetchProgress>,
    pub(super) jitter: Jitter,
    pub(super) stats: Mutex<Stats>,
}

impl RobotsCache {
    /// A cache for a crawler with these product tokens; the first that has a group counts.
    pub(crate) fn builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> RobotsCacheBuilder {
        RobotsCacheBuilder {
            tokens,
            fetch,
            policy: RobotsPolicy::default(),
            store: None,
            clock: Arc::new(SystemClock),
            observers: Vec::new(),
            seed: None,
        }
    }

    /// The entry of the origin: from memory, or fetched, once for all callers that wait.
    ///
    /// The fetch belongs to no caller: dropping this future does not cancel it. Within a tokio runtime only.
    ///
    /// # Errors
    /// [`Refusal`] if robots.txt could not be requested now. Then nothing may be fetched from the origin, either.
    pub(crate) async fn get(self: &Arc<Self>, origin: &Origin) -> Result<Arc<RobotsEntry>, Refusal> {
        self.get_timed(origin, &mut Duration::default()).await
    }

    /// The same; adds to `waited` how long the request waited for its permits, without its time on the wire.
    pub(crate) async fn get_timed(
        self: &Arc<Self>,
        origin: &Origin,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let now = self.clock.wall();
        match self.lookup(origin, now) {
            Some((answer, Reuse::Use)) => Ok(answer),
            Some((answer, Reuse::UseAndRefresh)) => {
                // No caller waits for it, so it does not matter whether it could begin.
                let _ = self.join(origin, now, Urgency::Background);
                Ok(answer)
            }
            Some((_, Reuse::Fetch)) | None => {
                let progress = self.join(origin, now, Urgency::Now)?;
                // Boxed, because waits are rare: other calls do not carry the room for one.
                Box::pin(self.wait(progress, waited)).await
            }
        }
    }

    /// The entry for a URL if it is in memory and fresh, as it is for most requests. Allocates nothing.
    pub(crate) fn at_hand(&self, url: &Url) -> Option<Arc<RobotsEntry>> {
        let (origin, now) = (OriginOf::of(url)?, self.clock.wall());
        // One that is due for a refresh is left to `get`, which can start the fetch.
        self.entries.get_if(origin, |entry| entry.next(now) == Some(Reuse::Use))
    }

    /// The entry in memory, if it may be used. No I/O, not even with the store.
    pub(crate) fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        let now = self.clock.wall();
        let (answer, next) = self.lookup(origin, now)?;
        (next != Reuse::Fetch).then_some(answer)
    }

    /// Fetches what is not in memory of these origins, as many at a time as the policy allows, and waits for all.
    pub(crate) async fn prefetch(self: &Arc<Self>, origins: impl IntoIterator<Item = Origin>) {
        let mut waiting = JoinSet::new();
        for origin in origins {
            // More would only wait for places, each with its memory.
            if waiting.len() >= self.policy.fetches_max {
                waiting.join_next().await;
            }
            let cache = Arc::clone(self);
            waiting.spawn(async move { cache.get(&origin).await.is_ok() });
        }
        while waiting.join_next().await.is_some() {}
    }

    /// Expires the origin's entry, so that its next use fetches. The last good copy is kept, and is used without waiting while the origin is
    /// known to fail.
    ///
    /// Other processes with the same store see it when their own entries expire.
    pub(crate) async fn invalidate(&self, origin: &Origin) {
        // Or the next use would get the stored deferral instead of a fetch.
        self.deferrals.invalidate(origin);
        let Some(mut record) = self.newest_record(origin).await.map(RobotsRecord::expired) else {
            return;
        };
        // It would end the lease of a process that fetches now, and whose record comes next.
        if !self.is_fetched_elsewhere(origin).await {
            self.save_record(&record).await;
        }
        // A fetch may have ended meanwhile. Its record must not be replaced by the older one.
        let at_hand = self.entries.get(origin.as_slice());
        if let Some(newer) = at_hand.filter(|answer| answer.asked_at() > record.asked_at()) {
            record = newer.record().clone().expired();
            self.save_record(&record).await;
        }
        self.publish(record);
    }

    /// What has happened since the start, and how many fetches are in flight.
    pub(crate) fn stats(&self) -> Stats {
        let stats = *self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        Stats { robots_in_flight: self.in_flight.len(), ..stats }
    }

    async fn wait(
        &self,
        mut progress: watch::Receiver<Option<FetchProgress>>,
        waited: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let came = self.clock.now();
        loop {
            // Cloned, because a borrow locks the channel; marked as seen, so that `changed` waits for the next.
            let last = progress.borrow_and_update().clone();
            match last {
                Some(FetchProgress::Done(result, permit_wait)) => {
                    *waited = waited.saturating_add(permit_wait.since(came));
                    return result;
                }
                // It was usable when it was announced, but this caller may have come later.
                Some(FetchProgress::Early(answer)) if self.is_usable(&answer) => return Ok(answer),
                Some(FetchProgress::Early(_)) | None => {}
            }
            if progress.changed().await.is_err() {
                // The leader went without a result: its task panicked, or its runtime has shut down.
                return Err(DeniedKind::Interrupted.into());
            }
        }
    }

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
                // The record is the same, so nothing is fetched: only what it says has changed with the time.
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
        let answer = Arc::new(self.compiled(record));
        self.entries.insert(Arc::clone(&answer));
        answer
    }

    pub(super) fn compiled(&self, record: RobotsRecord) -> RobotsEntry {
        RobotsEntry::new(record, self.clock.wall(), &self.policy, &self.tokens, &self.texts)
    }

    /// The newest record of the origin: the store's, or ours if the store has failed.
    pub(super) async fn newest_record(&self, origin: &Origin) -> Option<RobotsRecord> {
        let own = self.entries.get(origin.as_slice()).map(|answer| answer.record().clone());
        let stored = self.load_record(origin).await;
        match (stored, own) {
            // Of two that were asked for at the same time, one was invalidated, and ends earlier: that one is newer.
            (Some(stored), Some(own)) => {
                // What is from the future is older than anything: the clock has been set back.
                let now = self.clock.wall();
                let asked = |record: &RobotsRecord| (!record.is_from_the_future(now), record.asked_at);
                let is_newer = (asked(&own), stored.fresh_until) > (asked(&stored), own.fresh_until);
                Some(if is_newer { own } else { stored })
            }
            (stored, own) => stored.or(own),
        }
    }
}

/// Settings of a [`RobotsCache`]. All have defaults but the tokens and the [`Fetch`].
pub(crate) struct RobotsCacheBuilder {
    pub(crate) tokens: Vec<ProductToken>,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) policy: RobotsPolicy,
    pub(crate) store: Option<Arc<dyn RobotsStore>>,
    /// Where it panics, the machine's replaces it.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observers: Vec<Arc<Observer>>,
    /// Of all random numbers, for runs that must be repeatable.
    pub(crate) seed: Option<u64>,
}

/// How many origins may be fetched or wait for it at a time. Each takes 7 KB with its task and its caller, all together no more than a million
/// known hosts do. More are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// Of how many origins a deferral is kept. For others the pacer decides again, which costs no request.
const DEFERRALS_MAX: u64 = 10_000;

impl RobotsCacheBuilder {
    pub(crate) fn build(self) -> Arc<RobotsCache> {
        Arc::new(RobotsCache {
            tokens: self.tokens,
            fetch: self.fetch,
            clock: caught_clock(self.clock),
            observers: Observers::new(self.observers),
            store: self.store,
            holder: HolderId::random(),
            reading_fails: AtomicBool::new(false),
            writing_fails: AtomicBool::new(false),
            entries: BoundedTable::new(self.policy.memory_max),
            texts: Interner::new(),
            deferrals: Cache::new(DEFERRALS_MAX),
            in_flight: SingleFlight::new(FLIGHTS_MAX),
            jitter: Jitter::new(self.seed.unwrap_or_else(random_seed)),
            stats: Mutex::default(),
            policy: self.policy,
        })
    }
}

impl fmt::Debug for RobotsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsCache")
            .field("policy", &self.policy)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
