//! The suite that every [`PaceStore`] must pass.
//!
//! It runs on the clock that is there: on a paused tokio clock for a store in memory, in real time (some seconds) for a
//! store outside. Every fact uses scopes of its own, so one store can serve them all.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::pacing::{
    Ask, Busy, Cause, Ended, GAP_MAX, LeaseAsk, LeaseId, PacePolicy, PaceStore, Pacer, Reply, STRIKES_KEPT,
    ScopeAsk, ScopeKey, ScopeState,
};
use crate::{Clock, SystemClock, WallMillis};

/// What the facts are checked on.
#[derive(Clone, Debug)]
pub struct Subject {
    store: Arc<dyn PaceStore>,
    clock: Arc<dyn Clock>,
}

/// The gap of most facts: long enough for a slow machine to tell early from late.
const GAP: Duration = Duration::from_millis(400);

/// How far a store's clock, in whole milliseconds, may differ from ours over a gap.
const BLUR: Duration = Duration::from_millis(3);

const TTL: Duration = Duration::from_secs(30);

const COMPLAINT: Cause = Cause::Answer { status: 429, retry_after: Some(Duration::from_secs(60)) };

/// Checks every fact. Panics at the first that does not hold.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::sync::Arc;
/// use abide_gate::pacing::MemoryPaceStore;
///
/// abide_gate::testing::pacing::pace_store(Arc::new(MemoryPaceStore::default())).await;
/// # }
/// ```
pub async fn pace_store(store: Arc<dyn PaceStore>) {
    let subject = Subject { store, clock: Arc::new(SystemClock) };
    subject.a_grant_moves_the_anchor().await;
    subject.a_refusal_changes_nothing().await;
    subject.the_gap_counts_from_the_end_of_a_response().await;
    subject.an_unsent_request_frees_its_place().await;
    subject.at_most_n_leases_at_a_time().await;
    subject.a_busy_scope_says_when_the_request_in_flight_starts().await;
    subject.an_expired_lease_frees_its_place().await;
    subject.a_renewed_lease_lives_and_an_expired_one_stays_dead().await;
    subject.releasing_an_expired_or_foreign_lease_frees_nothing_else().await;
    subject.a_hold_never_shortens().await;
    subject.a_hold_beyond_27_hours_is_cut_to_24().await;
    subject.strikes_outlive_their_hold_and_only_grow().await;
    subject.strikes_without_a_hold_hold_nothing().await;
    subject.a_grant_tells_the_most_strikes_of_its_scopes().await;
    subject.a_lease_is_not_confirmed_while_its_scope_is_held().await;
    subject.all_scopes_or_none().await;
    subject.values_at_the_edges_of_the_types().await;
    subject.eight_clients_keep_every_gap().await;
    subject.cancelled_requests_leave_no_lease().await;
}

/// A hold outlives the store's restart, and so do its strikes, also when it is over. `reopen` closes the store and opens it again.
pub async fn holds_survive_reload<F, Fut>(store: Arc<dyn PaceStore>, reopen: F)
where
    F: FnOnce(Arc<dyn PaceStore>) -> Fut,
    Fut: Future<Output = Arc<dyn PaceStore>>,
{
    let (scope, over) = (fresh("reload"), fresh("reload-over"));
    let until = SystemClock.wall().plus(Duration::from_secs(3_600));
    let set = store.hold(&scope, until, 4, COMPLAINT).await.expect("the store answers");
    store.hold(&over, SystemClock.wall().plus(GAP), 2, COMPLAINT).await.expect("the store answers");
    sleep(GAP + BLUR).await;
    let again = reopen(store).await;
    let ScopeState { held, strikes, .. } = again.peek(&scope).await.expect("the store answers");
    let left = set.since(SystemClock.wall());
    assert!(held + Duration::from_secs(60) > left, "a hold of {left:?} became {held:?} by reopening");
    assert_eq!(strikes, 4);
    let state = again.peek(&over).await.expect("the store answers");
    assert_eq!((state.held, state.strikes), (Duration::ZERO, 2), "the next complaint is the third");
}

