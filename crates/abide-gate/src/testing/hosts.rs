//! The suite that every [`HostStore`] passes.
//!
//! It runs on the clock that is there: on a paused tokio clock for a store in memory, in real time (some seconds) for a store outside.
//! Every fact uses hosts of its own, so one store serves them all. A fact that does not hold panics with what was expected and what the
//! store replied.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::pacing::{
    Ask, Backoff, BackoffCause, GAP_MAX, HolderId, HostState, HostStore, LeaseAsk, LeaseReply, LeaseStatus,
    PacePolicy, Pacer, STRIKES_KEPT, ScopeKey, Want,
};

pub use crate::pacing::pacer::PacerBuilder;

/// A pacer without a gate: with a store, another clock, observers.
pub fn pacer_builder(policy: PacePolicy) -> PacerBuilder {
    Pacer::builder(policy)
}

/// A lease that outlives a fact on a slow machine.
const TTL: Duration = Duration::from_secs(2);

/// A lease that a fact waits for the end of.
const SHORT: Duration = Duration::from_millis(300);

/// How far a store's clock, in whole milliseconds, may differ from ours over a fact.
const BLUR: Duration = Duration::from_millis(5);

const MINUTE: Duration = Duration::from_secs(60);

const THROTTLED: BackoffCause = BackoffCause::Answer { status: 429, retry_after: Some(MINUTE) };

/// What the facts are checked on.
#[derive(Clone, Debug)]
struct Subject {
    store: Arc<dyn HostStore>,
}

/// Checks every fact. Panics at the first that does not hold.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::sync::Arc;
/// use abide_gate::pacing::MemoryHostStore;
///
/// abide_gate::testing::hosts::host_store(Arc::new(MemoryHostStore::default())).await;
/// # }
/// ```
pub async fn host_store(store: Arc<dyn HostStore>) {
    let subject = Subject { store };
    subject.grace_ends().await;
    subject.one_process_has_the_lease().await;
    subject.the_holder_renews_and_asks_again_at_will().await;
    subject.a_released_lease_is_free_at_once().await;
    subject.a_lease_ends_by_itself_and_the_delay_counts_from_its_end().await;
    subject.only_the_holder_gives_up_its_lease().await;
    subject.waiting_processes_are_served_in_order().await;
    subject.the_place_of_a_process_that_has_gone_is_not_kept().await;
    subject.a_process_that_leaves_gives_up_its_place().await;
    subject.the_state_goes_to_the_next_holder().await;
    subject.the_state_is_saved_without_a_lease().await;
    subject.an_open_request_is_not_quiet().await;
    subject.a_backoff_is_only_extended().await;
    subject.a_backoff_beyond_27_hours_is_cut_to_24().await;
    subject.throttle_counts_only_grow().await;
    subject.an_operators_backoff_leaves_nothing_behind().await;
    subject.values_at_the_edges_of_the_types().await;
    subject.hosts_do_not_share_a_lease().await;
    subject.eight_pacers_keep_every_delay().await;
}

/// A backoff survives the store's restart, and so does its throttle count, also when it is over. `reopen` closes the store and opens
/// it again.
pub async fn backoffs_survive_reload<F, Fut>(store: Arc<dyn HostStore>, reopen: F)
where
    F: FnOnce(Arc<dyn HostStore>) -> Fut,
    Fut: Future<Output = Arc<dyn HostStore>>,
{
    let (host, over) = (fresh("reload"), fresh("reload-over"));
    let subject = Subject { store };
    subject.save(&host, backoff(Duration::from_secs(3_600), 4)).await;
    subject.save(&over, backoff(SHORT, 2)).await;
    sleep(SHORT + BLUR).await;
    let subject = Subject { store: reopen(subject.store).await };
    let left = subject.backoff(&host).await;
    assert!(
        left.left > Duration::from_secs(3_500) && left.throttles == 4 && left.cause == THROTTLED,
        "expected about an hour after 4 throttled responses, found {left:?}"
    );
    let left = subject.backoff(&over).await;
    assert_eq!(
        (left.left, left.throttles),
        (Duration::ZERO, 2),
        "expected a count that outlives its backoff"
    );
}

