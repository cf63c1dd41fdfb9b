//! The robots.txt cache as the gate uses it: an entry from memory if one may be used, else a fetch that all callers share.
//!
//! A crawler checks robots.txt before every request, so nearly every check must find its entry in memory, and callers that wait for the same
//! robots.txt must share one fetch, which is in `fetch_task.rs`.
//!
//! A general cache such as moka takes 270 bytes and six blocks for each of its entries, half of what a known host may take in all. Here an
//! entry is one pointer in a hash table, found by a slice of the URL, without making a key. What is not kept for each host is in moka.
//!
//! When there is no room, CLOCK forgets what was not used for long: a hand moves over the table, spares entries used since it last passed, and
//! forgets the first that was not. That is nearly the least recently used one, and a use writes one byte instead of moving a list.

use std::fmt;
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide_robots::ProductToken;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use moka::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use crate::denied::Refusal;
use crate::event::Observers;
use crate::jitter::Jitter;
use crate::origin::OriginOf;
use crate::robots_cache::body::LARGE_BODIES_MAX;
use crate::robots_cache::chain::DeferredFetch;
use crate::robots_cache::entry::Reuse;
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::fetch_task::{FetchProgress, full};
use crate::robots_cache::interner::Interner;
use crate::robots_cache::single_flight::SingleFlight;
use crate::robots_cache::{RobotsEntry, RobotsPolicy, RobotsRecord, RobotsStore};
use crate::{Clock, DeniedKind, Origin, Stats, SystemClock, WallMillis};

