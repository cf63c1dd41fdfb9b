//! The suite that every [`HostStore`] passes.
//!
//! Every fact uses hosts of its own, so one store serves them all. `docs/stores.md` shows how to run it.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use url::Url;

use super::{check, poll_once, replied};
use crate::pacing::{
    Backoff, BackoffCause, DELAY_MAX, HostEntry, HostState, HostStore, LeaseAsk, LeaseStatus, PacePolicy,
    Permit, THROTTLES_KEPT, Want,
};
use crate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use crate::{BoxFuture, Denied, Failure, Gate, GateBuilder, HolderId, Refusal, WallMillis};

/// A gate that cannot fetch robots.txt: only [`acquire`] is used.
pub fn gate(settings: GateBuilder) -> Gate {
    settings.build(Vec::new(), Arc::new(Nowhere))
}

#[derive(Debug)]
struct Nowhere;

impl Fetch for Nowhere {
    fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(async { Err(FetchError::new(Failure::Other, "no robots.txt is fetched here")) })
    }
}

/// A permit from the gate's pacing alone, as if robots.txt asked for this delay. It is waited for as long as
/// the `budget` says.
///
/// # Errors
/// As [`Gate::acquire`].
pub async fn acquire(
    gate: &Gate,
    url: &Url,
    crawl_delay: Duration,
    budget: Duration,
) -> Result<Permit, Denied> {
    gate.pacer.acquire(url, crawl_delay, budget).await.map_err(|refusal| gate.denied(refusal, url))
}

/// A lease that outlives a fact on a slow machine, and how late a store may reply on one.
const TTL: Duration = Duration::from_secs(10);

/// A lease whose end a fact waits for. No fact relies on a call being faster.
const SHORT: Duration = Duration::from_millis(50);

/// How far a store's clock, in whole milliseconds, may differ from ours over a fact.
const BLUR: Duration = Duration::from_millis(5);

/// What ends at a time may end so much later.
const ROUNDING: Duration = Duration::from_millis(1);

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const THROTTLED: BackoffCause = BackoffCause::Answer { status: 429, retry_after: Some(MINUTE) };

