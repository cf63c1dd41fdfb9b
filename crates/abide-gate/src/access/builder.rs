use std::fmt;
use std::sync::Arc;

use abide_robots::ProductToken;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::Semaphore;

use crate::access::cache::AccessCache;
use crate::access::counters::Counters;
use crate::access::dice::{Dice, any_seed};
use crate::access::entry::RobotsEntry;
use crate::access::fetch::Fetch;
use crate::access::flight::Flights;
use crate::access::front::Front;
use crate::access::keeper::Keeper;
use crate::access::knowledge::Knowledge;
use crate::access::memory::MemoryAccessStore;
use crate::access::policy::AccessPolicy;
use crate::access::store::AccessStore;
use crate::event::{Observer, Observers};
use crate::{Clock, HolderId, Origin, SystemClock, caught_clock};

/// Puts an [`AccessCache`] together. Everything but tokens and [`Fetch`] has a default.
#[must_use]
pub struct AccessCacheBuilder {
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
    policy: AccessPolicy,
    store: Arc<dyn AccessStore>,
    clock: Arc<dyn Clock>,
    observers: Vec<Arc<dyn Observer>>,
    seed: u64,
}

/// More origins than this are not fetched or waited for at a time: those beyond are deferred.
const FLIGHTS_MAX: usize = 100_000;
/// How many origins are remembered as put off.
const PUT_OFF_MAX: u64 = 10_000;

impl AccessCacheBuilder {
    pub(super) fn new(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            tokens,
            fetch,
            policy: AccessPolicy::default(),
            store: Arc::new(MemoryAccessStore::new()),
            clock: Arc::new(SystemClock),
            observers: Vec::new(),
            seed: any_seed(),
        }
    }

    /// The choices that the RFC leaves. Default: [`AccessPolicy::default`].
    pub fn policy(mut self, policy: AccessPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where records are kept. Default: a [`MemoryAccessStore`].
    pub fn store(mut self, store: Arc<dyn AccessStore>) -> Self {
        self.store = store;
        self
    }

    /// Who tells the time. Default: [`SystemClock`], which also stands in where this one panics.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = caught_clock(clock);
        self
    }

    /// Hears what happens to robots.txt. Several may listen.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The seed of all chance, for tests that must be repeatable.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The finished cache.
    pub fn build(self) -> AccessCache {
        let counters = Arc::new(Counters::default());
        let observers = Observers::new(self.observers);
        let keeper = Keeper::new(
            self.store,
            self.policy.clone(),
            HolderId::random(),
            Arc::clone(&self.clock),
            observers.clone(),
            Arc::clone(&counters),
        );
        let known = Knowledge {
            tokens: self.tokens,
            fetch: self.fetch,
            clock: self.clock,
            observers,
            keeper,
            answers: answers(self.policy.answers_weight),
            front: Front::new(),
            put_off: Cache::new(PUT_OFF_MAX),
            flights: Flights::new(FLIGHTS_MAX),
            turns: Semaphore::new(self.policy.fetches_max),
            dice: Dice::new(self.seed),
            counters,
            policy: self.policy,
        };
        AccessCache { known: Arc::new(known) }
    }
}

fn answers(weight: u64) -> Cache<Origin, Arc<RobotsEntry>> {
    let weigh = |_: &Origin, answer: &Arc<RobotsEntry>| u32::try_from(answer.weight()).unwrap_or(u32::MAX);
    // Least recently used, so that a new answer is always taken in: a refused one would be compiled for every page.
    Cache::builder().max_capacity(weight).weigher(weigh).eviction_policy(EvictionPolicy::lru()).build()
}

impl fmt::Debug for AccessCacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCacheBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
