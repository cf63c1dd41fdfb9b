//! The pacer, how a request comes to its permit, and the permit.
//!
//! It drives the decisions of the other files and holds no rule itself: `acquire` takes the permit or a place in the queue, `schedule` says
//! when, `observe` writes down what came back, and `leases` asks for leases where processes share a store. User code (clock,
//! observers, scopes, wakers) is called from here, with no lock held, and a panic in it goes no further: it may ask the pacer for something,
//! and a lock that it poisons would stop every crawl of the process.
//!
//! The delay counts from the end of the response, so the permit lives in the response body and ends when it is dropped, whatever happens to
//! the caller. It owns all it needs, and its end awaits nothing: a `Drop` cannot.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use url::Url;

use super::acquire::{self, Claims, Purpose, QueuePlace, Request, ScopeRequest};
use super::leases::Leases;
use super::open_bodies;
use super::policy::{DELAY_MAX, PacePolicy};
use super::queue::{Queue, wake};
use super::schedule::{Schedule, Terms};
use super::shared_store::{SharedStore, User};
use super::store::HostStore;
use super::table::{Effects, Table};
use crate::clock::{Moment, Timeline};
use crate::denied::Refusal;
use crate::event::{Event, Observers};
use crate::jitter::Jitter;
use crate::origin::pacing_key_of;
use crate::{Clock, DeniedKind, SystemClock, WallMillis, caught};