/// Checks a [`HostStore`] against what its trait promises. `pass` lets time pass for the store:
/// `tokio::time::sleep` if it follows tokio's clock, paused or not, or a function that moves the clock of the
/// store. It has to let a quarter of a second pass in all.
///
/// ```
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() {
///     let store = abide_gate::testing::MemoryStore::new();
///     abide_gate::testing::hosts::conformance(std::sync::Arc::new(store), tokio::time::sleep).await;
/// }
/// ```
///
/// # Panics
/// At the first fact that does not hold, with the call, what was expected of it, and what was found.
pub async fn conformance<F>(store: Arc<dyn HostStore>, pass: impl Fn(Duration) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let subject = Subject { store, pass };
    subject.grace_ends().await;
    subject.one_process_has_the_lease_until_it_gives_it_up().await;
    subject.the_holder_renews_and_asks_again_at_will().await;
    subject.a_lease_ends_by_itself_and_the_delay_counts_from_its_end().await;
    subject.a_dropped_call_can_be_asked_again().await;
    subject.a_release_that_comes_late_gives_up_nothing().await;
    subject.a_lease_that_is_asked_for_late_is_not_given().await;
    subject.waiting_processes_are_served_in_order().await;
    subject.the_place_of_a_process_that_leaves_or_has_gone_is_not_kept().await;
    subject.the_state_goes_to_the_next_holder().await;
    subject.the_state_is_saved_without_a_lease().await;
    subject.the_latest_request_and_the_longest_delay_win().await;
    subject.a_backoff_is_only_extended().await;
    subject.a_backoff_beyond_27_hours_is_cut_to_24().await;
    subject.throttle_counts_only_grow().await;
    subject.an_operators_backoff_leaves_nothing_behind().await;
    subject.values_at_the_edges_of_the_types().await;
    subject.four_pacers_keep_every_delay().await;
}

/// For stores with a clock that can be set: `set_back` sets it back. No time has passed then: no lease, delay
/// or backoff gets longer.
///
/// # Panics
/// As [`conformance`] does.
pub async fn survives_a_clock_set_back<F>(
    store: Arc<dyn HostStore>,
    pass: impl Fn(Duration) -> F + Send + Sync + 'static,
    set_back: impl FnOnce(Duration),
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (subject, host, [one, other]) = (Subject { store, pass }, fresh("set-back"), processes());
    subject.leases(&host, one, TTL, false, "the host is free").await;
    subject.refused(&host, other, true, "it is leased").await;
    let given = HostState { quiet: Some(Duration::ZERO), ..backoff(MINUTE, 1) };
    subject.reports(&host, given, "a backoff of 1 min", |state| lasts(state, MINUTE)).await;
    (subject.pass)(SHORT).await;
    let is_kept_so =
        |state: HostState| state.quiet.is_some_and(|quiet| quiet + BLUR >= SHORT) && lasts(state, MINUTE);
    subject.reports(&host, QUIET, "a request 50 ms ago, and a backoff of 1 min", is_kept_so).await;
    set_back(HOUR);
    let expected = "a request 50 ms ago, and a backoff of 1 min, although the clock was set back";
    subject.reports(&host, QUIET, expected, is_kept_so).await;
    subject.refused(&host, other, true, "the lease is not longer although the clock was set back").await;
    (subject.pass)(TTL + BLUR).await;
    subject.leases(&host, other, TTL, false, "the lease has ended although the clock was set back").await;
}

/// For durable stores: a backoff and its throttle count survive a restart, also a count whose backoff is
/// over. `reopen` closes the store and opens it again; it may set the clock back meanwhile.
///
/// # Panics
/// As [`conformance`] does.
pub async fn backoffs_survive_reload<F, Fut>(store: Arc<dyn HostStore>, reopen: F)
where
    F: FnOnce(Arc<dyn HostStore>) -> Fut,
    Fut: Future<Output = Arc<dyn HostStore>>,
{
    let (host, over, subject) = (fresh("reload"), fresh("reload-over"), Subject { store, pass: sleep });
    let given = HostState { quiet: Some(Duration::ZERO), ..backoff(HOUR, 4) };
    subject.reports(&host, given, "a backoff of 1 h", |state| lasts(state, HOUR)).await;
    subject.reports(&over, backoff(SHORT, 2), "its throttle count", |state| counts(state) == 2).await;
    sleep(SHORT + BLUR).await;
    let subject = Subject { store: reopen(subject.store).await, pass: sleep };
    let expected = "the backoff of 1 h from before the restart (if the clock was set back, 24 h at most), and its throttle count 4; and a request, which may have been sent until the restart";
    subject
        .reports(&host, QUIET, expected, |state| {
            let is_kept = |kept: Backoff| {
                kept.left + MINUTE > HOUR && kept.left <= 24 * HOUR && kept.cause == THROTTLED
            };
            state.backoff.is_some_and(is_kept) && counts(state) == 4 && state.quiet.is_some()
        })
        .await;
    let expected = "the throttle count 2 from before the restart, which outlives its backoff";
    subject.reports(&over, QUIET, expected, |state| counts(state) == 2).await;
}

/// Throttle counts are kept for [`THROTTLES_KEPT`] after the end of the backoff, and no longer. `pass` lets
/// that time pass, an hour in all.
///
/// # Panics
/// As [`conformance`] does.
pub async fn throttle_counts_are_forgiven<F>(
    store: Arc<dyn HostStore>,
    pass: impl Fn(Duration) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (subject, host) = (Subject { store, pass }, fresh("forgiven"));
    subject.reports(&host, backoff(MINUTE, 3), "a backoff of 1 min", |state| lasts(state, MINUTE)).await;
    (subject.pass)(THROTTLES_KEPT).await;
    let kept = "the throttle count 3 after 29 quiet minutes";
    subject.reports(&host, QUIET, kept, |state| counts(state) == 3).await;
    (subject.pass)(MINUTE + BLUR).await;
    let forgiven = "no backoff, because its throttle count is forgiven after 30 quiet minutes";
    subject.reports(&host, QUIET, forgiven, |state| state.backoff.is_none()).await;
    let ended =
        |over| HostState { backoff: Some(Backoff { left: Duration::ZERO, over, ..THROTTLE }), ..QUIET };
    subject.reports(&host, ended(THROTTLES_KEPT + MINUTE), forgiven, |state| state.backoff.is_none()).await;
    let late = "a throttle count that is reported late";
    subject.reports(&host, ended(THROTTLES_KEPT - MINUTE), late, |state| counts(state) == 1).await;
    (subject.pass)(MINUTE + BLUR).await;
    subject.reports(&host, QUIET, forgiven, |state| state.backoff.is_none()).await;
}

/// Where the exchanges of a store begin, in [`exchanges_equal_the_plain_function`].
///
/// ```
/// # use abide_gate::{pacing::HostState, testing::hosts::Beginning};
/// assert_eq!(Beginning::default().known, HostState::default(), "a store that has lost nothing, and knows nothing");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Beginning {
    /// The time on the store's clock.
    pub now: Duration,
    /// Until when it leases nothing after a loss, as for [`HostEntry::exchange`].
    pub grace_until: Duration,
    /// What it knows of a host before the first call about it.
    pub known: HostState,
}

