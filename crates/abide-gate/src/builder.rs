//! The settings of a gate.
//!
//! The builder puts the two halves together: the cache fetches with permits of the pacer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use ipnet::IpNet;
use tokio::sync::Semaphore;

use crate::event::{Event, Observer, Observers};
use crate::gate::Gate;
use crate::jitter::Jitter;
use crate::paced::PacedFetch;
use crate::pacing::{HostStore, PacePolicy, Pacer};
use crate::robots_cache::{Fetch, RobotsCache, RobotsPolicy, RobotsStore};
use crate::sign::CaughtSigner;
use crate::{AddressGuard, Clock, SignRequest, SystemClock, caught_clock};

/// Settings of a [`Gate`], and of every client that is built on one. The default is the polite choice.
///
/// It can be cloned, so that several crawlers and clients use the same settings. The product tokens and the
/// transport are arguments of [`build`](Self::build).
///
/// ```
/// use abide_gate::Gate;
///
/// let settings = Gate::builder().seed(7).allow_net("127.0.0.1/32".parse()?); // a test with a local server
/// assert!(settings.address_guard().check("127.0.0.1".parse()?).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct GateBuilder {
    pub(crate) robots: RobotsPolicy,
    pace: PacePolicy,
    max_wait: Option<Duration>,
    addresses: AddressGuard,
    robots_store: Option<Arc<dyn RobotsStore>>,
    host_store: Option<Arc<dyn HostStore>>,
    observers: Vec<Arc<Observer>>,
    /// `None`: the system's.
    clock: Option<Arc<dyn Clock>>,
    seed: Option<u64>,
    signer: Option<Arc<dyn SignRequest>>,
    trusts_status: bool,
    /// That of another gate.
    paced_with: Option<Arc<Pacer>>,
}

impl GateBuilder {
    /// The default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// How robots.txt is fetched and cached, and what its absence means.
    pub fn robots(self, policy: RobotsPolicy) -> Self {
        Self { robots: policy, ..self }
    }

    /// The rate limit of each host.
    pub fn pace(self, policy: PacePolicy) -> Self {
        Self { pace: policy, ..self }
    }

    /// How long a call, or a robots.txt request, may wait for its permits. A call that would wait longer is
    /// deferred at once. Default: that of the pace policy, 30 s.
    pub fn max_wait(self, wait: Duration) -> Self {
        Self { max_wait: Some(wait), ..self }
    }

    /// Allows requests to exactly this network, although it is not public: `127.0.0.1/32` does not open
    /// `127.0.0.2`.
    pub fn allow_net(self, net: IpNet) -> Self {
        Self { addresses: self.addresses.with_allowed_net(net), ..self }
    }

    /// Allows requests to every address, private ones included.
    pub fn danger_allow_all_addresses(self) -> Self {
        Self { addresses: self.addresses.danger_allow_all(), ..self }
    }

    /// Replaces the guard that decides which addresses may be contacted.
    pub fn addresses(self, guard: AddressGuard) -> Self {
        Self { addresses: guard, ..self }
    }

    /// The guard that decides which addresses may be contacted, for resolvers and connectors.
    pub fn address_guard(&self) -> &AddressGuard {
        &self.addresses
    }

    /// Where robots.txt records are kept. Default: in memory, bounded.
    pub fn robots_store(self, store: Arc<dyn RobotsStore>) -> Self {
        Self { robots_store: Some(store), ..self }
    }

    /// Where leases and backoffs of hosts are kept, for restarts and other processes. Default: in memory
    /// only.
    pub fn host_store(self, store: Arc<dyn HostStore>) -> Self {
        Self { host_store: Some(store), ..self }
    }

