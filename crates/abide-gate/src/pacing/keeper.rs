//! The leases that this process has or wants: one task for each host, and whether the store responds.
//!
//! One task per host sends all its commands, as [`Plan`] says. So a caller that is cancelled leaves nothing
//! behind, and a lease is renewed and given up independently of the requests that need it. The tasks end when
//! nothing needs them, or with the pacer, which they do not know.

use std::future::poll_fn;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::hosts::{Effects, Hosts};
use super::lease::{HostLease, Lease, LeaseSignals, Plan, RETRY, SLACK, StoreOutage, StoreView};
use super::observe::notify_of;
use super::policy::{OnStoreOutage, Sharing};
use super::queue::wake;
use super::renewal::Renewal;
use super::store::{Backoff, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use crate::clock::{Moment, Timeline};
use crate::event::{Event, Observers};
use crate::jitter::Jitter;
use crate::{Clock, HolderId, StoreError, caught};

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(super) store: Arc<dyn HostStore>,
    pub(super) options: Sharing,
    pub(super) hosts: Arc<Hosts>,
    clock: Arc<dyn Clock>,
    timeline: Timeline,
    observers: Observers,
    jitter: Jitter,
    /// What differs between processes and stays the same in one.
    seed: u64,
    holder: HolderId,
    /// Of the next call.
    number: AtomicU64,
    health: Mutex<StoreHealth>,
    /// Where tasks are started from, if a response is observed outside a runtime.
    runtime: OnceLock<Handle>,
    /// How many leases have a task.
    count: watch::Sender<usize>,
    /// The renewal that waits for further hosts.
    pub(super) renewal: Mutex<Weak<Renewal>>,
}

/// What is said of a host, and how many changes of it are in that.
#[derive(Debug)]
pub(super) struct StoreCall {
    changes: u64,
    pub(super) ask: LeaseAsk,
}

#[derive(Debug, Default)]
struct StoreHealth {
    outage: StoreOutage,
    /// What the store said when it was last away, and of which host it was asked: of several servers only
    /// that one's may be away.
    reason: Option<Arc<str>>,
    host: Option<Arc<str>>,
}

