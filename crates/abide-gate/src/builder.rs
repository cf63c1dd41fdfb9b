//! How a gate is put together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;
use ipnet::IpNet;

use crate::event::{Event, Observer, Observers};
use crate::gate::Gate;
use crate::paced::{PacedFetch, RuledFetch};
use crate::pacing::{HostStore, PacePolicy, Pacer};
use crate::robots_cache::{Fetch, RobotsCache, RobotsCacheBuilder, RobotsPolicy, RobotsStore};
use crate::{AddressGuard, Clock, SignRequest, SystemClock, caught_clock};

/// Settings of a [`Gate`], and of every client that is built on one. The default is the polite choice.
///
/// A value that can be cloned: what is set here once serves several crawlers, and adapters for several HTTP clients. Who asks and
/// through which transport is said last, in [`build`](Self::build).
#[derive(Clone)]
#[must_use]
pub struct GateBuilder {
    robots: RobotsPolicy,
    pace: PacePolicy,
    max_wait: Option<Duration>,
    addresses: AddressGuard,
    robots_store: Option<Arc<dyn RobotsStore>>,
    host_store: Option<Arc<dyn HostStore>>,
    observers: Vec<Arc<Observer>>,
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    signer: Option<Arc<dyn SignRequest>>,
    tdmrep: Tdm,
}

/// Whether tdmrep.json is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tdm {
    Off,
    Fetched,
    Required,
}

impl GateBuilder {
    /// The default settings.
    pub fn new() -> Self {
        Self {
            robots: RobotsPolicy::default(),
            pace: PacePolicy::default(),
            max_wait: None,
            addresses: AddressGuard::default(),
            robots_store: None,
            host_store: None,
            observers: Vec::new(),
            clock: Arc::new(SystemClock),
            seed: None,
            signer: None,
            tdmrep: Tdm::Off,
        }
    }

    /// How robots.txt is obtained, and what its absence means.
    pub fn robots(mut self, policy: RobotsPolicy) -> Self {
        self.robots = policy;
        self
    }

    /// How fast a host is asked.
    pub fn pace(mut self, policy: PacePolicy) -> Self {
        self.pace = policy;
        self
    }

    /// How long a call may wait for its turns, and a robots.txt request for its own. Longer waits are deferred at once. Default: what
    /// the pace policy says, 30 s.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// Allows contact with a network that is not public. Exactly this network: `127.0.0.1/32` does not open `127.0.0.2`.
    pub fn allow_net(mut self, net: IpNet) -> Self {
        self.addresses = self.addresses.with_allowed_net(net);
        self
    }

    /// Allows contact with every address, private ones included.
    pub fn danger_allow_all_addresses(mut self) -> Self {
        self.addresses = self.addresses.danger_allow_all();
        self
    }

    /// Which addresses may be contacted though they are not public, in place of what was said before.
    pub fn addresses(mut self, guard: AddressGuard) -> Self {
        self.addresses = guard;
        self
    }

    /// Which addresses may be contacted, for the resolvers and connectors that must ask.
    pub fn address_guard(&self) -> &AddressGuard {
        &self.addresses
    }

    /// Where robots.txt is kept. Default: memory, bounded.
    pub fn robots_store(mut self, store: Arc<dyn RobotsStore>) -> Self {
        self.robots_store = Some(store);
        self
    }

    /// Where hosts are leased from, and backoffs are shared with other processes. Default: nowhere.
    pub fn host_store(mut self, store: Arc<dyn HostStore>) -> Self {
        self.host_store = Some(store);
        self
    }

