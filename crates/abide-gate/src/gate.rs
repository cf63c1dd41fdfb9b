//! The composition: robots.txt first, then the host's turn.
//!
//! The only place that knows both `access` and `pacing`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abide_robots::{ProductToken, Target};
use http_body_util::BodyExt;
use tokio::time::Instant;
use url::Url;

use crate::access::{
    AccessCache, AccessEvent, AccessObserver, AccessPolicy, AccessStore, Answer, BoxFuture, Fetch,
    FetchError, FetchErrorKind, Refused, RobotsReply, RobotsRequest,
};
use crate::body::PermitBody;
use crate::error::{Denied, Error};
use crate::pacing::{
    Ask, DeferReason, NextSlot, PaceObserver, PacePolicy, PaceStore, Pacer, Permit, Refusal, TransportFault,
};
use crate::verdict::Verdict;
use crate::{AddressGuard, Clock, Host, Origin, SystemClock, WallMillis, without_userinfo};

/// Everything that a crawler asks before a request goes out. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Gate {
    access: AccessCache,
    pacer: Pacer,
    addresses: Arc<AddressGuard>,
    clock: Arc<dyn Clock>,
    max_wait: Duration,
    overrides: Arc<AtomicU64>,
}

impl Gate {
    /// A gate for a chain of product tokens, with the transport of robots.txt.
    pub fn builder(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> GateBuilder {
        GateBuilder::new(tokens, fetch)
    }

    /// Asks robots.txt, then waits for the host's turn: at most `budget`.
    ///
    /// # Errors
    /// Every refusal there is.
    pub async fn admit(&self, url: &Url, budget: Duration) -> Result<(Verdict, Permit), Error> {
        let verdict = self.judge(url, budget).await?;
        if let Some(denied) = verdict.refusal(url) {
            return Err(denied.into());
        }
        let turn = self.turn(url, verdict, budget).await?;
        Ok((turn.verdict, turn.permit))
    }

    /// May this URL be fetched? May fetch robots.txt, never `url`, and takes no turn for it.
    ///
    /// `budget` bounds the wait for the turn of robots.txt; the fetch itself is bounded by its own deadline.
    ///
    /// # Errors
    /// A refusal that is no verdict: an unsupported URL, a refused address, a robots.txt request that was deferred or lost.
    pub async fn judge(&self, url: &Url, budget: Duration) -> Result<Verdict, Error> {
        let origin = self.address_check(url)?;
        if is_robots_txt(url) {
            return Ok(Verdict::robots_txt());
        }
        let answer = self.learn(&origin, url, budget).await?;
        Ok(Verdict::robots(answer.explain(&Target::of(url))))
    }

    /// The same from what is known now, without any I/O. `None`: not known.
    pub fn judge_cached(&self, url: &Url) -> Option<Verdict> {
        let origin = self.address_check(url).ok()?;
        if is_robots_txt(url) {
            return Some(Verdict::robots_txt());
        }
        Some(Verdict::robots(self.access.cached(&origin)?.explain(&Target::of(url))))
    }

    /// A verdict that passes robots.txt over, for the reason given. robots.txt is still asked for, since pacing stays, and its
    /// Crawl-delay with it. Logged and counted.
    ///
    /// # Errors
    /// An unsupported URL or a refused address.
    pub async fn overridden(&self, url: &Url, why: Arc<str>) -> Result<Verdict, Error> {
        let origin = self.address_check(url)?;
        let crawl_delay = self.access.of(&origin).await.ok().and_then(|answer| answer.crawl_delay());
        self.overrides.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "tracing")]
        tracing::warn!(origin = %origin, reason = %why, "robots.txt is passed over");
        Ok(Verdict::overridden(why, crawl_delay))
    }

    /// How often robots.txt was passed over.
    pub fn overrides(&self) -> u64 {
        self.overrides.load(Ordering::Relaxed)
    }

    /// What is known of an origin's robots.txt; fetched if need be.
    ///
    /// # Errors
    /// A robots.txt request that was deferred or lost.
    pub async fn answer(&self, origin: &Origin) -> Result<Arc<Answer>, Error> {
        self.learn(origin, &origin.robots_url(), self.max_wait).await
    }

    /// The answer at hand, or fetched if the turn of robots.txt can come within `budget`.
    async fn learn(&self, origin: &Origin, url: &Url, budget: Duration) -> Result<Arc<Answer>, Error> {
        let mut left = budget;
        loop {
            if left < self.max_wait && self.access.cached(origin).is_none() {
                self.refuse_a_long_wait(origin, url, left)?;
            }
            let refused = match self.access.of(origin).await {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            // The fetch waits as long as most callers do; one with more patience asks again.
            let wait = match &refused {
                Refused::Deferred { not_before, .. } => not_before.since(self.clock.wall()),
                _ => Duration::ZERO,
            };
            if wait.is_zero() || wait > left {
                return Err(denied_access(url, refused));
            }
            tokio::time::sleep(wait).await;
            left -= wait;
        }
    }

    /// The fetch belongs to all who wait, and waits longer than this caller does.
    fn refuse_a_long_wait(&self, origin: &Origin, url: &Url, left: Duration) -> Result<(), Error> {
        let slot = self.pacer.next_slot(&origin.robots_url(), Ask::new());
        let slot = slot.map_err(|refusal| denied_turn(url, refusal))?;
        if slot.wait <= left {
            return Ok(());
        }
        let not_before = slot.not_before.to_system_time();
        let denied =
            Denied::Deferred { url: without_userinfo(url), not_before, reason: DeferReason::Robots, hop: 0 };
        Err(denied.into())
    }

    /// Waits for the turn of the URL's host, at most `budget`, for a URL that `verdict` allows.
    ///
    /// Rules can expire or change while a request waits. Then its turn is given back and robots.txt is asked again first: what
    /// leaves is allowed by what is known when it leaves.
    ///
    /// # Errors
    /// With [`Denied::Deferred`] at once when the turn cannot come in time; with [`Denied::CrawlDelayTooLong`]; with
    /// [`Denied::Store`] when told to fail closed; with what robots.txt says by then.
    pub async fn turn(&self, url: &Url, verdict: Verdict, budget: Duration) -> Result<Turn, Error> {
        let mut verdict = verdict;
        let mut waited = Duration::ZERO;
        loop {
            let delay =
                if verdict.is_robots_txt() { last_gap(&self.pacer, url) } else { verdict.crawl_delay() };
            let ask = Ask::new().crawl_delay(delay.unwrap_or_default()).budget(budget.saturating_sub(waited));
            let permit = self.pacer.acquire(url, ask).await.map_err(|refusal| denied_turn(url, refusal))?;
            waited += permit.waited();
            if permit.waited().is_zero() || verdict.override_reason().is_some() {
                return Ok(Turn { verdict, permit, waited });
            }
            match self.judge_cached(url) {
                Some(now) if now.is_allowed() => return Ok(Turn { verdict: now, permit, waited }),
                _ => permit.give_back(),
            }
            verdict = self.judge(url, budget.saturating_sub(waited)).await?;
            if let Some(denied) = verdict.refusal(url) {
                return Err(denied.into());
            }
        }
    }

    /// When the next request to the URL's host could go out. Waits for nothing and reserves nothing.
    ///
    /// # Errors
    /// An unsupported URL.
    pub fn next_slot(&self, url: &Url) -> Result<NextSlot, Error> {
        let origin = Origin::of(url).map_err(|_| unsupported(url))?;
        let crawl_delay = self.access.cached(&origin).and_then(|answer| answer.crawl_delay());
        let ask = Ask::new().crawl_delay(crawl_delay.unwrap_or_default());
        self.pacer.next_slot(url, ask).map_err(|refusal| denied_turn(url, refusal))
    }

    /// How robots.txt is kept: prefetching, forgetting, counters.
    pub fn access(&self) -> &AccessCache {
        &self.access
    }

    /// How hosts are paced: holds, reports.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// The monotonic time of the gate's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The wall-clock time of the gate's clock.
    pub fn wall(&self) -> WallMillis {
        self.clock.wall()
    }

    /// The origin, unless the URL names an address that must not be contacted.
    fn address_check(&self, url: &Url) -> Result<Origin, Error> {
        let origin = Origin::of(url).map_err(|_| unsupported(url))?;
        match self.addresses.check_url(url) {
            Ok(()) => Ok(origin),
            Err(refused) => {
                let address = Some(refused.address());
                Err(Denied::AddressRefused { url: without_userinfo(url), address, hop: 0 }.into())
            }
        }
    }
}