/// Throttle counts are kept for [`STRIKES_KEPT`] after the end of the backoff, and no longer. `pass` lets so much time pass for the
/// store.
pub async fn throttle_counts_are_forgiven<F, Fut>(store: Arc<dyn HostStore>, pass: F)
where
    F: Fn(Duration) -> Fut,
    Fut: Future<Output = ()>,
{
    let (subject, host) = (Subject { store }, fresh("forgiven"));
    subject.save(&host, backoff(MINUTE, 3)).await;
    pass(STRIKES_KEPT).await;
    assert_eq!(subject.backoff(&host).await.throttles, 3, "29 quiet minutes");
    pass(MINUTE + BLUR).await;
    let state = subject.state(&host).await;
    assert_eq!(state.backoff, None, "expected no throttle count after 30 quiet minutes, found {state:?}");
    // What is told late counts from its end all the same.
    let told = |over| HostState {
        backoff: Some(Backoff { left: Duration::ZERO, over, ..some_backoff() }),
        ..quiet()
    };
    subject.save(&host, told(STRIKES_KEPT + MINUTE)).await;
    assert_eq!(subject.state(&host).await.backoff, None, "expected a count that was forgiven to be ignored");
    subject.save(&host, told(STRIKES_KEPT - MINUTE * 2)).await;
    assert_eq!(subject.backoff(&host).await.throttles, some_backoff().throttles);
    pass(MINUTE * 2 + BLUR).await;
    assert_eq!(subject.state(&host).await.backoff, None, "expected 30 minutes from the end that was told");
}

/// A host that no other fact uses, also not in another run against the same server.
fn fresh(name: &str) -> ScopeKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (run, n) = (HolderId::random(), NEXT.fetch_add(1, Ordering::Relaxed));
    ScopeKey::from(&*format!("{name}-{n}-{run}.example"))
}

fn processes<const N: usize>() -> [HolderId; N] {
    [(); N].map(|()| HolderId::random())
}

fn quiet() -> HostState {
    HostState::default()
}

fn some_backoff() -> Backoff {
    Backoff { left: MINUTE, over: Duration::ZERO, throttles: 1, cause: THROTTLED }
}

fn backoff(left: Duration, throttles: u8) -> HostState {
    HostState { backoff: Some(Backoff { left, throttles, ..some_backoff() }), ..quiet() }
}

fn lease(ttl: Duration) -> Want {
    Want::Lease { ttl, again_in: TTL, is_held: false }
}

fn leased(is_wanted: bool) -> LeaseStatus {
    LeaseStatus::Leased { is_wanted }
}

impl Subject {
    async fn exchange(&self, host: &ScopeKey, holder: HolderId, want: Want, state: HostState) -> LeaseReply {
        self.store.exchange(host, LeaseAsk { holder, want, state }).await.expect("the store replies")
    }

    async fn take(&self, host: &ScopeKey, holder: HolderId, ttl: Duration) -> LeaseStatus {
        self.exchange(host, holder, lease(ttl), quiet()).await.lease
    }

    async fn give_up(&self, host: &ScopeKey, holder: HolderId) {
        let reply = self.exchange(host, holder, Want::Release, quiet()).await;
        assert_eq!(reply.lease, LeaseStatus::Released);
    }

    async fn save(&self, host: &ScopeKey, state: HostState) {
        self.exchange(host, HolderId::random(), Want::Release, state).await;
    }

    async fn state(&self, host: &ScopeKey) -> HostState {
        self.exchange(host, HolderId::random(), Want::Release, quiet()).await.state
    }

    async fn backoff(&self, host: &ScopeKey) -> Backoff {
        let state = self.state(host).await;
        state.backoff.unwrap_or_else(|| panic!("expected a backoff, found {state:?}"))
    }

