//! The entries of the robots.txt cache by origin, bounded by weight.
//!
//! A general cache such as moka takes 270 bytes and six blocks for each of its entries, half of what a known host may take in all. Here an
//! entry is one pointer in a hash table, found by a slice of the URL, without making a key. What is not kept for each host (deferrals, and
//! the store in memory) is in moka.
//!
//! When there is no room, CLOCK forgets what was not used for long: a hand goes over the table, spares what was used since it came by last,
//! and forgets the first that was not. That is nearly the least recently used, and a use writes one byte instead of moving a list.

use std::hash::RandomState;
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::Origin;
use crate::origin::OriginOf;

/// What a table keeps: shared, so that it is cheap to clone.
pub(super) trait Kept {
    fn origin(&self) -> &Origin;

    /// It comes into the table, which takes so many bytes more: its own, and those that it is the first there to share.
    fn enter(&self) -> u64;

    /// It is out of the table, which keeps so many bytes less, whoever else still holds it.
    fn leave(&self) -> u64;

    /// Whether it was used since the hand came by.
    fn used(&self) -> &AtomicBool;
}

/// Values by origin, as many as their weight allows.
pub(super) struct BoundedTable<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    /// Keyed, because servers choose their names: they could choose many with one hash.
    hasher: RandomState,
    /// Of what is in it alone: to forget what others hold would not make it less.
    weight: AtomicU64,
    weight_max: u64,
    /// The number of the shard that the hand is in.
    hand: AtomicUsize,
}

struct Shard<V> {
    values: HashTable<Arc<V>>,
    /// Where the hand goes on in it.
    hand: usize,
}

/// So many locks, each held for some hundred nanoseconds, keep two cores or two hundred from waiting for each other.
const SHARDS: usize = 64;

/// More than this are not spared for one that is forgotten: where all of a million are in use, nobody waits until the hand has passed them.
const SPARED_MAX: usize = 512;

impl<V: Kept> BoundedTable<V> {
    /// A table that forgets when its values weigh more than `weight_max`.
    pub(super) fn new(weight_max: u64) -> Self {
        let shard = || Mutex::new(Shard { values: HashTable::new(), hand: 0 });
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        let (weight, hand) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { shards, hasher: RandomState::new(), weight, weight_max, hand }
    }

    pub(super) fn get(&self, origin: OriginOf<'_>) -> Option<Arc<V>> {
        let hash = origin.hash(&self.hasher);
        let shard = self.shard(hash);
        let value = shard.values.find(hash, |value| origin.is(value.origin()))?;
        // Read first: a byte that is only read stays in the caches of all cores.
        if !value.used().load(Ordering::Relaxed) {
            value.used().store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(value))
    }

    /// Keeps the value in place of the last one of its origin. Always: one that was refused would be fetched again for every page.
    pub(super) fn insert(&self, value: Arc<V>) {
        self.weight.fetch_add(value.enter(), Ordering::Relaxed);
        // Before it is in, so that nothing new is forgotten for itself.
        self.make_room();
        let origin = value.origin().as_slice();
        let hash = origin.hash(&self.hasher);
        let mut shard = self.shard(hash);
        let rehash = |value: &Arc<V>| value.origin().as_slice().hash(&self.hasher);
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

    /// Forgets until there is room for what is counted, or nothing is left.
    fn make_room(&self) {
        let (mut spared, mut in_vain) = (0, 0_usize);
        // Twice round the table: what was spared in the first round can be forgotten in the second.
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
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<V>> {
        self.nth_shard((hash >> 32) as usize)
    }

    #[allow(clippy::indexing_slicing, reason = "there are as many shards as remainders")]
    fn nth_shard(&self, n: usize) -> MutexGuard<'_, Shard<V>> {
        lock(&self.shards[n % SHARDS])
    }
}

/// Nothing of the user's runs under the lock.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V: Kept> Shard<V> {
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

    struct Site {
        origin: Origin,
        weight: u64,
        used: AtomicBool,
    }

    impl Kept for Site {
        fn origin(&self) -> &Origin {
            &self.origin
        }

        fn enter(&self) -> u64 {
            self.weight
        }

        fn leave(&self) -> u64 {
            self.weight
        }

        fn used(&self) -> &AtomicBool {
            &self.used
        }
    }

    fn origin(n: u64) -> Origin {
        format!("https://h{n}.example").parse().unwrap()
    }

    fn table(weight_max: u64) -> BoundedTable<Site> {
        BoundedTable::new(weight_max)
    }

    fn insert(table: &BoundedTable<Site>, n: u64, weight: u64) {
        table.insert(Arc::new(Site { origin: origin(n), weight, used: true.into() }));
    }

    fn has(table: &BoundedTable<Site>, n: u64) -> bool {
        table.get(origin(n).as_slice()).is_some()
    }

    #[test]
    fn the_weight_is_that_of_what_is_kept() {
        let table = table(u64::MAX);
        (0..1_000).for_each(|n| insert(&table, n, 3));
        (0..500).for_each(|n| insert(&table, n, 5));
        assert_eq!((table.len(), table.weight()), (1_000, 4_000));
        assert!(has(&table, 0) && has(&table, 999) && !has(&table, 1_000));
    }

    #[test]
    fn what_is_used_stays_and_what_is_new_is_taken_in() {
        let (table, mut forgotten) = (table(1_000), 0);
        for n in 10..20_000 {
            insert(&table, n, 1);
            assert!(has(&table, n) && table.len() <= 1_000, "{n}");
            if !has(&table, n % 10) {
                insert(&table, n % 10, 1);
                forgotten += 1;
            }
        }
        assert_eq!(table.len(), 1_000);
        // Ten at their first use, and few when all have been used since the hand came by.
        assert!((10..15).contains(&forgotten), "{forgotten}");
    }

    #[test]
    fn one_that_is_heavier_than_the_bound_is_kept_alone() {
        let table = table(1_000);
        (0..1_000).for_each(|n| insert(&table, n, 1));
        insert(&table, 1_000, 5_000);
        assert!(has(&table, 1_000) && table.len() == 1);
        insert(&table, 1, 1);
        assert!(has(&table, 1) && table.len() == 1);
    }
}