/// A command whose limit ends so much too exceeded was not timed while this process was stopped.
const PAUSE: Duration = Duration::from_millis(500);

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn HostStore>,
        mut options: Sharing,
        hosts: Arc<Hosts>,
        (clock, timeline): (Arc<dyn Clock>, Timeline),
        observers: Observers,
        seed: u64,
    ) -> Self {
        let is_shared = caught(|| store.is_shared()).unwrap_or(true);
        if !is_shared && options.on_outage == OnStoreOutage::Defer {
            options.on_outage = OnStoreOutage::Continue { workers: 1 };
        }
        Self {
            store,
            options,
            hosts,
            clock,
            timeline,
            observers,
            jitter: Jitter::new(Some(seed)),
            seed,
            holder: HolderId::random(),
            number: AtomicU64::new(1),
            health: Mutex::default(),
            runtime: OnceLock::new(),
            count: watch::Sender::new(0),
            renewal: Mutex::default(),
        }
    }

    pub(crate) fn view(&self, key: &str) -> StoreView<'_> {
        StoreView { options: &self.options, outage: self.outage(), unit: self.unit(key) }
    }

    pub(crate) fn holder(&self) -> HolderId {
        self.holder
    }

    fn outage(&self) -> StoreOutage {
        lock(&self.health).outage
    }

    pub(crate) fn reason(&self) -> String {
        lock(&self.health).reason.as_deref().unwrap_or_default().to_owned()
    }

    /// From 0 to 1, for this process and this host.
    fn unit(&self, key: &str) -> f64 {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, key));
        crate::jitter::unit(hash)
    }

    pub(super) fn now(&self) -> Moment {
        self.timeline.now(&*self.clock)
    }

    /// Does something to the lease of a host, if it has one.
    fn with_lease<T>(&self, key: &str, act: impl FnOnce(&mut Lease) -> T) -> Option<T> {
        self.hosts.find(key, |host| host.lease_mut().map(act)).flatten()
    }

    /// Starts the task that keeps the lease of a host.
    pub(crate) fn start(self: &Arc<Self>, key: Arc<str>) {
        let signals = self.hosts.find(&key, |host| host.lease.as_ref().map(|kept| Arc::clone(&kept.signals)));
        let Some(signals) = signals.flatten() else { return };
        let kept = Kept { keeper: Arc::downgrade(self), key, signals };
        self.count.send_modify(|count| *count += 1);
        // Without a runtime nothing can be said to the store; nor can anything have been sent.
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else {
            return;
        };
        self.runtime.get_or_init(|| runtime.clone());
        runtime.spawn(kept.keep());
    }

    /// What the task of a host does next.
    fn plan(&self, key: &str, now: Moment) -> Plan {
        let (outage, jitter) = (self.outage(), 1.0 + 0.2 * self.jitter.draw());
        let plan = self.hosts.find(key, |host| {
            let poll = host.lease_mut().map_or(Duration::ZERO, |lease| lease.poll(false));
            host.plan(outage, poll.mul_f64(jitter), self.options.lease, now)
        });
        plan.unwrap_or(Plan::End)
    }

    /// The lease has become another, or the store knows more: those that wait for that look.
    pub(super) fn changed(&self, key: &str, signals: &LeaseSignals) {
        signals.saved.send_replace(());
        let first = self.hosts.find(key, |host| host.first().cloned());
        wake(first.flatten().into_iter().collect());
    }

    async fn ask(&self, key: &Arc<str>, is_held: bool, asked: Moment) {
        let want = self.lease_for(key, is_held);
        let status = self.exchange(key, want, asked).await;
        self.granted(key, status, asked);
    }

    /// What it says to take or to renew a lease.
    pub(super) fn lease_for(&self, key: &str, is_held: bool) -> Want {
        // Until then it is expected to ask again, with jitter and the time that a reply takes.
        let poll = self.with_lease(key, |lease| lease.poll(false)).unwrap_or_default();
        let again_in = poll.mul_f64(1.5).saturating_add(SLACK);
        Want::Lease { ttl: self.options.lease, again_in, is_held }
    }

    /// The store was asked for the lease of a host, and has replied or not.
    pub(super) fn granted(&self, key: &str, status: Option<LeaseStatus>, asked: Moment) {
        let (now, jitter) = (self.now(), 1.0 + 0.2 * self.jitter.draw());
        self.with_lease(key, |lease| match status {
            Some(LeaseStatus::Leased { is_wanted }) => lease.leased(is_wanted, &self.options, asked, now),
            Some(LeaseStatus::Busy { wait, is_next }) => {
                let poll = lease.poll(is_next).mul_f64(jitter);
                let (again, ttl) = (poll.min(wait.saturating_add(SLACK)), self.options.lease);
                lease.refused(is_next, now.plus(again), now.plus(ttl), now);
            }
            Some(LeaseStatus::Released) => {}
            None => lease.unanswered(&self.options, now),
        });
    }

    /// One command, and what its reply changes here.
    async fn exchange(&self, key: &Arc<str>, want: Want, asked: Moment) -> Option<LeaseStatus> {
        let call = self.call(key, want, asked)?;
        let (store, host, ask) = (Arc::clone(&self.store), Arc::clone(key), call.ask);
        let reply = self.command(async move { store.exchange(&host, ask).await }).await;
        self.replied(key, &call, reply.and_then(|reply| reply), asked)
    }

    /// What is said of a host. Counted as the backoff is read: a change after that is sent once more, and
    /// none is taken for saved that was not sent.
    pub(super) fn call(&self, key: &str, want: Want, asked: Moment) -> Option<StoreCall> {
        let (changes, state) = self.hosts.find(key, |host| host.shared(asked)).flatten()?;
        let ask = LeaseAsk { holder: self.holder, number: self.number(), want, state };
        Some(StoreCall { changes, ask })
    }

    pub(super) fn replied(
        &self,
        key: &Arc<str>,
        call: &StoreCall,
        reply: Result<(LeaseStatus, HostState), StoreError>,
        asked: Moment,
    ) -> Option<LeaseStatus> {
        let (now, sent) = (self.now(), call.ask.state.backoff);
        let (lease, state) = reply.map_err(|error| self.failed(key, &error, asked, now)).ok()?;
        // What was sent comes back as the store got it, and seems longer here by the round trip. Stores may
        // round it up.
        let is_ours = |backoff: &Backoff| {
            let most = |sent: Backoff| sent.left.saturating_add(Duration::from_millis(1));
            sent.is_some_and(|sent| backoff.left <= most(sent) && backoff.throttles <= sent.throttles)
        };
        let theirs = state.backoff.filter(|backoff| !is_ours(backoff));
        let is_news = theirs.is_some_and(|backoff| self.merge_backoff(key, backoff, now));
        let last = state.quiet.map_or(Moment::NEVER, |quiet| now.minus(quiet));
        self.with_lease(key, |known| {
            if is_news && known.changes == call.changes {
                known.round_trip = now.since(asked).min(self.options.timeout);
            }
            known.replied(call.changes, last);
        });
        self.hosts.find(key, |host| host.sent_elsewhere(last, now));
        Some(lease)
    }

    fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether it is news.
    fn merge_backoff(&self, key: &str, theirs: Backoff, now: Moment) -> bool {
        let mut effects = Effects::default();
        let merged = self.hosts.find(key, |host| host.merge_backoff(theirs, now, &mut effects.wakers));
        wake(effects.wakers);
        let Some((before, after)) = merged.flatten() else { return false };
        notify_of(&self.observers, key, &before, &after, now);
        true
    }

    /// In a task of its own, because a store may panic. Without a reply in time it has failed.
    pub(super) async fn command<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (limit, mut command) = (self.options.timeout, tokio::spawn(call));
        match timeout(limit, &mut command).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(StoreError::new("the store panicked, or the runtime is going down")),
            Err(_) => {
                command.abort();
                Err(StoreError::new(format_args!("no answer within {limit:?}")))
            }
        }
    }

    /// Asks for the host that the store did not reply for, under another name: nothing is given up by it.
    async fn probe(&self, now: Moment) {
        let key = {
            let mut health = lock(&self.health);
            if health.outage.is_over() || health.outage.probe > now {
                return;
            }
            // One task at a time.
            health.outage.probe = now.plus(RETRY + self.options.timeout);
            health.host.clone()
        };
        let Some(key) = key else { return };
        let (holder, number) = (HolderId::random(), self.number());
        let ask = LeaseAsk { holder, number, want: Want::Release, state: HostState::default() };
        let (store, host) = (Arc::clone(&self.store), Arc::clone(&key));
        let reply = self.command(async move { store.exchange(&host, ask).await }).await;
        let (asked, now) = (now, self.now());
        match reply.and_then(|reply| reply) {
            Ok(_) => {
                lock(&self.health).outage.back = now;
                self.observers.notify(&Event::StoreBack);
                self.look_again();
            }
            Err(error) => self.failed(&key, &error, asked, now),
        }
    }

    /// It did not reply. Reported once per outage.
    fn failed(&self, key: &Arc<str>, error: &StoreError, asked: Moment, now: Moment) {
        let reason: Arc<str> = error.to_string().into();
        let mut health = lock(&self.health);
        // This process stood still for so long, and not the store: it may have leased the host to another
        // since.
        if now.since(asked) > self.options.timeout + PAUSE {
            health.outage.probe = now;
            return;
        }
        let is_news = health.outage.is_over();
        let began = if is_news { now } else { health.outage.began };
        health.outage = StoreOutage { began, confirmed: now, back: Moment::NEVER, probe: now.plus(RETRY) };
        if is_news {
            health.host = Some(key.clone());
        }
        health.reason = Some(Arc::clone(&reason));
        drop(health);
        if is_news {
            self.observers.notify(&Event::StoreDown { reason: &reason });
            // The requests that wait for a lease go by local limits.
            self.look_again();
        }
    }

    fn look_again(&self) {
        // Their wakers are foreign code, which is not called under a lock.
        let mut effects = Effects::default();
        self.hosts.for_each(|host| {
            let Some(HostLease { signals, .. }) = host.lease.as_deref() else { return };
            effects.news.push(Arc::clone(signals));
            effects.wakers.extend(host.first().cloned());
        });
        for signals in &effects.news {
            signals.news.notify_one();
            signals.saved.send_replace(());
        }
        wake(effects.wakers);
    }

    /// Waits until no lease is left, and says whether it came to that. What is not needed is given up now.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        let mut news = Vec::new();
        self.hosts.for_each(|host| {
            let Some(HostLease { lease, signals }) = host.lease.as_deref_mut() else { return };
            lease.leaves = true;
            news.push(Arc::clone(signals));
        });
        news.iter().for_each(|signals| signals.news.notify_one());
        let mut count = self.count.subscribe();
        timeout(limit, count.wait_for(|count| *count == 0)).await.is_ok_and(|settled| settled.is_ok())
    }

    /// The state of a host has changed, and the store does not know of it yet.
    pub(crate) fn is_unsaved(&self, key: &str) -> bool {
        self.with_lease(key, |lease| lease.saved < lease.changes).unwrap_or_default()
    }

    /// Waits until the store knows what has changed until now, or is away; for `limit` at most.
    pub(crate) async fn saved(&self, key: &str) {
        let kept = self.hosts.find(key, |host| {
            host.lease.as_deref().map(|kept| (kept.lease.changes, kept.signals.saved.subscribe()))
        });
        let Some((change, mut saved)) = kept.flatten() else { return };
        let is_saved_or_away = |(): &()| {
            let is_saved = self.with_lease(key, |lease| lease.saved >= change).unwrap_or(true);
            is_saved || !self.outage().is_over()
        };
        let _ = timeout(self.options.timeout, saved.wait_for(is_saved_or_away)).await;
    }
}

