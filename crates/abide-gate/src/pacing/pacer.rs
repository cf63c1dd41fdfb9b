//! The pacer: the thin driver over the decisions of the other files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::acquire::Admission;
use super::acquire_lease::acquire_lease;
use super::ask::Ask;
use super::backoff::BackoffCause;
use super::core::Core;
use super::jitter::Jitter;
use super::leases::SharedStore;
use super::moment::Moment;
use super::permit::Permit;
use super::place::QueuePlace;
use super::policy::PacePolicy;
use super::refusal::Refusal;
use super::report::{HostReport, NextSlot};
use super::scope::ScopeKey;
use super::slot::Schedule;
use super::store::HostStore;
use crate::event::{Event, Observer, Observers};
use crate::{Clock, Host, Origin, Stats, SystemClock, WallMillis};

/// Knows when the next request to a host may go out. Cheap to clone; all clones are one.
///
/// For every host, over all tasks: at most one request in flight until its response has ended, at least the delay from then to the
/// next request, nothing while the host is held, first come first served, and nobody waits longer than his budget.
#[derive(Clone)]
pub struct Pacer {
    core: Arc<Core>,
}

impl Pacer {
    /// A pacer with a shared store, another clock, an observer.
    pub(crate) fn builder(policy: PacePolicy) -> PacerBuilder {
        PacerBuilder { policy, store: None, clock: Arc::new(SystemClock), observers: Vec::new(), seed: None }
    }

    /// Waits for this URL's turn: that of its host, and of the policy's other scopes, all or none.
    ///
    /// Cancelling it at any point gives the place to the next, without a hole and without an early start. It must be polled to
    /// keep its place: whoever is first in queue and is not polled is passed over a second after his budget has ended.
    ///
    /// # Errors
    /// [`Refusal::Deferred`] as soon as it is certain that the turn cannot come within the budget, most often at once; the
    /// other [`Refusal`]s at once.
    pub async fn acquire(&self, url: &Url, ask: Ask) -> Result<Permit, Refusal> {
        match self.at_once(url, &ask) {
            Some(permit) => Ok(permit),
            // Boxed, so that whoever need not wait does not carry the room for it through his future.
            None => Box::pin(self.wait(url, ask)).await,
        }
    }

    /// The turn, if it is there this instant and nobody else is to be asked for it. Takes no place in queue.
    pub(crate) fn at_once(&self, url: &Url, ask: &Ask) -> Option<Permit> {
        if self.core.store.is_some() || !self.core.policy.scopes().is_empty() {
            return None;
        }
        let now = self.core.now().ok()?;
        let request = self.core.request(url, ask, now).ok()?;
        let claims = self.core.enter_idle(&request, now)?;
        let permit = Permit::unsent(Arc::clone(&self.core), claims, now, Duration::ZERO).send();
        self.core.report(&Event::Granted { scope: &request.host.key, waited: Duration::ZERO });
        Some(permit)
    }

    async fn wait(&self, url: &Url, ask: Ask) -> Result<Permit, Refusal> {
        let now = self.core.now()?;
        let request = self.core.request(url, &ask, now)?;
        let permit = match self.core.enter(&request, url, now) {
            Admission::Granted(claims) => Permit::unsent(Arc::clone(&self.core), claims, now, Duration::ZERO),
            Admission::DeadlineExceeded(exceeded) => return Err(self.core.defer(&request, exceeded, now)),
            Admission::Queued(claims, ticket, notify) => {
                let place = QueuePlace::new(Arc::clone(&self.core), claims, ticket, now, notify);
                Box::pin(place.wait(&request)).await?
            }
        };
        let permit = match &self.core.store {
            None => permit.send(),
            // A host of the operator's own may be left out.
            Some(_) if !self.core.policy.pace_of(&request.host.key).is_leased => permit.send(),
            Some(store) => Box::pin(acquire_lease(store, &request, permit)).await?,
        };
        self.core.report(&Event::Granted { scope: &request.host.key, waited: permit.waited() });
        Ok(permit)
    }

    /// When this URL could go out, without waiting and without reserving anything. Asks this process only, not the shared store.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), except that it never defers.
    pub fn next_slot(&self, url: &Url, ask: Ask) -> Result<NextSlot, Refusal> {
        let now = self.core.now()?;
        let request = self.core.request(url, &ask, now)?;
        let host = self.slot_at(&request.host.key, request.host.delay, request.host.limit, now);
        let others =
            request.others.iter().map(|other| self.slot_at(&other.key, other.delay, other.limit, now));
        Ok(others.fold(host, |last, other| if other.wait > last.wait { other } else { last }))
    }

