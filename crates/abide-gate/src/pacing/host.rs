//! One host: what was sent, what is in flight, who waits, and the one decision when the next request may
//! start.
//!
//! ```text
//! anchor = the end of the last response (or the start of the last request, while it is open)
//! due    = max(anchor + delay, end of the backoff, of the hold and of the breaker's pause, next by RateLimit)
//! granted only if in_flight < limit
//! ```
//!
//! A request that arrives, one that wakes in the queue, and one that follows another all call
//! [`step`](PacedHost::step): a plain function of what is known, what is asked, and `now`. The delay counts
//! from the *end* of a response: counted from start to start, the varying delays of network and scheduler
//! made a server see less than promised for every second request.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::hosts::Effects;
use super::lease::{HostLease, Lease, LeaseSignals, Plan, RenewalPhase, StoreOutage, StoreView};
use super::observe::Feedback;
use super::queue::{QUEUE_MAX, Queue, Ticket, Waiter, Wakers};
use super::store::HostState;
use crate::Origin;
use crate::clock::Moment;

/// What one request asks of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) delay: Duration,
    /// Most requests in flight.
    pub(crate) limit: u16,
}

impl Terms {
    pub(crate) fn at_least(self, delay: Duration) -> Self {
        Self { delay: self.delay.max(delay), ..self }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Page,
    /// robots.txt.
    File {
        /// No caller waits for it, or retries it if it is deferred.
        is_background: bool,
        /// The delay of the site, if that is so long that the file keeps our own, and the pages count on as
        /// if it had not been sent.
        beside: Option<Duration>,
    },
}

impl Purpose {
    pub(crate) fn is_background(self) -> bool {
        matches!(self, Self::File { is_background: true, .. })
    }

    pub(crate) fn beside(self) -> Option<Duration> {
        match self {
            Self::File { beside, .. } => beside,
            Self::Page => None,
        }
    }
}

/// A request, as its host sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'u> {
    pub(crate) url: &'u Url,
    pub(crate) terms: Terms,
    pub(crate) arrived: Moment,
    pub(crate) deadline: Moment,
    pub(crate) purpose: Purpose,
}

/// What a request does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It is sent.
    Go(Grant),
    /// It waits, and looks again then at the latest.
    Wait(Moment),
    /// It cannot start before its deadline.
    Defer(Due),
}

/// The place of a request that waits: in the queue, and among those that need the lease of the host.
#[derive(Debug, Default)]
pub(crate) struct QueuePlace {
    pub(crate) ticket: Option<Arc<Ticket>>,
    /// From its turn on, where processes share a store.
    pub(crate) lease: Option<Arc<LeaseSignals>>,
}

/// How a request was granted: for giving it back, and for a longer delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) delay: Duration,
    /// The anchor before it.
    pub(crate) before: Moment,
}

/// What keeps a request from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// The delay between two requests, or the queue that waits for it.
    Delay(Duration),
    /// A response that is open since then.
    InFlight(Moment),
    Backoff,
    Breaker,
    /// The host refuses us, time after time.
    Refusing,
    /// The server's RateLimit fields.
    RateLimit,
    /// Another process has the lease of the host.
    OtherProcess,
    /// The shared store does not respond, and this process does not have the lease.
    Store,
}

/// When a request may start at the earliest, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Moment,
    pub(crate) why: WaitReason,
}

impl Due {
    /// The later of the two.
    fn later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// All that is known of one pacing key: a host, or a group of hosts.
#[derive(Debug)]
pub(crate) struct PacedHost {
    pub(crate) key: Arc<str>,
    /// The latest of all starts and ends.
    pub(crate) anchor: Moment,
    /// Where processes share a store, while something needs it.
    pub(crate) lease: Option<Box<HostLease>>,
    /// What most hosts never have.
    busy: Option<Box<Busy>>,
    pub(crate) counts: HostCounts,
    /// The delay that was last asked for, in milliseconds, rounded up: 24 h fit.
    delay_millis: u32,
    pub(crate) in_flight: u16,
}

/// What happened so far. Counters stop at their largest value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostCounts {
    pub(crate) requests: u32,
    pub(crate) deferrals: u32,
    pub(crate) backoffs: u32,
    pub(crate) waited_millis: u32,
    pub(crate) longest_millis: u32,
}

