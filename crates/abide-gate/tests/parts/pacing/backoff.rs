//! What answers and faults do to a host, on virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pacing::{Ask, Pacer};
use abide_gate::pacing::{BackoffCause, DeferReason, PacePolicy, Permit, Scope};
use abide_gate::{Clock, Event, Failure, SystemClock, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use crate::parts::support::pacing::{Log, deferral, host, ms, one_second, s, url};

/// No chance: jitter would blur the expected times, and is tested for itself.
fn exact(policy: PacePolicy) -> Pacer {
    Pacer::builder(policy).seed(CALM).build()
}

/// A seed whose first draws are small: at most 2 % of a tenth of a minute, 130 ms.
const CALM: u64 = 0;

fn retry_after(seconds: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", seconds.parse().unwrap());
    headers
}

const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

async fn answer(pacer: &Pacer, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new().with_budget(s(200_000))).await.unwrap();
    let until = permit.observe(status, headers)?;
    Some(until.since(SystemClock.wall()))
}

/// Longer by 0 to 10 %.
#[track_caller]
fn assert_about(actual: Duration, expected: Duration) {
    let range = expected.saturating_sub(ms(2))..=expected.mul_f64(1.1) + ms(2);
    assert!(range.contains(&actual), "{actual:?}, expected {expected:?} and at most a tenth more");
}

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_backs_off_its_host_only() {
    let pacer = Pacer::new(one_second());
    assert_about(answer(&pacer, TOO_MANY, &retry_after("120")).await.unwrap(), s(120));
    let deferral = deferral(pacer.acquire(&url("https://a.example:8443/x"), Ask::new()).await);
    let reason = DeferReason::Backoff { status: Some(429), retry_after: Some(s(120)) };
    assert_eq!(deferral.reason(), &reason);
    assert_about(deferral.wait(), s(120));
    assert!(
        deferral.to_string().starts_with("a.example returned 429 with a Retry-After of 2 min"),
        "{deferral}"
    );
    assert_eq!(pacer.acquire(&url("http://b.example/"), Ask::new()).await.unwrap().waited(), s(0));
}

#[tokio::test(start_paused = true)]
async fn other_statuses_back_nothing_off() {
    let pacer = Pacer::new(one_second());
    for status in [200, 301, 400, 403, 404, 420, 500, 502, 504] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(answer(&pacer, status, &retry_after("120")).await, None, "{status}");
    }
    let strict = Pacer::new(one_second().with_backoff_on_forbidden());
    assert!(answer(&strict, StatusCode::FORBIDDEN, &HeaderMap::new()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn eight_429s_in_flight_count_as_one_throttle() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(8).danger_min_delay(s(0)));
    let a = url("http://a.example/");
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(pacer.acquire(&a, Ask::new()).await.unwrap());
    }
    for permit in permits {
        sleep(ms(10)).await;
        permit.finish_with(TOO_MANY, &HeaderMap::new());
    }
    assert_eq!(pacer.report(&host("a.example")).unwrap().backoffs(), 1);
    // One throttle, so the next is the second: two minutes.
    sleep(s(70)).await;
    assert_about(answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap(), s(120));
}

#[tokio::test(start_paused = true)]
async fn a_429_a_503_and_a_short_429_only_lengthen_the_backoff() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(3).danger_min_delay(s(0)));
    let a = url("http://a.example/");
    let backoff = answer(&pacer, TOO_MANY, &retry_after("60")).await.unwrap();
    assert_about(backoff, s(60));
    sleep(backoff).await;
    let (second, third) =
        (pacer.acquire(&a, Ask::new()).await.unwrap(), pacer.acquire(&a, Ask::new()).await.unwrap());
    let long = second.observe(UNAVAILABLE, &retry_after("120")).unwrap();
    let after = third.observe(TOO_MANY, &retry_after("10")).unwrap();
    assert_about(long.since(SystemClock.wall()), s(120));
    assert_eq!(after, long);
}