/// Strikes are kept for [`STRIKES_KEPT`] after the end of the hold, and no longer. `pass` lets so much time pass for the store.
pub async fn strikes_are_forgiven<F, Fut>(store: Arc<dyn PaceStore>, pass: F)
where
    F: Fn(Duration) -> Fut,
    Fut: Future<Output = ()>,
{
    const MINUTE: Duration = Duration::from_secs(60);
    let subject = Subject { store, clock: Arc::new(SystemClock) };
    let scopes = scope("forgiven", u16::MAX);
    subject.hold(&scopes[0].key, MINUTE, 3).await;
    let strikes = async || {
        let ask = asking(GAP, TTL);
        let Reply::Granted { strikes, .. } = subject.reserve(&scopes, ask).await else { return None };
        subject.release(&scopes, ask.lease, Ended::Unsent).await;
        assert_eq!(subject.state(&scopes[0].key).await.strikes, strikes);
        Some(strikes)
    };
    pass(MINUTE + STRIKES_KEPT - MINUTE).await;
    assert_eq!(strikes().await, Some(3), "29 quiet minutes");
    pass(MINUTE + GAP).await;
    assert_eq!(strikes().await, Some(0), "30 quiet minutes");
    // What is told late counts from its end all the same.
    let told = async |ago| {
        let until = SystemClock.wall().minus(ago);
        subject.store.hold(&scopes[0].key, until, 2, COMPLAINT).await.expect("the store answers");
    };
    told(STRIKES_KEPT + MINUTE).await;
    assert_eq!(subject.state(&scopes[0].key).await.strikes, 0, "told when they were forgiven");
    told(STRIKES_KEPT - MINUTE * 2).await;
    told(STRIKES_KEPT - MINUTE * 5).await;
    told(STRIKES_KEPT - MINUTE * 2).await;
    assert_eq!(subject.state(&scopes[0].key).await.strikes, 2, "25 quiet minutes");
    pass(MINUTE * 4).await;
    assert_eq!(strikes().await, Some(2), "29 quiet minutes");
    pass(MINUTE + GAP).await;
    assert_eq!(strikes().await, Some(0), "30 quiet minutes");
    // What is forgiven is not added to what comes then.
    subject.hold(&scopes[0].key, MINUTE, 1).await;
    assert_eq!(subject.state(&scopes[0].key).await.strikes, 1);
}

/// A key that no other fact has used, in no earlier run either.
fn fresh(name: &str) -> ScopeKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (run, n) = (SystemClock.wall().0, NEXT.fetch_add(1, Ordering::Relaxed));
    ScopeKey::from(format!("{name}-{run}-{n}.test").as_str())
}

fn scope(name: &str, max_in_flight: u16) -> [ScopeAsk; 1] {
    [ScopeAsk::new(fresh(name), GAP, max_in_flight)]
}

fn asking(max_wait: Duration, ttl: Duration) -> LeaseAsk {
    LeaseAsk { lease: LeaseId::random(), max_wait, ttl }
}

impl Subject {
    async fn reserve(&self, scopes: &[ScopeAsk], ask: LeaseAsk) -> Reply {
        self.store.reserve(scopes, ask).await.expect("the store answers")
    }

    async fn granted(&self, scopes: &[ScopeAsk], ask: LeaseAsk) -> Duration {
        match self.reserve(scopes, ask).await {
            Reply::Granted { wait, .. } => wait,
            refused @ Reply::Refused { .. } => panic!("expected a grant, found {refused:?}"),
        }
    }

    async fn refused(&self, scopes: &[ScopeAsk], ask: LeaseAsk) -> (usize, Duration, Busy) {
        match self.reserve(scopes, ask).await {
            Reply::Refused { scope, wait, reason } => (scope, wait, reason),
            granted @ Reply::Granted { .. } => panic!("expected a refusal, found {granted:?}"),
        }
    }

    async fn release(&self, scopes: &[ScopeAsk], lease: LeaseId, ended: Ended) {
        self.store.release(scopes, lease, ended).await.expect("the store answers");
    }

    async fn state(&self, scope: &ScopeKey) -> ScopeState {
        self.store.peek(scope).await.expect("the store answers")
    }