/// What a host has that is backed off, waited for, or cannot be reached.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    feedback: Feedback,
    queue: Option<Box<Queue>>,
    /// When the callers that were deferred may come back, each with the hash of its URL, the last one at the
    /// end.
    deferred: Vec<(Moment, u64)>,
    /// The starts of what is in flight, where more than one request may be, or one that the anchor leaves
    /// out.
    open: Vec<Moment>,
    /// Until then the delay behind a response that the anchor leaves out lasts.
    after_file: Moment,
}

/// So far behind the first, a deferred caller gets no later time: one that asks for ever more URLs would
/// drive those of others away.
const LEAD_MAX: Duration = Duration::from_secs(3_600);

impl PacedHost {
    pub(crate) fn new(key: Arc<str>) -> Self {
        let (counts, delay_millis) = (HostCounts::default(), 0);
        Self { key, anchor: Moment::NEVER, lease: None, busy: None, counts, delay_millis, in_flight: 0 }
    }

    /// The whole rule of pacing: first come, first served, and no request waits in vain. Called when a
    /// request arrives, which has no ticket yet, and each time that it wakes. `store` is the one that
    /// processes share.
    pub(crate) fn step(
        &mut self,
        request: &Request<'_>,
        place: &mut QueuePlace,
        store: Option<&StoreView<'_>>,
        now: Moment,
        effects: &mut Effects,
    ) -> Step {
        if let Some(exceeded) = place.ticket.as_ref().and_then(|ticket| ticket.exceeded.get()) {
            return Step::Defer(*exceeded);
        }
        // A queue head whose task is never polled again would stop its host, so every new request looks for
        // one.
        if let Some(queue) = self.queue_mut().filter(|_| place.ticket.is_none()) {
            queue.drop_unpolled(now, &mut effects.wakers);
        }
        let asked = self.asked(request, place.ticket.as_ref());
        let terms = self.terms(asked);
        let is_next = !self.is_full(terms) && self.is_first(place.ticket.as_ref());
        let (mut due, grant) = (self.due(terms), Grant { delay: asked.delay, before: self.anchor });
        if is_next && due.at <= now {
            let leased = store.and_then(|store| self.lease_due(request, place, grant, store, now, effects));
            let Some(later) = leased else {
                self.grant(terms, request, place, now, effects);
                return Step::Go(grant);
            };
            due = later;
        }
        let exceeded = match &place.ticket {
            _ if is_next && due.at > request.deadline => Some(due),
            None => self.exceeded_on_arrival(terms, request.deadline, now),
            Some(ticket) if now >= request.deadline => Some(self.past_deadline(terms, ticket, now)),
            Some(_) => None,
        };
        if let Some(exceeded) = exceeded {
            return Step::Defer(exceeded);
        }
        place.ticket.get_or_insert_with(|| self.join(request));
        Step::Wait(if is_next { due.at } else { request.deadline })
    }

    /// When the request may start by the lease of the host, if that is not now. From its turn on, it needs
    /// the lease.
    fn lease_due(
        &mut self,
        request: &Request<'_>,
        place: &mut QueuePlace,
        grant: Grant,
        store: &StoreView<'_>,
        now: Moment,
        effects: &mut Effects,
    ) -> Option<Due> {
        let HostLease { lease, signals } = self.open_lease(effects);
        if !place.lease.as_ref().is_some_and(|needed| Arc::ptr_eq(needed, signals)) {
            place.lease = Some(Arc::clone(signals));
            lease.enter(grant.delay);
        }
        effects.news.push(Arc::clone(signals));
        lease.due(request, grant, store, now)
    }

    /// The lease, which a task keeps from now on.
    fn open_lease(&mut self, effects: &mut Effects) -> &mut HostLease {
        let key = &self.key;
        self.lease.get_or_insert_with(|| {
            effects.unkept = Some(Arc::clone(key));
            Box::default()
        })
    }

    /// Something has changed that the other processes must know.
    pub(crate) fn share(&mut self, effects: &mut Effects) {
        let HostLease { lease, signals } = self.open_lease(effects);
        lease.change();
        effects.news.push(Arc::clone(signals));
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        self.lease.as_deref_mut().map(|kept| &mut kept.lease)
    }

    /// The lease that these signals belong to.
    pub(crate) fn lease_of(&mut self, signals: &Arc<LeaseSignals>) -> Option<&mut Lease> {
        let kept = self.lease.as_deref_mut().filter(|kept| Arc::ptr_eq(&kept.signals, signals));
        kept.map(|kept| &mut kept.lease)
    }