/// Checks that a store does what [`HostEntry::exchange`] does: thousands of random exchanges of four
/// processes about a few hosts, some of them late, must be answered alike to the microsecond. So a store that
/// has the rule in another language is compared with it.
///
/// `exchange` is one exchange at this time on the store's clock, which only goes on. All times and spans are
/// whole microseconds.
///
/// ```
/// use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};
/// use abide_gate::{pacing::HostEntry, testing::hosts};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() {
///     let mut entries = HashMap::<Arc<str>, HostEntry>::new();
///     hosts::exchanges_equal_the_plain_function(hosts::Beginning::default(), |host, ask, now| {
///         ready(entries.entry(host).or_default().exchange(&ask, now, Duration::ZERO))
///     })
///     .await;
/// }
/// ```
///
/// # Panics
/// At the first exchange that differs.
pub async fn exchanges_equal_the_plain_function<F>(
    beginning: Beginning,
    mut exchange: impl FnMut(Arc<str>, LeaseAsk, Duration) -> F,
) where
    F: Future<Output = (LeaseStatus, HostState)>,
{
    let mut unknown = HostEntry::default();
    unknown.merge(&beginning.known, beginning.now);
    let run = HolderId::random();
    let hosts: [Arc<str>; 16] = std::array::from_fn(|n| format!("{n}-{run}.example").into());
    let mut models = hosts.each_ref().map(|_| vec![unknown.clone()]);
    let (mut now, mut random) = (beginning.now, Random(1));
    for number in 1..EXCHANGES {
        now += random.step();
        let chosen = random.below(hosts.len() as u64) as usize;
        let ask = random.ask(number);
        let call = format!("exchange({}, {ask:?}) at {now:?}", hosts[chosen]);
        let found = exchange(Arc::clone(&hosts[chosen]), ask, now).await;
        // An entry that is not in use may have been removed, or not: what is found tells which.
        let entries = &mut models[chosen];
        if entries.iter().all(|entry| *entry != unknown && !entry.is_in_use(now)) {
            entries.push(unknown.clone());
        }
        let replies: Vec<_> =
            entries.iter_mut().map(|entry| entry.exchange(&ask, now, beginning.grace_until)).collect();
        let mut alike = replies.iter().map(|reply| *reply == found);
        entries.retain(|_| alike.next() == Some(true));
        check(!entries.is_empty(), &call, format_args!("one of {replies:?}"), found);
        entries.dedup();
    }
}

/// Each host has some hundred, and the grace after a loss about as many.
const EXCHANGES: u64 = 4_000;