    /// How long the process would have to wait; it must be refused.
    async fn refused(&self, host: &ScopeKey, holder: HolderId, why: &str) -> (Duration, bool) {
        match self.take(host, holder, TTL).await {
            LeaseStatus::Busy { wait, is_next } => (wait, is_next),
            other => panic!("expected Busy, found {other:?}: {why}"),
        }
    }

    /// A store that was just made may lease nothing for one `ttl`.
    async fn grace_ends(&self) {
        let (host, [one]) = (fresh("grace"), processes());
        let began = Instant::now();
        while self.take(&host, one, TTL).await != leased(false) {
            assert!(began.elapsed() < TTL * 3, "expected a lease within {TTL:?} of a new store");
            sleep(TTL / 20).await;
        }
    }

    async fn one_process_has_the_lease(&self) {
        let (host, [one, other]) = (fresh("one"), processes());
        assert_eq!(self.take(&host, one, TTL).await, leased(false));
        let (wait, _) = self.refused(&host, other, "another process has the lease").await;
        assert!(wait > Duration::ZERO && wait <= TTL, "expected at most the lease's {TTL:?}, found {wait:?}");
    }

    async fn the_holder_renews_and_asks_again_at_will(&self) {
        let (host, [one, other]) = (fresh("renew"), processes());
        assert_eq!(self.take(&host, one, SHORT).await, leased(false));
        assert_eq!(self.take(&host, one, TTL).await, leased(false), "its reply may have been lost");
        sleep(SHORT + BLUR).await;
        self.refused(&host, other, "the lease was renewed for longer").await;
        assert_eq!(self.take(&host, one, TTL).await, leased(true), "another process waits");
    }

    async fn a_released_lease_is_free_at_once(&self) {
        let (host, [one, other]) = (fresh("release"), processes());
        self.take(&host, one, TTL).await;
        self.give_up(&host, one).await;
        assert_eq!(self.take(&host, other, TTL).await, leased(false));
    }

    async fn a_lease_ends_by_itself_and_the_delay_counts_from_its_end(&self) {
        let (host, [one, other]) = (fresh("dead"), processes());
        self.take(&host, one, SHORT).await;
        sleep(SHORT * 2).await;
        let reply = self.exchange(&host, other, lease(TTL), quiet()).await;
        assert_eq!(reply.lease, leased(false));
        let since = reply.state.quiet.expect("the holder may have sent until its lease ended");
        assert!(since + BLUR >= SHORT, "expected at least {SHORT:?} since its end, found {since:?}");
        assert!(
            since <= SHORT * 2 + TTL,
            "expected the end of the lease, not its beginning, found {since:?}"
        );
    }

    async fn only_the_holder_gives_up_its_lease(&self) {
        let (host, [one, other]) = (fresh("foreign"), processes());
        self.take(&host, one, TTL).await;
        self.give_up(&host, other).await;
        self.refused(&host, other, "another process cannot give it up").await;
    }

    async fn waiting_processes_are_served_in_order(&self) {
        let (host, [one, second, third]) = (fresh("next"), processes());
        self.take(&host, one, TTL).await;
        assert!(self.refused(&host, second, "it is leased").await.1, "the first to ask is next");
        assert!(!self.refused(&host, third, "it is leased").await.1, "the second to ask is not");
        self.give_up(&host, one).await;
        let (wait, is_next) = self.refused(&host, third, "another process is next").await;
        assert!(!is_next && wait <= TTL, "{wait:?}");
        self.refused(&host, one, "it has just given it up to the next").await;
        assert_eq!(self.take(&host, second, TTL).await, leased(true));
        self.give_up(&host, second).await;
        self.refused(&host, one, "it came back after the third").await;
        assert_eq!(self.take(&host, third, TTL).await, leased(true));
        assert!(self.refused(&host, one, "it is leased").await.1, "and now it is the first to wait");
    }

