//! A store that fails on demand.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::store::StoreFuture;
use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::testing::MemoryStore;
use abide_gate::{HolderId, StoreError};

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Error,
    /// It does it, and says it did not.
    Lost,
    Hang,
    Panic,
}

pub(crate) async fn state(store: &dyn HostStore, host: &str) -> HostState {
    let ask =
        LeaseAsk { holder: HolderId::random(), number: 0, want: Want::Release, state: HostState::default() };
    store.exchange(host, ask).await.unwrap().1
}

/// Whether no process has the lease of a host. Takes it for a millisecond.
pub(crate) async fn is_free(store: &dyn HostStore, host: &str) -> bool {
    let ttl = Duration::from_millis(1);
    let want = Want::Lease { ttl, again_in: Duration::ZERO, is_held: false };
    let ask = LeaseAsk { holder: HolderId::random(), number: 0, want, state: HostState::default() };
    let reply = store.exchange(host, ask).await.unwrap();
    matches!(reply.0, LeaseStatus::Leased { .. })
}

/// A store that fails at some of its calls.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<MemoryStore>,
    calls: AtomicUsize,
    /// It fails from this call on,
    from: usize,
    /// and no longer at this one.
    until: AtomicUsize,
    fault: Fault,
}

impl Faulty {
    /// It fails so at these calls.
    pub(crate) fn new(at: Range<usize>, fault: Fault) -> Self {
        Self { inner: Arc::default(), calls: 0.into(), from: at.start, until: at.end.into(), fault }
    }

    pub(crate) fn from_the_start() -> Arc<Self> {
        Arc::new(Self::new(0..usize::MAX, Fault::Error))
    }

    /// What another process has instead, with faults of its own.
    pub(crate) fn of_another_process(&self, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(&self.inner), ..Self::new(0..0, fault) })
    }

    /// How often it has been asked.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// What it knows of a host, faults aside.
    pub(crate) async fn state(&self, host: &str) -> HostState {
        state(&*self.inner, host).await
    }

    /// It fails from now on, until it is healed.
    pub(crate) fn goes_down(&self) {
        self.until.store(usize::MAX, Ordering::SeqCst);
    }

    pub(crate) fn heal(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    fn or_fail<'a, T: Send + 'a>(&'a self, done: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if !(self.from..self.until.load(Ordering::SeqCst)).contains(&call) {
            return done;
        }
        let fault = self.fault;
        Box::pin(async move {
            match fault {
                Fault::Error => Err(StoreError::new("connection refused")),
                Fault::Lost => done.await.and(Err(StoreError::new("connection reset"))),
                Fault::Hang => std::future::pending().await,
                Fault::Panic => panic!("the store's own mistake"),
            }
        })
    }
}

impl HostStore for Faulty {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        self.or_fail(self.inner.exchange(host, ask))
    }
}
