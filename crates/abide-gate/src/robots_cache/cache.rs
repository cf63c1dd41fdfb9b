//! The robots.txt cache as the gate uses it: an entry from memory if one may be used, else a fetch that all
//! callers share.
//!
//! A crawler checks robots.txt before every request, so nearly every check must find its entry in memory, and
//! callers that wait for the same robots.txt must share one fetch, which is in `fetch_task.rs`.
//!
//! moka keeps the entries, by weight. It knows nothing of their times.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide_robots::ProductToken;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::denied::DenialCause;
use crate::event::Observers;
use crate::jitter::Jitter;
use crate::robots_cache::body::LARGE_BODIES_MAX;
use crate::robots_cache::chain::DeferredFetch;
use crate::robots_cache::entry::Reuse;
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::fetch_task::{FetchProgress, full};
use crate::robots_cache::interner::Interner;
use crate::robots_cache::single_flight::SingleFlight;
use crate::robots_cache::{RobotsEntry, RobotsPolicy, RobotsRecord, RobotsStore};
use crate::{Clock, DeniedKind, Origin, Stats, SystemClock, WallMillis};

/// The access results of RFC 9309 §2.3–2.4: the robots.txt of each origin, fetched once for all callers that
/// wait, used while it is fresh, and kept through outages. One per process and file, behind an [`Arc`],
/// because its fetches outlive their callers.
pub(crate) struct RobotsCache {
    pub(super) tokens: Vec<ProductToken>,
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) policy: RobotsPolicy,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observers: Observers,
    /// None: the cache is all there is, and what it forgets is fetched again.
    pub(crate) store: Option<Arc<dyn RobotsStore>>,
    /// One warning per outage of the store. Two flags: a full disk still reads.
    pub(super) reading_fails: AtomicBool,
    pub(super) writing_fails: AtomicBool,
    /// With rules compiled for our own tokens; the store has what the server sent.
    pub(super) entries: Cache<Origin, Arc<RobotsEntry>>,
    pub(super) texts: Interner,
    /// Each with its end by the monotonic clock: the wall clock may be set back meanwhile.
    pub(super) deferrals: Cache<Origin, (DeferredFetch, Instant)>,
    pub(super) in_flight: SingleFlight<Origin, FetchProgress>,
    /// Places for bodies that are long.
    pub(super) large_bodies: Semaphore,
    pub(crate) jitter: Jitter,
    pub(super) stats: Mutex<Stats>,
}

impl RobotsCache {
    /// A cache for a crawler with these product tokens; the first that has a group counts.
    pub(crate) fn new(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>, policy: RobotsPolicy) -> Self {
        Self {
            tokens,
            fetch,
            clock: Arc::new(SystemClock),
            observers: Observers::default(),
            store: None,
            reading_fails: AtomicBool::new(false),
            writing_fails: AtomicBool::new(false),
            entries: entries(policy.memory_max),
            texts: Interner::default(),
            deferrals: Cache::new(DEFERRALS_MAX),
            in_flight: SingleFlight::new(FLIGHTS_MAX),
            large_bodies: Semaphore::new(LARGE_BODIES_MAX),
            jitter: Jitter::new(None),
            stats: Mutex::default(),
            policy,
        }
    }

    /// The entry of the origin: from memory, or by one fetch for all callers that wait, which goes on if this
    /// future is dropped. Refused if robots.txt could not be requested now; then nothing may be fetched from
    /// the origin, either. Within a tokio runtime only.
    pub(crate) async fn get(self: &Arc<Self>, origin: &Origin) -> Result<Arc<RobotsEntry>, DenialCause> {
        self.get_within(origin, &mut { Duration::MAX }).await
    }