    /// Hears of everything: of robots.txt, turns, decisions and refusals. Several may listen. It is called in the middle of requests, which wait for it, with no lock
    /// held. A panic of it is caught.
    pub fn observer(mut self, observer: Arc<dyn Fn(&Event<'_>) + Send + Sync>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The clock. Default: the machine's, which also stands in where this one panics; a turn that needed it is refused with
    /// [`DeniedKind::Panicked`](crate::DeniedKind::Panicked).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes all chance (the jitter of holds and back-offs, the spread of refreshes) follow from `seed`, so that a run can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Signs every request, robots.txt included. For a `WebBotAuth` of `abide-identity` use the `sign_requests` of your client's builder.
    /// Default: nothing is signed; some sites treat a signed crawler worse.
    pub fn sign_requests(mut self, signer: Arc<dyn SignRequest>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Fetches the `/.well-known/tdmrep.json` of a site before its first page, once for all who ask, by the rules of robots.txt:
    /// in the host's turn, guarded, cached for at most 24 hours, conditional, 512,000 bytes, 5 redirects. 404 and 410 mean that there is
    /// none. If it can't be fetched, the last good copy applies; without one, [`Verdict::tdmrep`](crate::Verdict::tdmrep) is unknown. It is
    /// kept in memory. Off by default.
    pub fn fetch_tdmrep(mut self) -> Self {
        self.tdmrep = Tdm::Fetched;
        self
    }

    /// The same, and the pages of a site whose tdmrep.json is unknown are refused:
    /// [`DeniedKind::TdmrepUnknown`](crate::DeniedKind::TdmrepUnknown).
    pub fn require_tdmrep(mut self) -> Self {
        self.tdmrep = Tdm::Required;
        self
    }

    /// A gate for a chain of product tokens: the first that has a group in a robots.txt counts there. `fetch` is the transport of
    /// robots.txt.
    pub fn build(self, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Gate {
        warn_of_dangers(&self.addresses, &self.robots);
        let max_wait = self.max_wait.unwrap_or(self.pace.max_wait);
        let clock = caught_clock(Arc::clone(&self.clock));
        // The pacer catches a panic of the clock itself: nobody can be paced by it, so the URL is denied.
        let mut pacer = Pacer::builder(self.pace.clone()).clock(Arc::clone(&self.clock));
        if let Some(store) = &self.host_store {
            pacer = pacer.store(Arc::clone(store));
        }
        for observer in &self.observers {
            pacer = pacer.observer(Arc::clone(observer));
        }
        if let Some(seed) = self.seed {
            pacer = pacer.seed(seed);
        }
        let pacer = pacer.build();
        let addresses = Arc::new(self.addresses.clone());
        let fetch: Arc<dyn Fetch> = Arc::new(PacedFetch {
            fetch,
            pacer: pacer.clone(),
            addresses: Arc::clone(&addresses),
            clock: Arc::clone(&clock),
            max_wait,
            signer: self.signer.clone(),
        });
        // What the pacer lets wait must not look like an outage.
        let policy = self.robots.clone().with_slot_wait_max(max_wait.saturating_add(SLOT_WAIT_MARGIN));
        let waiting = pacer.clone();
        let mut cache = self
            .robots_cache(tokens, Arc::clone(&fetch))
            .policy(policy.clone())
            .observer(Arc::new(move |event: &Event<'_>| tell_those_who_wait(&waiting, event)));
        for observer in &self.observers {
            cache = cache.observer(Arc::clone(observer));
        }
        let robots = cache.build();
        let tdmrep = (self.tdmrep != Tdm::Off).then(|| {
            let fetch = RuledFetch { robots: robots.clone(), fetch, clock: Arc::clone(&clock) };
            self.cache(Vec::new(), Arc::new(fetch)).policy(policy.for_tdmrep()).build()
        });
        Gate {
            robots,
            tdmrep,
            requires_tdmrep: self.tdmrep == Tdm::Required,
            pacer,
            addresses,
            clock,
            max_wait,
            overrides: Arc::default(),
            observers: Observers::new(self.observers),
            signer: self.signer,
        }
    }

    /// A cache with the policy, the clock and the seed of these settings.
    fn cache(&self, tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> RobotsCacheBuilder {
        let cache = RobotsCache::builder(tokens, fetch).policy(self.robots.clone());
        let cache = cache.clock(Arc::clone(&self.clock));
        match self.seed {
            Some(seed) => cache.seed(seed),
            None => cache,
        }
    }

    /// The same with the store.
    pub(crate) fn robots_cache(
        &self,
        tokens: Vec<ProductToken>,
        fetch: Arc<dyn Fetch>,
    ) -> RobotsCacheBuilder {
        let cache = self.cache(tokens, fetch);
        match &self.robots_store {
            Some(store) => cache.store(Arc::clone(store)),
            None => cache,
        }
    }
}

impl Default for GateBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for GateBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateBuilder").field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}

/// For the way from the end of a wait to the wire.
const SLOT_WAIT_MARGIN: Duration = Duration::from_secs(5);

/// What makes the whole crawler less polite is said once, when it is built. Less delay is said by the pacer, and rules that are
/// passed over with each request.
fn warn_of_dangers(addresses: &AddressGuard, robots: &RobotsPolicy) {
    #[cfg(feature = "tracing")]
    {
        if addresses.is_open() {
            danger("danger_allow_all_addresses");
        }
        if robots.long_outage == crate::robots_cache::LongOutage::AllowAtOnce {
            danger("danger_allow_when_unreachable");
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (addresses, robots);
}

#[cfg(feature = "tracing")]
fn danger(setting: &str) {
    tracing::warn!(name: "abide.danger", target: "abide", setting, "less considerate than the default, as configured");
}

/// A new Crawl-delay also counts for those who already wait for their turn.
fn tell_those_who_wait(pacer: &Pacer, event: &Event<'_>) {
    if let Event::RobotsChanged { entry: answer, .. } = event {
        pacer.change_crawl_delay(answer.origin(), answer.crawl_delay().unwrap_or_default());
    }
}