    /// What the keeper of the lease does next, which begins here: from the plan to give the lease up on,
    /// nothing starts.
    pub(crate) fn plan(&mut self, outage: StoreOutage, again: Duration, ttl: Duration, now: Moment) -> Plan {
        let backs_off = self.feedback().shared(Duration::ZERO, now).is_some();
        let Some(lease) = self.lease_mut() else { return Plan::End };
        let plan = lease.plan(backs_off, outage, now);
        match plan {
            Plan::Renew => lease.renewal = RenewalPhase::Waiting,
            // What is said of the host now makes that needless.
            Plan::Ask { .. } => lease.renewal = RenewalPhase::None,
            Plan::Release => lease.give_up(now.plus(again), now.plus(ttl)),
            Plan::End => self.lease = None,
            _ => {}
        }
        plan
    }

    /// The task that has kept this lease has ended.
    pub(crate) fn forget_lease(&mut self, signals: &Arc<LeaseSignals>, effects: &mut Effects) {
        if self.lease_of(signals).is_some() {
            self.lease = None;
            effects.wakers.extend(self.first().cloned());
        }
    }

    /// How often its state has changed, and the state, as this process shares it.
    pub(crate) fn shared(&mut self, now: Moment) -> Option<(u64, HostState)> {
        let feedback = self.feedback();
        let lease = self.lease_mut()?;
        let backoff = feedback.shared(lease.round_trip, now);
        Some((lease.changes, HostState { backoff, ..lease.state(now) }))
    }

    /// The Crawl-delay may have changed while the request waited.
    fn asked(&self, request: &Request<'_>, ticket: Option<&Arc<Ticket>>) -> Terms {
        let delay = self.queue().zip(ticket).and_then(|(queue, ticket)| queue.delay_of(ticket));
        Terms { delay: delay.unwrap_or(request.terms.delay), ..request.terms }
    }

    fn is_first(&self, ticket: Option<&Arc<Ticket>>) -> bool {
        match ticket {
            Some(ticket) => self.queue().is_some_and(|queue| queue.is_first(ticket)),
            None => self.waiting() == 0,
        }
    }

    /// When the request could go, if that is not in time as far as is known on arrival: a caller that would
    /// wait in vain is refused at once.
    fn exceeded_on_arrival(&self, terms: Terms, deadline: Moment, now: Moment) -> Option<Due> {
        let arrival = self.arrival(terms, self.queued(), now);
        (self.waiting() >= QUEUE_MAX || arrival.at > deadline).then_some(arrival)
    }

    /// Why the wait was in vain: a response that is still open, or the requests that are still before this
    /// one.
    fn past_deadline(&self, terms: Terms, ticket: &Arc<Ticket>, now: Moment) -> Due {
        let before = self.queue().map(|queue| queue.delays_before(ticket)).unwrap_or_default();
        let due = self.arrival(terms, before, now);
        // An open response is the reason also for those further back, if it has been open for longer than a
        // delay.
        let since = self.open_since();
        match due.why {
            WaitReason::Delay(_) if self.is_full(terms) && now.since(since) > terms.delay => {
                Due { why: WaitReason::InFlight(since), ..due }
            }
            _ => due,
        }
    }

    fn join(&mut self, request: &Request<'_>) -> Arc<Ticket> {
        let ticket = Arc::<Ticket>::default();
        let queue = self.busy_mut().queue.get_or_insert_default();
        queue.limit = request.terms.limit;
        queue.push(Waiter {
            deadline: request.deadline,
            delay: request.terms.delay,
            // A Crawl-delay that changes is found by it.
            origin: Origin::of(request.url).ok(),
            ticket: Arc::clone(&ticket),
        });
        ticket
    }

    fn grant(
        &mut self,
        terms: Terms,
        request: &Request<'_>,
        place: &mut QueuePlace,
        now: Moment,
        effects: &mut Effects,
    ) {
        if let Some((queue, ticket)) = self.queue_mut().zip(place.ticket.take()) {
            queue.remove(&ticket);
        }
        if let Some(lease) = place.lease.as_ref().and_then(|signals| self.lease_of(signals)) {
            lease.begin(request.purpose.beside().is_some(), now);
        }
        match request.purpose.beside() {
            Some(site_delay) => self.start_beside(site_delay, now),
            None => self.start(terms, now),
        }
        self.waited(now.since(request.arrived));
        // Where several may be in flight, the next need not wait for this one.
        if !self.is_full(terms) {
            effects.wakers.extend(self.first().cloned());
        }
    }

