//! The leases that this process has or wants: one task for each host, and whether the store responds.
//!
//! One task per host sends all its commands, as [`Plan`] says. So a caller that is cancelled leaves nothing behind, and a lease is renewed and
//! given up independently of the requests that need it. The tasks end when nothing needs them; they do not keep the pacer alive.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};

use super::lease::{Lease, Plan, RETRY, Readiness, SLACK, StoreOutage};
use super::pacer::Pacer;
use super::policy::{OnStoreOutage, Sharing};
use super::store::{Backoff, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use crate::clock::Moment;
use crate::event::Event;
use crate::{HolderId, StoreError, caught};

#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn HostStore>,
    pub(crate) options: Sharing,
    pacer: Weak<Pacer>,
    /// What differs between processes and stays the same in one.
    seed: u64,
    holder: HolderId,
    health: Mutex<StoreHealth>,
    /// Where tasks are started from, if a response is observed outside a runtime.
    runtime: OnceLock<Handle>,
    hosts: Mutex<BTreeMap<Arc<str>, Arc<HostLease>>>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct StoreHealth {
    outage: StoreOutage,
    /// What the store said when it was last away, and of which host it was asked: of several servers only that one's may be away.
    reason: Option<Arc<str>>,
    host: Option<Arc<str>>,
}

/// A host, its lease, and how its task and the requests wake each other.
#[derive(Debug, Default)]
pub(crate) struct HostLease {
    key: Arc<str>,
    lease: Mutex<Lease>,
    /// The task of the host should look.
    news: Notify,
    /// The requests that wait for the store to know of a backoff should look.
    saved: watch::Sender<()>,
}

/// A request that needs the lease of a host. Dropping it says that it does not any more.
#[derive(Debug)]
pub(crate) struct User {
    store: Arc<SharedStore>,
    host: Arc<HostLease>,
    /// It is on the wire.
    in_flight: bool,
    /// It is for a file beside the site's long delay.
    is_beside: bool,
}

/// A command whose limit ends so much too exceeded was not timed while this process was stopped.
const PAUSE: Duration = Duration::from_millis(500);

impl SharedStore {
    pub(crate) fn new(
        store: Arc<dyn HostStore>,
        mut options: Sharing,
        pacer: Weak<Pacer>,
        seed: u64,
    ) -> Self {
        let is_shared = caught(|| store.is_shared()).unwrap_or(true);
        if !is_shared && options.on_outage == OnStoreOutage::Defer {
            options.on_outage = OnStoreOutage::Continue { workers: 1 };
        }
        Self {
            store,
            options,
            pacer,
            seed,
            holder: HolderId::random(),
            health: Mutex::default(),
            runtime: OnceLock::new(),
            hosts: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    pub(crate) fn outage(&self) -> StoreOutage {
        lock(&self.health).outage
    }

    pub(crate) fn reason(&self) -> String {
        lock(&self.health).reason.as_deref().unwrap_or_default().to_owned()
    }

    /// From 0 to 1, for this process and this host.
    pub(crate) fn unit(&self, key: &str) -> f64 {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, key));
        crate::jitter::unit(hash)
    }

    /// A request needs the lease of a host: from now on its task asks for it.
    pub(crate) fn enter(self: &Arc<Self>, key: Arc<str>, delay: Duration) -> User {
        let host = self.host(key, |lease| lease.enter(delay));
        User { store: Arc::clone(self), host, in_flight: false, is_beside: false }
    }

    pub(crate) fn save(self: &Arc<Self>, key: &str) {
        self.host(Arc::from(key), Lease::change);
    }

    /// The host after a step of its lease, with a task.
    fn host(self: &Arc<Self>, key: Arc<str>, step: impl FnOnce(&mut Lease)) -> Arc<HostLease> {
        let mut hosts = lock(&self.hosts);
        if let Some(host) = hosts.get(&key) {
            step(&mut lock(&host.lease));
            host.news.notify_one();
            return Arc::clone(host);
        }
        let host = Arc::new(HostLease { key: key.clone(), ..HostLease::default() });
        step(&mut lock(&host.lease));
        // Without a runtime nothing can be said to the store; nor can anything have been sent.
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else {
            return host;
        };
        self.runtime.get_or_init(|| runtime.clone());
        hosts.insert(key, Arc::clone(&host));
        self.count.send_replace(hosts.len());
        drop(hosts);
        // A runtime that has ended drops the task at once, so no lock is held.
        let kept = Kept { store: Arc::clone(self), host: Arc::clone(&host) };
        runtime.spawn(async move { kept.store.keep(&kept.host).await });
        host
    }

    /// The task of a host, until nothing needs it any more.
    async fn keep(&self, host: &Arc<HostLease>) {
        loop {
            let Some(pacer) = self.pacer.upgrade() else { return };
            let now = pacer.now_or_system();
            let plan = {
                // Under both locks: a request that comes now finds the host, or makes a new one.
                let mut hosts = lock(&self.hosts);
                let backs_off = pacer.backoff(&host.key, Duration::ZERO, now).is_some();
                let mut lease = lock(&host.lease);
                let plan = lease.plan(backs_off, self.outage(), now);
                if plan == Plan::Release {
                    // Under the lock: from now on nothing starts.
                    let poll = lease.poll(false).mul_f64(1.0 + 0.2 * pacer.jitter.draw());
                    lease.give_up(now.plus(poll), now.plus(self.options.lease));
                }
                drop(lease);
                if plan == Plan::End {
                    self.forget(&mut hosts, host);
                }
                plan
            };
            match plan {
                Plan::End => return,
                Plan::Ask { is_held } => self.ask(&pacer, host, is_held, now).await,
                Plan::Release => self.release(&pacer, host, now).await,
                Plan::Probe => self.probe(&pacer, now).await,
                Plan::Sleep(until) => {
                    let until = pacer.timeline.timer(until);
                    // Nothing of the pacer is kept alive while its last handle may be dropped.
                    drop(pacer);
                    let _ = timeout_at(until, host.news.notified()).await;
                }
            }
        }
    }

    fn forget(&self, hosts: &mut BTreeMap<Arc<str>, Arc<HostLease>>, host: &Arc<HostLease>) {
        if hosts.get(&host.key).is_some_and(|kept| Arc::ptr_eq(kept, host)) {
            hosts.remove(&host.key);
            self.count.send_replace(hosts.len());
        }
    }

    async fn ask(&self, pacer: &Pacer, host: &HostLease, is_held: bool, asked: Moment) {
        let ttl = self.options.lease;
        // Until then it is expected to ask again, with jitter and the time that a reply takes.
        let again_in = lock(&host.lease).poll(false).mul_f64(1.5).saturating_add(SLACK);
        let reply = self.exchange(pacer, host, Want::Lease { ttl, again_in, is_held }, asked).await;
        let now = pacer.now_or_system();
        let mut lease = lock(&host.lease);
        match reply {
            Some(LeaseStatus::Leased { is_wanted }) => lease.leased(is_wanted, &self.options, asked, now),
            Some(LeaseStatus::Busy { wait, is_next }) => {
                let poll = lease.poll(is_next).mul_f64(1.0 + 0.2 * pacer.jitter.draw());
                lease.refused(is_next, now.plus(poll.min(wait.saturating_add(SLACK))), now.plus(ttl));
            }
            Some(LeaseStatus::Released) => {}
            None => lease.unanswered(&self.options, now),
        }
        drop(lease);
        host.changed(pacer);
    }

    async fn release(&self, pacer: &Pacer, host: &HostLease, now: Moment) {
        self.exchange(pacer, host, Want::Release, now).await;
        host.changed(pacer);
    }

    /// One command, and what its reply changes here.
    async fn exchange(
        &self,
        pacer: &Pacer,
        host: &HostLease,
        want: Want,
        now: Moment,
    ) -> Option<LeaseStatus> {
        // Counted before the backoff is read: a change in between is sent once more, and none is taken for saved that was not sent.
        let (changes, mut state, round_trip) = {
            let lease = lock(&host.lease);
            (lease.changes, lease.state(now), lease.round_trip)
        };
        state.backoff = pacer.backoff(&host.key, round_trip, now);
        let sent = state.backoff;
        let reply = self.command(&host.key, LeaseAsk { holder: self.holder, want, state }).await;
        let (asked, now) = (now, pacer.now_or_system());
        let (lease, state) = reply.map_err(|error| self.failed(pacer, &host.key, &error, asked, now)).ok()?;
        // What was sent comes back as the store got it, and seems longer here by the round trip. Stores may round it up.
        let is_ours = |backoff: &Backoff| {
            let most = |sent: Backoff| sent.left.saturating_add(Duration::from_millis(1));
            sent.is_some_and(|sent| backoff.left <= most(sent) && backoff.throttles <= sent.throttles)
        };
        let theirs = state.backoff.filter(|backoff| !is_ours(backoff));
        let is_news = theirs.is_some_and(|backoff| pacer.merge_backoff(&host.key, backoff, now));
        let last = state.quiet.map_or(Moment::NEVER, |quiet| now.minus(quiet));
        let mut known = lock(&host.lease);
        if is_news && known.changes == changes {
            known.round_trip = now.since(asked).min(self.options.timeout);
        }
        known.replied(changes, last);
        Some(lease)
    }

    /// In a task of its own, because a store may panic. Without a reply in time it has failed.
    async fn command(&self, key: &Arc<str>, ask: LeaseAsk) -> Result<(LeaseStatus, HostState), StoreError> {
        let (store, key, limit) = (Arc::clone(&self.store), Arc::clone(key), self.options.timeout);
        let mut command = tokio::spawn(async move { store.exchange(&key, ask).await });
        match timeout(limit, &mut command).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(StoreError::new("the store panicked, or the runtime is going down")),
            Err(_) => {
                command.abort();
                Err(StoreError::new(format_args!("no answer within {limit:?}")))
            }
        }
    }

    /// Asks for the host that the store did not reply for, under another name: nothing is given up by it.
    async fn probe(&self, pacer: &Pacer, now: Moment) {
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
        let ask = LeaseAsk { holder: HolderId::random(), want: Want::Release, state: HostState::default() };
        let reply = self.command(&key, ask).await;
        let (asked, now) = (now, pacer.now_or_system());
        match reply {
            Ok(_) => {
                lock(&self.health).outage.back = now;
                pacer.observers.notify(&Event::StoreBack);
                self.look_again(pacer);
            }
            Err(error) => self.failed(pacer, &key, &error, asked, now),
        }
    }

    /// It did not reply. Reported once per outage.
    fn failed(&self, pacer: &Pacer, key: &Arc<str>, error: &StoreError, asked: Moment, now: Moment) {
        let reason: Arc<str> = error.to_string().into();
        let mut health = lock(&self.health);
        // This process stood still for so long, and not the store: it may have leased the host to another since.
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
            pacer.observers.notify(&Event::StoreDown { reason: &reason });
            // The requests that wait for a lease go by local limits.
            self.look_again(pacer);
        }
    }

    fn look_again(&self, pacer: &Pacer) {
        // Their wakers are foreign code, which is not called under a lock.
        let hosts: Vec<_> = lock(&self.hosts).values().cloned().collect();
        for host in hosts {
            host.news.notify_one();
            host.changed(pacer);
        }
    }

    /// Waits until no lease is left, and says whether it came to that. What is not needed is given up now.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        for host in lock(&self.hosts).values() {
            lock(&host.lease).leaves = true;
            host.news.notify_one();
        }
        let mut count = self.count.subscribe();
        timeout(limit, count.wait_for(|count| *count == 0)).await.is_ok_and(|settled| settled.is_ok())
    }
}

