//! Acquiring a permit, and ending it: the steps, each under the locks of all scopes of the request.
//!
//! A request `enter`s: it gets its permit at once, a place in the queue of each of its scopes, or the answer that the permit cannot come
//! before its deadline. One in a queue `look`s again when it is woken, and may leave. A permit ends with the response, or is given back.
//!
//! A request takes all its scopes or none. Tickets are drawn under the locks, so any two requests have the same order in every queue that both
//! are in. The one with the lowest ticket is first in all its queues, so scopes cannot wait for each other in a circle.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;
use url::Url;

use super::leases::Leases;
use super::pacer::{Pacer, Permit};
use super::queue::{DeadlineExceeded, QUEUE_MAX, Queue, Waiter, WaiterNotify};
use super::schedule::{Schedule, Start, Terms, WaitReason};
use super::table::{Effects, Locked, ScheduleId, Table};
use crate::clock::{Moment, has_timers};
use crate::denied::Refusal;
use crate::{DeniedKind, Origin};

#[derive(Debug)]
pub(crate) struct ScopeRequest<'u> {
    pub(crate) key: Cow<'u, str>,
    pub(crate) terms: Terms,
    /// Whether Crawl-delay, backoffs and the breaker belong to it.
    pub(crate) feedback: bool,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Page,
    /// robots.txt or tdmrep.json.
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

/// All scopes of a request: the host, and what the policy adds.
#[derive(Debug)]
pub(crate) struct Request<'u> {
    pub(crate) url: &'u Url,
    pub(crate) host: ScopeRequest<'u>,
    pub(crate) others: Vec<ScopeRequest<'u>>,
    pub(crate) deadline: Moment,
    pub(crate) purpose: Purpose,
}

impl<'u> Request<'u> {
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &ScopeRequest<'u>> {
        std::iter::once(&self.host).chain(&self.others)
    }

    /// One of the scopes, numbered from the host on.
    pub(crate) fn scope(&self, number: u8) -> &ScopeRequest<'u> {
        self.scopes().nth(number.into()).unwrap_or(&self.host)
    }
}

/// One scope of a request, found in the table. A permit keeps it, so that it ends without looking up names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) schedule: ScheduleId,
    pub(crate) terms: Terms,
    pub(crate) feedback: bool,
    /// The anchor before the grant: for giving it back, and for a longer delay.
    pub(crate) before: Moment,
}

impl Claim {
    fn find<'l>(&self, locked: &'l mut Locked<'_>) -> Option<(&'l mut Schedule, Terms)> {
        let schedule = locked.schedule(self.schedule)?;
        let terms = schedule.terms(self.terms);
        Some((schedule, terms))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Claims {
    pub(crate) host: Claim,
    pub(crate) others: Box<[Claim]>,
    /// [`Purpose::beside`].
    pub(crate) beside: Option<Duration>,
}

impl Claims {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Claim> {
        std::iter::once(&self.host).chain(&self.others)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Claim> {
        std::iter::once(&mut self.host).chain(&mut self.others)
    }

    /// The claims with the numbers of their scopes, the host last.
    pub(crate) fn widest_first(&self) -> impl Iterator<Item = (u8, &Claim)> {
        (1..=u8::MAX).zip(&self.others).rev().chain([(0, &self.host)])
    }

    pub(crate) fn lock<'t>(&self, table: &'t Table) -> Locked<'t> {
        table.lock_shards(self.host.schedule.shard, self.others.iter().map(|claim| claim.schedule.shard))
    }
}

/// The place in each queue: its ticket, and how its waiter is woken.
type Place = (u64, Arc<WaiterNotify>);

