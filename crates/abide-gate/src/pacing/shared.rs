//! The turn in a shared store, asked for once the local turn has come.
//!
//! Whatever the store says or fails to say, the process keeps its own promise: the local turn is held all the while.
//! If the store does not answer, the local limits go on, with a gap as many times as long as there are processes.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until, timeout};

use super::core::Core;
use super::event::PaceEvent;
use super::feedback::Cause;
use super::moment::Moment;
use super::permit::Permit;
use super::policy::Shared;
use super::queue::Late;
use super::refusal::Refusal;
use super::schedule::{Start, Why};
use super::scope::ScopeKey;
use super::store::{Busy, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, StoreError};
use super::turn::{self, Claims, Request};
use crate::WallMillis;

/// While the store is down it is asked again this often, by one request.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Who waits for the store looks at least this often whether the host has come to be held.
const SLICE: Duration = Duration::from_millis(250);

/// How often a release or a hold is tried; after that the lease ends by itself.
const TRIES: u32 = 3;

/// The shared store, and how it is.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn PaceStore>,
    options: Shared,
    health: Mutex<Health>,
    runtime: OnceLock<Handle>,
}

#[derive(Debug, Default)]
struct Health {
    /// While it is down: when it is asked again, and what it said.
    outage: Option<(Moment, Arc<str>)>,
    /// When it last came back.
    back: Moment,
}

/// A lease in the store. A task keeps it alive until this is ended or dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    end: oneshot::Sender<Ended>,
}

impl Lease {
    pub(crate) fn end(self, is_sent: bool) {
        // If the runtime is gone the task is too, and the lease ends by itself.
        let _ = self.end.send(if is_sent { Ended::Response } else { Ended::Unsent });
    }
}

/// What to do after asking the store.
enum Step {
    Go(Option<Lease>),
    /// The host is not free before then.
    Until(Start, u8),
    /// Somebody else's request is in flight: ask again after a while.
    Poll,
}

impl SharedStore {
    pub(crate) fn new(store: Arc<dyn PaceStore>, options: Shared) -> Self {
        Self { store, options, health: Mutex::default(), runtime: OnceLock::new() }
    }

    /// Takes the turn in the store as well. Dropping this gives both back.
    pub(crate) async fn confirm(&self, permit: Permit, request: &Request<'_>) -> Result<Permit, Refusal> {
        self.runtime.get_or_init(Handle::current);
        let core = Arc::clone(permit.core());
        let scopes = scopes(request, permit.claims());
        let mut busy_since = None;
        loop {
            let now = core.now()?;
            if let Some((start, scope)) = blocked(&core, permit.claims(), now) {
                wait_within(&core, request, start, scope, now).await?;
                continue;
            }
            let step = match self.outage(now) {
                Some(reason) => self.without(&permit, reason, now)?,
                None => self.ask(&core, request, &permit, &scopes, now).await?,
            };
            let now = core.now()?;
            match step {
                Step::Go(lease) if blocked(&core, permit.claims(), now).is_none() => {
                    return Ok(permit.send_later(lease, now));
                }
                Step::Go(_) => {}
                Step::Until(start, scope) => wait_within(&core, request, start, scope, now).await?,
                Step::Poll => {
                    let since = *busy_since.get_or_insert(now);
                    self.poll(&core, request, since, now).await?;
                }
            }
        }
    }

    /// Asks the store for the turn.
    async fn ask(
        &self,
        core: &Arc<Core>,
        request: &Request<'_>,
        permit: &Permit,
        scopes: &Arc<[ScopeAsk]>,
        now: Moment,
    ) -> Result<Step, Refusal> {
        let ask = LeaseAsk {
            lease: core.lease_id(),
            max_wait: request.patience.since(now),
            ttl: self.options.lease,
        };
        match self.reserve(Arc::clone(scopes), ask).await {
            Err(error) => self.went_down(core, permit, &error),
            Ok((reply, lease)) => {
                let now = core.now()?;
                let hold_down = self.came_up(core, now);
                Ok(self.answer(core, request, scopes, (reply, lease), hold_down, now).await)
            }
        }
    }