/// Knows when the next request to a host may go out: what all that use it share. It keeps what [`pacing`](super) promises.
pub(crate) struct Pacer {
    pub(crate) policy: PacePolicy,
    pub(crate) table: Table,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeline: Timeline,
    pub(crate) observers: Observers,
    pub(crate) jitter: Jitter,
    pub(crate) store: Option<Arc<SharedStore>>,
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
        // Cyclic, because the tasks that keep leases must not keep the pacer alive.
        let pacer = Arc::new_cyclic(|pacer| Self {
            store: store
                .map(|store| Arc::new(SharedStore::new(store, policy.shared, pacer.clone(), jitter.bits()))),
            table: Table::new(policy.max_hosts, policy.min_delay()),
            timeline: Timeline(began),
            is_overgrown: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            observers,
            policy,
            clock,
            jitter,
        });
        for (scope, Terms { delay, limit: max_in_flight }) in pacer.policy.exceptions() {
            pacer.observers.notify(&Event::Exception { scope, delay, max_in_flight });
        }
        pacer
    }

    /// Acquires a permit for this URL: of its host, and of the policy's other scopes, all or none. Defers the request as soon as it is certain
    /// that the permit cannot come within the budget, most often at once; other refusals come at once. A budget of zero is now or not at all.
    /// The larger one of the origin's Crawl-delay and ours counts.
    ///
    /// Cancelling it at any point gives its place to the next, without a hole and without an early start. It must be polled to keep its
    /// place: a queue head that is not polled is dropped one second after its deadline.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        url: &Url,
        crawl_delay: Duration,
        budget: Duration,
    ) -> Result<Permit, Refusal> {
        let permit = self.acquire_unreported(url, crawl_delay, budget, Purpose::Page).await?;
        self.granted(url, &permit);
        Ok(permit)
    }

    /// Reports a permit that was acquired unreported, once it is certain that it is used.
    pub(crate) fn granted(&self, url: &Url, permit: &Permit) {
        if let Some(scope) = pacing_key_of(url) {
            self.observers.notify(&Event::Granted { scope: &scope, waited: permit.waited() });
        }
    }

    pub(crate) async fn acquire_unreported(
        self: &Arc<Self>,
        url: &Url,
        crawl_delay: Duration,
        budget: Duration,
        purpose: Purpose,
    ) -> Result<Permit, Refusal> {
        let now = self.now()?;
        let (host, others) = (self.host(url, crawl_delay)?, self.groups(url, crawl_delay)?);
        let request = Request { url, host, others, deadline: now.plus(budget), purpose };
        let store = self.store.as_ref().filter(|_| self.policy.is_leased(&request.host.key));
        let leases = store.map(|store| Leases { store: Arc::clone(store), users: Vec::new() });
        let entered =
            self.act(|effects| acquire::enter(&self.table, &request, leases.is_some(), now, effects));
        let (claims, place) = entered.map_err(|exceeded| self.defer(&request, exceeded, now))?;
        let Some((ticket, notify)) = place else {
            return Ok(Permit::new(Arc::clone(self), claims, now, Duration::ZERO, Box::default()));
        };
        let place = QueuePlace { pacer: Arc::clone(self), claims, ticket, arrived: now, notify, leases };
        place.wait(&request).await
    }

    /// Gives up all leases in the shared store and saves what it does not know yet, for `limit` at most. Returns whether nothing is left.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        match &self.store {
            Some(store) => store.settled(limit).await,
            None => true,
        }
    }

    /// The user's clock, which may panic.
    pub(crate) fn now(&self) -> Result<Moment, Refusal> {
        let now = catch("clock", || self.clock.now())?;
        Ok(self.timeline.moment(now))
    }

    /// The time where a panic of the clock cannot be returned to a caller.
    pub(crate) fn now_or_system(&self) -> Moment {
        self.timeline.moment(catch("clock", || self.clock.now()).unwrap_or_else(|_| SystemClock.now()))
    }

    pub(crate) fn wall(&self) -> WallMillis {
        catch("clock", || self.clock.wall()).unwrap_or_else(|_| SystemClock.wall())
    }

    /// The wall-clock time of a moment, rounded up: a caller that comes back then is not a millisecond too early.
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
        if effects.is_overgrown && !self.is_overgrown.swap(true, Ordering::Relaxed) {
            self.observers.notify(&Event::Overgrown { hosts: self.table.len() });
        }
        result
    }

    /// The host of a request whose origin asks for this delay.
    pub(crate) fn host<'u>(&self, url: &'u Url, crawl_delay: Duration) -> Result<ScopeRequest<'u>, Refusal> {
        let Some(key) = pacing_key_of(url) else { return Err(DeniedKind::UnsupportedUrl.into()) };
        if crawl_delay > DELAY_MAX {
            return Err(DeniedKind::CrawlDelayTooLong { asked: crawl_delay }.into());
        }
        let terms = self.policy.terms_of(&key).at_least(crawl_delay);
        Ok(ScopeRequest { key, terms, feedback: true })
    }

    /// The scopes beside the host. Two scopes that make the same key are one.
    pub(crate) fn groups(
        &self,
        url: &Url,
        crawl_delay: Duration,
    ) -> Result<Vec<ScopeRequest<'static>>, Refusal> {
        let mut groups: Vec<ScopeRequest<'static>> = Vec::new();
        for scope in self.policy.scopes() {
            let key = catch("scope", || scope.key(url))?;
            let Some(key) = key.filter(|key| groups.iter().all(|group| group.key != *key)) else { continue };
            let feedback = scope.feedback;
            let terms = if feedback { scope.terms.at_least(crawl_delay) } else { scope.terms };
            groups.push(ScopeRequest { key: key.into(), terms, feedback });
        }
        Ok(groups)
    }

    pub(crate) fn with_schedule<T>(&self, host: &str, look: impl FnOnce(&mut Schedule) -> T) -> Option<T> {
        let (mut locked, schedule) = self.table.lock_found(host)?;
        locked.schedule(schedule).map(look)
    }

    pub(crate) fn wake_first(&self, host: &str) {
        let first = self.with_schedule(host, |schedule| schedule.queue().and_then(Queue::first).cloned());
        wake(first.flatten().into_iter().collect());
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Runs user code. A panic in it goes no further.
fn catch<T>(callback: &'static str, run: impl FnOnce() -> T) -> Result<T, Refusal> {
    caught(run).ok_or_else(|| DeniedKind::Panicked { callback }.into())
}

/// The right to send one request to a host, now.
///
/// Keep it until the response has *ended*: its body was read to the end, is known to be empty, or was dropped. The delay to the next
/// request counts from then. A permit may live in a response body, be sent to other threads, and be dropped anywhere, also outside a
/// runtime; dropping it ends the response and wakes the next request.
///
/// Report the result: [`observe`](Self::observe) the head of the response, or that the request [`failed`](Self::failed).
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
    pub(crate) claims: Claims,
    /// When the request went on the wire, as far as we know.
    pub(crate) started: Moment,
    waited: Duration,
    /// Unless it is given back.
    is_sent: bool,
    /// What keeps the leases of its hosts, if there is a shared store.
    users: Box<[User]>,
}

