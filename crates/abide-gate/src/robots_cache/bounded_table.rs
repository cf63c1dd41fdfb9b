//! The entries of the robots.txt cache by origin, bounded by weight.
//!
//! A general cache such as moka takes 270 bytes and six blocks for each of its entries, half of what a known host may take in all. Here an
//! entry is one pointer in a hash table, found by a slice of the URL, without making a key. What is not kept for each host (deferrals, and
//! the store in memory) is in moka.
//!
//! When there is no room, CLOCK forgets what was not used for long: a hand moves over the table, spares entries used since it last passed, and
//! forgets the first that was not. That is nearly the least recently used one, and a use writes one byte instead of moving a list.

use std::hash::RandomState;
use std::mem::replace;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::origin::OriginOf;
use crate::robots_cache::RobotsEntry;

pub(super) struct BoundedTable {
    shards: Box<[Mutex<Shard>]>,
    /// Keyed, because the owners of names could choose many with one hash.
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
    /// A table that forgets when its entries weigh more than `weight_max`.
    pub(super) fn new(weight_max: u64) -> Self {
        let shard = || Mutex::new(Shard { values: HashTable::new(), hand: 0 });
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        let (weight, hand) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { shards, hasher: RandomState::new(), weight, weight_max, hand }
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
        if !value.used().load(Ordering::Relaxed) {
            value.used().store(true, Ordering::Relaxed);
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
            Entry::Occupied(mut place) => Some(replace(place.get_mut(), Arc::clone(&value))),
            Entry::Vacant(place) => {
                place.insert(Arc::clone(&value));
                None
            }
        };
        self.weight.fetch_sub(replaced.map_or(0, |replaced| replaced.leave()), Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).values.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
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

    #[allow(clippy::indexing_slicing, reason = "there are as many shards as remainders")]
    fn nth_shard(&self, n: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[n % SHARDS])
    }
}

/// No foreign code runs under the lock.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Forgets the first from the hand on that was not used since it came by last, and returns its weight. `None`: there is none up to the
    /// end of the shard.
    fn forget_one(&mut self, spared: &mut usize) -> Option<u64> {
        for place in self.hand..self.values.num_buckets() {
            let Ok(place) = self.values.get_bucket_entry(place) else { continue };
            if place.get().used().swap(false, Ordering::Relaxed) && *spared < SPARED_MAX {
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
    use crate::robots_cache::interner::Interner;
    use crate::robots_cache::{RobotsPolicy, RobotsRecord};
    use crate::{Origin, WallMillis};

    fn origin(n: u64) -> Origin {
        format!("https://h{n}.example").parse().unwrap()
    }

    /// An entry that shares its text with no other.
    fn entry(n: u64, body_len: usize) -> Arc<RobotsEntry> {
        let now = WallMillis::from_millis(1_800_000_000_000);
        let record = RobotsRecord::sample(&origin(n), now, vec![b'#'; body_len].into());
        Arc::new(RobotsEntry::new(record, now, &RobotsPolicy::default(), &[], &Interner::new()))
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
        assert_eq!((table.len(), table.weight()), (1_000, 500 * (weight(30) + weight(50))));
        assert!(has(&table, 0) && has(&table, 999) && !has(&table, 1_000));
    }

    #[test]
    fn what_is_used_stays_and_what_is_new_is_taken_in() {
        let (table, mut forgotten) = (BoundedTable::new(1_000 * weight(0)), 0);
        for n in 10..20_000 {
            table.insert(entry(n, 0));
            assert!(has(&table, n) && table.len() <= 1_000, "{n}");
            if !has(&table, n % 10) {
                table.insert(entry(n % 10, 0));
                forgotten += 1;
            }
        }
        assert_eq!(table.len(), 1_000);
        // Ten at their first use, and few when all have been used since the hand came by.
        assert!((10..15).contains(&forgotten), "{forgotten}");
    }

    #[test]
    fn one_that_is_heavier_than_the_bound_is_kept_alone() {
        let table = BoundedTable::new(1_000 * weight(0));
        (0..1_000).for_each(|n| table.insert(entry(n, 0)));
        table.insert(entry(1_000, 1_000_000));
        assert!(has(&table, 1_000) && table.len() == 1);
        table.insert(entry(1, 0));
        assert!(has(&table, 1) && table.len() == 1);
    }
}
