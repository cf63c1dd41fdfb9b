//! The table of all hosts: their schedules, in shards, each behind its own lock.
//!
//! A schedule has a number that stays the same while something is in flight or waiting, so that a permit finds it again without looking up
//! its name. It is removed only when its host is not in use: crawlers that drop a host's state with its empty queue forget the delay with
//! it. The table is cleaned a little with every few hundred requests, not by a timer, so an idle pacer does nothing.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "shards are numbered by a remainder of their count; each `expect` says why it holds"
)]

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;

use super::queue::Wakers;
use super::schedule::Schedule;
use crate::clock::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleId {
    pub(crate) shard: u16,
    index: u32,
}

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Mutex<HostShard>]>,
    hasher: RandomState,
    tickets: AtomicU64,
    /// How many schedules a shard keeps, unless all of them are in use.
    shard_max: usize,
    /// The delay of a host without settings of its own.
    min_delay: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct HostShard {
    index: HashTable<u32>,
    schedules: Slab<Schedule>,
    /// Where the next cleaning goes on.
    hand: usize,
    since_cleaning: u32,
}

/// What remains to be done when all locks are released: wakers and observers are foreign code, which may ask for a lock again.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) wakers: Wakers,
    /// The table had to grow beyond its bound.
    pub(crate) is_overgrown: bool,
}

/// Two cores or two hundred: a lock is held for some fifty nanoseconds.
pub(crate) const SHARDS: u16 = 64;

/// So many requests to the hosts of a shard, and it is cleaned a little.
const CLEAN_EVERY: u32 = 256;

/// So many schedules are looked at in one cleaning.
const CLEAN_STEPS: usize = 512;

impl Table {
    pub(crate) fn new(max: usize, min_delay: Duration) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hasher: RandomState::default(),
            tickets: AtomicU64::new(1),
            shard_max: max.div_ceil(SHARDS.into()),
            min_delay,
        }
    }

    pub(crate) fn shard_of(&self, key: &str) -> u16 {
        shard(self.hasher.hash_one(key))
    }

    pub(crate) fn lock(&self, key: &str) -> Locked<'_> {
        self.lock_shards(self.shard_of(key), std::iter::empty())
    }

    /// Locks the schedule of a key, if it is known.
    pub(crate) fn lock_found(&self, key: &str) -> Option<(Locked<'_>, ScheduleId)> {
        let hash = self.hasher.hash_one(key);
        let mut locked = self.lock_shards(shard(hash), std::iter::empty());
        let id = locked.find(hash, key)?;
        Some((locked, id))
    }

    /// Locks the shards of a request: that of its host, and those of its other scopes.
    pub(crate) fn lock_shards(&self, host: u16, mut others: impl Iterator<Item = u16>) -> Locked<'_> {
        let Some(other) = others.next() else {
            return Locked { table: self, first: (host, self.guard(host)), others: Vec::new() };
        };
        let mut all = vec![host, other];
        all.extend(others);
        // In ascending order for all requests: two with the same scopes never each have a lock that the other waits for.
        all.sort_unstable();
        all.dedup();
        let mut locked = all.into_iter().map(|shard| (shard, self.guard(shard)));
        Locked { table: self, first: locked.next().expect("not empty"), others: locked.collect() }
    }

    /// Nothing of the user's runs under the lock, and nothing of ours panics there; should it, the others go on.
    fn guard(&self, shard: u16) -> MutexGuard<'_, HostShard> {
        self.shards[usize::from(shard)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(&mut Schedule)) {
        for shard in 0..SHARDS {
            self.guard(shard).schedules.iter_mut().for_each(|(_, schedule)| look(schedule));
        }
    }

    pub(crate) fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.guard(shard).schedules.len()).sum()
    }
}

/// The shard of a key with this hash. The table inside uses the low and the top bits, so these are from the middle.
fn shard(hash: u64) -> u16 {
    (hash >> 32) as u16 % SHARDS
}