    async fn in_flight(&self, scope: &ScopeAsk) -> u32 {
        self.state(&scope.key).await.in_flight
    }

    async fn hold(&self, scope: &ScopeKey, lasts: Duration, strikes: u8) {
        let until = self.clock.wall().plus(lasts);
        self.store.hold(scope, until, strikes, COMPLAINT).await.expect("the store answers");
    }

    async fn a_grant_moves_the_anchor(&self) {
        let scopes = scope("anchor", 3);
        let began = self.clock.now();
        assert_eq!(self.granted(&scopes, asking(GAP * 9, TTL)).await, Duration::ZERO);
        for n in 1..3 {
            let wait = self.granted(&scopes, asking(GAP * 9, TTL)).await;
            let passed = began.elapsed();
            assert!(wait <= GAP * n && wait + passed + BLUR >= GAP * n, "grant {n} after {wait:?}");
        }
    }

    async fn a_refusal_changes_nothing(&self) {
        let scopes = scope("refusal", 2);
        let first = asking(GAP, TTL);
        let began = self.clock.now();
        self.granted(&scopes, first).await;
        for _ in 0..20 {
            let (at, wait, reason) = self.refused(&scopes, asking(Duration::ZERO, TTL)).await;
            assert_eq!((at, reason), (0, Busy::Gap));
            assert!(wait <= GAP, "{wait:?}");
        }
        assert_eq!(self.in_flight(&scopes[0]).await, 1);
        let wait = self.granted(&scopes, asking(GAP * 2, TTL)).await;
        assert!(wait <= GAP && wait + began.elapsed() + BLUR >= GAP, "{wait:?}");
    }

    async fn the_gap_counts_from_the_end_of_a_response(&self) {
        let (scopes, first) = (scope("end", 1), asking(GAP, TTL));
        self.granted(&scopes, first).await;
        sleep(GAP * 2).await;
        // Before the store hears of it: that may take it some milliseconds, in which the gap runs already.
        let ended = self.clock.now();
        self.release(&scopes, first.lease, Ended::Response).await;
        let wait = self.granted(&scopes, asking(GAP * 2, TTL)).await;
        assert!(wait <= GAP && wait + ended.elapsed() + BLUR >= GAP, "{wait:?} after the end");
    }

    async fn an_unsent_request_frees_its_place(&self) {
        let (scopes, first) = (scope("unsent", 1), asking(GAP, TTL));
        self.granted(&scopes, first).await;
        sleep(GAP * 2).await;
        self.release(&scopes, first.lease, Ended::Unsent).await;
        assert_eq!(self.granted(&scopes, asking(Duration::ZERO, TTL)).await, Duration::ZERO);
    }

    async fn at_most_n_leases_at_a_time(&self) {
        for n in [1, 3] {
            let scopes = [ScopeAsk::new(fresh("leases"), Duration::ZERO, n)];
            let mut leases = Vec::new();
            for _ in 0..n {
                let ask = asking(GAP, TTL);
                self.granted(&scopes, ask).await;
                leases.push(ask.lease);
            }
            let (_, wait, reason) = self.refused(&scopes, asking(GAP, TTL)).await;
            assert_eq!((wait, reason), (Duration::ZERO, Busy::InFlight));
            self.release(&scopes, leases[0], Ended::Response).await;
            self.granted(&scopes, asking(GAP, TTL)).await;
            self.refused(&scopes, asking(GAP, TTL)).await;
        }
    }

    async fn a_busy_scope_says_when_the_request_in_flight_starts(&self) {
        let (scopes, first, next) = (scope("starts", 1), asking(GAP, TTL), asking(GAP * 4, TTL));
        self.granted(&scopes, first).await;
        self.release(&scopes, first.lease, Ended::Response).await;
        let began = self.clock.now();
        let granted = self.granted(&scopes, next).await;
        let (_, wait, reason) = self.refused(&scopes, asking(GAP * 4, TTL)).await;
        assert_eq!(reason, Busy::InFlight);
        assert!(wait <= granted && wait + began.elapsed() + BLUR >= granted, "{wait:?} of {granted:?}");
        sleep(granted).await;
        let (_, wait, reason) = self.refused(&scopes, asking(GAP * 4, TTL)).await;
        assert!(reason == Busy::InFlight && wait <= BLUR, "it has started: {wait:?}");
    }