    async fn answer(
        &self,
        core: &Arc<Core>,
        request: &Request<'_>,
        scopes: &Arc<[ScopeAsk]>,
        (reply, lease): (Reply, Lease),
        back: Moment,
        now: Moment,
    ) -> Step {
        let scope_of = |place: usize| scopes.get(place).map_or(0, |ask| request.scope(ask.key.as_str()));
        match reply {
            Reply::Granted { wait } => {
                let longest = scopes.iter().map(|ask| ask.gap).max().unwrap_or_default();
                let start = now.plus(wait).max(back.plus(longest));
                if start > request.patience {
                    return Step::Until(Start { at: start, why: Why::Gap(longest) }, 0);
                }
                if start > now && self.is_held_meanwhile(core, scopes, start).await {
                    return Step::Poll;
                }
                Step::Go(Some(lease))
            }
            // The wait is the rest of the lease, which is no useful time to come back at.
            Reply::Refused { reason: Busy::InFlight, .. } => Step::Poll,
            Reply::Refused { scope, wait, reason: Busy::Gap } => {
                let gap = scopes.get(scope).map_or(Duration::ZERO, |ask| ask.gap);
                Step::Until(Start { at: now.plus(wait), why: Why::Gap(gap) }, scope_of(scope))
            }
            Reply::Refused { scope, wait, reason: Busy::Hold(cause) } => {
                let key = request.key(scope_of(scope));
                core.extend_hold(key, now.plus(wait), cause, now);
                Step::Until(Start { at: now.plus(wait), why: Why::Hold }, scope_of(scope))
            }
        }
    }

    /// Waits for the start that the store granted, and asks whether another process has set a hold meanwhile.
    async fn is_held_meanwhile(&self, core: &Arc<Core>, scopes: &Arc<[ScopeAsk]>, start: Moment) -> bool {
        sleep_until(core.timeline.instant(start)).await;
        for ask in scopes.iter() {
            let (store, key, limit) = (Arc::clone(&self.store), ask.key.clone(), self.options.timeout);
            // In a task of its own, like every command: a caller who goes leaves no unread answer behind.
            let state = tokio::spawn(async move { timeout(limit, store.peek(&key)).await }).await;
            let state = state.ok().and_then(Result::ok).and_then(Result::ok);
            let held = state.map_or(Duration::ZERO, |state| state.held);
            if !held.is_zero() {
                let now = core.now_or_system();
                core.extend_hold(ask.key.as_str(), now.plus(held), Cause::Shared, now);
                return true;
            }
        }
        false
    }

    /// Asks again after a quarter of the gap, within bounds, with jitter.
    async fn poll(
        &self,
        core: &Arc<Core>,
        request: &Request<'_>,
        since: Moment,
        now: Moment,
    ) -> Result<(), Refusal> {
        let (least, most) = (Duration::from_millis(20), Duration::from_secs(1));
        let step = (request.host.gap / 4).clamp(least, most).mul_f64(1.0 + 0.2 * core.chance.unit());
        if now.plus(step) > request.patience {
            let start = Start { at: now.plus(request.host.gap), why: Why::InFlight(since) };
            return Err(core.defer(request, Late { start, scope: 0 }, now));
        }
        sleep(step).await;
        Ok(())
    }

    /// A task of its own asks, and keeps the lease: a caller who goes leaves neither an unread answer nor a lease behind.
    async fn reserve(&self, scopes: Arc<[ScopeAsk]>, ask: LeaseAsk) -> Result<(Reply, Lease), StoreError> {
        let (tell, told) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        tokio::spawn(keep(Arc::clone(&self.store), scopes, ask, self.options.timeout, tell, ended));
        match told.await {
            Ok(reply) => reply.map(|reply| (reply, Lease { end })),
            Err(_) => Err(StoreError::new("the store panicked, or the runtime is going down")),
        }
    }

    /// Others shall know of a hold too.
    pub(crate) fn share_hold(&self, scope: &str, until: WallMillis, cause: Cause) {
        let Ok(runtime) = Handle::try_current().or_else(|_| self.runtime.get().cloned().ok_or(())) else {
            return;
        };
        let (store, limit, key) = (Arc::clone(&self.store), self.options.timeout, ScopeKey::from(scope));
        runtime.spawn(async move {
            for _ in 0..TRIES {
                match timeout(limit, store.hold(&key, until, cause)).await {
                    Ok(Ok(_)) => return,
                    _ => sleep(ASK_AGAIN).await,
                }
            }
        });
    }

    /// The turn without the store, if the policy allows it.
    fn without(&self, permit: &Permit, reason: Arc<str>, now: Moment) -> Result<Step, Refusal> {
        match self.options.fail_closed {
            true => Err(Refusal::Store { reason: (*reason).into() }),
            false => Ok(self.alone(permit, now)),
        }
    }

    /// Local limits: the gap is as many times as long as there are processes.
    fn alone(&self, permit: &Permit, now: Moment) -> Step {
        let workers = self.options.expected_workers;
        let starts = (0..).zip(permit.claims().iter()).map(|(scope, claim)| {
            let gap = claim.gap.saturating_mul(workers);
            (Start { at: claim.before.plus(gap), why: Why::Gap(gap) }, scope)
        });
        match starts.max_by_key(|(start, _)| start.at) {
            Some((start, scope)) if start.at > now => Step::Until(start, scope),
            _ => Step::Go(None),
        }
    }

