//! The pacer, how a request comes to its permit, and the permit.
//!
//! It drives [`PacedHost::step`](super::host::PacedHost::step) and holds no rule itself: it waits as that
//! says, wakes and reports what came of it. User code (clock, observers, pacing keys, wakers) is called from
//! here, with no lock held, and a panic in it goes no further: it may ask the pacer for something, and a lock
//! that it poisons would stop every crawl of the process.
//!
//! The delay counts from the end of the response, so the permit lives in the response body and ends when it
//! is dropped, whatever happens to the caller. It owns all it needs, and its end awaits nothing: a `Drop`
//! cannot.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::time::timeout_at;
use url::Url;

use super::host::{Grant, PacedHost, Purpose, QueuePlace, Request, Step, Terms};
use super::hosts::{Effects, Hosts};
use super::keeper::Keeper;
use super::lease::LeaseSignals;
use super::open_bodies;
use super::policy::{DELAY_MAX, PacePolicy};
use super::queue::wake;
use super::store::HostStore;
use crate::clock::{Moment, Timeline, has_timers};
use crate::denied::DenialCause;
use crate::event::{Event, Observers};
use crate::jitter::Jitter;
use crate::origin::pacing_key_of;
use crate::{Clock, DeniedKind, SystemClock, WallMillis, caught};

/// Knows when the next request to a host may go out: what all that use it share. It keeps what
/// [`pacing`](super) promises.
pub(crate) struct Pacer {
    pub(crate) policy: PacePolicy,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeline: Timeline,
    pub(crate) observers: Observers,
    pub(crate) jitter: Jitter,
    /// Where processes share a store.
    pub(crate) keeper: Option<Arc<Keeper>>,
    is_overgrown: AtomicBool,
    /// Whether the task runs that reports open bodies.
    pub(crate) is_watched: AtomicBool,
}

impl Pacer {
    /// Hosts are leased from the store, so that all processes that share it keep the promises together.
    pub(crate) fn build(
        policy: PacePolicy,
        store: Option<Arc<dyn HostStore>>,
        clock: Arc<dyn Clock>,
        observers: Observers,
        jitter: Jitter,
    ) -> Arc<Self> {
        let began = catch("clock", || clock.now()).unwrap_or_else(|_| SystemClock.now());
        let (hosts, timeline) = (Arc::new(Hosts::new(policy.max_hosts, policy.min_delay())), Timeline(began));
        let keeper = store.map(|store| {
            let (hosts, clock) = (Arc::clone(&hosts), Arc::clone(&clock));
            let keeper =
                Keeper::new(store, policy.shared, hosts, (clock, timeline), observers.clone(), jitter.bits());
            Arc::new(keeper)
        });
        let pacer = Arc::new(Self {
            keeper,
            hosts,
            timeline,
            is_overgrown: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            observers,
            policy,
            clock,
            jitter,
        });
        for (key, Terms { delay, limit: max_in_flight }) in pacer.policy.exceptions() {
            pacer.observers.notify(&Event::FasterThanDefault { key, delay, max_in_flight });
        }
        pacer
    }