/// The task of a host. The host has a lease as long as it runs: also if its runtime ends before others that
/// use the pacer, or before it begins.
struct Kept {
    keeper: Weak<Keeper>,
    key: Arc<str>,
    signals: Arc<LeaseSignals>,
}

impl Kept {
    /// Until nothing needs the lease any more.
    async fn keep(self) {
        let Self { keeper, key, signals } = &self;
        loop {
            let Some(keeper) = keeper.upgrade() else { return };
            let now = keeper.now();
            match keeper.plan(key, now) {
                Plan::End => return,
                Plan::Ask { is_held } => {
                    keeper.ask(key, is_held, now).await;
                    keeper.changed(key, signals);
                }
                Plan::Renew => Renewal::join(&keeper, key, signals),
                Plan::Release => {
                    keeper.exchange(key, Want::Release, now).await;
                    keeper.changed(key, signals);
                }
                Plan::Probe => keeper.probe(now).await,
                Plan::Sleep(until) => {
                    let until = keeper.timeline.timer(until);
                    let is_next = keeper.with_lease(key, |lease| lease.is_next()).unwrap_or_default();
                    let awaited = is_next.then(|| (Arc::clone(&keeper.store), keeper.holder));
                    // Nothing of the pacer is kept alive while its last handle may be dropped.
                    drop(keeper);
                    match awaited {
                        Some((store, holder)) => self.sleep_as_next(until, &*store, holder).await,
                        None => drop(timeout_at(until, signals.news.notified()).await),
                    }
                }
            }
        }
    }
}

impl Kept {
    /// Also until the store says that the lease is free, which is then asked for at once.
    async fn sleep_as_next(&self, until: Instant, store: &dyn HostStore, holder: HolderId) {
        let (mut news, mut free) = (pin!(self.signals.news.notified()), store.given_up(&self.key, holder));
        let woken = poll_fn(|context| match news.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending => free.as_mut().poll(context).map(|()| true),
        });
        if let (Ok(true), Some(keeper)) = (timeout_at(until, woken).await, self.keeper.upgrade()) {
            let now = keeper.now();
            keeper.with_lease(&self.key, |lease| lease.ask_again(now));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut effects = Effects::default();
        keeper.hosts.find(&self.key, |host| host.forget_lease(&self.signals, &mut effects));
        wake(effects.wakers);
        keeper.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