    /// What the store said, while it is down and not yet to be asked again.
    fn outage(&self, now: Moment) -> Option<Arc<str>> {
        let mut health = self.health();
        let (again, reason) = health.outage.as_mut()?;
        if now < *again {
            return Some(Arc::clone(reason));
        }
        // One request finds out; until it has, the others go on without.
        *again = now.plus(ASK_AGAIN + self.options.timeout);
        None
    }

    fn went_down(&self, core: &Core, permit: &Permit, error: &StoreError) -> Result<Step, Refusal> {
        let now = core.now()?;
        let reason: Arc<str> = error.to_string().into();
        let before = self.health().outage.replace((now.plus(ASK_AGAIN), Arc::clone(&reason)));
        if before.is_none() {
            core.tell(&PaceEvent::StoreDown { reason: &reason });
        }
        self.without(permit, reason, now)
    }

    /// Returns when it last came back: nobody knows what the others did until then, so each host waits one full gap.
    fn came_up(&self, core: &Core, now: Moment) -> Moment {
        let mut health = self.health();
        if health.outage.take().is_none() {
            return health.back;
        }
        health.back = now;
        drop(health);
        core.tell(&PaceEvent::StoreBack);
        now
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scopes of a request as a store wants them: sorted by key.
fn scopes(request: &Request<'_>, claims: &Claims) -> Arc<[ScopeAsk]> {
    let asks = (0..).zip(claims.iter());
    let asks = asks.map(|(scope, claim)| ScopeAsk::new(request.key(scope).into(), claim.gap, claim.limit));
    let mut asks: Vec<ScopeAsk> = asks.collect();
    asks.sort_by(|a, b| a.key.cmp(&b.key));
    asks.into()
}

/// A hold or a pause that has begun since the local turn was taken.
fn blocked(core: &Core, claims: &Claims, now: Moment) -> Option<(Start, u8)> {
    let mut last = None;
    let mut scope = 0;
    turn::each(core.table(), claims, |slot, _| {
        let view = slot.view();
        let (at, why) =
            if view.pause > view.hold { (view.pause, Why::Pause) } else { (view.hold, Why::Hold) };
        if at > now && last.is_none_or(|(start, _): (Start, u8)| at > start.at) {
            last = Some((Start { at, why }, scope));
        }
        scope += 1;
    });
    last
}

/// Waits, in slices, until then; or says no at once if that is too late.
async fn wait_within(
    core: &Core,
    request: &Request<'_>,
    start: Start,
    scope: u8,
    now: Moment,
) -> Result<(), Refusal> {
    if start.at > request.patience {
        return Err(core.defer(request, Late { start, scope }, now));
    }
    sleep_until(core.timeline.instant(start.at.min(now.plus(SLICE)))).await;
    Ok(())
}

/// Asks for a lease and, once it is there, keeps it alive until its owner ends it or is gone.
async fn keep(
    store: Arc<dyn PaceStore>,
    scopes: Arc<[ScopeAsk]>,
    ask: LeaseAsk,
    limit: Duration,
    tell: oneshot::Sender<Result<Reply, StoreError>>,
    ended: oneshot::Receiver<Ended>,
) {
    let reply = timeout(limit, store.reserve(&scopes, ask)).await;
    let reply = reply.unwrap_or_else(|_| Err(StoreError::new(format_args!("no answer within {limit:?}"))));
    let (is_refused, is_granted) =
        (matches!(reply, Ok(Reply::Refused { .. })), matches!(reply, Ok(Reply::Granted { .. })));
    let is_heard = tell.send(reply).is_ok();
    if is_refused {
        return;
    }
    let how = match is_heard && is_granted {
        true => keep_alive(&*store, &scopes, ask, limit, ended).await,
        // Nobody wants it, or it is not known whether the store has granted it.
        false => Ended::Unsent,
    };
    release(&*store, &scopes, ask.lease, how, limit).await;
}

/// Renews a lease until its owner ends it or is gone.
async fn keep_alive(
    store: &dyn PaceStore,
    scopes: &[ScopeAsk],
    ask: LeaseAsk,
    limit: Duration,
    mut ended: oneshot::Receiver<Ended>,
) -> Ended {
    loop {
        if let Ok(end) = timeout(ask.ttl / 3, &mut ended).await {
            return end.unwrap_or(Ended::Unsent);
        }
        // If it fails the next time may do; if not, the lease ends early, and this process still keeps its own promise.
        drop(timeout(limit, store.renew(scopes, ask.lease, ask.ttl)).await);
    }
}

async fn release(store: &dyn PaceStore, scopes: &[ScopeAsk], lease: LeaseId, how: Ended, limit: Duration) {
    for _ in 0..TRIES {
        match timeout(limit, store.release(scopes, lease, how)).await {
            Ok(Ok(())) => return,
            _ => sleep(ASK_AGAIN).await,
        }
    }
}
