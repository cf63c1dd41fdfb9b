//! The model of a [`PaceStore`]: in memory, for several pacers of one process, and for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::feedback::{Cause, credible};
use super::scope::ScopeKey;
use super::store::{Busy, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, ScopeState, StoreFuture};
use crate::{Clock, SystemClock, WallMillis};

/// Turns in memory. It knows nothing after a restart: who restarts often uses a durable store.
///
/// A pacer without a store keeps its own turns already; this one is for several pacers in one process.
///
/// ```
/// # use std::sync::Arc;
/// # use abide_gate::pacing::{MemoryPaceStore, PacePolicy, Pacer};
/// let store = Arc::new(MemoryPaceStore::default());
/// let one = Pacer::builder(PacePolicy::default()).store(store.clone()).build();
/// let other = Pacer::builder(PacePolicy::default()).store(store).build();
/// ```
#[derive(Debug)]
pub struct MemoryPaceStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    scopes: HashMap<ScopeKey, Entry>,
    since_cleaning: u32,
}

#[derive(Debug, Default)]
struct Entry {
    /// The latest of all starts and ends.
    anchor: Option<Instant>,
    hold: Option<(Instant, Cause)>,
    /// Most often none or one.
    leases: Vec<(LeaseId, Instant)>,
    /// Nothing is owed after this.
    forget_at: Option<Instant>,
}

/// So many calls, and what is not owed any more is forgotten.
const CLEAN_EVERY: u32 = 1_024;

/// Kept for so long after the last promise has been kept.
const KEPT: Duration = Duration::from_secs(3_600);

impl Default for MemoryPaceStore {
    fn default() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }
}

impl MemoryPaceStore {
    /// With another clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    fn state(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.since_cleaning += 1;
        if state.since_cleaning >= CLEAN_EVERY {
            state.since_cleaning = 0;
            state.scopes.retain(|_, entry| entry.forget_at.is_some_and(|at| now < at));
        }
        state
    }

    fn reserve_now(&self, scopes: &[ScopeAsk], ask: LeaseAsk) -> Reply {
        let now = self.clock.now();
        let mut state = self.state(now);
        let mut start = now;
        for (scope, wanted) in scopes.iter().enumerate() {
            let Some(entry) = state.scopes.get_mut(&wanted.key) else { continue };
            entry.leases.retain(|(_, expiry)| now < *expiry);
            if let Some(busy) = entry.busy(wanted, ask.max_wait, now) {
                let (wait, reason) = busy;
                return Reply::Refused { scope, wait, reason };
            }
            start = start.max(entry.start(wanted.gap).0.unwrap_or(now));
        }
        for wanted in scopes {
            let entry = state.scopes.entry(wanted.key.clone()).or_default();
            entry.anchor = entry.anchor.max(Some(start));
            entry.leases.push((ask.lease, later(start, ask.ttl)));
            entry.keep_for(later(start, ask.ttl), wanted.gap);
        }
        Reply::Granted { wait: start - now }
    }
}

impl Entry {
    /// Why a request cannot start within `max_wait`.
    fn busy(&self, wanted: &ScopeAsk, max_wait: Duration, now: Instant) -> Option<(Duration, Busy)> {
        if self.leases.len() >= wanted.max_in_flight.into() {
            let first = self.leases.iter().map(|(_, expiry)| *expiry).min().unwrap_or(now);
            return Some((first.saturating_duration_since(now), Busy::InFlight));
        }
        let (start, why) = self.start(wanted.gap);
        let wait = start?.saturating_duration_since(now);
        (wait > max_wait).then_some((wait, why))
    }

    fn start(&self, gap: Duration) -> (Option<Instant>, Busy) {
        let start = self.anchor.map(|anchor| later(anchor, gap));
        match self.hold {
            Some((until, cause)) if Some(until) > start => (Some(until), Busy::Hold(cause)),
            _ => (start, Busy::Gap),
        }
    }

    fn keep_for(&mut self, until: Instant, gap: Duration) {
        self.forget_at = self.forget_at.max(Some(later(until, gap.saturating_add(KEPT))));
    }
}

/// Instants overflow; ten years ahead is for ever.
fn later(at: Instant, by: Duration) -> Instant {
    const EVER: Duration = Duration::from_secs(10 * 366 * 86_400);
    at + by.min(EVER)
}

impl PaceStore for MemoryPaceStore {
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
        Box::pin(async move { Ok(self.reserve_now(scopes, ask)) })
    }

    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut state = self.state(now);
            for wanted in scopes {
                let Some(entry) = state.scopes.get_mut(&wanted.key) else { continue };
                if let Some((_, expiry)) = entry.leases.iter_mut().find(|(id, at)| *id == lease && now < *at)
                {
                    *expiry = later(now, ttl);
                    entry.keep_for(later(now, ttl), wanted.gap);
                }
            }
            Ok(())
        })
    }

    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut state = self.state(now);
            for wanted in scopes {
                let entry = state.scopes.entry(wanted.key.clone()).or_default();
                entry.leases.retain(|(id, _)| *id != lease);
                if ended == Ended::Response {
                    entry.anchor = entry.anchor.max(Some(now));
                }
                entry.keep_for(now, wanted.gap);
            }
            Ok(())
        })
    }

    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        Box::pin(async move {
            let (now, wall) = (self.clock.now(), self.clock.wall());
            let wanted = now + credible(until.since(wall));
            let mut state = self.state(now);
            let entry = state.scopes.entry(scope.clone()).or_default();
            if entry.hold.is_none_or(|(end, _)| wanted > end) {
                entry.hold = Some((wanted, cause));
            }
            let end = entry.hold.map_or(now, |(end, _)| end);
            entry.keep_for(end, Duration::ZERO);
            Ok(wall.plus(end.saturating_duration_since(now)))
        })
    }

    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
        Box::pin(async move {
            let now = self.clock.now();
            let state = self.state(now);
            let Some(entry) = state.scopes.get(scope) else { return Ok(ScopeState::default()) };
            let alive = entry.leases.iter().filter(|(_, expiry)| now < *expiry).count();
            Ok(ScopeState {
                in_flight: u32::try_from(alive).unwrap_or(u32::MAX),
                quiet: entry.anchor.map(|anchor| now.saturating_duration_since(anchor)),
                held: entry.hold.map_or(Duration::ZERO, |(end, _)| end.saturating_duration_since(now)),
            })
        })
    }
}
