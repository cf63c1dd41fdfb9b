//! A turn that was taken here is taken in the shared store as well.
//!
//! Whatever the store says or fails to say, the process keeps its own promise: the local turn is held all the while.
//! If the store does not answer, the local limits go on, with a gap as many times as long as there are processes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep_until;

use super::core::Core;
use super::moment::Moment;
use super::permit::Permit;
use super::queue::Late;
use super::refusal::Refusal;
use super::schedule::{Start, Why};
use super::shared::{Lease, SharedStore};
use super::store::{Busy, LeaseAsk, LeaseId, Reply, ScopeAsk, StoreError};
use super::turn::{self, Claims, Request};
use crate::{Clock, SystemClock};

/// One request on its way through the store. Dropping it gives back what it has.
pub(crate) struct Confirmation<'a> {
    store: &'a SharedStore,
    core: Arc<Core>,
    request: &'a Request<'a>,
    permit: Permit,
    /// Sorted by key, as stores want them.
    scopes: Arc<[ScopeAsk]>,
    /// Since when it has been waiting for another process.
    busy_since: Option<Moment>,
}

/// What comes next.
enum Step {
    /// With this lease, and the strikes that the store knows.
    Go(Option<Lease>, u8),
    /// Not before then, because of this scope.
    Until(Start, u8),
    /// Another process has a request in flight: ask again after a while, and not within this time.
    Poll(Duration),
    /// Something has changed: look again.
    Again,
}

/// Who waits looks at least this often whether the host has come to be held.
const SLICE: Duration = Duration::from_millis(250);

/// A clock that lags behind tokio's is asked again after this.
const TICK: Duration = Duration::from_micros(100);

/// Bounds of the time between two questions to a store that is busy.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// So long before its start a grant is confirmed, so that the question and its answer are not added to the gap.
const LEAD: Duration = Duration::from_millis(25);

/// And once more, if it is not on its way this long after that: a shared store counts on a tenth of a second, should it lose its data in
/// between.
const FRESH: Duration = Duration::from_millis(50);

impl<'a> Confirmation<'a> {
    pub(crate) fn new(store: &'a SharedStore, request: &'a Request<'a>, permit: Permit) -> Self {
        let scopes = scopes(request, permit.claims());
        Self { store, core: Arc::clone(permit.core()), request, permit, scopes, busy_since: None }
    }

    /// Takes the turn in the store.
    pub(crate) async fn run(mut self) -> Result<Permit, Refusal> {
        loop {
            let now = self.core.now()?;
            let step = match self.blocked(now) {
                Some((start, scope)) => Step::Until(start, scope),
                None => self.ask(now).await?,
            };
            let now = self.core.now()?;
            match step {
                Step::Go(lease, strikes) if self.blocked(now).is_none() => {
                    return Ok(self.permit.send_later(lease, strikes, now));
                }
                Step::Go(..) | Step::Again => {}
                Step::Until(start, scope) => self.wait(start, scope, now).await?,
                Step::Poll(wait) => self.poll(wait, now).await?,
            }
        }
    }

    /// A hold or a pause that has begun since the local turn was taken.
    fn blocked(&self, now: Moment) -> Option<(Start, u8)> {
        let (mut last, mut scope) = (Start { at: now, why: Why::Hold }, 0..);
        let mut which = None;
        turn::each(self.core.table(), self.permit.claims(), |slot, _| {
            let (view, number) = (slot.view(), scope.next());
            let hold = Start { at: view.hold, why: Why::Hold };
            let start = hold.later(Start { at: view.pause, why: Why::Pause });
            if start.at > last.at {
                (last, which) = (start, number);
            }
        });
        Some((last, which?))
    }

    /// Asks the store, unless it is known to be down.
    async fn ask(&self, now: Moment) -> Result<Step, Refusal> {
        if let Some(reason) = self.store.outage(now) {
            return self.without(&reason, now);
        }
        let max_wait = self.request.patience.since(now);
        let ask = LeaseAsk { lease: LeaseId::random(), max_wait, ttl: self.store.options().lease };
        let reply = self.store.reserve(Arc::clone(&self.scopes), ask).await;
        let now = self.core.now()?;
        match reply {
            Err(error) => {
                let reason = self.store.went_down(&self.core, &error, now);
                self.without(&reason, now)
            }
            Ok((Reply::Granted { wait, strikes }, lease)) => {
                let back = self.store.came_up(&self.core, now);
                // Nobody knows what the others did while the store was away: each host waits one full gap after that.
                let gap = self.scopes.iter().map(|ask| ask.gap).max().unwrap_or_default();
                let start = Start { at: now.plus(wait).max(back.plus(gap)), why: Why::Gap(gap) };
                self.granted(start, strikes, lease, now).await
            }
            Ok((Reply::Refused { scope, wait, reason }, _)) => {
                self.store.came_up(&self.core, now);
                Ok(self.refused(scope, wait, reason, now))
            }
        }
    }

