//! The model of a [`PaceStore`]: in memory, for several pacers of one process, and for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::feedback::{Cause, STRIKES_KEPT, credible};
use super::scope::ScopeKey;
use super::store::{Busy, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, ScopeState, StoreFuture};
use crate::{CaughtClock, Clock, SystemClock, WallMillis};

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
    hold: Option<Hold>,
    /// Most often none or one.
    leases: Vec<(LeaseId, Instant)>,
    /// Nothing is owed after this.
    forget_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Instant,
    strikes: u8,
    cause: Cause,
}

/// So many calls, and what is not owed any more is forgotten.
const CLEAN_EVERY: u32 = 1_024;

/// Kept for so long after the last promise has been kept.
const KEPT: Duration = Duration::from_secs(3_600);

impl Default for MemoryPaceStore {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), state: Mutex::default() }
    }
}

impl MemoryPaceStore {
    /// With another clock. Where it panics the machine's stands in.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock: Arc::new(CaughtClock::new(clock)), ..Self::default() }
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
        let (mut start, mut strikes) = (now, 0);
        for (scope, wanted) in scopes.iter().enumerate() {
            let Some(entry) = state.scopes.get_mut(&wanted.key) else { continue };
            entry.leases.retain(|(_, expiry)| now < *expiry);
            if let Some(busy) = entry.busy(wanted, ask.max_wait, now) {
                let (wait, reason) = busy;
                return Reply::Refused { scope, wait, reason };
            }
            start = start.max(entry.start(wanted.gap, now).0.unwrap_or(now));
            strikes = strikes.max(entry.strikes(now));
        }
        for wanted in scopes {
            let entry = state.scopes.entry(wanted.key.clone()).or_default();
            entry.anchor = entry.anchor.max(Some(start));
            entry.leases.push((ask.lease, later(start, ask.ttl)));
            entry.keep_for(later(start, ask.ttl), wanted.gap);
        }
        Reply::Granted { wait: start - now, strikes }
    }
}

impl Entry {
    /// Why a request cannot start within `max_wait`.
    fn busy(&self, wanted: &ScopeAsk, max_wait: Duration, now: Instant) -> Option<(Duration, Busy)> {
        if self.leases.len() >= wanted.max_in_flight.into() {
            let starts = self.anchor.filter(|_| wanted.max_in_flight == 1).unwrap_or(now);
            return Some((starts.saturating_duration_since(now), Busy::InFlight));
        }
        let (start, why) = self.start(wanted.gap, now);
        let wait = start?.saturating_duration_since(now);
        (wait > max_wait).then_some((wait, why))
    }

    fn start(&self, gap: Duration, now: Instant) -> (Option<Instant>, Busy) {
        let start = self.anchor.map(|anchor| later(anchor, gap));
        match self.hold {
            Some(Hold { until, cause, .. }) if Some(until) > start => {
                (Some(until), Busy::Hold { cause, strikes: self.strikes(now) })
            }
            _ => (start, Busy::Gap),
        }
    }

    /// Those that are not forgiven.
    fn strikes(&self, now: Instant) -> u8 {
        self.hold.filter(|hold| now < later(hold.until, STRIKES_KEPT)).map_or(0, |hold| hold.strikes)
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
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis> {
        Box::pin(async move {
            let (now, wall) = (self.clock.now(), self.clock.wall());
            let (ahead, ago) = (credible(until.since(wall)), wall.since(until));
            let told = if ago < STRIKES_KEPT { strikes } else { 0 };
            // Some machines cannot say what was before they were started.
            let wanted = Hold { until: now.checked_sub(ago).unwrap_or(now) + ahead, strikes: told, cause };
            let mut state = self.state(now);
            let entry = state.scopes.entry(scope.clone()).or_default();
            let strikes = told.max(entry.strikes(now));
            let longer = entry.hold.filter(|hold| hold.until >= wanted.until).unwrap_or(wanted);
            entry.hold = Some(Hold { strikes, ..longer });
            entry.keep_for(longer.until, Duration::ZERO);
            Ok(wall.plus(longer.until.saturating_duration_since(now)))
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
                held: entry.hold.map_or(Duration::ZERO, |hold| hold.until.saturating_duration_since(now)),
                strikes: entry.strikes(now),
            })
        })
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::ManualClock;

    const A: LeaseAsk =
        LeaseAsk { lease: LeaseId(1), max_wait: Duration::from_secs(3_600), ttl: Duration::from_secs(10) };
    const B: LeaseAsk = LeaseAsk { lease: LeaseId(2), ..A };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn store() -> MemoryPaceStore {
        MemoryPaceStore::with_clock(Arc::new(ManualClock::starting_at(WallMillis(1_000_000))))
    }

    fn scope(key: &str, gap: u64) -> [ScopeAsk; 1] {
        [ScopeAsk::new(key.into(), s(gap), 1)]
    }