    /// Acquires a permit for this URL. Defers the request as soon as it is certain that the permit cannot
    /// come within the budget, most often at once; other refusals come at once. A budget of zero is now or
    /// not at all. The larger one of the origin's Crawl-delay and ours counts.
    ///
    /// Cancelling it at any point gives its place to the next, without a hole and without an early start. It
    /// must be polled to keep its place: a queue head that is not polled is dropped one second after its
    /// deadline.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        url: &Url,
        crawl_delay: Duration,
        budget: Duration,
    ) -> Result<Permit, DenialCause> {
        let permit = self.acquire_unreported(url, crawl_delay, budget, Purpose::Page).await?;
        self.granted(&permit);
        Ok(permit)
    }

    /// Reports a permit that was acquired unreported, once it is certain that it is used.
    pub(crate) fn granted(&self, permit: &Permit) {
        self.observers.notify(&Event::Granted { key: &permit.key, waited: permit.waited() });
    }

    pub(crate) async fn acquire_unreported(
        self: &Arc<Self>,
        url: &Url,
        crawl_delay: Duration,
        budget: Duration,
        purpose: Purpose,
    ) -> Result<Permit, DenialCause> {
        let arrived = self.now()?;
        let (key, terms) = self.key_and_terms(url, crawl_delay)?;
        let request = Request { url, terms, arrived, deadline: arrived.plus(budget), purpose };
        let keeper = self.keeper.as_deref().filter(|_| self.policy.is_leased(&key));
        let mut waiting = Waiting { pacer: self, key, keeper, place: QueuePlace::default() };
        let mut now = arrived;
        loop {
            let (host, step) = waiting.step(&request, now);
            match step {
                Step::Go(grant) => return Ok(waiting.permit(host, grant, &request, now)),
                Step::Defer(due) => return Err(self.defer(&host, &request, due, now)),
                Step::Wait(until) => waiting.until(until).await?,
            }
            now = self.now()?;
        }
    }

    /// Gives up all leases in the shared store and saves what it does not know yet, for `limit` at most.
    /// Returns whether nothing is left.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.settled(limit).await,
            None => true,
        }
    }

    /// The user's clock, which may panic.
    pub(crate) fn now(&self) -> Result<Moment, DenialCause> {
        let now = catch("clock", || self.clock.now())?;
        Ok(self.timeline.moment(now))
    }

    /// The time where a panic of the clock cannot be returned to a caller.
    pub(crate) fn now_or_system(&self) -> Moment {
        self.timeline.now(&*self.clock)
    }

    pub(crate) fn wall(&self) -> WallMillis {
        catch("clock", || self.clock.wall()).unwrap_or_else(|_| SystemClock.wall())
    }

    /// The wall-clock time of a moment, rounded up: a caller that comes back then is not a millisecond too
    /// early.
    pub(crate) fn wall_at(&self, now: Moment, at: Moment) -> WallMillis {
        let millis = at.since(now).as_nanos().div_ceil(1_000_000);
        self.wall().plus(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// Runs a step that takes locks. When it has released them, wakes and reports what it has brought about.
    pub(crate) fn act<T>(&self, step: impl FnOnce(&mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = step(&mut effects);
        // Most requests wake none.
        if !effects.wakers.is_empty() {
            wake(effects.wakers);
        }
        if let (Some(key), Some(keeper)) = (effects.unkept, &self.keeper) {
            keeper.start(key);
        }
        effects.news.iter().for_each(|signals| signals.news.notify_one());
        if effects.is_overgrown && !self.is_overgrown.swap(true, Ordering::Relaxed) {
            self.observers.notify(&Event::Overgrown { hosts: self.hosts.len() });
        }
        result
    }

    /// The key of a request whose origin asks for this delay, and what it asks of it.
    pub(crate) fn key_and_terms<'u>(
        &self,
        url: &'u Url,
        crawl_delay: Duration,
    ) -> Result<(Cow<'u, str>, Terms), DenialCause> {
        let key = self.policy.key.of(url)?;
        if crawl_delay > DELAY_MAX {
            return Err(DeniedKind::CrawlDelayTooLong { asked: crawl_delay }.into());
        }
        // The settings of the host that is asked, whatever it is paced with.
        let host = pacing_key_of(url);
        let terms = self.policy.terms_of(host.as_deref().unwrap_or(&key)).at_least(crawl_delay);
        Ok((key, terms))
    }
}

/// A request that comes to its permit. Dropping it, as a caller that is cancelled does, leaves the queue and
/// wakes the next.
struct Waiting<'a> {
    pacer: &'a Arc<Pacer>,
    key: Cow<'a, str>,
    keeper: Option<&'a Keeper>,
    place: QueuePlace,
}