    async fn an_expired_lease_frees_its_place(&self) {
        let scopes = scope("expired", 1);
        self.granted(&scopes, asking(GAP, GAP)).await;
        self.refused(&scopes, asking(GAP * 9, TTL)).await;
        sleep(GAP + BLUR).await;
        assert_eq!(self.in_flight(&scopes[0]).await, 0);
        self.granted(&scopes, asking(GAP * 9, TTL)).await;
    }

    async fn a_renewed_lease_lives_and_an_expired_one_stays_dead(&self) {
        let (scopes, ttl) = (scope("renewed", 1), GAP * 4);
        let ask = asking(GAP, ttl);
        self.granted(&scopes, ask).await;
        for _ in 0..6 {
            sleep(GAP).await;
            self.store.renew(&scopes, ask.lease, ttl).await.expect("the store answers");
        }
        assert_eq!(self.in_flight(&scopes[0]).await, 1);
        sleep(ttl + BLUR).await;
        self.store.renew(&scopes, ask.lease, TTL).await.expect("the store answers");
        assert_eq!(self.in_flight(&scopes[0]).await, 0);
    }

    async fn releasing_an_expired_or_foreign_lease_frees_nothing_else(&self) {
        let (scopes, dead, alive) = (scope("foreign", 1), asking(GAP, GAP), asking(GAP, TTL));
        self.granted(&scopes, dead).await;
        sleep(GAP * 2).await;
        self.granted(&scopes, alive).await;
        for stranger in [dead.lease, LeaseId::random()] {
            self.release(&scopes, stranger, Ended::Response).await;
            assert_eq!(self.in_flight(&scopes[0]).await, 1, "the other lease is untouched");
        }
        self.release(&scopes, alive.lease, Ended::Response).await;
        sleep(GAP + BLUR).await;
        // The late end of a response counts: a request was on the wire until then.
        self.release(&scopes, dead.lease, Ended::Response).await;
        let (_, wait, reason) = self.refused(&scopes, asking(Duration::ZERO, TTL)).await;
        assert!(reason == Busy::Gap && !wait.is_zero());
    }

    async fn a_hold_never_shortens(&self) {
        let (scopes, wall) = (scope("hold", 1), self.clock.wall());
        let (far, near) = (wall.plus(Duration::from_secs(100)), wall.plus(Duration::from_secs(10)));
        let hold = async |until| {
            self.store.hold(&scopes[0].key, until, 1, COMPLAINT).await.expect("the store answers")
        };
        let first = hold(far).await;
        // By as much as the command takes it can end later, since only its length counts; never earlier.
        let late = Duration::from_secs(1);
        assert!(first.since(far) <= late && far.since(first) <= BLUR, "{first:?}, expected {far:?}");
        let second = hold(near).await;
        assert!(far.since(second) <= BLUR, "shortened from {far:?} to {second:?}");
        let (_, wait, reason) = self.refused(&scopes, asking(Duration::from_secs(30), TTL)).await;
        assert_eq!(reason, Busy::Hold { cause: COMPLAINT, strikes: 1 });
        assert!(wait > Duration::from_secs(90), "{wait:?}");
        assert!(self.granted(&scopes, asking(Duration::from_secs(200), TTL)).await > Duration::from_secs(90));
    }

    async fn a_hold_beyond_27_hours_is_cut_to_24(&self) {
        let (key, wall) = (fresh("cut"), self.clock.wall());
        self.store
            .hold(&key, wall.plus(Duration::from_secs(400 * 86_400)), 1, COMPLAINT)
            .await
            .expect("the store answers");
        let held = self.store.peek(&key).await.expect("the store answers").held;
        let day = Duration::from_secs(86_400);
        assert!(held <= day + BLUR && held > day - Duration::from_secs(60), "{held:?}");
    }