    /// Adds an observer of everything: robots.txt, permits, decisions and refusals. Requests wait while it
    /// runs, so it should return soon. No lock is held meanwhile, and its panics are caught.
    pub fn observer(mut self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The clock. Default: the system's, which is also used if this one panics; a request that needed it is
    /// refused with [`DeniedKind::Panicked`](crate::DeniedKind::Panicked).
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Derives all random numbers (the jitter of backoffs, the spread of refreshes) from `seed`, so that a
    /// run can be repeated.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Signs every request, robots.txt included.
    /// Default: off, because some sites treat a signed crawler worse.
    pub fn sign_requests(self, signer: Arc<dyn SignRequest>) -> Self {
        Self { signer: Some(Arc::new(CaughtSigner(signer))), ..self }
    }

    /// Goes by the status of a response alone: a challenge or a block page of a firewall is read as a page,
    /// or as robots.txt, like any other, and only statuses count as refusals. Default: what is
    /// [recognised](crate::Refusal) as a gatekeeper's answer is not the site's.
    pub fn danger_trust_status(self) -> Self {
        Self { trusts_status: true, ..self }
    }

    /// Paces hosts together with `other`: a host sees one crawler, though each gate reads the robots.txt
    /// rules for its own product tokens. Rate limits, their stores, clock and observers are those of `other`;
    /// robots.txt is fetched, cached and observed by each gate itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use abide_gate::{Gate, testing::hosts};
    /// # let url = "http://a.example/".parse()?;
    /// let first = hosts::gate(Gate::builder());
    /// let second = hosts::gate(Gate::builder().paced_with(&first));
    /// // What the operator, or a response to one of them, asks for holds for both.
    /// let minute = std::time::Duration::from_secs(60);
    /// first.back_off("a.example", first.wall().plus(minute));
    /// assert!(second.next_slot(&url)?.wait > minute / 2);
    /// # Ok(()) }
    /// ```
    pub fn paced_with(self, other: &Gate) -> Self {
        Self { paced_with: Some(Arc::clone(&other.pacer)), ..self }
    }

    /// Builds a gate for a chain of product tokens. In a robots.txt, the first token that has a group counts.
    /// `fetch` fetches robots.txt.
    pub fn build(self, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Gate {
        #[cfg(feature = "tracing")]
        warn_of_dangers(&self);
        let pacer = self.pacer();
        let clock = caught_clock(Arc::clone(&pacer.clock));
        let addresses = Arc::new(self.addresses.clone());
        let fetch: Arc<dyn Fetch> = Arc::new(PacedFetch {
            fetch,
            pacer: pacer.clone(),
            addresses: Arc::clone(&addresses),
            clock: Arc::clone(&clock),
            signer: self.signer.clone(),
            places: Arc::new(Semaphore::new(self.robots.fetches_max)),
            places_max: self.robots.fetches_max,
        });
        // A fetch that waits for its permit must not look like an outage.
        let mut policy = self.robots.clone();
        policy.slot_wait_max = pacer.policy.max_wait;
        policy.trusts_status = self.trusts_status;
        let waiting = pacer.clone();
        let mut observers: Vec<Arc<Observer>> = vec![Arc::new(move |event| {
            // A new Crawl-delay also applies to requests that already wait for a permit.
            if let Event::RobotsChanged { entry, .. } = event {
                waiting.change_crawl_delay(entry.origin(), entry.crawl_delay().unwrap_or_default());
            }
        })];
        observers.extend(self.observers.iter().cloned());
        let mut robots = self.robots_cache(tokens, fetch, policy);
        robots.observers = Observers::new(observers);
        Gate {
            robots: Arc::new(robots),
            pacer,
            addresses,
            clock,
            overrides: Arc::default(),
            trusts_status: self.trusts_status,
            signer: self.signer,
        }
    }

    /// That of the other gate, or one with these settings.
    pub(crate) fn pacer(&self) -> Arc<Pacer> {
        if let Some(pacer) = &self.paced_with {
            return Arc::clone(pacer);
        }
        let mut policy = self.pace.clone();
        policy.max_wait = self.max_wait.unwrap_or(policy.max_wait);
        policy.trusts_status = self.trusts_status;
        // It catches a panic of the clock itself and refuses the permit, because without a clock it cannot
        // keep a delay.
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let (observers, jitter) = (Observers::new(self.observers.clone()), Jitter::new(self.seed));
        Pacer::build(policy, self.host_store.clone(), clock, observers, jitter)
    }

    /// A cache of robots.txt with these settings, without observers.
    pub(crate) fn robots_cache(
        &self,
        tokens: Vec<ProductToken>,
        fetch: Arc<dyn Fetch>,
        policy: RobotsPolicy,
    ) -> RobotsCache {
        let mut cache = RobotsCache::new(tokens, fetch, policy);
        cache.store.clone_from(&self.robots_store);
        if let Some(clock) = &self.clock {
            cache.clock = caught_clock(Arc::clone(clock));
        }
        cache.jitter = Jitter::new(self.seed);
        cache
    }
}

impl fmt::Debug for GateBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateBuilder").field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}

/// Logs once what makes the whole crawler less polite. The pacer logs shorter delays, and the gate each
/// override of robots.txt.
#[cfg(feature = "tracing")]
fn warn_of_dangers(GateBuilder { addresses, robots, trusts_status, .. }: &GateBuilder) {
    let allows_unreachable = robots.long_outage == crate::robots_cache::LongOutage::AllowAtOnce;
    for (setting, is_set) in [
        ("danger_allow_all_addresses", addresses.open),
        ("danger_allow_when_unreachable", allows_unreachable),
        ("danger_trust_status", *trusts_status),
    ] {
        if is_set {
            tracing::warn!(name: "abide.danger", target: "abide", setting, "less considerate than the default, as configured");
        }
    }
}