    pub(crate) fn is_full(&self, terms: Terms) -> bool {
        self.in_flight >= terms.limit
    }

    /// The start of the request that is first in the queue, as if nothing else were in flight. It may have
    /// passed.
    pub(crate) fn due(&self, terms: Terms) -> Due {
        self.due_from(self.anchor, terms)
    }

    /// No request waits, and one could start this instant.
    pub(crate) fn is_free(&self, terms: Terms, now: Moment) -> bool {
        self.waiting() == 0 && !self.is_full(terms) && self.due(terms).at <= now
    }

    /// The earliest conceivable start of a request that arrives at `now`, behind waiters whose delays add up
    /// to `queued`: what is in flight would have to end this instant, and every other response be
    /// instantaneous.
    pub(crate) fn arrival(&self, terms: Terms, queued: Duration, now: Moment) -> Due {
        let full = self.is_full(terms);
        // What the anchor leaves out started after it.
        let counts_from_its_end = full && self.open_since() <= self.anchor;
        let mut start = self.due_from(if counts_from_its_end { now } else { self.anchor }, terms);
        if full && queued.is_zero() && matches!(start.why, WaitReason::Delay(_)) {
            start.why = WaitReason::InFlight(self.open_since());
        }
        Due { at: start.at.max(now).plus(queued), why: start.why }
    }

    fn due_from(&self, anchor: Moment, terms: Terms) -> Due {
        let delay = Due { at: anchor.plus(terms.delay), why: WaitReason::Delay(terms.delay) };
        // Most hosts have neither a backoff nor a breaker, and then there is nothing to compare.
        let Some(busy) = self.busy.as_deref() else { return delay };
        let backoff = Due { at: busy.feedback.backoff.until, why: WaitReason::Backoff };
        let pause = Due { at: busy.feedback.breaker.until, why: WaitReason::Breaker };
        let hold = Due { at: busy.feedback.refusals.until, why: WaitReason::Refusing };
        let quota = Due { at: busy.feedback.quota, why: WaitReason::RateLimit };
        let file = Due { at: busy.after_file, why: WaitReason::Delay(terms.delay) };
        delay.later(backoff).later(pause).later(hold).later(quota).later(file)
    }

    /// Since when the oldest request is in flight. Never: none is.
    pub(crate) fn open_since(&self) -> Moment {
        if self.in_flight == 0 {
            return Moment::NEVER;
        }
        // With one in flight the anchor is its start, unless it is in the list: nothing else can have moved
        // it.
        self.busy.as_deref().and_then(|busy| busy.open.iter().copied().min()).unwrap_or(self.anchor)
    }

    /// The terms as they are now: a slow site's delay is longer, and a host that could not be reached, or
    /// refused us, is probed by one request.
    pub(crate) fn terms(&self, asked: Terms) -> Terms {
        let Some(busy) = self.busy.as_deref() else { return asked };
        let is_probed = !busy.feedback.breaker.is_closed() || busy.feedback.refusals.was_held();
        let limit = if is_probed { 1 } else { asked.limit };
        Terms { limit, ..asked }.at_least(millis(busy.feedback.adaptive_millis))
    }

    /// A request starts, on terms that were made here.
    fn start(&mut self, terms: Terms, now: Moment) {
        self.anchor = self.anchor.max(now);
        self.in_flight = self.in_flight.saturating_add(1);
        self.delay_millis = whole_millis(terms.delay);
        self.counts.requests = self.counts.requests.saturating_add(1);
        // Once the list is in use it is kept until nothing is in flight, so that it is complete.
        if terms.limit > 1 || self.in_flight > 1 {
            self.busy_mut().open.push(now);
        }
    }