    async fn the_place_of_a_process_that_has_gone_is_not_kept(&self) {
        let (host, [one, gone, other]) = (fresh("gone"), processes());
        self.take(&host, one, TTL).await;
        let want = Want::Lease { ttl: TTL, again_in: SHORT, is_held: false };
        self.exchange(&host, gone, want, quiet()).await;
        self.give_up(&host, one).await;
        self.refused(&host, other, "another process is next").await;
        sleep(SHORT + BLUR).await;
        assert_eq!(self.take(&host, other, TTL).await, leased(false));
    }

    async fn a_process_that_leaves_gives_up_its_place(&self) {
        let (host, [one, leaves, other]) = (fresh("leaves"), processes());
        self.take(&host, one, TTL).await;
        self.refused(&host, leaves, "it is leased").await;
        self.give_up(&host, leaves).await;
        self.give_up(&host, one).await;
        assert_eq!(self.take(&host, other, TTL).await, leased(false));
    }

    async fn the_state_goes_to_the_next_holder(&self) {
        let (host, [one, other]) = (fresh("hand-over"), processes());
        self.take(&host, one, TTL).await;
        let knows = HostState { quiet: Some(SHORT), delay: MINUTE, backoff: Some(some_backoff()) };
        self.exchange(&host, one, Want::Release, knows).await;
        let reply = self.exchange(&host, other, lease(TTL), quiet()).await;
        assert_eq!(reply.lease, leased(false));
        let HostState { quiet, delay, backoff } = reply.state;
        let (since, backoff) = (quiet.expect("one has sent"), backoff.expect("one was throttled"));
        assert!(since + BLUR >= SHORT && since < SHORT + TTL, "expected about {SHORT:?}, found {since:?}");
        assert_eq!((delay, backoff.throttles, backoff.cause), (MINUTE, 1, THROTTLED));
        assert!(backoff.left <= MINUTE + BLUR && backoff.left + TTL > MINUTE, "{backoff:?}");
    }

    async fn the_state_is_saved_without_a_lease(&self) {
        let (host, [one]) = (fresh("late"), processes());
        self.take(&host, one, TTL).await;
        // The response of another process that had the lease before has only ended now.
        let knows = HostState { quiet: Some(Duration::ZERO), ..backoff(MINUTE, 1) };
        self.save(&host, knows).await;
        let reply = self.exchange(&host, one, lease(TTL), quiet()).await;
        assert_eq!(reply.lease, leased(false), "whoever saves does not take the lease away");
        assert!(reply.state.quiet < Some(TTL) && reply.state.backoff.is_some(), "{:?}", reply.state);
    }

    async fn an_open_request_is_not_quiet(&self) {
        let host = fresh("open");
        let told = |quiet| HostState { quiet: Some(quiet), ..HostState::default() };
        self.save(&host, told(Duration::ZERO)).await;
        self.save(&host, told(MINUTE)).await;
        let since = self.state(&host).await.quiet;
        assert!(since < Some(TTL), "expected the later of two times, found {since:?}");
    }

    async fn a_backoff_is_only_extended(&self) {
        let host = fresh("extended");
        for (left, least) in [(MINUTE, MINUTE), (SHORT, MINUTE), (MINUTE * 2, MINUTE * 2)] {
            self.save(&host, backoff(left, 1)).await;
            let found = self.backoff(&host).await.left;
            assert!(
                found + TTL > least && found <= least + BLUR,
                "expected about {least:?}, found {found:?}"
            );
        }
    }

    async fn a_backoff_beyond_27_hours_is_cut_to_24(&self) {
        const HOUR: Duration = Duration::from_secs(3_600);
        for (asked, kept) in [(26, 26), (28, 24), (24 * 365, 24)] {
            let host = fresh("cut");
            self.save(&host, backoff(HOUR * asked, 1)).await;
            let found = self.backoff(&host).await.left;
            assert!(
                found <= HOUR * kept + BLUR && found + MINUTE > HOUR * kept,
                "expected {kept} h of {asked} h, found {found:?}"
            );
        }
    }