/// A linear congruential generator: a run that fails fails again.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most))
    }

    /// Some tenths of a second, and now and then as long as entries are kept.
    fn step(&mut self) -> Duration {
        let most = if self.one_in(200) { 2_400_000_000 } else { 200_000 };
        self.micros(most)
    }

    fn ask(&mut self, number: u64) -> LeaseAsk {
        let is_held = self.one_in(8);
        let want = match self.one_in(4) {
            true => Want::Release,
            false => Want::Lease { ttl: TTL, again_in: self.micros(6_000_000), is_held },
        };
        // Every tenth call comes late.
        let number = if self.one_in(10) { number.saturating_sub(self.below(100)) } else { number };
        LeaseAsk { holder: HolderId(1 + u128::from(self.below(4))), number, want, state: self.state() }
    }

    fn state(&mut self) -> HostState {
        HostState {
            quiet: self.one_in(3).then(|| self.micros(30_000_000)),
            delay: self.micros(3_000_000),
            backoff: self.one_in(8).then(|| self.backoff()),
        }
    }

    /// Either it lasts, or it is over.
    fn backoff(&mut self) -> Backoff {
        let (left, over) = match self.one_in(2) {
            true => (self.micros(40_000_000), Duration::ZERO),
            false => (Duration::ZERO, self.micros(2_000_000_000)),
        };
        let throttles = self.below(4) as u8;
        let cause = match throttles {
            0 if self.one_in(2) => refusing(),
            0 => BackoffCause::Operator,
            _ => THROTTLED,
        };
        Backoff { left, over, throttles, cause }
    }
}

/// A hold, with all that there is to say of it.
fn refusing() -> BackoffCause {
    let (by, since) = (Refusal::of_id("cloudflare"), WallMillis::from_millis(1_700_000_000_000));
    BackoffCause::Refusing { by, since, responses: 25, status: 403, holds: 2 }
}

/// A host that no other fact uses, also not in another run against the same server.
fn fresh(name: &str) -> String {
    format!("{name}-{}.example", HolderId::random())
}

fn processes<const N: usize>() -> [HolderId; N] {
    [(); N].map(|()| HolderId::random())
}

const QUIET: HostState = HostState { quiet: None, delay: Duration::ZERO, backoff: None };
const THROTTLE: Backoff = Backoff { left: MINUTE, over: Duration::ZERO, throttles: 1, cause: THROTTLED };

fn backoff(left: Duration, throttles: u8) -> HostState {
    HostState { backoff: Some(Backoff { left, throttles, ..THROTTLE }), ..QUIET }
}

/// Whether there is a backoff of about so long.
fn lasts(state: HostState, about: Duration) -> bool {
    state.backoff.is_some_and(|backoff| backoff.left <= about + BLUR && backoff.left + TTL > about)
}

fn counts(state: HostState) -> u8 {
    state.backoff.map_or(0, |backoff| backoff.throttles)
}

fn asks(holder: HolderId, ttl: Duration) -> LeaseAsk {
    let want = Want::Lease { ttl, again_in: ttl, is_held: false };
    LeaseAsk { holder, number: 0, want, state: QUIET }
}

/// What the facts are checked on.
struct Subject<P> {
    store: Arc<dyn HostStore>,
    pass: P,
}

impl<F: Future<Output = ()>, P: Fn(Duration) -> F> Subject<P> {
    /// Expects that the reply `holds`.
    async fn exchange(
        &self,
        host: &str,
        ask: LeaseAsk,
        expected: &str,
        holds: impl FnOnce((LeaseStatus, HostState)) -> bool,
    ) {
        let call = format!("exchange({host}, {ask:?})");
        let found = replied(&call, self.store.exchange(host, ask).await);
        check(holds(found), &call, expected, found);
    }

    /// Expects the lease.
    async fn leases(&self, host: &str, holder: HolderId, ttl: Duration, is_wanted: bool, why: &str) {
        let leased = LeaseStatus::Leased { is_wanted };
        self.exchange(host, asks(holder, ttl), &format!("{leased:?} ({why})"), |(lease, _)| lease == leased)
            .await;
    }

