//! Random crawls on virtual time, checked by a model that knows nothing of the pacer: a list of what the server saw and answered, and
//! when. A run follows from the values printed when it fails. More runs: `PROPTEST_CASES=10000`.

use crate::pacing::{Ask, Pacer, Refusal};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::{BackoffCause, PacePolicy, Permit, Scope};
use abide_gate::{Clock, Failure, ManualClock, WallMillis};
use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::parts::support::pacing::{group, ms, one_second, page, s};

const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);

/// What one caller does, and what the server answers.
#[derive(Clone, Debug)]
struct Caller {
    host: usize,
    /// After the start.
    arrives: Duration,
    budget: Duration,
    crawl_delay: Duration,
    /// Time on the wire.
    wire: Duration,
    answer: Answer,
    /// Is cancelled so long after its arrival.
    cancels: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Answer {
    Plain(u16),
    RetryAfter(u16, u64),
    Fault(Failure),
    /// Dropped without a word.
    Nothing,
}

/// What else happens.
#[derive(Clone, Debug)]
enum Upset {
    /// The operator backs a host off for so many seconds.
    Backoff(usize, u64),
    /// The wall clock jumps by so many milliseconds.
    Jump(i64),
}

fn caller() -> impl Strategy<Value = Caller> {
    let answer = prop_oneof![
        6 => prop::sample::select(&[200_u16, 204, 301, 404, 500][..]).prop_map(Answer::Plain),
        1 => prop::sample::select(&[429_u16, 503][..]).prop_map(Answer::Plain),
        1 => (prop::sample::select(&[429_u16, 503][..]), 1_u64..40).prop_map(|(status, wait)| Answer::RetryAfter(status, wait)),
        1 => prop::sample::select(&[Failure::Refused, Failure::Timeout, Failure::EnhanceYourCalm][..])
            .prop_map(Answer::Fault),
        1 => Just(Answer::Nothing),
    ];
    let crawl_delay = prop_oneof![3 => Just(0_u64), 1 => Just(500), 1 => Just(2_500)];
    let budget = prop_oneof![1 => Just(0_u64), 3 => 1_u64..60_000, 1 => Just(400_000)];
    let cancels = prop::option::weighted(0.3, 0_u64..40_000);
    (0..3_usize, 0_u64..60_000, budget, crawl_delay, 0_u64..4_000, answer, cancels).prop_map(
        |(host, arrives, budget, crawl_delay, wire, answer, cancels)| Caller {
            host,
            arrives: ms(arrives),
            budget: ms(budget),
            crawl_delay: ms(crawl_delay),
            wire: ms(wire),
            answer,
            cancels: cancels.map(ms),
        },
    )
}

fn upset() -> impl Strategy<Value = (u64, Upset)> {
    const YEAR: i64 = 366 * 86_400_000;
    let what = prop_oneof![
        (0..3_usize, 0_u64..50).prop_map(|(host, seconds)| Upset::Backoff(host, seconds)),
        (-YEAR..YEAR).prop_map(Upset::Jump),
    ];
    (0_u64..80_000, what)
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    caller: usize,
    host: usize,
    delay: Duration,
    start: Instant,
    end: Instant,
}

/// What happened, in the order in which it did.
#[derive(Debug, Default)]
struct History {
    seen: Vec<Seen>,
    /// Host, from, until.
    backoffs: Vec<(usize, Instant, Instant)>,
    /// How long each caller was kept, and by what budget, with what result.
    kept: Vec<(usize, Duration, Duration, Option<Refusal>)>,
}

type Shared = Arc<Mutex<History>>;

#[derive(Clone)]
struct World {
    pacer: Pacer,
    clock: Arc<ManualClock>,
    history: Shared,
    delay: Duration,
}

impl World {
    fn new(policy: PacePolicy) -> Self {
        let clock = Arc::new(ManualClock::starting_at(START));
        let delay = policy.min_delay();
        let pacer = Pacer::builder(policy).clock(clock.clone()).seed(7).build();
        Self { pacer, clock, history: Shared::default(), delay }
    }

    async fn run(self, callers: Vec<Caller>, upsets: Vec<(u64, Upset)>) -> History {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for (n, caller) in callers.into_iter().enumerate() {
            let world = self.clone();
            tasks.spawn(async move {
                sleep_until(began + caller.arrives).await;
                let life = world.call(n, caller.clone());
                match caller.cancels {
                    Some(after) => drop(timeout(after, life).await),
                    None => life.await,
                }
            });
        }
        for (at, upset) in upsets {
            let world = self.clone();
            tasks.spawn(async move {
                sleep_until(began + ms(at)).await;
                world.upset(upset);
            });
        }
        tasks.join_all().await;
        let stats = self.pacer.stats();
        assert_eq!((stats.in_flight, stats.waiting), (0, 0), "nothing is left");
        std::mem::take(&mut *self.history.lock().unwrap())
    }

    async fn call(&self, n: usize, caller: Caller) {
        let to = page(&format!("h{}.example", caller.host));
        let ask = Ask::new().with_budget(caller.budget).with_crawl_delay(caller.crawl_delay);
        let came = Instant::now();
        let result = self.pacer.acquire(&to, ask).await;
        let refusal = result.as_ref().err().cloned();
        self.history.lock().unwrap().kept.push((n, came.elapsed(), caller.budget, refusal));
        let Ok(permit) = result else { return };
        let now = Instant::now();
        let delay = self.delay.max(caller.crawl_delay);
        let seen = Seen { caller: n, host: caller.host, delay, start: now, end: now };
        let place = {
            let mut history = self.history.lock().unwrap();
            history.seen.push(seen);
            history.seen.len() - 1
        };
        let wire = OnTheWire { history: self.history.clone(), place };
        sleep(caller.wire).await;
        let end = self.answered(&permit, &caller.answer);
        if let Some(until) = end {
            self.history.lock().unwrap().backoffs.push((caller.host, Instant::now(), until));
        }
        // The body is read for as long again.
        sleep(caller.wire).await;
        drop(wire);
        drop(permit);
    }

