use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            flights: self.flights.total(),
            requests: self.requests.total(),
            rules: self.rules.total(),
            revalidated: self.revalidated.total(),
            unavailable: self.unavailable.total(),
            unreachable: self.unreachable.total(),
            last_good: self.last_good.total(),
            deferred: self.deferred.total(),
            lost: self.lost.total(),
            store_faults: self.store_faults.total(),
            body_bytes: self.body_bytes.total(),
        }
    }
}

/// What has happened since the start, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Fetches begun, also those that the store answered.
    pub flights: u64,
    /// Requests handed to [`Fetch`](super::Fetch): every hop, also those that were deferred.
    pub requests: u64,
    /// Attempts that brought a robots.txt.
    pub rules: u64,
    /// Attempts that confirmed the copy (304).
    pub revalidated: u64,
    /// Attempts that ended as unavailable.
    pub unavailable: u64,
    /// Attempts that ended as unreachable.
    pub unreachable: u64,
    /// Of those, the ones that a last good copy stood in for.
    pub last_good: u64,
    /// Fetches that the pacing put off.
    pub deferred: u64,
    /// Fetches that were lost: a panic, or the runtime went down.
    pub lost: u64,
    /// Operations of the store that failed.
    pub store_faults: u64,
    /// Bytes of robots.txt that were kept, decoded.
    pub body_bytes: u64,
}