    /// A host of its own, whose lease the first of these processes has.
    async fn leased<const N: usize>(&self, name: &str, ttl: Duration) -> (String, [HolderId; N]) {
        let (host, processes) = (fresh(name), processes());
        self.leases(&host, processes[0], ttl, false, "the host is free").await;
        (host, processes)
    }

    /// Expects that another process has the lease, or comes first.
    async fn refused(&self, host: &str, holder: HolderId, is_next: bool, why: &str) {
        let expected = format!("Busy {{ wait: up to {TTL:?} and 1 ms, is_next: {is_next} }} ({why})");
        let is_busy = |(lease, _)| match lease {
            LeaseStatus::Busy { wait, is_next: found } => {
                !wait.is_zero() && wait <= TTL + ROUNDING && found == is_next
            }
            _ => false,
        };
        self.exchange(host, asks(holder, TTL), &expected, is_busy).await;
    }

    async fn gives_up(&self, host: &str, holder: HolderId) {
        let ask = LeaseAsk { holder, number: 0, want: Want::Release, state: QUIET };
        self.exchange(host, ask, "Released", |(lease, _)| lease == LeaseStatus::Released).await;
    }

    /// A process without a lease reports what it knows, and expects a state.
    async fn reports(
        &self,
        host: &str,
        state: HostState,
        expected: &str,
        holds: impl FnOnce(HostState) -> bool,
    ) {
        let ask = LeaseAsk { holder: HolderId::random(), number: 0, want: Want::Release, state };
        self.exchange(host, ask, expected, |(_, state)| holds(state)).await;
    }

    /// A store that was just made may lease nothing for one `ttl`.
    async fn grace_ends(&self) {
        let (host, [one], mut passed) = (fresh("grace"), processes(), Duration::ZERO);
        let ask = asks(one, TTL);
        // A store that has lost its data may grant nothing for one ttl: a lease that was lost may still be in
        // use.
        while let (LeaseStatus::Busy { .. }, _) = replied("exchange", self.store.exchange(&host, ask).await)
            && passed < TTL + BLUR
        {
            (self.pass)(TTL / 20).await;
            passed += TTL / 20;
        }
        self.leases(&host, one, TTL, false, "a new store leases after one ttl at the latest").await;
    }

    async fn one_process_has_the_lease_until_it_gives_it_up(&self) {
        let (host, [one, other]) = self.leased("one", TTL).await;
        self.refused(&host, other, true, "another process has the lease").await;
        self.leases(&fresh("another"), other, TTL, false, "each host has a lease of its own").await;
        // Its place, and then nothing.
        self.gives_up(&host, other).await;
        self.gives_up(&host, other).await;
        self.refused(&host, other, true, "only the holder gives up its lease").await;
        self.gives_up(&host, one).await;
        self.leases(&host, other, TTL, false, "the holder has given it up").await;
    }

    async fn the_holder_renews_and_asks_again_at_will(&self) {
        let (host, [one, other]) = self.leased("renew", SHORT).await;
        self.leases(&host, one, TTL, false, "the holder renews, or its reply was lost").await;
        (self.pass)(SHORT + BLUR).await;
        self.refused(&host, other, true, "the lease was renewed for longer").await;
        self.leases(&host, one, TTL, true, "another process waits").await;
    }

    async fn a_lease_ends_by_itself_and_the_delay_counts_from_its_end(&self) {
        let (host, [_, other]) = self.leased("dead", SHORT).await;
        (self.pass)(SHORT + BLUR).await;
        let expected =
            "the lease, and quiet since the end of the other's lease, until which it may have sent";
        // `None` would say that no request was ever sent, and the next process would send at once.
        let since_its_end = |quiet: Option<Duration>| quiet.is_some_and(|quiet| quiet < TTL);
        self.exchange(&host, asks(other, TTL), expected, |(lease, state)| {
            lease == LeaseStatus::Leased { is_wanted: false } && since_its_end(state.quiet)
        })
        .await;
    }