impl Waiting<'_> {
    /// What the request does next, and the key of its host.
    fn step(&mut self, request: &Request<'_>, now: Moment) -> (Arc<str>, Step) {
        let Self { pacer, key, keeper, place } = self;
        let store = keeper.map(|keeper| keeper.view(key));
        pacer.act(|effects| {
            pacer.hosts.with(key, now, effects, |host, effects| {
                (Arc::clone(&host.key), host.step(request, place, store.as_ref(), now, effects))
            })
        })
    }

    /// Waits until then, or until it is woken.
    async fn until(&self, until: Moment) -> Result<(), DenialCause> {
        if !has_timers() {
            return Err(DeniedKind::NoTimers.into());
        }
        let Some(ticket) = &self.place.ticket else { return Ok(()) };
        let _ = timeout_at(self.pacer.timeline.timer(until), ticket.wake.notified()).await;
        Ok(())
    }

    fn permit(mut self, key: Arc<str>, grant: Grant, request: &Request<'_>, now: Moment) -> Permit {
        let pacer = Arc::clone(self.pacer);
        if !pacer.is_watched.load(Ordering::Relaxed) {
            open_bodies::watch(&pacer);
        }
        Permit {
            pacer,
            key,
            grant,
            beside: request.purpose.beside(),
            started: now,
            waited: now.since(request.arrived),
            is_sent: true,
            lease: self.place.lease.take(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self { pacer, key, place, .. } = self;
        if place.ticket.is_some() || place.lease.is_some() {
            pacer.act(|effects| pacer.hosts.find(key, |host| host.leave(place, effects)));
        }
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Runs user code. A panic in it goes no further.
fn catch<T>(callback: &'static str, run: impl FnOnce() -> T) -> Result<T, DenialCause> {
    caught(run).ok_or_else(|| DeniedKind::Panicked { callback }.into())
}

/// The right to send one request to a host, now.
///
/// Keep it until the response has *ended*: its body was read to the end, is known to be empty, or was
/// dropped. The delay to the next request counts from then. A permit may live in a response body, be sent to
/// other threads, and be dropped anywhere, also outside a runtime; dropping it ends the response and wakes
/// the next request.
///
/// Report the result: [`observe`](Self::observe) the head of the response, or that the request
/// [`failed`](Self::failed).
///
/// ```
/// # use abide_gate::{Denied, Failure, Gate};
/// # async fn send() -> Result<(http::StatusCode, http::HeaderMap), Failure> { Err(Failure::Reset) }
/// # async fn fetch(gate: &Gate, url: &url::Url) -> Result<(), Denied> {
/// let (_, permit) = gate.admit(url, gate.max_wait()).await?;
/// match send().await {
///     Ok((status, headers)) => permit.finish_with(status, &headers),
///     Err(fault) => drop(permit.failed(fault)),
/// }
/// # Ok(()) }
/// ```
#[must_use = "the response ends for its host when the permit is dropped: keep it until the response has ended"]
pub struct Permit {
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) key: Arc<str>,
    grant: Grant,
    /// [`Purpose::beside`].
    beside: Option<Duration>,
    /// When the request went on the wire, as far as we know.
    pub(crate) started: Moment,
    waited: Duration,
    /// Unless it is given back.
    is_sent: bool,
    /// The lease that it was sent under, if processes share a store.
    lease: Option<Arc<LeaseSignals>>,
}

impl Permit {
    /// The delay behind the request before, by which it was granted.
    pub(crate) fn delay(&self) -> Duration {
        self.grant.delay
    }

    /// How long the next request waits at least: for the delay, or for what a RateLimit field has left.
    pub(crate) fn gap(&self) -> Duration {
        let now = self.pacer.now_or_system();
        let quota = self.pacer.hosts.find(&self.key, |host| host.feedback().quota.since(now));
        self.grant.delay.max(quota.unwrap_or_default())
    }

    /// How long this call has waited for the permit.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long ago the request was sent, as far as is known.
    pub fn elapsed(&self) -> Duration {
        self.pacer.now_or_system().since(self.started)
    }

    /// Whether the host has been backed off or held since it was acquired, so that its request is not to be
    /// sent any more.
    pub fn is_backed_off(&self) -> bool {
        let now = self.pacer.now_or_system();
        let is_later = |host: &mut PacedHost| {
            let feedback = host.feedback();
            feedback.backoff.until.max(feedback.refusals.until) > now
        };
        self.pacer.hosts.find(&self.key, is_later).unwrap_or_default()
    }

    /// Whether the shared store has all that was [observed](Self::observe) and that [failed](Self::failed).
    /// Always true without a store.
    pub fn is_saved(&self) -> bool {
        !self.pacer.keeper.as_ref().is_some_and(|keeper| keeper.is_unsaved(&self.key))
    }

    /// Waits until a backoff that was [observed](Self::observe) is in the shared store, so that no other
    /// process sends to the host and no restart forgets it. Await this before you return the response. It
    /// takes at most [`store_timeout`](super::PacePolicy::with_store_timeout), and does not wait for a store
    /// that is away.
    pub async fn saved(&self) {
        if let Some(keeper) = self.pacer.keeper.as_ref().filter(|_| !self.is_saved()) {
            keeper.saved(&self.key).await;
        }
    }

    /// Reports that the response has ended. The same as dropping the permit.
    pub fn finish(self) {}

    /// [`observe`](Self::observe) and [`finish`](Self::finish) in one, for clients that have read the whole
    /// body.
    pub fn finish_with(self, status: StatusCode, headers: &HeaderMap) {
        self.observe(status, headers);
    }

    /// Reports that nothing was and will be sent: the next request needs no delay.
    pub fn give_back(mut self) {
        self.is_sent = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The clock is the user's, so it is read before any lock is taken.
        let (pacer, now) = (&self.pacer, self.pacer.now_or_system());
        pacer.act(|effects| {
            pacer.hosts.find(&self.key, |host| {
                match (self.is_sent, self.beside) {
                    (true, Some(_)) => host.end_beside(self.started, self.grant.delay, now),
                    (true, None) => host.end(self.started, now),
                    (false, _) => host.give_back(self.started, self.grant.before),
                }
                // From here on the lease may go to another process, with the end of this response.
                if let Some(signals) = &self.lease {
                    host.end_under(signals, self.beside.is_some(), now);
                }
                host.changed(now, &mut effects.wakers);
            });
            effects.news.extend(self.lease.take());
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("waited", &self.waited).finish_non_exhaustive()
    }
}
