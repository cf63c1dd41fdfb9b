//! The shared store: how it is, and its commands, each in a task of its own.
//!
//! A caller who goes leaves neither an unread answer nor a lease behind.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::core::Core;
use super::event::PaceEvent;
use super::feedback::Cause;
use super::moment::Moment;
use super::policy::Shared;
use super::scope::ScopeKey;
use super::store::{Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, StoreError, StoreFuture};
use crate::WallMillis;

/// The shared store, and how it is.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn PaceStore>,
    options: Shared,
    health: Mutex<Health>,
    /// Where holds are shared from, if an answer is observed outside a runtime.
    runtime: OnceLock<Handle>,
    tasks: Tasks,
}

/// How many tasks still have something to tell the store: one for each lease, and one for each hold.
#[derive(Clone, Debug)]
struct Tasks {
    running: watch::Sender<usize>,
}

/// A task is running, until this is dropped.
struct Running {
    tasks: Tasks,
}

impl Tasks {
    fn enter(&self) -> Running {
        self.running.send_modify(|running| *running += 1);
        Running { tasks: self.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.running.send_modify(|running| *running -= 1);
    }
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
    id: LeaseId,
    end: oneshot::Sender<Ended>,
}

impl Lease {
    pub(crate) fn end(self, is_sent: bool) {
        // If the runtime is gone the task is too, and the lease ends by itself.
        let _ = self.end.send(if is_sent { Ended::Response } else { Ended::Unsent });
    }
}

/// While the store is down it is asked again this often, by one request.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often a release or a hold is tried; after that the lease ends by itself.
const TRIES: u32 = 3;

impl SharedStore {
    pub(crate) fn new(store: Arc<dyn PaceStore>, options: Shared) -> Self {
        let tasks = Tasks { running: watch::Sender::new(0) };
        Self { store, options, health: Mutex::default(), runtime: OnceLock::new(), tasks }
    }

    pub(crate) fn options(&self) -> &Shared {
        &self.options
    }

    /// Asks for a lease, and keeps it.
    pub(crate) async fn reserve(
        &self,
        scopes: Arc<[ScopeAsk]>,
        ask: LeaseAsk,
    ) -> Result<(Reply, Lease), StoreError> {
        self.runtime.get_or_init(Handle::current);
        let (tell, told) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (running, kept) = (
            self.tasks.enter(),
            keep(Arc::clone(&self.store), scopes, ask, self.options.timeout, tell, ended),
        );
        tokio::spawn(async move {
            let _running = running;
            kept.await;
        });
        match told.await {
            Ok(reply) => reply.map(|reply| (reply, Lease { id: ask.lease, end })),
            Err(_) => Err(interrupted()),
        }
    }

    /// What is left of the hold of a scope.
    pub(crate) async fn held(&self, scope: &ScopeKey) -> Result<Duration, StoreError> {
        let (store, scope, limit) = (Arc::clone(&self.store), scope.clone(), self.options.timeout);
        let state = tokio::spawn(async move { answer(limit, store.peek(&scope)).await }).await;
        Ok(state.unwrap_or_else(|_| Err(interrupted()))?.held)
    }

    /// Whether the store still has a lease that was waited for.
    pub(crate) async fn confirm(&self, scopes: &Arc<[ScopeAsk]>, lease: &Lease) -> Result<bool, StoreError> {
        let (store, scopes, limit) = (Arc::clone(&self.store), Arc::clone(scopes), self.options.timeout);
        let id = lease.id;
        let confirmed = tokio::spawn(async move { answer(limit, store.confirm(&scopes, id)).await }).await;
        confirmed.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Others shall know of a hold too.
    pub(crate) fn share_hold(&self, scope: &str, until: WallMillis, cause: Cause) {
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else {
            return;
        };
        let (store, limit, key) = (Arc::clone(&self.store), self.options.timeout, ScopeKey::from(scope));
        let running = self.tasks.enter();
        runtime.spawn(async move {
            let _running = running;
            for _ in 0..TRIES {
                match timeout(limit, store.hold(&key, until, cause)).await {
                    Ok(Ok(_)) => return,
                    _ => sleep(ASK_AGAIN).await,
                }
            }
        });
    }

    /// Waits until no task has anything to tell the store any more, and says whether it came to that.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        let mut running = self.tasks.running.subscribe();
        timeout(limit, running.wait_for(|running| *running == 0)).await.is_ok_and(|settled| settled.is_ok())
    }

    /// What the store said, while it is down and not yet to be asked again.
    pub(crate) fn outage(&self, now: Moment) -> Option<Arc<str>> {
        let mut health = self.health();
        let (again, reason) = health.outage.as_mut()?;
        if now < *again {
            return Some(Arc::clone(reason));
        }
        // One request finds out; until it has, the others go on without.
        *again = now.plus(ASK_AGAIN.saturating_add(self.options.timeout));
        None
    }

    /// It did not answer. Told once an outage.
    pub(crate) fn went_down(&self, core: &Core, error: &StoreError, now: Moment) -> Arc<str> {
        let reason: Arc<str> = error.to_string().into();
        let before = self.health().outage.replace((now.plus(ASK_AGAIN), Arc::clone(&reason)));
        if before.is_none() {
            core.tell(&PaceEvent::StoreDown { reason: &reason });
        }
        reason
    }

    /// It answered. Returns when it last came back.
    pub(crate) fn came_up(&self, core: &Core, now: Moment) -> Moment {
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

/// No answer in time is an error.
async fn answer<T>(limit: Duration, asked: StoreFuture<'_, T>) -> Result<T, StoreError> {
    let answer = timeout(limit, asked).await;
    answer.unwrap_or_else(|_| Err(StoreError::new(format_args!("no answer within {limit:?}"))))
}

fn interrupted() -> StoreError {
    StoreError::new("the store panicked, or the runtime is going down")
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
    let reply = answer(limit, store.reserve(&scopes, ask)).await;
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