/// The access results of RFC 9309 §2.3–2.4: the robots.txt of each origin, fetched once for all callers that wait, used while it is fresh, and
/// kept through outages. One per process and file, behind an [`Arc`], because its fetches outlive their callers.
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
    pub(super) entries: BoundedTable,
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
            entries: BoundedTable::new(policy.memory_max),
            texts: Interner::default(),
            deferrals: Cache::new(DEFERRALS_MAX),
            in_flight: SingleFlight::new(FLIGHTS_MAX),
            large_bodies: Semaphore::new(LARGE_BODIES_MAX),
            jitter: Jitter::new(None),
            stats: Mutex::default(),
            policy,
        }
    }

    /// The entry of the origin: from memory, or by one fetch for all callers that wait, which goes on if this future is dropped. Refused if
    /// robots.txt could not be requested now; then nothing may be fetched from the origin, either. Within a tokio runtime only.
    pub(crate) async fn get(self: &Arc<Self>, origin: &Origin) -> Result<Arc<RobotsEntry>, Refusal> {
        self.get_within(origin, &mut { Duration::MAX }).await
    }

    /// The same, if its request does not wait for permits longer than what is `left`, from which the wait is taken. Time on the wire does not count.
    pub(crate) async fn get_within(
        self: &Arc<Self>,
        origin: &Origin,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let now = self.clock.wall();
        let usable = match self.lookup(origin, now) {
            Some((answer, Reuse::Use)) => return Ok(answer),
            Some((answer, Reuse::UseAndRefresh)) => Some(answer),
            Some((_, Reuse::Fetch)) | None => None,
        };
        let progress = self.join(origin, now, usable.is_some());
        match usable {
            // No caller waits for the fetch, so it does not matter whether it could begin.
            Some(answer) => Ok(answer),
            // Boxed, because waits are rare: other calls do not carry the room for one.
            None => Box::pin(self.wait(progress?, left)).await,
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
        let (answer, next) = self.lookup(origin, self.clock.wall())?;
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

    /// Expires the origin's entry, so that its next use fetches. The last good copy stays, and is used at once while the origin is known to fail.
    pub(crate) async fn invalidate(&self, origin: &Origin) {
        // Or the next use would get the stored deferral instead of a fetch.
        self.deferrals.invalidate(origin);
        let Some(mut record) = self.newest_record(origin).await.map(RobotsRecord::expired) else {
            return;
        };
        self.save_record(&record).await;
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
        mut progress: watch::Receiver<FetchProgress>,
        left: &mut Duration,
    ) -> Result<Arc<RobotsEntry>, Refusal> {
        let (budget, mut before) = (*left, None);
        loop {
            // Cloned, because a borrow locks the channel; marked as seen, so that `changed` waits for the next.
            let FetchProgress { result, early, permit_wait } = progress.borrow_and_update().clone();
            let (waited, present) = permit_wait.at(self.clock.now());
            // Callers can join a fetch at any time: the waits of before are not their own.
            *left = budget.saturating_sub(waited.saturating_sub(*before.get_or_insert(waited)));
            // The early entry was usable when it was announced, but this caller may have come later.
            let now = self.clock.wall();
            let early = early.filter(|answer| answer.next(now).is_some_and(|next| next != Reuse::Fetch));
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

    /// The entry in memory, and what to do with it. Compiled again if it means something else now than when it was made.
    pub(super) fn lookup(&self, origin: &Origin, now: WallMillis) -> Option<(Arc<RobotsEntry>, Reuse)> {
        let mut answer = self.entries.get(origin.as_slice())?;
        if answer.next(now).is_none() {
            // The record is the same, so nothing is fetched: only what it says has changed with the time.
            answer = self.publish(answer.record().clone());
        }
        answer.next(now).map(|next| (answer, next))
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

/// A caller that has no time left looks so often whether the fetch waits for a permit. The fetch itself is refused first, with a better reason.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many origins may be fetched or wait for it at a time, each with 7 KB: together no more than a million known hosts. More are deferred.
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

pub(super) struct BoundedTable {
    shards: Box<[Mutex<Shard>]>,
    /// With a seed of this table, because the owners of names could choose many with one hash. To find the seed they would have to see hashes,
    /// or time single look-ups: for that, it is weaker than the hasher of std.
    hasher: RandomState,
    /// Of what is in the table. What a caller holds beyond that is not counted, because forgetting an entry would not free it.
    weight: AtomicU64,
    weight_max: u64,
    /// The number of the shard that the hand is in.
    hand: AtomicUsize,
}

struct Shard {
    values: HashTable<Arc<RobotsEntry>>,
    hand: usize,
}

/// So many locks, each held for some hundred nanoseconds, keep two cores or two hundred from waiting for each other.
const SHARDS: usize = 64;

/// Not more are spared for one that is forgotten: where all of a million are in use, a caller would wait until the hand had passed them.
const SPARED_MAX: usize = 512;

impl BoundedTable {
    pub(super) fn new(weight_max: u64) -> Self {
        let shard = || Mutex::new(Shard { values: HashTable::new(), hand: 0 });
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        let (weight, hand) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { shards, hasher: RandomState::default(), weight, weight_max, hand }
    }

    pub(super) fn get(&self, origin: OriginOf<'_>) -> Option<Arc<RobotsEntry>> {
        self.get_if(origin, |_| true)
    }

    /// The entry, if it `is_wanted`. Of a million entries, one at random is in no cache of the processor. It waits for memory once if all that
    /// is read of an entry is read here: to count a use of the `Arc`, it first waits for all reads before, and only then begins those after.
    pub(super) fn get_if(
        &self,
        origin: OriginOf<'_>,
        is_wanted: impl FnOnce(&RobotsEntry) -> bool,
    ) -> Option<Arc<RobotsEntry>> {
        let hash = origin.hash(&self.hasher);
        let shard = self.shard(hash);
        let value = shard.values.find(hash, |value| origin.is(value.origin()))?;
        // Read first: a byte that is only read stays in the caches of all cores.
        if !value.used.load(Ordering::Relaxed) {
            value.used.store(true, Ordering::Relaxed);
        }
        is_wanted(value).then(|| Arc::clone(value))
    }

    /// Keeps the entry in place of the last one of its origin. Always: one that was refused would be fetched again for every page.
    pub(super) fn insert(&self, value: Arc<RobotsEntry>) {
        // Relaxed, as everywhere here: sums and hints, by which no other memory is found.
        self.weight.fetch_add(value.enter(), Ordering::Relaxed);
        // Before it is in the table, so that it is not forgotten to make room for itself.
        self.make_room();
        let origin = value.origin().as_slice();
        let hash = origin.hash(&self.hasher);
        let mut shard = self.shard(hash);
        let rehash = |value: &Arc<RobotsEntry>| value.origin().as_slice().hash(&self.hasher);
        let replaced = match shard.values.entry(hash, |other| origin.is(other.origin()), rehash) {
            Entry::Occupied(mut place) => replace(place.get_mut(), value).leave(),
            Entry::Vacant(place) => {
                place.insert(value);
                0
            }
        };
        self.weight.fetch_sub(replaced, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn len_and_weight(&self) -> (usize, u64) {
        let lengths = (0..SHARDS).map(|n| self.nth_shard(n).values.len());
        (lengths.sum(), self.weight.load(Ordering::Relaxed))
    }

    /// Forgets entries until the weight is within its bound, or nothing is left.
    fn make_room(&self) {
        let (mut spared, mut in_vain) = (0, 0_usize);
        // Twice round the table: an entry spared in the first round can be forgotten in the second.
        while self.weight.load(Ordering::Relaxed) > self.weight_max && in_vain <= 2 * SHARDS {
            let number = self.hand.load(Ordering::Relaxed);
            match self.nth_shard(number).forget_one(&mut spared) {
                Some(weight) => {
                    self.weight.fetch_sub(weight, Ordering::Relaxed);
                    (spared, in_vain) = (0, 0);
                }
                None => {
                    // It has passed the end of the shard, unless another thread was faster.
                    let next = number.wrapping_add(1);
                    let _ = self.hand.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
                    in_vain = in_vain.saturating_add(1);
                }
            }
        }
    }

    /// The table inside uses the low and the top bits, so the shard is chosen by those in the middle.
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.nth_shard((hash >> 32) as usize)
    }

    /// No foreign code runs under the lock.
    #[allow(clippy::indexing_slicing, reason = "there are as many shards as remainders")]
    fn nth_shard(&self, n: usize) -> MutexGuard<'_, Shard> {
        self.shards[n % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Forgets the first from the hand on that was not used since it came by last, and returns its weight. `None`: the shard has ended.
    fn forget_one(&mut self, spared: &mut usize) -> Option<u64> {
        for place in self.hand..self.values.num_buckets() {
            let Ok(place) = self.values.get_bucket_entry(place) else { continue };
            if place.get().used.swap(false, Ordering::Relaxed) && *spared < SPARED_MAX {
                *spared = spared.saturating_add(1);
                continue;
            }
            self.hand = place.bucket_index();
            return Some(place.remove().0.leave());
        }
        self.hand = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u64) -> Origin {
        format!("https://h{n}.example").parse().unwrap()
    }

    /// An entry that shares its text with no other.
    fn entry(n: u64, body_len: usize) -> Arc<RobotsEntry> {
        let now = WallMillis::from_millis(1_800_000_000_000);
        let record = RobotsRecord::sample(&origin(n), now, vec![b'#'; body_len].into());
        Arc::new(RobotsEntry::new(record, now, &RobotsPolicy::default(), &[], &Interner::default()))
    }

    fn weight(body_len: usize) -> u64 {
        entry(0, body_len).enter()
    }

    fn has(table: &BoundedTable, n: u64) -> bool {
        table.get(origin(n).as_slice()).is_some()
    }

    #[test]
    fn the_weight_is_that_of_what_is_kept() {
        let table = BoundedTable::new(u64::MAX);
        (0..1_000).for_each(|n| table.insert(entry(n, 30)));
        (0..500).for_each(|n| table.insert(entry(n, 50)));
        assert_eq!(table.len_and_weight(), (1_000, 500 * (weight(30) + weight(50))));
        assert!(has(&table, 0) && has(&table, 999) && !has(&table, 1_000));
    }

    #[test]
    fn what_is_used_stays_and_what_is_new_is_taken_in() {
        let (table, mut forgotten) = (BoundedTable::new(1_000 * weight(0)), 0);
        for n in 10..20_000 {
            table.insert(entry(n, 0));
            assert!(has(&table, n) && table.len_and_weight().0 <= 1_000, "{n}");
            if !has(&table, n % 10) {
                table.insert(entry(n % 10, 0));
                forgotten += 1;
            }
        }
        assert_eq!(table.len_and_weight().0, 1_000);
        // Ten at their first use, and few when all have been used since the hand came by.
        assert!((10..15).contains(&forgotten), "{forgotten}");
    }

    #[test]
    fn one_that_is_heavier_than_the_bound_is_kept_alone() {
        let table = BoundedTable::new(1_000 * weight(0));
        (0..1_000).for_each(|n| table.insert(entry(n, 0)));
        table.insert(entry(1_000, 1_000_000));
        assert!(has(&table, 1_000) && table.len_and_weight().0 == 1);
        table.insert(entry(1, 0));
        assert!(has(&table, 1) && table.len_and_weight().0 == 1);
    }
}