    /// Waits for the start that the store granted, and goes, unless a hold has begun meanwhile, here or in another process.
    async fn granted(&self, start: Start, strikes: u8, lease: Lease, now: Moment) -> Result<Step, Refusal> {
        if start.at > self.request.patience {
            return Ok(Step::Until(start, 0));
        }
        if start.at <= now {
            return Ok(Step::Go(Some(lease), strikes));
        }
        let (mut now, mut confirmed) = (now, Moment::NEVER);
        loop {
            if self.blocked(now).is_some() {
                return Ok(Step::Again);
            }
            let left = start.at.since(now);
            if left > LEAD {
                self.sleep(now.plus(left - LEAD), now).await;
            } else if now > confirmed.plus(FRESH) {
                // Late, since a store that has forgotten the lease may have given the turn to somebody else.
                match self.store.confirm(&self.scopes, &lease, left).await {
                    Ok(true) => confirmed = self.core.now_or_system(),
                    Ok(false) => return Ok(Step::Again),
                    Err(error) => return self.unconfirmed(&error, start, strikes, lease).await,
                }
            } else if now < start.at {
                self.sleep(start.at, now).await;
            } else {
                return Ok(Step::Go(Some(lease), strikes));
            }
            now = self.core.now_or_system();
        }
    }

    /// The store does not say whether the grant still counts. It may have the lease all the same, and is told when the response has
    /// ended.
    async fn unconfirmed(
        &self,
        error: &StoreError,
        start: Start,
        strikes: u8,
        lease: Lease,
    ) -> Result<Step, Refusal> {
        let mut now = self.core.now()?;
        let reason = self.store.went_down(&self.core, error, now);
        while now < start.at {
            self.sleep(start.at, now).await;
            now = self.core.now()?;
        }
        Ok(match self.without(&reason, now)? {
            Step::Go(..) => Step::Go(Some(lease), strikes),
            later => later,
        })
    }

    fn refused(&self, place: usize, wait: Duration, reason: Busy, now: Moment) -> Step {
        let (at, ask) = (now.plus(wait), self.scopes.get(place));
        let scope = ask.map_or(0, |ask| self.request.scope(ask.key.as_str()));
        let gap = ask.map_or(wait, |ask| ask.gap);
        match reason {
            // It has not even started; and then its gap comes.
            Busy::InFlight if !wait.is_zero() && at.plus(gap) > self.request.patience => {
                Step::Until(Start { at: at.plus(gap), why: Why::Gap(gap) }, scope)
            }
            Busy::InFlight => Step::Poll(wait),
            Busy::Gap => Step::Until(Start { at, why: Why::Gap(gap) }, scope),
            Busy::Hold { cause, strikes } => {
                self.core.learn_hold(self.request.key(scope), at, strikes, cause, now);
                Step::Until(Start { at, why: Why::Hold }, scope)
            }
        }
    }

    /// The turn without the store, if the policy allows it.
    fn without(&self, reason: &str, now: Moment) -> Result<Step, Refusal> {
        match self.store.options().fail_closed {
            true => Err(Refusal::Store { reason: reason.into() }),
            false => Ok(self.alone(now)),
        }
    }

    /// Local limits: the gap is as many times as long as there are processes.
    fn alone(&self, now: Moment) -> Step {
        let workers = self.store.options().expected_workers;
        let starts = (0..).zip(self.permit.claims().iter()).map(|(scope, claim)| {
            let gap = claim.gap.saturating_mul(workers);
            (Start { at: claim.before.plus(gap), why: Why::Gap(gap) }, scope)
        });
        match starts.max_by_key(|(start, _)| start.at) {
            Some((start, scope)) if start.at > now => Step::Until(start, scope),
            _ => Step::Go(None, 0),
        }
    }

    /// Waits for a slice of the time until then; or says no at once, if that is too late.
    async fn wait(&self, start: Start, scope: u8, now: Moment) -> Result<(), Refusal> {
        if start.at > self.request.patience {
            return Err(self.core.defer(self.request, Late { start, scope }, now));
        }
        self.sleep(start.at, now).await;
        Ok(())
    }

    /// Waits for a quarter of the gap, within bounds; and not before the request in flight has started, as far as that is known. With
    /// jitter, so that processes do not ask in step and none is always the first. The end of a response is noticed within its gap, so
    /// nothing is lost by asking no sooner.
    async fn poll(&mut self, wait: Duration, now: Moment) -> Result<(), Refusal> {
        let (since, gap) = (*self.busy_since.get_or_insert(now), self.request.host.gap);
        let (step, chance) = ((gap / 4).clamp(POLL.0, POLL.1), self.core.chance.unit());
        let step = match wait {
            Duration::ZERO => step.mul_f64(1.0 + 0.2 * chance),
            _ => step.max(wait.min(POLL.1) + step.mul_f64(chance)),
        };
        if now.plus(step) > self.request.patience {
            let late = Late { start: Start { at: now.plus(gap), why: Why::InFlight(since) }, scope: 0 };
            return Err(self.core.defer(self.request, late.not_at_once(now), now));
        }
        sleep_until(self.core.timeline.instant(now.plus(step))).await;
        Ok(())
    }

    async fn sleep(&self, until: Moment, now: Moment) {
        let until = self.core.timeline.instant(until.min(now.plus(SLICE)));
        sleep_until(until.max(SystemClock.now() + TICK)).await;
    }
}

fn scopes(request: &Request<'_>, claims: &Claims) -> Arc<[ScopeAsk]> {
    let asks = (0..).zip(claims.iter());
    let asks = asks.map(|(scope, claim)| ScopeAsk::new(request.key(scope).into(), claim.gap, claim.limit));
    let mut asks: Vec<ScopeAsk> = asks.collect();
    asks.sort_by(|a, b| a.key.cmp(&b.key));
    asks.into()
}
