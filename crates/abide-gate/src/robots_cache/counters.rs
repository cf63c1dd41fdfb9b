//! The counts of the cache, which `Gate::stats` reports.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Stats;

/// One count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flights: Counter,
    pub(crate) requests: Counter,
    pub(crate) rules: Counter,
    pub(crate) revalidated: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) unreachable: Counter,
    pub(crate) last_good: Counter,
    pub(crate) deferred: Counter,
    pub(crate) lost: Counter,
    pub(crate) store_faults: Counter,
    pub(crate) body_bytes: Counter,
}

impl Counters {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            robots_fetches: self.flights.total(),
            robots_requests: self.requests.total(),
            robots_read: self.rules.total(),
            robots_revalidated: self.revalidated.total(),
            robots_unavailable: self.unavailable.total(),
            robots_unreachable: self.unreachable.total(),
            robots_last_good: self.last_good.total(),
            robots_deferred: self.deferred.total(),
            robots_lost: self.lost.total(),
            robots_store_faults: self.store_faults.total(),
            robots_bytes: self.body_bytes.total(),
            ..Stats::default()
        }
    }
}