    async fn throttle_counts_only_grow(&self) {
        let host = fresh("counts");
        for (told, kept) in [(2, 2), (1, 2), (5, 5)] {
            self.save(&host, backoff(MINUTE, told)).await;
            assert_eq!(self.backoff(&host).await.throttles, kept);
        }
    }

    async fn an_operators_backoff_leaves_nothing_behind(&self) {
        let host = fresh("operator");
        let told = Backoff { left: SHORT, over: Duration::ZERO, throttles: 0, cause: BackoffCause::Operator };
        self.save(&host, HostState { backoff: Some(told), ..quiet() }).await;
        assert_eq!(self.backoff(&host).await.cause, BackoffCause::Operator);
        sleep(SHORT + BLUR).await;
        let state = self.state(&host).await;
        assert_eq!(state.backoff, None, "expected no throttle count, found {state:?}");
    }

    async fn values_at_the_edges_of_the_types(&self) {
        let (host, [one]) = (fresh("edges"), processes());
        let most = Backoff {
            left: GAP_MAX,
            over: Duration::ZERO,
            throttles: u8::MAX,
            cause: BackoffCause::EnhanceYourCalm,
        };
        let knows = HostState { quiet: Some(Duration::MAX), delay: GAP_MAX, backoff: Some(most) };
        let want = Want::Lease { ttl: Duration::from_secs(3_600), again_in: Duration::ZERO, is_held: true };
        let reply = self.exchange(&host, one, want, knows).await;
        assert_eq!(reply.lease, leased(false));
        let found = reply.state.backoff.expect("a backoff");
        assert_eq!(
            (reply.state.delay, found.throttles, found.cause),
            (GAP_MAX, u8::MAX, BackoffCause::EnhanceYourCalm)
        );
        let odd = ScopeKey::from("domain/{\u{e4} }:*");
        assert!(
            matches!(self.take(&odd, one, TTL).await, LeaseStatus::Leased { .. }),
            "a key with odd characters"
        );
        self.give_up(&odd, one).await;
    }

    async fn hosts_do_not_share_a_lease(&self) {
        let [one, other] = processes();
        for (holder, name) in [(one, "a"), (other, "b"), (one, "c")] {
            assert_eq!(self.take(&fresh(name), holder, TTL).await, leased(false));
        }
    }

    /// The whole pacer on top: requests of eight processes to one host, and the delay between any two.
    async fn eight_pacers_keep_every_delay(&self) {
        const DELAY: Duration = Duration::from_millis(50);
        let url = format!("http://{}/", fresh("eight")).parse().expect("a URL");
        let (mut tasks, log) = (JoinSet::new(), Arc::new(std::sync::Mutex::new(Vec::new())));
        let policy = PacePolicy::default().danger_min_gap(DELAY).with_max_wait(Duration::from_secs(300));
        let policy = policy.with_lease(Duration::from_secs(1));
        for _ in 0..8 {
            let pacer = Pacer::builder(policy.clone()).store(Arc::clone(&self.store)).build();
            let (url, log): (url::Url, _) = (Clone::clone(&url), Arc::clone(&log));
            tasks.spawn(async move {
                for _ in 0..2 {
                    let permit = pacer.acquire(&url, Ask::new()).await.expect("a permit within five minutes");
                    let began = Instant::now();
                    sleep(Duration::from_millis(2)).await;
                    log.lock().expect("no other task has panicked").push((began, Instant::now()));
                    permit.finish();
                }
                pacer.settled(Duration::from_secs(10)).await;
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
        let mut log = std::mem::take(&mut *log.lock().expect("no task has panicked"));
        log.sort_unstable();
        assert_eq!(log.len(), 16);
        for pair in log.windows(2) {
            let found = pair[1].0.saturating_duration_since(pair[0].1);
            assert!(found + BLUR >= DELAY, "expected {DELAY:?} between two requests, found {found:?}");
        }
    }
}