    /// The host that has been free for the longest time, or else is free first, with the delay that was last asked for it. A host that
    /// was never asked is free; among equals the first counts.
    pub fn next_ready<'h>(&self, hosts: impl IntoIterator<Item = &'h Host>) -> Option<(&'h Host, NextSlot)> {
        let now = self.core.now_or_system();
        let slots = hosts.into_iter().map(|host| (host, self.slot_again(host, now)));
        slots.reduce(|best, next| if is_earlier(&next.1, &best.1) { next } else { best })
    }

    fn slot_again(&self, host: &Host, now: Moment) -> NextSlot {
        let pace = self.core.policy.pace_of(host.as_str());
        let last = self.core.with_slot(host.as_str(), |slot| slot.last_delay()).unwrap_or_default();
        self.slot_at(host.as_str(), pace.delay.max(last), pace.max_in_flight, now)
    }

    fn slot_at(&self, key: &str, delay: Duration, limit: u16, now: Moment) -> NextSlot {
        let found = self.core.with_slot(key, |slot| {
            let (view, terms) = (slot.view(), slot.terms(delay, limit));
            let queued = slot.queue().map(|queue| queue.delays()).unwrap_or_default();
            let (start, waiting) = (view.start(terms).at, slot.waiting());
            let free = waiting == 0 && !view.is_full(terms) && start <= now && start > Moment::NEVER;
            let overdue = free.then(|| now.since(start));
            (view.arrival(terms, queued, now).at, overdue, waiting, view.in_flight)
        });
        let (at, overdue, waiting, in_flight) = found.unwrap_or((now, None, 0, 0));
        let (not_before, wait) = (self.core.wall_at(now, at), at.since(now));
        NextSlot { not_before, wait, overdue, waiting, in_flight: in_flight.into() }
    }

    /// Holds a host, or a group of hosts by its key, until then, unless it is held for longer. Returns the end of the backoff that is in
    /// force.
    ///
    /// More than 27 h ahead is taken for a mistake and cut to 24 h.
    pub fn back_off(&self, scope: impl Into<ScopeKey>, until: WallMillis, cause: BackoffCause) -> WallMillis {
        self.core.back_off(scope.into().as_str(), until, cause)
    }

    /// The Crawl-delay of an origin has become this: it also counts for those who already wait for it in the queue of its host.
    pub fn change_crawl_delay(&self, origin: &Origin, delay: Duration) {
        self.core.change_delay(origin, delay);
    }

    /// What happened to a host, if it is known.
    pub fn report(&self, host: &Host) -> Option<HostReport> {
        let (now, wall) = (self.core.now_or_system(), self.core.wall());
        self.core.with_slot(host.as_str(), |slot| report(slot, now, wall))
    }

    /// What happened to every host and every group of hosts that is known, in no particular order.
    pub fn reports(&self) -> Vec<HostReport> {
        let (now, wall) = (self.core.now_or_system(), self.core.wall());
        let mut reports = Vec::new();
        self.core.table().for_each(|slot| reports.push(report(slot, now, wall)));
        reports
    }

    /// Sums over all hosts that are known. Looks at each of them.
    pub fn stats(&self) -> Stats {
        let (now, mut stats) = (self.core.now_or_system(), Stats::default());
        self.core.table().for_each(|slot| {
            stats.hosts += 1;
            stats.in_flight += usize::from(slot.in_flight);
            stats.waiting += slot.waiting();
            stats.backed_off += usize::from(slot.backoff().until > now);
        });
        stats
    }

    /// Gives up all leases in the shared store and saves what it does not know yet, for `limit` at most. Returns whether nothing is left.
    /// Without a store there is nothing to do.
    ///
    /// Before a process ends, it drops what is left of responses, awaits this, and closes its store. Without it, other processes wait for
    /// its hosts until the leases end.
    pub async fn settled(&self, limit: Duration) -> bool {
        match &self.core.store {
            Some(store) => store.settled(limit).await,
            None => true,
        }
    }
}

/// Free for longer, or else free first. What was never asked counts as free since the start.
fn is_earlier(a: &NextSlot, b: &NextSlot) -> bool {
    let rank = |slot: &NextSlot| match slot.overdue {
        _ if slot.wait > Duration::ZERO || slot.in_flight > 0 => (false, Duration::ZERO),
        None => (true, Duration::MAX),
        Some(overdue) => (true, overdue),
    };
    (rank(a), std::cmp::Reverse(a.wait)) > (rank(b), std::cmp::Reverse(b.wait))
}

fn report(slot: &Schedule, now: Moment, wall: WallMillis) -> HostReport {
    let (counts, view, held) = (slot.counts, slot.view(), slot.backoff().until);
    HostReport {
        scope: slot.key.clone(),
        requests: counts.requests,
        deferrals: counts.deferrals,
        backoffs: counts.backoffs,
        waited: Duration::from_millis(counts.waited_millis.into()),
        longest_wait: Duration::from_millis(counts.longest_millis.into()),
        in_flight: slot.in_flight.into(),
        waiting: slot.waiting(),
        open: (slot.in_flight > 0).then(|| now.since(view.open_since)),
        backed_off_until: (held > now).then(|| wall.plus(held.since(now))),
        delay: slot.last_delay(),
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("policy", &self.core.policy).finish_non_exhaustive()
    }
}

/// Puts a [`Pacer`] together.
#[must_use]
pub struct PacerBuilder {
    policy: PacePolicy,
    store: Option<Arc<dyn HostStore>>,
    clock: Arc<dyn Clock>,
    observers: Vec<Arc<dyn Observer>>,
    seed: Option<u64>,
}

impl PacerBuilder {
    /// Hosts are leased from this store, so that all processes that share it keep the promises together.
    pub fn store(mut self, store: Arc<dyn HostStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Hears of everything that happens. Several may listen.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// The seed of the jitter of backoffs, so that a run can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The pacer.
    pub fn build(self) -> Pacer {
        let jitter = self.seed.map_or_else(Jitter::random, Jitter::seeded);
        let core = Arc::new_cyclic(|core| {
            let store =
                self.store.map(|store| Arc::new(SharedStore::new(store, self.policy.shared, core.clone())));
            Core::new(self.policy, self.clock, Observers::new(self.observers), jitter, store)
        });
        Pacer { core }
    }
}

impl fmt::Debug for PacerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacerBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