#[derive(Debug)]
pub(crate) struct Locked<'a> {
    table: &'a Table,
    first: (u16, MutexGuard<'a, HostShard>),
    others: Vec<(u16, MutexGuard<'a, HostShard>)>,
}

impl Locked<'_> {
    fn shard(&mut self, shard: u16) -> &mut HostShard {
        let mut all = std::iter::once(&mut self.first).chain(&mut self.others);
        let locked = all.find(|(number, _)| *number == shard);
        &mut locked.expect("the shards of all keys of the request were locked").1
    }

    fn find(&mut self, hash: u64, key: &str) -> Option<ScheduleId> {
        let shard = shard(hash);
        let HostShard { index, schedules, .. } = self.shard(shard);
        let same = |index: &u32| {
            schedules.get(*index as usize).is_some_and(|schedule| schedule.key.as_bytes() == key.as_bytes())
        };
        index.find(hash, same).map(|index| ScheduleId { shard, index: *index })
    }

    /// Drawn under the locks: of two requests that stand in one queue, the one that is before has the lower one.
    pub(crate) fn draw_ticket(&self) -> u64 {
        self.table.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets a host, if this key is new and its shard is full. To be called for all keys of a request before any of their schedules
    /// is used: a new one is not in use yet, and could be removed for the next.
    pub(crate) fn make_room(&mut self, key: &str, now: Moment, effects: &mut Effects) {
        let (table, hash) = (self.table, self.table.hasher.hash_one(key));
        if self.find(hash, key).is_some() {
            return;
        }
        let shard = self.shard(shard(hash));
        if shard.schedules.len() >= table.shard_max {
            shard.make_room(table, now);
            effects.is_overgrown |= shard.schedules.len() >= table.shard_max;
        }
    }

    pub(crate) fn find_or_insert(&mut self, key: &str) -> ScheduleId {
        let (hasher, hash) = (&self.table.hasher, self.table.hasher.hash_one(key));
        self.find(hash, key).unwrap_or_else(|| {
            let shard = shard(hash);
            ScheduleId { shard, index: self.shard(shard).insert(key, hash, hasher) }
        })
    }

    /// The schedule with this number. It is there as long as something that has the number is in flight or waiting.
    pub(crate) fn schedule(&mut self, id: ScheduleId) -> Option<&mut Schedule> {
        self.shard(id.shard).schedules.get_mut(id.index as usize)
    }

    /// Cleans a little every few hundred calls. To be called before a schedule is looked up, or after its grant, which keeps it.
    pub(crate) fn clean_sometimes(&mut self, shard: u16, now: Moment) {
        let (table, shard) = (self.table, self.shard(shard));
        // Counted per shard, so that the requests to a shard pay for its cleaning and no other lock is taken.
        shard.since_cleaning += 1;
        if shard.since_cleaning >= CLEAN_EVERY {
            shard.since_cleaning = 0;
            shard.clean(table, now);
        }
    }
}

impl HostShard {
    fn insert(&mut self, key: &str, hash: u64, hasher: &RandomState) -> u32 {
        // By an eighth rather than by doubling: with a million hosts, doubling would keep up to 64 MB empty.
        if self.schedules.len() == self.schedules.capacity() {
            self.schedules.reserve_exact(self.schedules.len() / 8 + 4);
        }
        let place = self.schedules.insert(Schedule::new(key));
        let place = u32::try_from(place).expect("four billion schedules do not fit into memory");
        let schedules = &self.schedules;
        let rehash = |index: &u32| {
            schedules.get(*index as usize).map_or(0, |schedule| hasher.hash_one(schedule.key.as_str()))
        };
        self.index.insert_unique(hash, place, rehash);
        place
    }

    /// Looks at the next few schedules: puts away what is not needed, and forgets hosts while there are more than `max`.
    fn clean(&mut self, table: &Table, now: Moment) {
        for _ in 0..CLEAN_STEPS.min(self.schedules.capacity()) {
            let (place, crowded) = (self.advance(), self.schedules.len() > table.shard_max);
            let Some(schedule) = self.schedules.get_mut(place) else { continue };
            schedule.tidy(now);
            if crowded && schedule.owes_nothing(table.min_delay, now) {
                self.forget(place, &table.hasher);
            }
        }
    }

    /// Removes one host that is not in use, if one is found among the next few.
    fn make_room(&mut self, table: &Table, now: Moment) {
        for _ in 0..CLEAN_STEPS.min(self.schedules.capacity()) {
            // Only a few: a request waits for it under the lock. If none of them qualifies, the shard grows.
            let place = self.advance();
            if self.schedules.get(place).is_some_and(|schedule| schedule.owes_nothing(table.min_delay, now)) {
                return self.forget(place, &table.hasher);
            }
        }
    }

    fn advance(&mut self) -> usize {
        self.hand = if self.hand + 1 < self.schedules.capacity() { self.hand + 1 } else { 0 };
        self.hand
    }

    fn forget(&mut self, place: usize, hasher: &RandomState) {
        let schedule = self.schedules.remove(place);
        let hash = hasher.hash_one(schedule.key.as_str());
        // The index keeps numbers and no names, which would be there twice.
        if let Ok(entry) = self.index.find_entry(hash, |index| *index as usize == place) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_spread_over_the_shards_and_all_of_them_are_counted() {
        let table = Table::new(10_000, Duration::ZERO);
        let keys = (0..1_000).map(|n| n.to_string());
        let shards: Vec<u16> = keys.map(|key| table.lock(&key).find_or_insert(&key).shard).collect();
        assert_eq!(table.len(), 1_000);
        for shard in 0..SHARDS {
            let here = shards.iter().filter(|here| **here == shard).count();
            assert!(here < 60, "{here} of 1000 in shard {shard}");
        }
    }

    #[test]
    fn a_shard_grows_by_an_eighth() {
        let (mut shard, hasher, mut growths) = (HostShard::default(), RandomState::default(), 0);
        for n in 0_usize..4_000 {
            let (key, before) = (n.to_string(), shard.schedules.capacity());
            shard.insert(&key, hasher.hash_one(&key), &hasher);
            let room = shard.schedules.capacity();
            assert!(room <= n + n / 8 + 4, "room for {room} with {n}");
            growths += usize::from(room != before);
        }
        assert!(growths < 70, "{growths}");
    }
}