    async fn strikes_outlive_their_hold_and_only_grow(&self) {
        let scopes = scope("strikes", 1);
        let key = &scopes[0].key;
        let ask = asking(Duration::ZERO, TTL);
        assert_eq!(self.reserve(&scopes, ask).await, Reply::Granted { wait: Duration::ZERO, strikes: 0 });
        self.release(&scopes, ask.lease, Ended::Unsent).await;
        // A longer hold does not forget them, and a shorter one adds to them: each process tells what it knows.
        for (lasts, told, known) in [(GAP * 4, 2, 2), (GAP * 6, 1, 2), (GAP, 3, 3), (GAP * 6, 0, 3)] {
            self.hold(key, lasts, told).await;
            let (_, _, reason) = self.refused(&scopes, asking(Duration::ZERO, TTL)).await;
            assert_eq!(reason, Busy::Hold { cause: COMPLAINT, strikes: known });
            assert_eq!(self.state(key).await.strikes, known);
        }
        sleep(GAP * 6 + BLUR).await;
        let ask = asking(Duration::ZERO, TTL);
        assert_eq!(self.reserve(&scopes, ask).await, Reply::Granted { wait: Duration::ZERO, strikes: 3 });
        // What was answered well in between forgives nothing before its time.
        self.release(&scopes, ask.lease, Ended::Response).await;
        assert_eq!(self.state(key).await.strikes, 3);
    }

    async fn strikes_without_a_hold_hold_nothing(&self) {
        let scopes = scope("told", 1);
        let now = self.clock.wall();
        let past = now.minus(Duration::from_secs(60));
        let end = self.store.hold(&scopes[0].key, past, 5, COMPLAINT).await.expect("the store answers");
        assert!(now.since(end) <= BLUR, "nothing is held, so now: {now:?}, found {end:?}");
        let state = self.state(&scopes[0].key).await;
        assert_eq!((state.held, state.strikes), (Duration::ZERO, 5));
        let ask = asking(Duration::ZERO, TTL);
        assert_eq!(self.reserve(&scopes, ask).await, Reply::Granted { wait: Duration::ZERO, strikes: 5 });
    }

    async fn a_grant_tells_the_most_strikes_of_its_scopes(&self) {
        for struck in [0, 1] {
            let mut scopes = [ScopeAsk::new(fresh("most-a"), GAP, 1), ScopeAsk::new(fresh("most-b"), GAP, 1)];
            scopes.sort_by(|a, b| a.key.cmp(&b.key));
            self.hold(&scopes[struck].key, Duration::ZERO, 2).await;
            self.hold(&scopes[1 - struck].key, Duration::ZERO, 1).await;
            match self.reserve(&scopes, asking(GAP, TTL)).await {
                Reply::Granted { strikes, .. } => assert_eq!(strikes, 2),
                refused @ Reply::Refused { .. } => panic!("expected a grant, found {refused:?}"),
            }
        }
    }

    async fn a_lease_is_not_confirmed_while_its_scope_is_held(&self) {
        let (scopes, ask) = (scope("confirm", 1), asking(GAP, TTL));
        self.granted(&scopes, ask).await;
        let stands =
            async |wait| self.store.confirm(&scopes, ask.lease, wait).await.expect("the store answers");
        assert!(stands(Duration::ZERO).await);
        self.hold(&scopes[0].key, GAP, 1).await;
        assert!(!stands(Duration::ZERO).await);
        assert!(stands(GAP * 2).await, "it is over by then");
        sleep(GAP + BLUR).await;
        assert!(stands(Duration::ZERO).await);
    }

    async fn all_scopes_or_none(&self) {
        let mut scopes = [ScopeAsk::new(fresh("pair-a"), GAP, 1), ScopeAsk::new(fresh("pair-b"), GAP, 1)];
        scopes.sort_by(|a, b| a.key.cmp(&b.key));
        let (both, one) = (asking(GAP, TTL), asking(GAP, TTL));
        self.granted(&scopes[1..], one).await;
        let (at, _, _) = self.refused(&scopes, both).await;
        assert_eq!(at, 1);
        assert_eq!(self.in_flight(&scopes[0]).await, 0);
        assert_eq!(self.granted(&scopes[..1], asking(Duration::ZERO, TTL)).await, Duration::ZERO);
    }

