//! All hosts that are known, in shards, each behind its own lock: the only lock on the state of a host.
//!
//! A host is forgotten only when it is not in use: crawlers that drop a host's state with its empty queue
//! forget the delay with it. The table is cleaned with every so many requests, not by a timer, so an idle
//! pacer does nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::host::PacedHost;
use super::lease::LeaseSignals;
use super::queue::Wakers;
use crate::clock::Moment;

#[derive(Debug)]
pub(crate) struct Hosts {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// How many hosts a shard keeps, unless all of them are in use.
    shard_max: usize,
    /// The delay of a host without settings of its own.
    min_delay: Duration,
}

#[derive(Debug, Default)]
struct Shard {
    hosts: HashMap<Arc<str>, PacedHost>,
    /// Requests since the last cleaning.
    requests: usize,
}

/// What remains to be done when all locks are released: wakers and observers are foreign code, which may ask
/// for a lock again.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) wakers: Wakers,
    /// The keepers of these leases should look.
    pub(crate) news: Vec<Arc<LeaseSignals>>,
    /// The lease of this host is to be kept from now on.
    pub(crate) unkept: Option<Arc<str>>,
    /// The table had to grow beyond its bound.
    pub(crate) is_overgrown: bool,
}

/// Two cores or two hundred: a lock is held for some hundred nanoseconds.
const SHARDS: usize = 64;

/// A shard is cleaned after as many requests as it has hosts, but not more often than this.
const CLEAN_MIN: usize = 16;

impl Hosts {
    pub(crate) fn new(max: usize, min_delay: Duration) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, hasher: RandomState::new(), shard_max: max.div_ceil(SHARDS), min_delay }
    }

    /// Does something to the host of this key, which is known from now on.
    pub(crate) fn with<T>(
        &self,
        key: &str,
        now: Moment,
        effects: &mut Effects,
        act: impl FnOnce(&mut PacedHost, &mut Effects) -> T,
    ) -> T {
        let mut shard = self.shard(key);
        shard.clean_sometimes(key, self, now, effects);
        if let Some(host) = shard.hosts.get_mut(key) {
            return act(host, effects);
        }
        let key: Arc<str> = key.into();
        let host = shard.hosts.entry(Arc::clone(&key)).or_insert_with(|| PacedHost::new(key));
        act(host, effects)
    }

    /// Does something to the host of this key, if it is known.
    pub(crate) fn find<T>(&self, key: &str, act: impl FnOnce(&mut PacedHost) -> T) -> Option<T> {
        self.shard(key).hosts.get_mut(key).map(act)
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(&mut PacedHost)) {
        for shard in &self.shards {
            lock(shard).hosts.values_mut().for_each(&mut look);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).hosts.len()).sum()
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::indexing_slicing,
            reason = "a remainder of their count"
        )]
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

/// Nothing of the user's runs under the lock, and nothing of ours panics there; should it, the others go on.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Cleans after so many requests that it costs each of them no more than a look at a few hosts.
    fn clean_sometimes(&mut self, key: &str, hosts: &Hosts, now: Moment, effects: &mut Effects) {
        self.requests += 1;
        let is_full = self.hosts.len() >= hosts.shard_max;
        // A full table that is about to grow is cleaned sooner.
        let share = if is_full && !self.hosts.contains_key(key) { 8 } else { 1 };
        if self.requests < (self.hosts.len() / share).max(CLEAN_MIN) {
            return;
        }
        self.requests = 0;
        // With some room for the next hosts.
        let mut surplus =
            if is_full { self.hosts.len() - hosts.shard_max + hosts.shard_max / 8 + 1 } else { 0 };
        self.hosts.retain(|_, host| {
            host.tidy(now);
            let is_kept = surplus == 0 || !host.owes_nothing(hosts.min_delay, now);
            surplus -= usize::from(!is_kept);
            is_kept
        });
        effects.is_overgrown |= self.hosts.len() >= hosts.shard_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_spread_over_the_shards_and_all_of_them_are_counted() {
        let hosts = Hosts::new(10_000, Duration::ZERO);
        for n in 0..1_000 {
            hosts.with(&n.to_string(), Moment::NEVER, &mut Effects::default(), |_, _| ());
        }
        assert_eq!(hosts.len(), 1_000);
        for (n, shard) in hosts.shards.iter().enumerate() {
            let here = lock(shard).hosts.len();
            assert!(here < 60, "{here} of 1000 in shard {n}");
        }
    }
}