/// A turn that was waited for: the request may go out now.
#[derive(Debug)]
pub struct Turn {
    pub(crate) verdict: Verdict,
    pub(crate) permit: Permit,
    pub(crate) waited: Duration,
}

impl Turn {
    /// The verdict when the turn came, the permit, and how long was waited.
    pub fn into_parts(self) -> (Verdict, Permit, Duration) {
        (self.verdict, self.permit, self.waited)
    }
}

/// Settings of a [`Gate`]. The default is the polite choice.
#[must_use]
pub struct GateBuilder {
    tokens: Vec<ProductToken>,
    fetch: Arc<dyn Fetch>,
    access: AccessPolicy,
    pace: PacePolicy,
    max_wait: Option<Duration>,
    addresses: AddressGuard,
    access_store: Option<Arc<dyn AccessStore>>,
    pace_store: Option<Arc<dyn PaceStore>>,
    access_observers: Vec<Arc<dyn AccessObserver>>,
    pace_observer: Option<Arc<dyn PaceObserver>>,
    clock: Arc<dyn Clock>,
}

impl GateBuilder {
    fn new(tokens: Vec<ProductToken>, fetch: Arc<dyn Fetch>) -> Self {
        Self {
            tokens,
            fetch,
            access: AccessPolicy::default(),
            pace: PacePolicy::default(),
            max_wait: None,
            addresses: AddressGuard::default(),
            access_store: None,
            pace_store: None,
            access_observers: Vec::new(),
            pace_observer: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// How robots.txt is obtained, and what its absence means.
    pub fn access(mut self, policy: AccessPolicy) -> Self {
        self.access = policy;
        self
    }

    /// How fast a host is asked.
    pub fn pace(mut self, policy: PacePolicy) -> Self {
        self.pace = policy;
        self
    }

    /// How long a robots.txt request may wait for its turn. Default: what the pace policy says, 30 s.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// Which addresses may be contacted though they are not public.
    pub fn addresses(mut self, guard: AddressGuard) -> Self {
        self.addresses = guard;
        self
    }

    /// Where robots.txt is kept. Default: memory, bounded.
    pub fn access_store(mut self, store: Arc<dyn AccessStore>) -> Self {
        self.access_store = Some(store);
        self
    }

    /// Where turns and holds are shared with other processes. Default: nowhere.
    pub fn pace_store(mut self, store: Arc<dyn PaceStore>) -> Self {
        self.pace_store = Some(store);
        self
    }

    /// Hears what happens to robots.txt: fetched, changed, last good copy served, store failed. Several may listen.
    pub fn access_observer(mut self, observer: Arc<dyn AccessObserver>) -> Self {
        self.access_observers.push(observer);
        self
    }

    /// Hears what happens to turns: granted, deferred, hosts held.
    pub fn pace_observer(mut self, observer: Arc<dyn PaceObserver>) -> Self {
        self.pace_observer = Some(observer);
        self
    }

    /// The clock. Default: the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Puts it together.
    pub fn build(self) -> Gate {
        let max_wait = self.max_wait.unwrap_or(self.pace.max_wait);
        let mut pacer = Pacer::builder(self.pace).clock(Arc::clone(&self.clock));
        if let Some(store) = self.pace_store {
            pacer = pacer.store(store);
        }
        if let Some(observer) = self.pace_observer {
            pacer = pacer.observer(observer);
        }
        let pacer = pacer.build();
        let addresses = Arc::new(self.addresses);
        let fetch = PacedFetch {
            fetch: self.fetch,
            pacer: pacer.clone(),
            addresses: Arc::clone(&addresses),
            clock: Arc::clone(&self.clock),
            max_wait,
        };
        let waiting = pacer.clone();
        let mut access = AccessCache::builder(self.tokens, Arc::new(fetch))
            // What the pacer lets wait must not look like an outage.
            .policy(self.access.with_slot_wait_max(max_wait.saturating_add(SLOT_WAIT_MARGIN)))
            .clock(Arc::clone(&self.clock))
            .observer(Arc::new(move |event: &AccessEvent<'_>| tell_those_who_wait(&waiting, event)));
        for observer in self.access_observers {
            access = access.observer(observer);
        }
        if let Some(store) = self.access_store {
            access = access.store(store);
        }
        Gate {
            access: access.build(),
            pacer,
            addresses,
            clock: self.clock,
            max_wait,
            overrides: Arc::default(),
        }
    }
}

impl fmt::Debug for GateBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateBuilder").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// For the way from the end of a wait to the wire.
const SLOT_WAIT_MARGIN: Duration = Duration::from_secs(5);

/// A new Crawl-delay also counts for those who already wait for their turn.
fn tell_those_who_wait(pacer: &Pacer, event: &AccessEvent<'_>) {
    if let AccessEvent::Changed { answer, .. } = event {
        pacer.change_crawl_delay(answer.origin(), answer.crawl_delay().unwrap_or_default());
    }
}

/// The user's transport, behind the address guard and in its host's turn: robots.txt is a request like any other.
#[derive(Debug)]
struct PacedFetch {
    fetch: Arc<dyn Fetch>,
    pacer: Pacer,
    addresses: Arc<AddressGuard>,
    clock: Arc<dyn Clock>,
    max_wait: Duration,
}

impl Fetch for PacedFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsReply, FetchError>> {
        Box::pin(self.paced(request))
    }
}

impl PacedFetch {
    async fn paced(&self, request: RobotsRequest) -> Result<RobotsReply, FetchError> {
        if let Err(refused) = self.addresses.check_url(request.url()) {
            return Err(FetchError::new(
                FetchErrorKind::AddressRefused(refused.address()),
                refused.to_string(),
            ));
        }
        let permit = match self.pacer.acquire(request.url(), self.ask(request.url())).await {
            Ok(permit) => permit,
            Err(refusal) => return Err(self.deferred(refusal)),
        };
        let started = self.clock.now();
        match self.fetch.fetch(request).await {
            Ok(reply) => {
                let hold = permit.observe(reply.status(), reply.headers());
                let (status, headers) = (reply.status(), reply.headers().clone());
                let body = PermitBody::new(reply.into_body(), permit).boxed_unsync();
                let reply = RobotsReply::new(status, headers, body, started);
                Ok(match hold {
                    Some(until) => reply.held_until(until),
                    None => reply,
                })
            }
            Err(error) => {
                if let Some(fault) = fault_of(error.kind()) {
                    permit.failed(fault);
                }
                Err(error)
            }
        }
    }

    /// A host whose pages are asked for slowly has its robots.txt asked for as slowly.
    fn ask(&self, url: &Url) -> Ask {
        Ask::new().crawl_delay(last_gap(&self.pacer, url).unwrap_or_default()).budget(self.max_wait)
    }

    fn deferred(&self, refusal: Refusal) -> FetchError {
        let not_before = refusal.not_before().unwrap_or_else(|| self.clock.wall());
        FetchError::deferred(not_before, Arc::new(refusal))
    }
}

/// The gap that was last asked for the URL's host.
fn last_gap(pacer: &Pacer, url: &Url) -> Option<Duration> {
    let host = Host::of(url).ok()?;
    Some(pacer.report(&host)?.gap)
}

/// What a failed robots.txt request tells the pacer.
fn fault_of(kind: &FetchErrorKind) -> Option<TransportFault> {
    Some(match kind {
        FetchErrorKind::Dns => TransportFault::NameNotFound,
        FetchErrorKind::Connect => TransportFault::Refused,
        FetchErrorKind::Tls => TransportFault::Certificate,
        FetchErrorKind::Reset => TransportFault::Reset,
        FetchErrorKind::EnhanceYourCalm => TransportFault::EnhanceYourCalm,
        FetchErrorKind::Protocol | FetchErrorKind::HeadTooLarge => TransportFault::Protocol,
        FetchErrorKind::Deadline => TransportFault::Timeout,
        FetchErrorKind::Decode | FetchErrorKind::Other => TransportFault::Other,
        FetchErrorKind::AddressRefused(_) | FetchErrorKind::Deferred { .. } => return None,
    })
}

/// Exactly that path, and no query: RFC 9309 §2.2.2.
fn is_robots_txt(url: &Url) -> bool {
    url.path() == "/robots.txt" && url.query().is_none()
}

fn unsupported(url: &Url) -> Error {
    Denied::UnsupportedUrl { url: without_userinfo(url) }.into()
}

fn denied_turn(url: &Url, refusal: Refusal) -> Error {
    let url = without_userinfo(url);
    let denied = match refusal {
        Refusal::Deferred(deferral) => Denied::Deferred {
            url,
            not_before: deferral.not_before().to_system_time(),
            reason: deferral.reason().clone(),
            hop: 0,
        },
        Refusal::CrawlDelayTooLong { asked } => Denied::CrawlDelayTooLong { url, asked },
        Refusal::UnsupportedUrl(_) => Denied::UnsupportedUrl { url },
        Refusal::Store { reason } => Denied::Store { reason },
        Refusal::Panicked { callback } => Denied::Panicked { callback },
    };
    denied.into()
}

fn denied_access(url: &Url, refused: Refused) -> Error {
    let Refused::Deferred { not_before, why } = refused else { return Denied::Interrupted.into() };
    match why.downcast_ref::<Refusal>() {
        // With its own reason: whoever holds an open response of the host can do something about it.
        Some(refusal) => denied_turn(url, refusal.clone()),
        None => {
            let (url, not_before) = (without_userinfo(url), not_before.to_system_time());
            Denied::Deferred { url, not_before, reason: DeferReason::Robots, hop: 0 }.into()
        }
    }
}