    async fn hold(store: &MemoryPaceStore, seconds: u64, strikes: u8, cause: Cause) -> u64 {
        let until = store.clock.wall().plus(s(seconds));
        let end = store.hold(&"a".into(), until, strikes, cause).await.expect("memory does not fail");
        end.since(store.clock.wall()).as_secs()
    }

    fn granted(seconds: u64) -> Reply {
        Reply::Granted { wait: s(seconds), strikes: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lives_until_its_end_and_not_in_that_instant() {
        let (store, scopes) = (store(), scope("a", 0));
        assert_eq!(store.reserve(&scopes, A).await.unwrap(), granted(0));
        advance(Duration::from_millis(9_999)).await;
        assert_eq!(store.peek(&"a".into()).await.unwrap().in_flight, 1);
        assert!(matches!(
            store.reserve(&scopes, B).await.unwrap(),
            Reply::Refused { reason: Busy::InFlight, .. }
        ));
        advance(Duration::from_millis(1)).await;
        assert_eq!(store.peek(&"a".into()).await.unwrap().in_flight, 0);
        assert_eq!(store.reserve(&scopes, B).await.unwrap(), granted(0));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_lease_that_is_alive_is_renewed() {
        for (millis, alive) in [(9_999, 1), (10_000, 0), (10_001, 0)] {
            let (store, scopes) = (store(), scope("a", 0));
            store.reserve(&scopes, A).await.unwrap();
            advance(Duration::from_millis(millis)).await;
            store.renew(&scopes, A.lease, s(10)).await.unwrap();
            advance(s(9)).await;
            assert_eq!(store.peek(&"a".into()).await.unwrap().in_flight, alive, "renewed after {millis} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_gap_counts_also_where_a_hold_ends_with_it_or_before() {
        let refused = |seconds, reason| Reply::Refused { scope: 0, wait: s(seconds), reason };
        let held = Busy::Hold { cause: Cause::Operator, strikes: 0 };
        for (lasts, wait, reason) in [(1, 20, Busy::Gap), (20, 20, Busy::Gap), (21, 21, held)] {
            let (store, scopes) = (store(), scope("a", 20));
            store.reserve(&scopes, A).await.unwrap();
            store.release(&scopes, A.lease, Ended::Response).await.unwrap();
            hold(&store, lasts, 0, Cause::Operator).await;
            let impatient = LeaseAsk { max_wait: s(5), ..B };
            assert_eq!(store.reserve(&scopes, impatient).await.unwrap(), refused(wait, reason), "{lasts}");
            assert_eq!(store.reserve(&scopes, B).await.unwrap(), granted(wait), "{lasts}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_holds_the_longer_counts_and_of_equal_ones_the_first() {
        let first = Cause::Operator;
        for (seconds, end, cause) in [(59, 60, first), (60, 60, first), (61, 61, Cause::Shared)] {
            let store = store();
            assert_eq!(hold(&store, 60, 3, first).await, 60);
            assert_eq!(hold(&store, seconds, 1, Cause::Shared).await, end);
            let reply = store.reserve(&scope("a", 0), LeaseAsk { max_wait: s(0), ..A }).await.unwrap();
            let reason = Busy::Hold { cause, strikes: 3 };
            assert_eq!(reply, Reply::Refused { scope: 0, wait: s(end), reason }, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strikes_are_forgiven_in_the_instant_in_which_their_time_is_over() {
        let store = store();
        hold(&store, 60, 3, Cause::Shared).await;
        advance(s(60) + STRIKES_KEPT - Duration::from_millis(1)).await;
        assert_eq!(store.peek(&"a".into()).await.unwrap().strikes, 3);
        advance(Duration::from_millis(1)).await;
        assert_eq!(store.peek(&"a".into()).await.unwrap().strikes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_owed_any_more_is_forgotten_once_in_1024_calls() {
        let (store, scopes, other) = (store(), scope("a", 5), "other".into());
        store.reserve(&scopes, A).await.unwrap();
        let known = || store.state.lock().unwrap().scopes.contains_key(&ScopeKey::from("a"));
        // It was granted now, lives for ten seconds, its gap is five, and it is kept for an hour after that.
        for (seconds, is_known) in [(3_614, true), (1, false)] {
            advance(s(seconds)).await;
            while store.state.lock().unwrap().since_cleaning != CLEAN_EVERY - 1 {
                assert!(known());
                store.peek(&other).await.unwrap();
            }
            store.peek(&other).await.unwrap();
            assert_eq!((known(), store.state.lock().unwrap().since_cleaning), (is_known, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ten_years_ahead_is_for_ever() {
        let (now, year) = (Instant::now(), s(366 * 86_400));
        assert_eq!(later(now, year * 9), now + year * 9);
        assert_eq!(later(now, Duration::MAX), now + year * 10);
    }
}