    fn answered(&self, permit: &Permit, answer: &Answer) -> Option<Instant> {
        let mut headers = HeaderMap::new();
        let until = match answer {
            Answer::Plain(status) => permit.observe(StatusCode::from_u16(*status).unwrap(), &headers),
            Answer::RetryAfter(status, wait) => {
                headers.insert("retry-after", (*wait).into());
                permit.observe(StatusCode::from_u16(*status).unwrap(), &headers)
            }
            Answer::Fault(fault) => permit.failed(*fault),
            Answer::Nothing => None,
        };
        Some(Instant::now() + until?.since(self.clock.wall()) - ms(1))
    }

    fn upset(&self, upset: Upset) {
        match upset {
            Upset::Backoff(host, seconds) => {
                let until = self.clock.wall().plus(s(seconds));
                self.pacer.back_off(&format!("h{host}.example"), until, BackoffCause::Operator);
                let now = Instant::now();
                self.history.lock().unwrap().backoffs.push((host, now, now + s(seconds)));
            }
            Upset::Jump(millis) => {
                let wall = self.clock.wall().as_millis().saturating_add_signed(millis);
                self.clock.jump_to(WallMillis::from_millis(wall));
            }
        }
    }
}

/// Writes the end down before the permit is dropped, also when the caller is cancelled.
struct OnTheWire {
    history: Shared,
    place: usize,
}

impl Drop for OnTheWire {
    fn drop(&mut self) {
        self.history.lock().unwrap().seen[self.place].end = Instant::now();
    }
}

/// Never two in flight, never inside the delay, never during a backoff.
fn judge(history: &History) {
    let mut seen = history.seen.clone();
    seen.sort_by_key(|seen| (seen.host, seen.start, seen.end));
    for pair in seen.windows(2).filter(|pair| pair[0].host == pair[1].host) {
        assert!(pair[1].start >= pair[0].end + pair[1].delay, "too early: {:?} after {:?}", pair[1], pair[0]);
    }
    for (host, from, until) in &history.backoffs {
        let early = seen.iter().find(|seen| seen.host == *host && seen.start > *from && seen.start < *until);
        assert!(early.is_none(), "{early:?} during a backoff from {from:?} until {until:?}");
    }
}

/// Among those who asked for the same and were not deferred: in the order in which they came.
fn judge_order(history: &History, arrivals: &[Duration]) {
    for host in 0..3 {
        let starts = history.seen.iter().filter(|seen| seen.host == host);
        let order: Vec<Duration> = starts.map(|seen| arrivals[seen.caller]).collect();
        assert!(order.is_sorted(), "not first come first served on host {host}: {order:?}");
    }
}

/// No caller waits longer than its budget, and a deferral names a time that lies ahead.
fn judge_patience(history: &History) {
    for (caller, kept, budget, refusal) in &history.kept {
        assert!(*kept <= *budget + ms(2), "caller {caller} was kept {kept:?} with a budget of {budget:?}");
        if let Some(Refusal::Deferred(deferral)) = refusal {
            assert!(deferral.wait > Duration::ZERO, "{deferral:?}");
        }
    }
}

fn simulate(policy: PacePolicy, callers: &[Caller], upsets: &[(u64, Upset)]) -> History {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { World::new(policy).run(callers.to_vec(), upsets.to_vec()).await })
}

fn arrivals(callers: &[Caller]) -> Vec<Duration> {
    callers.iter().map(|caller| caller.arrives).collect()
}

proptest! {
    #[test]
    fn one_process_keeps_every_promise(
        callers in prop::collection::vec(caller(), 1..80),
        upsets in prop::collection::vec(upset(), 0..4),
    ) {
        let history = simulate(one_second(), &callers, &upsets);
        judge(&history);
        judge_order(&history, &arrivals(&callers));
        judge_patience(&history);
    }

    #[test]
    fn crossing_scopes_keep_every_promise(
        callers in prop::collection::vec(caller(), 1..80),
        upsets in prop::collection::vec(upset(), 0..4),
    ) {
        let all = group("all").with_delay(ms(300)).with_max_in_flight(2);
        let odd = Scope::custom(|url| url.host_str().filter(|host| *host != "h1.example").map(|_| "odd".to_owned()));
        let policy = one_second().with_scope(all).with_scope(odd.with_delay(ms(100)).with_max_in_flight(1).with_feedback());
        let history = simulate(policy, &callers, &upsets);
        judge(&history);
        judge_patience(&history);
        let in_flight = history.seen.iter().map(|one| {
            let other = |seen: &&Seen| seen.start <= one.start && one.start < seen.end;
            history.seen.iter().filter(other).count()
        });
        prop_assert!(in_flight.max().unwrap_or_default() <= 2);
    }

    #[test]
    fn several_in_flight_keep_their_number_and_their_order(
        callers in prop::collection::vec(caller(), 1..80),
        limit in 2_u16..5,
    ) {
        let policy = one_second().danger_max_in_flight(limit).danger_min_delay(ms(200));
        let history = simulate(policy, &callers, &[]);
        judge_order(&history, &arrivals(&callers));
        judge_patience(&history);
        for one in &history.seen {
            let same = |seen: &&Seen| seen.host == one.host && seen.start <= one.start && one.start < seen.end;
            prop_assert!(history.seen.iter().filter(same).count() <= limit.into());
        }
    }
}
