//! How a [`RobotsCache`] is put together.
//!
//! The gate's builder calls it with a paced [`Fetch`]; tests call it without a gate.

use std::fmt;
use std::sync::Arc;

use abide_robots::ProductToken;
use moka::sync::Cache;
use tokio::sync::Semaphore;

use crate::event::{Observer, Observers};
use crate::jitter::{Jitter, random_seed};
use crate::robots_cache::bounded_table::BoundedTable;
use crate::robots_cache::cache::{Inner, RobotsCache};
use crate::robots_cache::fetch::Fetch;
use crate::robots_cache::interner::Interner;
use crate::robots_cache::policy::RobotsPolicy;
use crate::robots_cache::single_flight::SingleFlight;
use crate::robots_cache::store::RobotsStore;
use crate::robots_cache::store_guard::StoreGuard;
use crate::stats::Counters;
use crate::{Clock, HolderId, SystemClock, caught_clock};

/// Puts an [`RobotsCache`] together. Everything but tokens and [`Fetch`] has a default.
#[must_use]
pub(crate) struct RobotsCacheBuilder {
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
    policy: RobotsPolicy,
    store: Option<Arc<dyn RobotsStore>>,
    clock: Arc<dyn Clock>,
    observers: Vec<Arc<Observer>>,
    seed: u64,
}

/// More origins than this are not fetched or waited for at a time: those beyond are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// How many origins are remembered as put off.
const DEFERRALS_MAX: u64 = 10_000;

impl RobotsCacheBuilder {
    pub(super) fn new(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            tokens,
            fetch,
            policy: RobotsPolicy::default(),
            store: None,
            clock: Arc::new(SystemClock),
            observers: Vec::new(),
            seed: random_seed(),
        }
    }

    /// The choices that the RFC leaves. Default: [`RobotsPolicy::default`].
    pub(crate) fn policy(mut self, policy: RobotsPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where records are kept, besides the memory of the cache. Default: nowhere.
    pub(crate) fn store(mut self, store: Arc<dyn RobotsStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Who tells the time. Default: [`SystemClock`], which also stands in where this one panics.
    pub(crate) fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = caught_clock(clock);
        self
    }

    /// Hears what happens to robots.txt. Several may listen.
    pub(crate) fn observer(mut self, observer: Arc<Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The seed of all chance, for tests that must be repeatable.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The finished cache.
    pub(crate) fn build(self) -> RobotsCache {
        let counters = Arc::new(Counters::default());
        let observers = Observers::new(self.observers);
        let store = StoreGuard::new(
            self.store,
            self.policy.clone(),
            HolderId::random(),
            Arc::clone(&self.clock),
            observers.clone(),
            Arc::clone(&counters),
        );
        let inner = Inner {
            tokens: self.tokens,
            fetch: self.fetch,
            clock: self.clock,
            observers,
            store,
            entries: BoundedTable::new(self.policy.memory_max),
            texts: Interner::new(),
            deferrals: Cache::new(DEFERRALS_MAX),
            in_flight: SingleFlight::new(FLIGHTS_MAX),
            fetch_permits: Semaphore::new(self.policy.fetches_max),
            jitter: Jitter::new(self.seed),
            counters,
            policy: self.policy,
        };
        RobotsCache { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for RobotsCacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsCacheBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
