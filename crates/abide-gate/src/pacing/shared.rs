//! The shared store: how it is, and its commands, each in a task of its own.
//!
//! A caller who goes leaves neither an unread answer nor a lease behind.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::core::{Core, catch};
use super::event::PaceEvent;
use super::moment::Moment;
use super::policy::Shared;
use super::scope::ScopeKey;
use super::store::{Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, StoreError, StoreFuture};
use super::unshared::{HoldSender, SharedHold, Unshared};

/// The shared store, and how it is.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn PaceStore>,
    options: Shared,
    /// What this belongs to, and what knows of all holds.
    core: Weak<Core>,
    health: Mutex<Health>,
    /// Where holds are shared from, if an answer is observed outside a runtime.
    runtime: OnceLock<Handle>,
    tasks: Tasks,
    unshared: Arc<Mutex<Unshared>>,
}

/// How many tasks still have something to tell the store: one for each lease, and one for each hold.
#[derive(Clone, Debug)]
struct Tasks {
    running: watch::Sender<usize>,
}

/// A task is running, until this is dropped.
pub(crate) struct Running {
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
    /// How often it had lost what it knew when it was last asked.
    losses: u64,
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
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often a release is tried, after which the lease ends by itself; and how often in a row holds are, before it is left to the next
/// answer of the store.
pub(crate) const TRIES: u32 = 3;

impl SharedStore {
    pub(crate) fn new(store: Arc<dyn PaceStore>, options: Shared, core: Weak<Core>) -> Self {
        let unshared = Arc::default();
        let tasks = Tasks { running: watch::Sender::new(0) };
        let losses = catch(|| store.losses()).unwrap_or_default();
        let health = Health { losses, ..Health::default() };
        Self { store, options, core, health: Mutex::new(health), runtime: OnceLock::new(), tasks, unshared }
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

    /// Whether the store still has a lease that was waited for.
    pub(crate) async fn confirm(
        &self,
        scopes: &Arc<[ScopeAsk]>,
        lease: &Lease,
        wait: Duration,
    ) -> Result<bool, StoreError> {
        let (store, scopes, limit) = (Arc::clone(&self.store), Arc::clone(scopes), self.options.timeout);
        let id = lease.id;
        let confirmed =
            tokio::spawn(async move { answer(limit, store.confirm(&scopes, id, wait)).await }).await;
        confirmed.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Others shall know of a hold too: now, or when the store answers again.
    pub(crate) fn share_hold(&self, scope: &str, hold: SharedHold) {
        lock(&self.unshared).keep(ScopeKey::from(scope), hold);
        self.send_holds();
    }

    /// Tells the store of the holds that it does not know of, in a task, unless one is at it.
    fn send_holds(&self) {
        let runtime = Handle::try_current().ok().or_else(|| self.runtime.get().cloned());
        if let Some(runtime) = runtime
            && lock(&self.unshared).begin()
        {
            let (store, unshared) = (Arc::clone(&self.store), Arc::clone(&self.unshared));
            let (core, running) = (self.core.clone(), self.tasks.enter());
            runtime.spawn(HoldSender::new(store, self.options.timeout, core, unshared, running).run());
        }
    }

    /// Waits until no task has anything to tell the store any more, and says whether it came to that.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        self.send_holds();
        let mut running = self.tasks.running.subscribe();
        timeout(limit, running.wait_for(|running| *running == 0)).await.is_ok_and(|settled| settled.is_ok())
            && lock(&self.unshared).is_empty()
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
        let losses = catch(|| self.store.losses());
        let mut health = self.health();
        let was_down = health.outage.take().is_some();
        if was_down {
            health.back = now;
        }
        let (back, known) = (health.back, health.losses);
        // Another thread may have asked later, and be here already.
        health.losses = losses.unwrap_or(known).max(known);
        let has_lost = health.losses != known;
        drop(health);
        if was_down {
            core.tell(&PaceEvent::StoreBack);
        }
        // After an outage, too: it may have been restarted without what it knew.
        if was_down || has_lost {
            let wall = core.wall();
            let mut unshared = lock(&self.unshared);
            unshared.forget_past(wall);
            unshared.tell_again();
        }
        self.send_holds();
        back
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