#[tokio::test(start_paused = true)]
async fn fifty_waiters_go_one_by_one_when_a_backoff_ends() {
    let (pacer, log) = (Pacer::new(one_second()), Log::default());
    let a = url("http://a.example/");
    assert!(answer(&pacer, TOO_MANY, &retry_after("100")).await.is_some());
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let (pacer, log, a) = (pacer.clone(), log.clone(), a.clone());
            tokio::spawn(async move {
                log.fetch_as(n, &pacer, &a, Ask::new().with_budget(s(400)), ms(200)).await.unwrap()
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    log.judge(s(1));
    assert_eq!(log.order(), (0..50).collect::<Vec<_>>());
    assert_about(log.starts("a.example")[0], s(100));
    let first = log.starts("a.example")[0];
    assert_eq!(*log.starts("a.example").last().unwrap(), first + ms(1_200 * 49));
}

#[tokio::test(start_paused = true)]
async fn a_new_backoff_defers_impatient_waiters_at_once() {
    let pacer = Pacer::new(one_second());
    let a = url("http://a.example/");
    let open = pacer.acquire(&a, Ask::new()).await.unwrap();
    let wait = |budget| {
        let (pacer, a) = (pacer.clone(), a.clone());
        tokio::spawn(async move { (pacer.acquire(&a, Ask::new().with_budget(budget)).await, Instant::now()) })
    };
    let (short, patient) = (wait(s(20)), wait(s(300)));
    sleep(s(3)).await;
    let held_at = Instant::now();
    open.finish_with(UNAVAILABLE, &retry_after("60"));
    let (result, at) = short.await.unwrap();
    assert_eq!(at, held_at, "told at once, not after 20 s");
    assert!(matches!(deferral(result).reason(), DeferReason::Backoff { status: Some(503), .. }));
    let (result, at) = patient.await.unwrap();
    assert!(result.is_ok());
    assert_about(at - held_at, s(60));
}

#[tokio::test(start_paused = true)]
async fn throttles_are_forgotten_after_thirty_quiet_minutes() {
    for (minutes, expected) in [(29, 120), (31, 60)] {
        let pacer = Pacer::new(one_second());
        let backoff = answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap();
        assert_about(backoff, s(60));
        sleep(backoff + s(60 * minutes)).await;
        // A success in between does not reset, it only does not add.
        assert_eq!(answer(&pacer, StatusCode::OK, &HeaderMap::new()).await, None);
        assert_about(answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap(), s(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn equal_backoffs_do_not_end_at_once() {
    let pacer = exact(one_second());
    let mut ends = Vec::new();
    for n in 0..100 {
        let permit = pacer.acquire(&url(&format!("http://h{n}.example/")), Ask::new()).await.unwrap();
        let end = permit.observe(TOO_MANY, &retry_after("1000")).unwrap();
        ends.push(end.since(SystemClock.wall()));
    }
    assert!(ends.iter().all(|end| (s(999)..=s(1_101)).contains(end)), "{ends:?}");
    let spread = *ends.iter().max().unwrap() - *ends.iter().min().unwrap();
    assert!(spread > s(80), "{spread:?}");
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_the_jitter() {
    let ends = async || {
        let pacer = exact(one_second());
        let a = url("http://a.example/");
        pacer.acquire(&a, Ask::new()).await.unwrap().finish_with(TOO_MANY, &retry_after("1000"));
        pacer.next_slot(&a, Ask::new()).unwrap().wait()
    };
    assert_eq!(ends().await, ends().await);
}

#[tokio::test(start_paused = true)]
async fn a_hop_to_a_backed_off_host_is_deferred() {
    let pacer = Pacer::new(one_second());
    pacer.back_off(host("b.example").as_str(), SystemClock.wall().plus(s(600)), BackoffCause::Operator);
    pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap().finish();
    let deferral = deferral(pacer.acquire(&url("http://b.example/"), Ask::new().with_budget(s(25))).await);
    assert_eq!(
        (deferral.scope(), deferral.reason()),
        ("b.example", &DeferReason::Backoff { status: None, retry_after: None })
    );
}

#[tokio::test(start_paused = true)]
async fn backoffs_by_the_operator_are_extended_and_cut_to_a_day() {
    let pacer = Pacer::new(one_second());
    let (a, wall) = (host("a.example"), SystemClock.wall());
    let long = pacer.back_off(a.as_str(), wall.plus(s(600)), BackoffCause::Operator);
    assert_eq!(pacer.back_off(a.as_str(), wall.plus(s(60)), BackoffCause::Operator), long);
    let far = pacer.back_off(host("b.example").as_str(), wall.plus(s(28 * 3_600)), BackoffCause::Operator);
    assert_about(far.since(wall), s(24 * 3_600));
    let near = pacer.back_off(host("c.example").as_str(), wall.plus(s(26 * 3_600)), BackoffCause::Operator);
    assert_about(near.since(wall), s(26 * 3_600));
    for past in [WallMillis::from_millis(0), wall] {
        pacer.back_off(host("d.example").as_str(), past, BackoffCause::Operator);
    }
    assert_eq!(pacer.next_slot(&url("http://d.example/"), Ask::new()).unwrap().wait(), s(0));
    pacer.back_off(host("e.example").as_str(), WallMillis::from_millis(u64::MAX), BackoffCause::Operator);
    assert_about(pacer.next_slot(&url("http://e.example/"), Ask::new()).unwrap().wait(), s(86_400));
    // A backoff by the operator is no throttle: the first 429 afterwards is the first.
    sleep(s(601)).await;
    assert_about(answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap(), s(60));
}

async fn fail(pacer: &Pacer, fault: Failure) -> Option<Duration> {
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new().with_budget(s(4_000))).await.unwrap();
    Some(permit.failed(fault)?.since(SystemClock.wall()))
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_open_the_breaker() {
    use Failure::Refused;
    let pacer = Pacer::new(one_second());
    for _ in 0..4 {
        assert_eq!(fail(&pacer, Refused).await, None);
    }
    assert_eq!(answer(&pacer, StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new()).await, None);
    for _ in 0..4 {
        assert_eq!(fail(&pacer, Refused).await, None);
    }
    assert_about(fail(&pacer, Refused).await.unwrap(), s(60));
    let deferral = deferral(pacer.acquire(&url("http://a.example/"), Ask::new()).await);
    assert_eq!(deferral.reason(), &DeferReason::Breaker { cause: Refused });
    // The probe fails: doubled. The next one is answered: closed.
    assert_about(fail(&pacer, Refused).await.unwrap(), s(120));
    assert_eq!(answer(&pacer, StatusCode::NOT_FOUND, &HeaderMap::new()).await, None);
    assert_eq!(fail(&pacer, Refused).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_breaker_lets_one_probe_through() {
    let policy = one_second().danger_max_in_flight(4).danger_min_delay(s(0));
    let (pacer, a) = (Pacer::new(policy), url("http://a.example/"));
    assert_eq!(fail(&pacer, Failure::Dns).await, None);
    assert_about(fail(&pacer, Failure::Dns).await.unwrap(), s(3_600));
    sleep(s(3_700)).await;
    let probe = pacer.acquire(&a, Ask::new()).await.unwrap();
    let second = pacer.acquire(&a, Ask::new().with_budget(s(0))).await;
    assert!(matches!(deferral(second).reason(), DeferReason::InFlight { .. }));
    // Dropped without a word: the next one is the probe.
    drop(probe);
    let probe = pacer.acquire(&a, Ask::new()).await.unwrap();
    probe.observe(StatusCode::OK, &HeaderMap::new());
    let others: Vec<Permit> = vec![
        pacer.acquire(&a, Ask::new().with_budget(s(0))).await.unwrap(),
        pacer.acquire(&a, Ask::new().with_budget(s(0))).await.unwrap(),
    ];
    drop((probe, others));
}

#[tokio::test(start_paused = true)]
async fn enhance_your_calm_is_like_a_429_and_no_failure() {
    let pacer = Pacer::new(one_second());
    assert_about(fail(&pacer, Failure::EnhanceYourCalm).await.unwrap(), s(60));
    assert_about(fail(&pacer, Failure::EnhanceYourCalm).await.unwrap(), s(120));
    assert!(matches!(
        deferral(pacer.acquire(&url("http://a.example/"), Ask::new()).await).reason(),
        DeferReason::Backoff { status: None, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn adaptive_delay_follows_the_site_and_never_speeds_up_by_errors() {
    let pacer = Pacer::new(one_second().with_adaptive_delay());
    let a = url("http://a.example/");
    let waited = async |head: Duration, status: u16| {
        let permit = pacer.acquire(&a, Ask::new().with_budget(s(100))).await.unwrap();
        sleep(head).await;
        permit.observe(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        permit.waited()
    };
    assert_eq!(waited(s(2), 200).await, s(0));
    assert_eq!(waited(ms(10), 500).await, s(10), "five times two seconds");
    assert_eq!(waited(s(60), 200).await, s(10), "a quick error has not lowered it");
    assert_eq!(waited(ms(10), 200).await, s(30), "at most 30 s");
    assert_eq!(waited(ms(10), 200).await, s(1), "never below our own delay");
    let archive = PacePolicy::archive();
    assert_eq!(archive.min_delay(), s(3));
}

#[tokio::test(start_paused = true)]
async fn scopes_are_taken_all_or_none() {
    let shops = Scope::custom(|url| url.path().strip_prefix("/shop/").map(|_| "shops".to_owned()));
    let policy = one_second().with_scope(shops.with_delay(s(5)).with_max_in_flight(1));
    let (pacer, log) = (Pacer::new(policy), Log::default());
    let tasks: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let (pacer, log, to) =
                (pacer.clone(), log.clone(), url(&format!("http://{name}.example/shop/1")));
            tokio::spawn(async move { log.fetch(&pacer, &to, Ask::new(), ms(0)).await.unwrap() })
        })
        .into();
    // Another page of a.example is in no group.
    sleep(ms(1)).await;
    log.fetch(&pacer, &url("http://a.example/page"), Ask::new(), ms(0)).await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.starts("a.example"), [s(0), s(1)]);
    assert_eq!(log.starts("b.example"), [s(5)]);
    assert_eq!(log.starts("c.example"), [s(10)]);
    // A deferral in the group reserves nothing on the host, and names the group.
    let deferral =
        deferral(pacer.acquire(&url("http://d.example/shop/1"), Ask::new().with_budget(s(1))).await);
    assert_eq!(deferral.scope(), "custom/shops");
    assert_eq!(pacer.acquire(&url("http://d.example/"), Ask::new()).await.unwrap().waited(), s(0));
}

#[tokio::test(start_paused = true)]
async fn backoffs_stay_with_the_host_unless_a_scope_wants_them() {
    let group = || Scope::custom(|_| Some("all".to_owned())).with_delay(s(0)).with_max_in_flight(9);
    for (scope, expected) in [(group(), s(0)), (group().with_feedback(), s(120))] {
        let pacer = Pacer::new(one_second().with_scope(scope));
        answer(&pacer, TOO_MANY, &retry_after("120")).await;
        let permit = pacer.acquire(&url("http://b.example/"), Ask::new().with_budget(s(200))).await.unwrap();
        assert_about(permit.waited(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn crossing_scopes_never_wait_for_each_other_in_a_circle() {
    // Each request is in two of four groups, in both orders; a cancelled one leaves both.
    let first = Scope::custom(|url| url.query().map(|query| query[..1].to_owned())).with_delay(ms(10));
    let second = Scope::custom(|url| url.query().map(|query| query[1..].to_owned())).with_delay(ms(10));
    let policy =
        one_second().danger_min_delay(s(0)).danger_max_in_flight(99).with_scope(first).with_scope(second);
    let (pacer, mut tasks) = (Pacer::new(policy.with_max_wait(s(500))), Vec::new());
    for n in 0..300 {
        let pair = ["ab", "ba", "bc", "cb", "ca", "ac", "dd"][n % 7];
        let (pacer, to) = (pacer.clone(), url(&format!("http://h{n}.example/?{pair}")));
        tasks.push(tokio::spawn(async move {
            let permit = pacer.acquire(&to, Ask::new()).await.unwrap();
            sleep(ms(3)).await;
            drop(permit);
        }));
    }
    sleep(ms(100)).await;
    tasks.iter().step_by(5).for_each(|task| task.abort());
    for task in tasks {
        let _ = task.await;
    }
    assert_eq!((pacer.stats().in_flight, pacer.stats().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_host_can_have_its_own_pace() {
    let policy =
        one_second().with_own_sites([host("mine.example")]).with_host_delay(host("slow.example"), s(10));
    let pacer = Pacer::new(policy);
    let waited = async |to: &str| {
        let to = url(to);
        pacer.acquire(&to, Ask::new()).await.unwrap().finish();
        pacer.acquire(&to, Ask::new()).await.unwrap().waited()
    };
    assert_eq!(waited("http://mine.example/").await, ms(100));
    assert_eq!(waited("http://slow.example/").await, s(10));
    assert_eq!(waited("http://other.example/").await, s(1));
}

/// Writes down what it hears; panics at everything it is told to.
#[derive(Debug, Default)]
struct Ears {
    heard: Mutex<Vec<String>>,
    panics: bool,
}

impl Ears {
    fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        let text = match event {
            Event::Granted { scope, .. } => format!("granted {scope}"),
            Event::BackedOff { scope, cause, .. } => format!("held {scope} {cause:?}"),
            Event::BodyOpen { scope, open } => format!("open {scope} {open:?}"),
            Event::BreakerOpened { scope, .. } => format!("breaker {scope}"),
            Event::Deferred { scope, .. } => format!("deferred {scope}"),
            Event::Exception { scope, .. } => format!("exception {scope}"),
            other => format!("{other:?}"),
        };
        self.heard.lock().unwrap().push(text);
        assert!(!self.panics, "the observer's own mistake");
    }
}

/// How long the bodies had been open that were told of.
fn told_open(ears: &Ears) -> Vec<String> {
    ears.heard.lock().unwrap().iter().filter(|text| text.starts_with("open")).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_is_reported_once_without_being_asked_for() {
    let ears = Arc::new(Ears::default());
    let pacer = Pacer::builder(one_second()).observer(ears.observer()).build();
    let unread = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    sleep(s(100)).await;
    let other = pacer.acquire(&url("http://b.example/"), Ask::new()).await.unwrap();
    let read = pacer.acquire(&url("http://c.example/"), Ask::new()).await.unwrap();
    sleep(s(30)).await;
    drop(read);
    sleep(s(169)).await;
    assert_eq!(told_open(&ears), [""; 0]);
    sleep(s(2)).await;
    assert!(told_open(&ears)[0].starts_with("open a.example 300"), "{:?}", told_open(&ears));
    sleep(s(3_600)).await;
    let told = told_open(&ears);
    assert!(told.len() == 2 && told[1].starts_with("open b.example 300"), "{told:?}");
    drop((unread, other));
    assert_eq!(told_open(&ears).len(), 2, "no second time");
    // When nothing is in flight nothing is watched; it begins again.
    sleep(s(3_600)).await;
    let _again = pacer.acquire(&url("http://d.example/"), Ask::new()).await.unwrap();
    sleep(s(301)).await;
    assert!(told_open(&ears)[2].starts_with("open d.example 300"), "{:?}", told_open(&ears));
}

#[tokio::test(start_paused = true)]
async fn a_body_open_for_a_minute_is_reported_once() {
    let ears = Arc::new(Ears::default());
    let pacer = Pacer::builder(one_second()).observer(ears.observer()).build();
    let a = url("http://a.example/");
    let open = pacer.acquire(&a, Ask::new()).await.unwrap();
    for _ in 0..5 {
        sleep(s(20)).await;
        pacer.acquire(&a, Ask::new().with_budget(s(0))).await.unwrap_err();
    }
    drop(open);
    let heard = ears.heard.lock().unwrap();
    let open: Vec<_> = heard.iter().filter(|text| text.starts_with("open")).collect();
    assert_eq!(open, ["open a.example 60s"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_open_for_long_is_reported_at_its_end_at_the_latest() {
    let ears = Arc::new(Ears::default());
    let pacer = Pacer::builder(PacePolicy::default()).observer(ears.observer()).build();
    let open = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    sleep(s(75)).await;
    drop(open);
    assert_eq!(*ears.heard.lock().unwrap(), ["granted a.example", "open a.example 75s"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_can_be_backed_off_by_its_key() {
    let group = Scope::custom(|_| Some("all".to_owned())).with_delay(s(0)).with_max_in_flight(9);
    let pacer = Pacer::new(one_second().with_scope(group));
    pacer.back_off("custom/all", SystemClock.wall().plus(s(100)), BackoffCause::Operator);
    let deferral = deferral(pacer.acquire(&url("http://a.example/"), Ask::new()).await);
    assert_eq!(deferral.scope(), "custom/all");
}

#[tokio::test(start_paused = true)]
async fn an_exception_to_politeness_is_reported_once_at_the_start() {
    let ears = Arc::new(Ears::default());
    let policy = one_second().danger_min_delay(ms(5)).with_own_sites([host("mine.example")]);
    Pacer::builder(policy).observer(ears.observer()).build();
    assert_eq!(*ears.heard.lock().unwrap(), ["exception every host", "exception mine.example"]);
}

#[tokio::test(start_paused = true)]
async fn panics_of_the_users_code_stay_there() {
    quietly(async {
        let ears = Arc::new(Ears { panics: true, ..Ears::default() });
        let scope = Scope::custom(|url| if url.path() == "/bad" { panic!("mistake") } else { None });
        let clock = Arc::new(BadClock::default());
        let policy = PacePolicy::default().with_scope(scope);
        let pacer = Pacer::builder(policy).observer(ears.observer()).clock(clock.clone()).build();
        let refusal = pacer.acquire(&url("http://a.example/bad"), Ask::new()).await.unwrap_err();
        assert_eq!(refusal.to_string(), "the scope panicked, so the request was not sent");
        let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
        clock.break_down(true);
        let refusal = pacer.acquire(&url("http://b.example/"), Ask::new()).await.unwrap_err();
        assert_eq!(refusal.to_string(), "the clock panicked, so the request was not sent");
        permit.finish_with(TOO_MANY, &retry_after("5"));
        clock.break_down(false);
        assert_eq!((pacer.stats().in_flight, pacer.stats().waiting), (0, 0));
        let next = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
        assert_about(next.waited(), s(5));
        assert!(ears.heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len() == 3);
    })
    .await;
}

#[derive(Debug, Default)]
struct BadClock {
    broken: std::sync::atomic::AtomicBool,
}

impl BadClock {
    fn break_down(&self, broken: bool) {
        self.broken.store(broken, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for BadClock {
    fn now(&self) -> std::time::Instant {
        assert!(!self.broken.load(std::sync::atomic::Ordering::SeqCst), "the clock's own mistake");
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        SystemClock.wall()
    }
}

/// Expected panics need not be printed.
async fn quietly(test: impl Future<Output = ()>) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let expected = ["mistake", "the observer's own mistake", "the clock's own mistake"];
        let message = info.payload().downcast_ref::<&str>();
        if !message.is_some_and(|text| expected.contains(text)) {
            hook(info);
        }
    }));
    test.await;
}