    async fn values_at_the_edges_of_the_types(&self) {
        let edges = [Duration::ZERO, Duration::from_nanos(1), GAP_MAX, Duration::MAX];
        for gap in [Duration::ZERO, Duration::from_nanos(1), GAP_MAX] {
            for (max_wait, ttl) in edges.into_iter().flat_map(|wait| edges.map(|ttl| (wait, ttl))) {
                let scopes = [ScopeAsk::new(fresh("edge"), gap, u16::MAX)];
                let ask = LeaseAsk { lease: LeaseId(u128::MAX), max_wait, ttl };
                self.granted(&scopes, ask).await;
                self.reserve(&scopes, LeaseAsk { lease: LeaseId(0), max_wait, ttl }).await;
                self.store.renew(&scopes, ask.lease, ttl).await.expect("the store answers");
                self.release(&scopes, ask.lease, Ended::Response).await;
            }
        }
        for until in [WallMillis(0), WallMillis(u64::MAX)] {
            let key = fresh("edge-hold");
            for strikes in [u8::MAX, 0] {
                self.store.hold(&key, until, strikes, Cause::Operator).await.expect("the store answers");
                let kept = if until == WallMillis(0) { 0 } else { u8::MAX };
                assert_eq!(self.state(&key).await.strikes, kept);
            }
        }
        self.release(&scope("nobody", 1), LeaseId(7), Ended::Unsent).await;
        assert_eq!(self.in_flight(&scope("nobody", 1)[0]).await, 0);
    }

    async fn eight_clients_keep_every_gap(&self) {
        const CLIENTS: usize = 8;
        const REQUESTS: usize = 100;
        let gap = Duration::from_millis(20);
        let scopes = Arc::new([ScopeAsk::new(fresh("eight"), gap, 1)]);
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (subject, scopes, log) = (self.clone(), Arc::clone(&scopes), Arc::clone(&log));
            clients.spawn(async move {
                for _ in 0..REQUESTS {
                    subject.one_request(&*scopes, &log).await;
                }
            });
        }
        clients.join_all().await;
        let mut log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        log.sort();
        assert_eq!(log.len(), CLIENTS * REQUESTS);
        for pair in log.windows(2) {
            let apart = pair[1].0.checked_duration_since(pair[0].1);
            assert!(
                apart.is_some_and(|apart| apart + BLUR >= gap),
                "{apart:?} from an end to the next start"
            );
        }
    }

    /// One request: polls for the turn, and writes down its start and end.
    async fn one_request(&self, scopes: &[ScopeAsk], log: &Mutex<Vec<(Instant, Instant)>>) {
        let ask = asking(Duration::from_secs(10), TTL);
        loop {
            match self.reserve(scopes, ask).await {
                Reply::Granted { wait, .. } => {
                    sleep(wait).await;
                    break;
                }
                Reply::Refused { .. } => sleep(Duration::from_millis(2)).await,
            }
        }
        let start = self.clock.now();
        sleep(Duration::from_millis(1)).await;
        // The end is before the release: a server sees the end of its answer before anybody else hears of it.
        let end = self.clock.now();
        self.release(scopes, ask.lease, Ended::Response).await;
        log.lock().unwrap_or_else(PoisonError::into_inner).push((start, end));
    }

    async fn cancelled_requests_leave_no_lease(&self) {
        let policy = PacePolicy::default().danger_min_gap(Duration::from_millis(5));
        let pacer = Pacer::builder(policy).store(Arc::clone(&self.store)).build();
        let key = fresh("cancelled");
        let url = format!("http://{key}/").parse().expect("the key is a host name");
        for n in 0..100_u64 {
            // Cancelled after 0 to 12 ms: before, while and after the store is asked.
            let cancel = Duration::from_micros(n * 7_919 % 12_000);
            let request = async {
                let permit = pacer.acquire(&url, Ask::new()).await;
                sleep(Duration::from_millis(3)).await;
                drop(permit);
            };
            let _ = tokio::time::timeout(cancel, request).await;
        }
        let ask = ScopeAsk::new(key, Duration::ZERO, 1);
        for _ in 0..100 {
            if self.in_flight(&ask).await == 0 {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("a cancelled request has left a lease behind");
    }
}