impl Permit {
    pub(crate) fn new(
        pacer: Arc<Pacer>,
        claims: Claims,
        started: Moment,
        waited: Duration,
        users: Box<[User]>,
    ) -> Self {
        if !pacer.is_watched.load(Ordering::Relaxed) {
            open_bodies::watch(&pacer);
        }
        Self { pacer, claims, started, waited, is_sent: true, users }
    }

    /// The delay behind the request before, by which it was granted.
    pub(crate) fn delay(&self) -> Duration {
        self.claims.host.terms.delay
    }

    /// How long the next request waits at least: for the delay, or for what a RateLimit field has left.
    pub(crate) fn gap(&self) -> Duration {
        let (now, mut gap) = (self.pacer.now_or_system(), Duration::ZERO);
        acquire::each(&self.pacer.table, &self.claims, |host, claim| {
            gap = gap.max(claim.terms.delay).max(host.feedback().quota.since(now));
        });
        gap
    }

    /// How long this call has waited for the permit.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long ago the request was sent, as far as is known.
    pub fn elapsed(&self) -> Duration {
        self.pacer.now_or_system().since(self.started)
    }

    /// Whether a host or group that it is for has been backed off since it was acquired, so that its request is not to be sent any more.
    pub fn is_backed_off(&self) -> bool {
        let (now, mut is_backed_off) = (self.pacer.now_or_system(), false);
        acquire::each(&self.pacer.table, &self.claims, |host, _| {
            is_backed_off |= host.feedback().backoff.until > now
        });
        is_backed_off
    }

    /// Whether the shared store has all that was [observed](Self::observe) and that [failed](Self::failed). Always true without a store.
    pub fn is_saved(&self) -> bool {
        !self.users.iter().any(User::is_unsaved)
    }

    /// Waits until a backoff that was [observed](Self::observe) is in the shared store, so that no other process sends to the host and no
    /// restart forgets it. Await this before you return the response. It takes at most
    /// [`store_timeout`](super::PacePolicy::with_store_timeout), and does not wait for a store that is away.
    pub async fn saved(&self) {
        for user in self.users.iter().filter(|user| user.is_unsaved()) {
            user.saved().await;
        }
    }

    /// Reports that the response has ended. The same as dropping the permit.
    pub fn finish(self) {}

    /// [`observe`](Self::observe) and [`finish`](Self::finish) in one, for clients that have read the whole body.
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
        let (table, now) = (&self.pacer.table, self.pacer.now_or_system());
        self.pacer.act(|effects| {
            acquire::each(table, &self.claims, |schedule, claim| {
                if self.is_sent && self.claims.beside.is_some() && claim.feedback {
                    schedule.end_beside(self.started, claim.terms.delay, now);
                } else if self.is_sent {
                    schedule.end(self.started, now);
                } else {
                    schedule.give_back(self.started, claim.before);
                }
                schedule.changed(now, &mut effects.wakers);
            });
            // Last, because from here on the lease may go to another process, with the end of this response.
            self.users.iter_mut().for_each(|user| user.end(now));
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("waited", &self.waited).finish_non_exhaustive()
    }
}