    /// The same, if its request does not wait for permits longer than what is `left`, from which the wait is
    /// taken. Time on the wire does not count.
    pub(crate) async fn get_within(
        self: &Arc<Self>,
        origin: &Origin,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, DenialCause> {
        if let Some(entry) = self.usable(origin) {
            return Ok(entry);
        }
        let progress = self.join(origin, self.clock.wall(), false)?;
        // Boxed, because waits are rare: other calls do not carry the room for one.
        Box::pin(self.wait(progress, left)).await
    }

    /// The entry in memory, if it may be used. Begins the fetch that refreshes it, if that is due.
    pub(crate) fn usable(self: &Arc<Self>, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        let now = self.clock.wall();
        match self.known(origin, now) {
            Known::Use(entry) => Some(entry),
            Known::UseAndRefresh(entry) => {
                // No caller waits for the fetch, so it does not matter whether it could begin.
                let _ = self.join(origin, now, true);
                Some(entry)
            }
            Known::Fetch => None,
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<RobotsEntry>> {
        self.entries.iter().map(|(_, entry)| entry).collect()
    }

    /// The entry in memory, if it may be used. No I/O, not even with the store.
    pub(crate) fn cached(&self, origin: &Origin) -> Option<Arc<RobotsEntry>> {
        match self.known(origin, self.clock.wall()) {
            Known::Use(entry) | Known::UseAndRefresh(entry) => Some(entry),
            Known::Fetch => None,
        }
    }

    /// The one look-up. An entry that means something else now than when it was made is compiled again.
    fn known(&self, origin: &Origin, now: WallMillis) -> Known {
        let Some(mut entry) = self.entries.get(origin) else { return Known::Fetch };
        if entry.next(now).is_none() {
            // The record is the same, so nothing is fetched: only what it says has changed with the time.
            entry = self.publish(entry.record().clone());
        }
        match entry.next(now) {
            Some(Reuse::Use) => Known::Use(entry),
            Some(Reuse::UseAndRefresh) => Known::UseAndRefresh(entry),
            Some(Reuse::Fetch) | None => Known::Fetch,
        }
    }

    /// Fetches what is not in memory of these origins, as many at a time as the policy allows, and waits for
    /// all.
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

    /// Expires the origin's entry, so that its next use fetches. The last good copy stays, and is used at
    /// once while the origin is known to fail.
    pub(crate) async fn invalidate(&self, origin: &Origin) {
        // Or the next use would get the stored deferral instead of a fetch.
        self.deferrals.invalidate(origin);
        let Some(mut record) = self.newest_record(origin).await.map(RobotsRecord::expired) else {
            return;
        };
        self.save_record(&record).await;
        // A fetch may have ended meanwhile. Its record must not be replaced by the older one.
        let at_hand = self.entries.get(origin);
        if let Some(newer) = at_hand.filter(|entry| entry.asked_at() > record.asked_at()) {
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
        mut progress: watch::Receiver<FetchProgress>,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, DenialCause> {
        let (budget, mut before) = (*left, None);
        loop {
            // Cloned, because a borrow locks the channel; marked as seen, so that `changed` waits for the
            // next.
            let FetchProgress { result, early, permit_wait } = progress.borrow_and_update().clone();
            let (waited, present) = permit_wait.at(self.clock.now());
            // Callers can join a fetch at any time: the waits of before are not their own.
            *left = budget.saturating_sub(waited.saturating_sub(*before.get_or_insert(waited)));
            // The early entry was usable when it was announced, but this caller may have come later.
            let now = self.clock.wall();
            let early = early.filter(|entry| entry.next(now).is_some_and(|next| next != Reuse::Fetch));
            if let Some(result) = result.or(early.map(Ok)) {
                return result;
            }
            // Every permit is waited for, if only for an instant.
            if left.is_zero() && present >= LOOK_AGAIN {
                return Err(full(now));
            }
            let look_again = left.saturating_add(LOOK_AGAIN);
            if let Ok(Err(_)) = timeout(look_again, progress.changed()).await {
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

    /// Compiles a record and keeps it in memory.
    pub(super) fn publish(&self, record: RobotsRecord) -> Arc<RobotsEntry> {
        let entry = Arc::new(self.compiled(record));
        self.entries.insert(entry.origin().clone(), Arc::clone(&entry));
        // Or it would forget what is too much after hundreds of insertions, each of up to some megabytes.
        self.entries.run_pending_tasks();
        entry
    }

    pub(super) fn compiled(&self, record: RobotsRecord) -> RobotsEntry {
        RobotsEntry::new(record, self.clock.wall(), &self.policy, &self.tokens, &self.texts)
    }

    /// The newest record of the origin: the store's, or ours if the store has failed.
    pub(super) async fn newest_record(&self, origin: &Origin) -> Option<RobotsRecord> {
        let own = self.entries.get(origin).map(|entry| entry.record().clone());
        let stored = self.load_record(origin).await;
        match (stored, own) {
            // Of two that were asked for at the same time, one was invalidated, and ends earlier: that one is
            // newer.
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

/// What is known of an origin now, and what to do about it.
enum Known {
    Use(Arc<RobotsEntry>),
    UseAndRefresh(Arc<RobotsEntry>),
    Fetch,
}

/// A caller that has no time left looks so often whether the fetch waits for a permit. The fetch itself is
/// refused first, with a better reason.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many origins may be fetched or wait for it at a time, each with 7 KB: together no more than a million
/// known hosts. More are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// Of how many origins a deferral is kept. For others the pacer decides again, which costs no request.
const DEFERRALS_MAX: u64 = 10_000;

impl fmt::Debug for RobotsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsCache")
            .field("policy", &self.policy)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// The entries, bounded by their weight: the least recently used go first. They do not expire in it: their
/// times are checked when they are used, by the clock of the cache, and a stale one is the last good copy
/// that an outage needs.
fn entries(weight_max: u64) -> Cache<Origin, Arc<RobotsEntry>> {
    // One that is heavier than the bound is kept, alone.
    let heaviest = u32::try_from(weight_max).unwrap_or(u32::MAX);
    Cache::builder()
        .max_capacity(weight_max)
        .weigher(move |_, entry: &Arc<RobotsEntry>| {
            u32::try_from(entry.weight()).unwrap_or(u32::MAX).min(heaviest)
        })
        // By recency alone, so that a new entry is always taken in: a refused one would be fetched again for
        // every page.
        .eviction_policy(EvictionPolicy::lru())
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u64) -> Origin {
        format!("https://h{n}.example").parse().unwrap()
    }

    fn entry(n: u64, body_len: usize) -> Arc<RobotsEntry> {
        let now = WallMillis::from_millis(1_800_000_000_000);
        let record = RobotsRecord::sample(&origin(n), now, vec![b'#'; body_len].into());
        Arc::new(RobotsEntry::new(record, now, &RobotsPolicy::default(), &[], &Interner::default()))
    }

    fn put(table: &Cache<Origin, Arc<RobotsEntry>>, n: u64, body_len: usize) {
        table.insert(origin(n), entry(n, body_len));
        table.run_pending_tasks();
    }

    #[test]
    fn what_is_used_stays_and_what_is_new_is_taken_in() {
        let (table, mut forgotten) = (entries(1_000 * entry(0, 0).weight() as u64), 0);
        for n in 10..20_000 {
            put(&table, n, 0);
            assert!(table.get(&origin(n)).is_some() && table.entry_count() <= 1_000, "{n}");
            if table.get(&origin(n % 10)).is_none() {
                put(&table, n % 10, 0);
                forgotten += 1;
            }
        }
        assert_eq!((table.entry_count(), forgotten), (1_000, 10), "ten at their first use");
    }

    #[test]
    fn one_that_is_heavier_than_the_bound_is_kept_alone() {
        let table = entries(1_000 * entry(0, 0).weight() as u64);
        (0..1_000).for_each(|n| put(&table, n, 0));
        put(&table, 1_000, 1_000_000);
        assert!(table.get(&origin(1_000)).is_some() && table.entry_count() == 1);
        put(&table, 1, 0);
        assert!(table.get(&origin(1)).is_some() && table.entry_count() == 1);
    }
}