    async fn a_dropped_call_can_be_asked_again(&self) {
        let (host, [one, other]) = (fresh("dropped"), processes());
        self.reports(&host, backoff(MINUTE, 1), "a backoff of 1 min", |state| lasts(state, MINUTE)).await;
        poll_once(self.store.exchange(&host, asks(one, TTL))).await;
        self.leases(&host, one, TTL, false, "its first call was dropped").await;
        self.refused(&host, other, true, "another process has the lease").await;
        let expected = "the backoff of 1 min from before the dropped call";
        self.reports(&host, QUIET, expected, |state| lasts(state, MINUTE)).await;
    }

    /// It was dropped, and takes effect after the lease has been taken or renewed again.
    async fn a_release_that_comes_late_gives_up_nothing(&self) {
        let (host, [one, other]) = (fresh("late-release"), processes());
        let leased = |(lease, _)| matches!(lease, LeaseStatus::Leased { .. });
        let released = |(lease, _)| lease == LeaseStatus::Released;
        let release = LeaseAsk { want: Want::Release, ..asks(one, TTL) };
        for number in [5, 7, 6] {
            let why = format!("the lease (call {number})");
            self.exchange(&host, LeaseAsk { number, ..asks(one, TTL) }, &why, leased).await;
        }
        self.exchange(&host, LeaseAsk { number: 6, ..release }, "Released", released).await;
        self.refused(&host, other, true, "a release of before the last renewal came late").await;
        self.exchange(&host, LeaseAsk { number: 8, ..release }, "Released", released).await;
        self.leases(&host, other, TTL, false, "the holder has given it up").await;
    }

    async fn a_lease_that_is_asked_for_late_is_not_given(&self) {
        let (host, [one, other]) = (fresh("late-lease"), processes());
        // What is known of the host is kept, and with it the number of the last call.
        let state = HostState { quiet: Some(Duration::ZERO), delay: HOUR, backoff: None };
        let lease = |number| LeaseAsk { number, state, ..asks(one, TTL) };
        let held = Want::Lease { ttl: TTL, again_in: TTL, is_held: true };
        let leased = |(lease, _)| matches!(lease, LeaseStatus::Leased { .. });
        let released = |(lease, _)| lease == LeaseStatus::Released;
        self.exchange(&host, lease(5), "the lease (call 5)", leased).await;
        self.exchange(&host, LeaseAsk { want: Want::Release, ..lease(8) }, "Released (call 8)", released)
            .await;
        for ask in [lease(6), LeaseAsk { want: held, ..lease(7) }] {
            self.exchange(&host, ask, "Released: call 8 was later and gave up the lease", released).await;
        }
        self.exchange(&host, lease(9), "the lease (call 9)", leased).await;
        self.exchange(&host, LeaseAsk { want: Want::Release, ..lease(11) }, "Released (call 11)", released)
            .await;
        self.exchange(&host, lease(10), "Released: call 11 was later", released).await;
        self.leases(&host, other, TTL, false, "a late call has no place in line").await;
    }

    async fn waiting_processes_are_served_in_order(&self) {
        let (host, [one, second, third]) = self.leased("next", TTL).await;
        self.refused(&host, second, true, "the first to wait is next").await;
        self.refused(&host, third, false, "the second to wait is not next").await;
        self.gives_up(&host, one).await;
        // Or the process that asks most often would get the lease, and the others starve.
        self.refused(&host, third, false, "the lease waits for the process that is next").await;
        self.refused(&host, one, false, "it has just given up the lease for the next").await;
        self.leases(&host, second, TTL, true, "it is next").await;
        self.gives_up(&host, second).await;
        self.refused(&host, one, false, "it came back after the third").await;
        self.leases(&host, third, TTL, true, "it is next").await;
        self.refused(&host, one, true, "now it is the first to wait").await;
    }

