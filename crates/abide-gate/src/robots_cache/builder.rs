//! The settings of a [`RobotsCache`].
//!
//! The gate's builder calls it with a paced [`Fetch`]; tests call it without a gate.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

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
use crate::{Clock, HolderId, SystemClock, caught_clock};

/// Settings of a [`RobotsCache`]. All have defaults but the tokens and the [`Fetch`].
pub(crate) struct RobotsCacheBuilder {
    pub(crate) tokens: Vec<ProductToken>,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) policy: RobotsPolicy,
    /// Where records are kept besides the memory of the cache.
    pub(crate) store: Option<Arc<dyn RobotsStore>>,
    /// Where it panics, the machine's replaces it.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observers: Vec<Arc<Observer>>,
    /// Of all chance, for runs that must be repeatable.
    pub(crate) seed: Option<u64>,
}

/// How many origins may be fetched or wait for it at a time. More are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// Of how many origins a deferral is remembered.
const DEFERRALS_MAX: u64 = 10_000;

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
}

impl RobotsCacheBuilder {
    /// The finished cache.
    pub(crate) fn build(self) -> RobotsCache {
        let inner = Inner {
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
            fetch_permits: Semaphore::new(self.policy.fetches_max),
            jitter: Jitter::new(self.seed.unwrap_or_else(random_seed)),
            stats: Mutex::default(),
            policy: self.policy,
        };
        RobotsCache { inner: Arc::new(inner) }
    }
}