/// A host is kept as long as its task runs: also if the task's runtime ends before others that use the pacer, or before the task begins.
struct Kept {
    store: Arc<SharedStore>,
    host: Arc<HostLease>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.store.forget(&mut lock(&self.store.hosts), &self.host);
    }
}

impl HostLease {
    /// The lease has become another, or the store knows more: those that wait for that look.
    fn changed(&self, pacer: &Pacer) {
        self.saved.send_replace(());
        pacer.wake_first(&self.key);
    }
}

impl User {
    pub(crate) fn key(&self) -> &str {
        &self.host.key
    }

    pub(crate) fn readiness(&self, delay: Duration, now: Moment) -> Readiness {
        let (options, outage) = (&self.store.options, self.store.outage());
        let readiness = lock(&self.host.lease).readiness(delay, options, outage, now);
        if readiness == Readiness::Leased {
            self.host.news.notify_one();
        }
        readiness
    }

    pub(crate) fn try_begin(&mut self, delay: Duration, is_beside: bool, now: Moment) -> bool {
        let (options, outage) = (&self.store.options, self.store.outage());
        self.is_beside = is_beside;
        self.in_flight = lock(&self.host.lease).try_begin(delay, is_beside, options, outage, now);
        self.in_flight
    }

    pub(crate) fn end(&mut self, now: Moment) {
        if std::mem::take(&mut self.in_flight) {
            lock(&self.host.lease).end(self.is_beside, now);
            self.host.news.notify_one();
        }
    }

    /// The state has changed, and the store does not know of it yet.
    pub(crate) fn is_unsaved(&self) -> bool {
        let lease = lock(&self.host.lease);
        lease.saved < lease.changes
    }

    /// Waits until the store knows what has changed until now, or is away; for `limit` at most.
    pub(crate) async fn saved(&self) {
        let mut saved = self.host.saved.subscribe();
        let change = lock(&self.host.lease).changes;
        let is_saved_or_away =
            |(): &()| lock(&self.host.lease).saved >= change || !self.store.outage().is_over();
        let _ = timeout(self.store.options.timeout, saved.wait_for(is_saved_or_away)).await;
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&self.host.lease).leave();
        self.host.news.notify_one();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