    async fn the_place_of_a_process_that_leaves_or_has_gone_is_not_kept(&self) {
        let (host, [one, leaves, gone, other]) = self.leased("gone", TTL).await;
        self.refused(&host, leaves, true, "it is leased").await;
        self.gives_up(&host, leaves).await;
        let is_next = |(lease, _)| matches!(lease, LeaseStatus::Busy { is_next: true, .. });
        let expected = "Busy, and next, because the process that was next has given up its place";
        self.exchange(&host, asks(gone, SHORT), expected, is_next).await;
        self.gives_up(&host, one).await;
        (self.pass)(SHORT + BLUR).await;
        self.leases(&host, other, TTL, false, "the process that was next did not ask within its `again_in`")
            .await;
    }

    async fn the_state_goes_to_the_next_holder(&self) {
        let (host, [one, other]) = self.leased("hand-over", TTL).await;
        let given = HostState { quiet: Some(SHORT), delay: MINUTE, backoff: Some(THROTTLE) };
        let ask = LeaseAsk { holder: one, number: 0, want: Want::Release, state: given };
        self.exchange(&host, ask, "Released", |(lease, _)| lease == LeaseStatus::Released).await;
        let expected = format!("the lease, with {given:?} of the last holder");
        self.exchange(&host, asks(other, TTL), &expected, |(lease, state)| {
            let since = state.quiet.unwrap_or_default();
            let is_quiet = since + BLUR >= SHORT && since < SHORT + TTL;
            let backoff = state.backoff.map(|backoff| Backoff { left: MINUTE, ..backoff });
            let is_kept_so = state.delay == MINUTE && backoff == Some(THROTTLE) && lasts(state, MINUTE);
            lease == LeaseStatus::Leased { is_wanted: false } && is_quiet && is_kept_so
        })
        .await;
    }

    /// The response of a process that had the lease before has only ended now.
    async fn the_state_is_saved_without_a_lease(&self) {
        let (host, [one]) = self.leased("late", TTL).await;
        let given = HostState { quiet: Some(Duration::ZERO), ..backoff(MINUTE, 1) };
        let is_saved =
            |state: HostState| state.quiet.is_some_and(|quiet| quiet < TTL) && lasts(state, MINUTE);
        self.reports(&host, given, "what a process without the lease has reported", is_saved).await;
        self.leases(&host, one, TTL, false, "a report takes no lease away").await;
        self.reports(&host, QUIET, "what a process without the lease has reported", is_saved).await;
    }

    async fn the_latest_request_and_the_longest_delay_win(&self) {
        let host = fresh("open");
        for (ago, delay) in [(Duration::ZERO, SHORT), (MINUTE, MINUTE), (HOUR, Duration::ZERO)] {
            let given = HostState { quiet: Some(ago), delay, backoff: None };
            let expected = "the time since the latest request, and the longest delay";
            let most = delay.max(if ago.is_zero() { SHORT } else { MINUTE });
            let is_latest = |quiet: Option<Duration>| quiet.is_some_and(|quiet| quiet < TTL);
            self.reports(&host, given, expected, |state| is_latest(state.quiet) && state.delay == most).await;
        }
    }

    async fn a_backoff_is_only_extended(&self) {
        let host = fresh("extended");
        for (given, kept) in [(MINUTE, MINUTE), (SHORT, MINUTE), (2 * MINUTE, 2 * MINUTE)] {
            let expected = format!("a backoff of {kept:?}, because it is only extended");
            self.reports(&host, backoff(given, 1), &expected, |state| lasts(state, kept)).await;
        }
    }

    async fn a_backoff_beyond_27_hours_is_cut_to_24(&self) {
        for (given, kept) in [(26, 26), (27, 27), (28, 24), (24 * 365, 24)] {
            let expected = format!("a backoff of {kept} h, because one beyond 27 h is cut to 24 h");
            let is_kept_so = |state| lasts(state, kept * HOUR);
            self.reports(&fresh("cut"), backoff(given * HOUR, 1), &expected, is_kept_so).await;
        }
    }

