//! A store that fails when it is told to.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_gate::WallMillis;
use abide_gate::pacing::{
    Cause, Ended, LeaseAsk, LeaseId, MemoryPaceStore, PaceStore, Reply, ScopeAsk, ScopeKey, ScopeState,
    StoreError, StoreFuture,
};

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Error,
    /// It does it, and says it did not.
    Lost,
    Hang,
    Panic,
}

/// A store that fails at some of its calls.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: MemoryPaceStore,
    calls: AtomicUsize,
    holds: AtomicUsize,
    fails: fn(usize, usize) -> bool,
    at: AtomicUsize,
    fault: Fault,
}

impl Faulty {
    pub(crate) fn new(fails: fn(usize, usize) -> bool, at: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryPaceStore::default(),
            calls: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            fails,
            at: at.into(),
            fault,
        })
    }

    pub(crate) fn from_the_start() -> Arc<Self> {
        Self::new(|call, until| call < until, usize::MAX, Fault::Error)
    }

    /// How often it has been asked.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// How often it has been told of a hold.
    pub(crate) fn holds(&self) -> usize {
        self.holds.load(Ordering::SeqCst)
    }

    pub(crate) fn heal(&self) {
        self.at.store(0, Ordering::SeqCst);
    }

    fn or_fail<'a, T: Send + 'a>(&'a self, done: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if !(self.fails)(call, self.at.load(Ordering::SeqCst)) {
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

impl PaceStore for Faulty {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        self.or_fail(self.inner.reserve(scopes, ask))
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        self.or_fail(self.inner.renew(scopes, lease, ttl))
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        self.or_fail(self.inner.release(scopes, lease, ended))
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        self.holds.fetch_add(1, Ordering::SeqCst);
        self.or_fail(self.inner.hold(scope, until, strikes, cause))
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        self.or_fail(self.inner.peek(scope))
    }
}