/// Takes the permit, or a place in each queue, or neither. A request that needs leases waits for them as queue head.
pub(crate) fn enter(
    table: &Table,
    request: &Request<'_>,
    is_leased: bool,
    now: Moment,
    effects: &mut Effects,
) -> Result<(Claims, Option<Place>), DeadlineExceeded> {
    let shard = |scope: &ScopeRequest<'_>| table.shard_of(&scope.key);
    let host = shard(&request.host);
    let mut locked = table.lock_shards(host, request.others.iter().map(shard));
    locked.clean_sometimes(host, now);
    // Under the locks of all scopes from here to the end: no other request can take one of them meanwhile.
    request.scopes().for_each(|scope| locked.make_room(&scope.key, now, effects));
    let mut claim = |scope: &ScopeRequest<'_>| {
        let (schedule, before) = (locked.find_or_insert(&scope.key), Moment::NEVER);
        Claim { schedule, terms: scope.terms, feedback: scope.feedback, before }
    };
    let (host, others) = (claim(&request.host), request.others.iter().map(claim).collect());
    let mut claims = Claims { host, others, beside: request.purpose.beside() };
    for claim in claims.iter() {
        // A queue head whose task is never polled again would stop its host, so every new request looks for one.
        if let Some(queue) = locked.schedule(claim.schedule).and_then(Schedule::queue_mut) {
            queue.drop_unpolled(now, &mut effects.wakers);
        }
    }
    let mut is_free =
        |claim: &Claim| claim.find(&mut locked).is_some_and(|(schedule, terms)| schedule.is_free(terms, now));
    if !is_leased && claims.iter().all(&mut is_free) {
        grant(&mut locked, &mut claims, None, Duration::ZERO, now, effects);
        return Ok((claims, None));
    }
    in_time(&mut locked, &claims, request.deadline, now)?;
    let (ticket, notify) = (locked.draw_ticket(), Arc::new(WaiterNotify::default()));
    for (scope, claim) in (0..).zip(claims.iter()) {
        let Some(schedule) = locked.schedule(claim.schedule) else { continue };
        let (deadline, delay, notify) = (request.deadline, claim.terms.delay, Arc::clone(&notify));
        // A Crawl-delay that changes is found in the queue of its host.
        let origin = if scope == 0 { Origin::of(request.url).ok() } else { None };
        let waiter = Waiter { ticket, deadline, delay, scope, origin, notify };
        schedule.open_queue(claim.terms.limit).push(waiter);
    }
    Ok((claims, Some((ticket, notify))))
}

/// Whether the permit can come in time, as far as is known on arrival: a caller that would wait in vain is refused at once.
fn in_time(
    locked: &mut Locked<'_>,
    claims: &Claims,
    deadline: Moment,
    now: Moment,
) -> Result<(), DeadlineExceeded> {
    let mut is_full = false;
    let last = last_scope(locked, claims, |schedule, terms| {
        is_full |= schedule.waiting() >= QUEUE_MAX;
        let queued = schedule.queue().map(|queue| queue.delays).unwrap_or_default();
        schedule.arrival(terms, queued, now)
    });
    if is_full || last.start.at > deadline { Err(last) } else { Ok(()) }
}

fn last_scope(
    locked: &mut Locked<'_>,
    claims: &Claims,
    mut start: impl FnMut(&Schedule, Terms) -> Start,
) -> DeadlineExceeded {
    let mut last = DeadlineExceeded {
        start: Start { at: Moment::NEVER, why: WaitReason::Delay(claims.host.terms.delay) },
        scope: 0,
    };
    for (scope, claim) in (0..).zip(claims.iter()) {
        let Some((schedule, terms)) = claim.find(locked) else { continue };
        let start = start(schedule, terms);
        if start.at > last.start.at {
            last = DeadlineExceeded { start, scope };
        }
    }
    last
}

/// Why the wait was in vain: a response that is still open, or the requests that are still before this one.
fn past_deadline(locked: &mut Locked<'_>, claims: &Claims, ticket: u64, now: Moment) -> DeadlineExceeded {
    last_scope(locked, claims, |schedule, terms| {
        let before = schedule.queue().map(|queue| queue.delays_before(ticket)).unwrap_or_default();
        let start = schedule.arrival(terms, before, now);
        // An open response is the reason also for those further back, if it has been open for longer than a delay.
        let since = schedule.open_since();
        let is_slow = schedule.is_full(terms) && now.since(since) > terms.delay;
        match start.why {
            WaitReason::Delay(_) if is_slow => Start { why: WaitReason::InFlight(since), ..start },
            _ => start,
        }
    })
}

fn grant(
    locked: &mut Locked<'_>,
    claims: &mut Claims,
    ticket: Option<u64>,
    waited: Duration,
    now: Moment,
    effects: &mut Effects,
) {
    let beside = claims.beside;
    for claim in claims.iter_mut() {
        let Some((schedule, terms)) = claim.find(locked) else { continue };
        if let Some(ticket) = ticket
            && let Some(queue) = schedule.queue_mut()
        {
            queue.remove(ticket);
        }
        claim.before = schedule.anchor;
        match beside.filter(|_| claim.feedback) {
            Some(site_delay) => schedule.grant_beside(site_delay, now),
            None => schedule.grant(terms, now),
        }
        schedule.waited(waited);
        // Where several may be in flight, the next need not wait for this one.
        if !schedule.is_full(terms) {
            effects.wakers.extend(schedule.queue().and_then(Queue::first).cloned());
        }
    }
}

/// Does something to the schedule of each scope, under all locks.
pub(crate) fn each(table: &Table, claims: &Claims, mut action: impl FnMut(&mut Schedule, &Claim)) {
    let mut locked = claims.lock(table);
    for claim in claims.iter() {
        if let Some(schedule) = locked.schedule(claim.schedule) {
            action(schedule, claim);
        }
    }
}