    /// A request for a file starts that the anchor leaves out, because the site's delay is too long for the
    /// file: pages count on as before.
    fn start_beside(&mut self, site_delay: Duration, now: Moment) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.counts.requests = self.counts.requests.saturating_add(1);
        self.will_ask(site_delay);
        self.busy_mut().open.push(now);
    }

    /// Its response has ended: the next request keeps `delay`, which is our own, behind it.
    pub(crate) fn end_beside(&mut self, started: Moment, delay: Duration, now: Moment) {
        self.leave_flight(started);
        let busy = self.busy_mut();
        busy.after_file = busy.after_file.max(now.plus(delay));
    }

    pub(crate) fn end(&mut self, started: Moment, now: Moment) {
        self.leave_flight(started);
        self.anchor = self.anchor.max(now);
    }

    /// The request was not sent: as if it had never been granted.
    pub(crate) fn give_back(&mut self, started: Moment, anchor_before: Moment) {
        self.leave_flight(started);
        // The delay counts from what was really sent before, unless another request has started since, whose
        // start counts.
        if self.anchor == started {
            self.anchor = anchor_before;
        }
        self.counts.requests = self.counts.requests.saturating_sub(1);
    }

    fn leave_flight(&mut self, started: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(busy) = self.busy.as_deref_mut() else { return };
        if let Some(index) = busy.open.iter().position(|open| *open == started) {
            busy.open.swap_remove(index);
        }
        if self.in_flight == 0 {
            busy.open.clear();
        }
    }

    fn waited(&mut self, waited: Duration) {
        let waited = whole_millis(waited);
        self.counts.waited_millis = self.counts.waited_millis.saturating_add(waited);
        self.counts.longest_millis = self.counts.longest_millis.max(waited);
    }

    pub(crate) fn feedback(&self) -> Feedback {
        self.busy.as_deref().map(|busy| busy.feedback).unwrap_or_default()
    }

    /// There has been a backoff or a fault, or responses are timed.
    pub(crate) fn has_feedback(&self) -> bool {
        self.busy.as_deref().is_some_and(|busy| busy.feedback != Feedback::default())
    }

    /// Has those that wait look at it, if it has changed. Returns whether it has.
    pub(crate) fn set_feedback(&mut self, feedback: Feedback, now: Moment, wakers: &mut Wakers) -> bool {
        let before = self.feedback();
        if feedback == before {
            return false;
        }
        if before.backoff.until <= now && now < feedback.backoff.until {
            self.counts.backoffs = self.counts.backoffs.saturating_add(1);
        }
        self.busy_mut().feedback = feedback;
        self.changed(now, wakers);
        true
    }

    /// When a deferred caller had best come back that could go at `earliest` if it were alone: a delay behind
    /// those that were deferred before it. One that asks for its URL again is the same caller, whose time
    /// stays, or it would move those of the others.
    pub(crate) fn come_back(&mut self, url: u64, earliest: Moment, delay: Duration) -> Moment {
        let delay = self.terms(Terms { delay, limit: 1 }).delay;
        let deferred = &mut self.busy_mut().deferred;
        let last = deferred.last().map_or(Moment::NEVER, |(at, _)| *at);
        deferred.retain(|(at, _)| *at >= earliest);
        if let Some((at, _)) = deferred.iter().find(|(_, of)| *of == url) {
            return *at;
        }
        let at = last.plus(delay).clamp(earliest, earliest.plus(LEAD_MAX.max(delay)));
        deferred.truncate(QUEUE_MAX);
        deferred.push((at, url));
        at
    }

    fn queue(&self) -> Option<&Queue> {
        self.busy.as_deref()?.queue.as_deref()
    }

    fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.busy.as_deref_mut()?.queue.as_deref_mut()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue().map_or(0, Queue::len)
    }

    pub(crate) fn first(&self) -> Option<&Arc<Ticket>> {
        self.queue().and_then(Queue::first)
    }

    /// The delays of all that wait.
    pub(crate) fn queued(&self) -> Duration {
        self.queue().map(|queue| queue.delays).unwrap_or_default()
    }

    /// A request goes away without a permit.
    pub(crate) fn leave(&mut self, place: &mut QueuePlace, effects: &mut Effects) {
        if let Some((queue, ticket)) = self.queue_mut().zip(place.ticket.take()) {
            queue.leave(&ticket, &mut effects.wakers);
        }
        if let Some(signals) = place.lease.take() {
            self.lease_of(&signals).into_iter().for_each(Lease::leave);
            effects.news.push(signals);
        }
    }

    /// A request that was sent under the lease has ended, and does not need it any more.
    pub(crate) fn end_under(&mut self, signals: &Arc<LeaseSignals>, is_beside: bool, now: Moment) {
        if let Some(lease) = self.lease_of(signals) {
            lease.end(is_beside, now);
            lease.leave();
        }
    }

    pub(crate) fn change_crawl_delay(
        &mut self,
        origin: &Origin,
        delay: Duration,
        now: Moment,
        wakers: &mut Wakers,
    ) {
        if let Some(queue) = self.queue_mut() {
            queue.change_delay(origin, delay);
        }
        self.will_ask(delay);
        self.changed(now, wakers);
    }

    /// Something has changed: refuses those whose permit cannot come in time any more, and wakes the first of
    /// the others.
    pub(crate) fn changed(&mut self, now: Moment, wakers: &mut Wakers) {
        // Taken out, so that the rest can be looked at meanwhile.
        let Some(busy) = self.busy.as_deref_mut() else { return };
        let Some(mut queue) = busy.queue.take() else { return };
        let terms = self.terms(Terms { delay: Duration::ZERO, limit: queue.limit });
        let first = |delay| self.arrival(terms.at_least(delay), Duration::ZERO, now);
        queue.drop_unpolled(now, wakers);
        queue.drop_exceeded(now, first, wakers);
        wakers.extend(queue.first().cloned());
        self.busy_mut().queue = Some(queue);
    }

    pub(crate) fn tidy(&mut self, now: Moment) {
        let Some(busy) = self.busy.as_deref_mut() else { return };
        busy.queue.take_if(|queue| queue.len() == 0);
        let is_deferred = busy.deferred.last().is_some_and(|(at, _)| *at > now);
        let plain = busy.queue.is_none() && !is_deferred && self.in_flight == 0;
        if plain && busy.after_file <= now && busy.feedback.is_over(now) {
            self.busy = None;
        }
    }

    /// Nothing is in flight or waited for, its delay and backoff have passed, its throttles are forgiven, its
    /// breaker is closed and its hold over.
    pub(crate) fn owes_nothing(&self, delay: Duration, now: Moment) -> bool {
        let delay = delay.max(self.last_delay());
        self.in_flight == 0
            && self.waiting() == 0
            && self.lease.is_none()
            && self.anchor.plus(delay) <= now
            && self.busy.as_deref().is_none_or(|busy| busy.after_file <= now)
            && self.feedback().owes_nothing(now)
    }

    pub(crate) fn last_delay(&self) -> Duration {
        millis(self.delay_millis)
    }

    pub(crate) fn will_ask(&mut self, delay: Duration) {
        self.delay_millis = self.delay_millis.max(whole_millis(delay));
    }

    fn busy_mut(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

pub(crate) fn whole_millis(span: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second as at;

    fn named(name: &str) -> PacedHost {
        PacedHost::new(name.into())
    }

    fn terms(delay: u64, limit: u16) -> Terms {
        Terms { delay: Duration::from_secs(delay), limit }
    }

    /// What a request that arrives does at `now`, with so many seconds of patience.
    fn arrives(host: &mut PacedHost, store: Option<&StoreView<'_>>, now: u64, patience: u64) -> Step {
        let (url, terms) = ("http://a.example/".parse().unwrap(), terms(5, 1));
        let (arrived, deadline) = (at(now), at(now + patience));
        let request = Request { url: &url, terms, arrived, deadline, purpose: Purpose::Page };
        host.step(&request, &mut QueuePlace::default(), store, at(now), &mut Effects::default())
    }

    #[test]
    fn an_arrival_goes_waits_or_is_deferred() {
        let mut host = named("a.example");
        assert!(matches!(arrives(&mut host, None, 10, 0), Step::Go(_)));
        let open = arrives(&mut host, None, 12, 0);
        assert!(matches!(open, Step::Defer(Due { why: WaitReason::InFlight(since), .. }) if since == at(10)));
        host.end(at(10), at(20));
        assert!(matches!(arrives(&mut host, None, 21, 3), Step::Defer(due) if due.at == at(25)));
        assert!(matches!(arrives(&mut host, None, 21, 4), Step::Wait(until) if until == at(25)));
        // That one has its place, so the next is a delay behind it.
        assert!(matches!(arrives(&mut host, None, 21, 8), Step::Defer(due) if due.at == at(30)));
        assert!(
            matches!(arrives(&mut host, None, 26, 9), Step::Wait(until) if until == at(35)),
            "not before it"
        );
    }

    #[test]
    fn a_host_that_is_not_leased_is_one_more_reason_to_wait() {
        let policy = crate::pacing::PacePolicy::default();
        let store = StoreView { options: &policy.shared, outage: StoreOutage::default(), unit: 0.0 };
        let mut host = named("a.example");
        assert!(matches!(arrives(&mut host, Some(&store), 10, 9), Step::Wait(until) if until == at(19)));
        let mut host = named("a.example");
        let deferred = arrives(&mut host, Some(&store), 10, 0);
        assert!(matches!(deferred, Step::Defer(Due { why: WaitReason::OtherProcess, .. })), "{deferred:?}");
        host.lease_mut().unwrap().leased(false, &policy.shared, at(10), at(10));
        assert!(matches!(arrives(&mut host, Some(&store), 11, 0), Step::Go(_)));
    }

    #[test]
    fn one_request_at_a_time_needs_no_list() {
        let mut host = named("a.example");
        host.start(terms(1, 1), at(1));
        assert!(host.busy.is_none());
        assert_eq!(host.open_since(), at(1));
        host.end(at(1), at(3));
        assert_eq!((host.open_since(), host.anchor), (Moment::NEVER, at(3)), "nothing is open");
    }

    #[test]
    fn deferred_callers_come_back_a_delay_apart_within_a_day() {
        let mut host = named("a.example");
        let delay = Duration::from_secs(36_000);
        let callers = [(1, 10), (2, 10), (3, 10), (1, 10), (5, 50)];
        let times = callers.map(|(url, earliest)| host.come_back(url, at(earliest), delay));
        assert_eq!(times, [10, 36_010, 36_010, 10, 36_050].map(at));
        assert_eq!(host.come_back(1, at(200_000), delay), at(200_000), "those before are past");
    }

    #[test]
    fn what_is_not_needed_any_more_is_put_away_and_nothing_else() {
        let mut host = named("a.example");
        host.busy_mut().queue.get_or_insert_default();
        host.tidy(at(1));
        assert!(host.busy.is_none(), "an empty queue");
        let mut feedback = Feedback::default();
        (feedback.backoff.began, feedback.backoff.until, feedback.backoff.throttles) = (at(1), at(60), 1);
        host.set_feedback(feedback, at(1), &mut Wakers::new());
        host.tidy(at(60 + 30 * 60 - 1));
        assert!(host.busy.is_some(), "its throttles are not forgiven yet");
        host.tidy(at(60 + 30 * 60));
        assert!(host.busy.is_none());
        assert_eq!(host.come_back(1, at(5_000), Duration::from_secs(1)), at(5_000));
        host.tidy(at(4_999));
        let next = host.come_back(2, at(5_000), Duration::from_secs(1));
        assert_eq!(next, at(5_001), "another was deferred before");
        host.tidy(at(5_001));
        assert!(host.busy.is_none());
        host.busy_mut().feedback.adapt(Duration::from_secs(1), true);
        host.tidy(at(9_999));
        assert!(host.busy.is_some(), "its adaptive delay counts on");
        let mut host = named("b.example");
        host.start(terms(1, 2), at(1));
        host.start(terms(1, 2), at(2));
        host.tidy(at(9_999));
        assert_eq!(host.open_since(), at(1), "the list of what is open");
    }

    #[test]
    fn an_arrival_waits_for_all_before_it() {
        let idle = || PacedHost { anchor: at(10), ..named("a.example") };
        let open = || PacedHost { in_flight: 1, ..idle() };
        let troubled = |pause| {
            let mut host = idle();
            let feedback = &mut host.busy_mut().feedback;
            (feedback.backoff.until, feedback.breaker.until) = (at(100), at(pause));
            host
        };
        let delay = WaitReason::Delay(Duration::from_secs(5));
        for (host, queued, now, start, why) in [
            (idle(), 20, 11, 35, delay),
            (idle(), 0, 100, 100, delay),
            // An open response could end now at the earliest.
            (open(), 0, 40, 45, WaitReason::InFlight(at(10))),
            (open(), 5, 40, 50, delay),
            // After a backoff the queue goes out one by one.
            (troubled(0), 10, 11, 110, WaitReason::Backoff),
            (troubled(101), 10, 11, 111, WaitReason::Breaker),
        ] {
            let arrival = host.arrival(terms(5, 1), Duration::from_secs(queued), at(now));
            assert_eq!(arrival, Due { at: at(start), why }, "{host:?}");
        }
    }
}