    async fn throttle_counts_only_grow(&self) {
        let host = fresh("counts");
        for (given, kept) in [(2, 2), (1, 2), (5, 5)] {
            let expected = format!("the throttle count {kept}, because the higher one wins");
            self.reports(&host, backoff(MINUTE, given), &expected, |state| counts(state) == kept).await;
        }
    }

    async fn an_operators_backoff_leaves_nothing_behind(&self) {
        let given = |left| {
            let backoff = Backoff { left, throttles: 0, cause: BackoffCause::Operator, ..THROTTLE };
            HostState { backoff: Some(backoff), ..QUIET }
        };
        let is_kept_so =
            |state: HostState| state.backoff.is_some_and(|found| found.cause == BackoffCause::Operator);
        self.reports(&fresh("operator"), given(MINUTE), "the operator's backoff", is_kept_so).await;
        let host = fresh("operator-over");
        self.reports(&host, given(SHORT), "any state", |_| true).await;
        (self.pass)(SHORT + BLUR).await;
        let expected = "no backoff, because without a throttle count nothing outlives its end";
        self.reports(&host, QUIET, expected, |state| state.backoff.is_none()).await;
    }

    async fn values_at_the_edges_of_the_types(&self) {
        let (host, odd, [one]) = (fresh("edges"), "domain/{\u{e4} }:*\0'\"\\\n%", processes());
        let cause = BackoffCause::EnhanceYourCalm;
        let backoff = Backoff { left: DELAY_MAX, throttles: u8::MAX, cause, ..THROTTLE };
        let given = HostState { quiet: Some(Duration::MAX), delay: DELAY_MAX, backoff: Some(backoff) };
        let want = Want::Lease { ttl: HOUR, again_in: Duration::ZERO, is_held: true };
        let ask = LeaseAsk { holder: one, number: 0, want, state: given };
        let expected = "the lease, with the delay and the backoff that were reported";
        self.exchange(&host, ask, expected, |(lease, state)| {
            let kept = state.backoff.map(|kept| Backoff { left: DELAY_MAX, ..kept });
            lease == LeaseStatus::Leased { is_wanted: false }
                && (state.delay, kept) == (DELAY_MAX, Some(backoff))
                && lasts(state, DELAY_MAX)
        })
        .await;
        for key in [odd, "", &"long".repeat(1_000)] {
            self.leases(key, one, TTL, false, "a key may be any text").await;
            self.gives_up(key, one).await;
        }
    }

    /// The whole pacing on top: requests of four processes to one host, and the delay between any two.
    async fn four_pacers_keep_every_delay(&self) {
        const DELAY: Duration = Duration::from_millis(20);
        let url: Url = format!("http://{}/", fresh("four")).parse().expect("a URL");
        let (mut tasks, log) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        let settings = Gate::builder().pace(PacePolicy::default().danger_min_delay(DELAY));
        for _ in 0..4 {
            let gate = gate(settings.clone().host_store(Arc::clone(&self.store)));
            let (url, log) = (url.clone(), Arc::clone(&log));
            tasks.spawn(async move {
                for _ in 0..2 {
                    let permit = acquire(&gate, &url, Duration::ZERO, 5 * MINUTE).await;
                    let permit = permit.expect("a permit within five minutes");
                    let began = Instant::now();
                    sleep(Duration::from_millis(2)).await;
                    log.lock().expect("no other task has panicked").push((began, Instant::now()));
                    permit.finish();
                }
                gate.settled(TTL).await;
            });
        }
        tasks.join_all().await;
        // Sorted by their beginnings, because the tasks log as their requests end.
        let mut log = std::mem::take(&mut *log.lock().expect("no task has panicked"));
        log.sort_unstable();
        for pair in log.windows(2) {
            let found = pair[1].0.saturating_duration_since(pair[0].1);
            let expected = format!("{DELAY:?} between two requests of pacers that share the store");
            check(found + BLUR >= DELAY, "exchange", expected, found);
        }
    }
}