/// What a waiting request finds.
enum Look {
    Granted,
    /// It is its turn, but for the leases.
    Unleased,
    /// It looks again then, at the latest.
    Until(Moment),
}

/// The place of a request in its queues. Dropping it, as a caller that is cancelled does, leaves all of them and wakes the next.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    pub(crate) pacer: Arc<Pacer>,
    pub(crate) claims: Claims,
    pub(crate) ticket: u64,
    pub(crate) arrived: Moment,
    pub(crate) notify: Arc<WaiterNotify>,
    /// Where processes share a store: the queue head waits for them in its place.
    pub(crate) leases: Option<Leases>,
}

impl QueuePlace {
    /// Waits for the permit. The queue head acquires it itself, so a permit is never granted to a waiter that was cancelled: with the queue
    /// of a semaphore, the last of a hundred waiters, the others of which were cancelled, went in after 14.5 ms of a delay of 20 ms.
    pub(crate) async fn wait(mut self, request: &Request<'_>) -> Result<Permit, Refusal> {
        loop {
            let now = self.pacer.now()?;
            let looked = match self.notify.exceeded.get() {
                Some(exceeded) => Err(*exceeded),
                None => self.look(request, now),
            };
            let until = match looked.map_err(|exceeded| self.pacer.defer(request, exceeded, now))? {
                Look::Granted => {
                    let users = self.leases.take().map(|leases| leases.users.into()).unwrap_or_default();
                    let waited = now.since(self.arrived);
                    return Ok(Permit::new(self.pacer.clone(), self.claims.clone(), now, waited, users));
                }
                Look::Until(until) => until,
                Look::Unleased => {
                    let leases = self.leases.as_mut();
                    let obstacle = leases.and_then(|leases| leases.obstacle(request, &self.claims, now));
                    let Some(exceeded) = obstacle else { continue };
                    if exceeded.start.at > request.deadline {
                        return Err(self.pacer.defer(request, exceeded, now));
                    }
                    exceeded.start.at
                }
            };
            if !has_timers() {
                return Err(DeniedKind::NoTimers.into());
            }
            let _ = timeout_at(self.pacer.timeline.timer(until), self.notify.wake.notified()).await;
        }
    }

    /// Looks whether the request can go, and takes the permit then.
    fn look(&mut self, request: &Request<'_>, now: Moment) -> Result<Look, DeadlineExceeded> {
        let Self { pacer, claims, leases, .. } = self;
        let (ticket, waited) = (self.ticket, now.since(self.arrived));
        pacer.act(|effects| {
            let mut locked = claims.lock(&pacer.table);
            for claim in claims.iter_mut() {
                let Some(schedule) = locked.schedule(claim.schedule) else { continue };
                // The Crawl-delay may have changed while it waited.
                let delay = schedule.queue().and_then(|queue| queue.delay_of(ticket));
                claim.terms.delay = delay.unwrap_or(claim.terms.delay);
                claim.before = schedule.anchor;
            }
            // One that has grown counts in all scopes with feedback.
            let grown = Some(claims.host.terms.delay).filter(|delay| *delay > request.host.terms.delay);
            for group in claims.others.iter_mut().filter(|group| group.feedback) {
                group.terms.delay = group.terms.delay.max(grown.unwrap_or_default());
            }
            // First in every queue, and no host has as many in flight as it may.
            let can_go = claims.iter().all(|claim| {
                claim.find(&mut locked).is_some_and(|(schedule, terms)| {
                    !schedule.is_full(terms) && schedule.queue().is_some_and(|queue| queue.is_first(ticket))
                })
            });
            let last = last_scope(&mut locked, claims, |schedule, terms| schedule.start(terms));
            if can_go && last.start.at <= now {
                // Under the locks, so that no backoff begins between the leases and the grant.
                if leases.as_mut().is_some_and(|leases| !leases.try_begin(request, claims, now)) {
                    return Ok(Look::Unleased);
                }
                grant(&mut locked, claims, Some(ticket), waited, now, effects);
                return Ok(Look::Granted);
            }
            if can_go && last.start.at > request.deadline {
                return Err(last);
            }
            if now >= request.deadline {
                return Err(past_deadline(&mut locked, claims, ticket, now));
            }
            Ok(Look::Until(if can_go { last.start.at } else { request.deadline }))
        })
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        // One that has got its permit is in none of them any more.
        self.pacer.act(|effects| {
            each(&self.pacer.table, &self.claims, |schedule, _| {
                if let Some(queue) = schedule.queue_mut() {
                    queue.leave(self.ticket, &mut effects.wakers);
                }
            });
        });
    }
}
