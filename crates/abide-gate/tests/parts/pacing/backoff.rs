//! What answers and faults do to a host, on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::pacing::Pacer;
use abide_gate::DeniedKind;
use abide_gate::pacing::{BackoffCause, DeferReason, PacePolicy, PacingKey};
use abide_gate::{Clock, Event, Failure, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use crate::parts::support::pacing::{
    BrokenClock, TokioClock, deferral, host, left, ms, observed, one_second, retry_after, s, url,
};

const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

async fn answer(pacer: &Arc<Pacer>, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let permit = pacer.take_within("a.example", s(200_000)).await.unwrap();
    let until = permit.observe(status, headers)?;
    Some(left(until))
}

/// Longer by 0 to 10 %.
#[track_caller]
fn assert_about(actual: Duration, expected: Duration) {
    let range = expected.saturating_sub(ms(2))..=expected.mul_f64(1.1) + ms(2);
    assert!(range.contains(&actual), "{actual:?}, expected {expected:?} and at most a tenth more");
}

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_backs_off_its_host_only() {
    let (pacer, events) = observed(one_second());
    assert_about(answer(&pacer, TOO_MANY, &retry_after("120")).await.unwrap(), s(120));
    let reported = events.take();
    assert!(reported.len() == 1 && reported[0].starts_with("backed off a.example 1"), "{reported:?}");
    let deferral = deferral(pacer.get(&url("https://a.example:8443/x")).await);
    let reason = DeferReason::Backoff { status: Some(429), retry_after: Some(s(120)) };
    assert_eq!(deferral.reason, reason);
    assert_about(deferral.wait, s(120));
    assert_eq!(pacer.take("b.example").await.waited(), s(0));
}

/// A status, the value of its Retry-After, and the seconds that the host is backed off for: without a field,
/// then with the field.
#[tokio::test(start_paused = true)]
async fn a_host_is_backed_off_by_every_response_that_asks_for_it() {
    for (statuses, without, with) in [
        (&[420, 429, 430, 503, 509, 529][..], 60, 600),
        (&[400, 403, 404, 413, 500, 501, 502, 504, 520, 530, 999], 0, 600),
        (&[200, 202, 206, 301, 303, 304], 0, 0),
    ] {
        for status in statuses {
            let status = StatusCode::from_u16(*status).unwrap();
            for (fields, seconds) in [(HeaderMap::new(), without), (retry_after("600"), with)] {
                let pacer = Pacer::new(one_second());
                let left = answer(&pacer, status, &fields).await.unwrap_or_default();
                assert_about(left, s(seconds));
                assert_about(pacer.slot("a.example").wait, s(seconds.max(1)));
            }
        }
    }
    let strict = Pacer::new(one_second().with_backoff_on_forbidden());
    assert_about(answer(&strict, StatusCode::FORBIDDEN, &HeaderMap::new()).await.unwrap(), s(60));
}

#[tokio::test(start_paused = true)]
async fn only_throttles_are_counted() {
    let pacer = Pacer::new(one_second());
    let seconds = async |status: u16, fields: &HeaderMap, expected| {
        let left = answer(&pacer, StatusCode::from_u16(status).unwrap(), fields).await;
        assert_about(left.unwrap(), s(expected));
    };
    for _ in 0..3 {
        seconds(500, &retry_after("5"), 5).await;
    }
    seconds(430, &HeaderMap::new(), 60).await;
    seconds(403, &retry_after("5"), 5).await;
    seconds(529, &HeaderMap::new(), 120).await;
}

#[tokio::test(start_paused = true)]
async fn eight_429s_in_flight_count_as_one_throttle() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(8).danger_min_delay(s(0)));
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(pacer.take("a.example").await);
    }
    // One of them names a time: that is honoured, and still no throttle.
    for (n, permit) in permits.into_iter().enumerate() {
        sleep(ms(10)).await;
        permit.finish_with(TOO_MANY, &if n == 5 { retry_after("300") } else { HeaderMap::new() });
    }
    assert_eq!(pacer.report_of("a.example").backoffs, 1);
    assert_about(pacer.slot("a.example").wait, s(300));
    // One throttle, so the next is the second: two minutes.
    assert_about(answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap(), s(120));
}

#[tokio::test(start_paused = true)]
async fn a_new_backoff_defers_impatient_waiters_at_once() {
    let pacer = Pacer::new(one_second());
    let open = pacer.take("a.example").await;
    let [short, patient] = [s(20), s(300)].map(|budget| pacer.spawn_take("a.example", budget));
    sleep(s(3)).await;
    let began = Instant::now();
    open.observe(UNAVAILABLE, &retry_after("60"));
    let (result, at) = short.await.unwrap();
    assert_eq!(at, began, "deferred at once, before the response has ended");
    open.finish();
    assert!(matches!(deferral(result).reason, DeferReason::Backoff { status: Some(503), .. }));
    let (result, at) = patient.await.unwrap();
    assert!(result.is_ok());
    assert_about(at - began, s(60));
}

#[tokio::test(start_paused = true)]
async fn equal_backoffs_do_not_end_at_once() {
    // This seed's first draws are spread well.
    let pacer = Pacer::builder(one_second()).seed(0).pacer();
    let mut ends = Vec::new();
    for n in 0..100 {
        let permit = pacer.take(&format!("h{n}.example")).await;
        let end = permit.observe(TOO_MANY, &retry_after("1000")).unwrap();
        ends.push(left(end));
    }
    assert!(ends.iter().all(|end| (s(999)..=s(1_101)).contains(end)), "{ends:?}");
    let spread = *ends.iter().max().unwrap() - *ends.iter().min().unwrap();
    assert!(spread > s(80), "{spread:?}");
}

#[tokio::test(start_paused = true)]
async fn backoffs_by_the_operator_are_extended_and_cut_to_a_day() {
    let (pacer, wall) = (Pacer::new(one_second()), TokioClock.wall());
    let back_off = |host: &str, until| pacer.back_off(host, until, BackoffCause::Operator);
    let long = back_off("a.example", wall.plus(s(600)));
    assert_eq!(back_off("a.example", wall.plus(s(60))), long);
    for (host, hours, expected) in [("b.example", 28, 24), ("c.example", 26, 26)] {
        assert_about(back_off(host, wall.plus(s(hours * 3_600))).since(wall), s(expected * 3_600));
    }
    for past in [WallMillis::from_millis(0), wall] {
        back_off("d.example", past);
    }
    assert_eq!(pacer.slot("d.example").wait, s(0));
    back_off("e.example", WallMillis::from_millis(u64::MAX));
    assert_about(pacer.slot("e.example").wait, s(86_400));
    // A backoff by the operator is no throttle: the first 429 afterwards is the first.
    sleep(s(601)).await;
    assert_about(answer(&pacer, TOO_MANY, &HeaderMap::new()).await.unwrap(), s(60));
}

async fn fail(pacer: &Arc<Pacer>, fault: Failure) -> Option<Duration> {
    let permit = pacer.take_within("a.example", s(4_000)).await.unwrap();
    Some(left(permit.failed(fault)?))
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_open_the_breaker() {
    use Failure::Refused;
    let (pacer, events) = observed(one_second());
    for _ in 0..4 {
        assert_eq!(fail(&pacer, Refused).await, None);
    }
    assert_eq!(answer(&pacer, StatusCode::NOT_FOUND, &HeaderMap::new()).await, None);
    for _ in 0..4 {
        assert_eq!(fail(&pacer, Refused).await, None);
    }
    assert_eq!(events.take(), [""; 0]);
    assert_about(fail(&pacer, Refused).await.unwrap(), s(60));
    assert_eq!(events.take(), ["breaker a.example 60s the connection was refused"]);
    let deferral = deferral(pacer.try_take("a.example").await);
    assert_eq!(deferral.reason, DeferReason::Breaker { cause: Refused });
    // The probe fails: doubled. The next one is answered: closed.
    assert_about(fail(&pacer, Refused).await.unwrap(), s(120));
    assert_eq!(answer(&pacer, StatusCode::NOT_FOUND, &HeaderMap::new()).await, None);
    assert_eq!(fail(&pacer, Refused).await, None);
}

#[tokio::test(start_paused = true)]
async fn server_errors_and_failures_open_the_breaker_together() {
    let (pacer, events) = observed(one_second());
    let error = async |status: u16| {
        let status = StatusCode::from_u16(status).unwrap();
        answer(&pacer, status, &HeaderMap::new()).await
    };
    // Each closes it: what has nothing to do with it, and what asks for a time instead.
    for (status, fields) in [(200, HeaderMap::new()), (501, HeaderMap::new()), (500, retry_after("1"))] {
        for status in [500, 502, 504, 520] {
            assert_eq!(error(status).await, None, "{status}");
        }
        answer(&pacer, StatusCode::from_u16(status).unwrap(), &fields).await;
    }
    events.take();
    for status in [500, 502, 504] {
        assert_eq!(error(status).await, None);
    }
    assert_eq!(fail(&pacer, Failure::Reset).await, None);
    assert_about(error(530).await.unwrap(), s(60));
    assert_eq!(events.take(), ["breaker a.example 60s it returned status 530"]);
    let deferral = deferral(pacer.try_take("a.example").await);
    assert_eq!(deferral.reason, DeferReason::Breaker { cause: Failure::Status(530) });
    assert_about(error(500).await.unwrap(), s(120));
}

#[tokio::test(start_paused = true)]
async fn a_response_ends_the_failures_that_came_after_its_permit() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(2));
    drop(pacer.take("a.example").await);
    sleep(s(1)).await;
    let quiet = pacer.take("a.example").await;
    for _ in 0..4 {
        assert_eq!(fail(&pacer, Failure::Refused).await, None);
    }
    quiet.finish_with(StatusCode::OK, &HeaderMap::new());
    assert_eq!(fail(&pacer, Failure::Refused).await, None, "the fifth, but not in a row");
}

#[tokio::test(start_paused = true)]
async fn a_half_open_breaker_lets_one_probe_through() {
    let policy = one_second().danger_max_in_flight(4).danger_min_delay(s(0));
    let pacer = Pacer::new(policy);
    assert_eq!(fail(&pacer, Failure::Dns).await, None);
    assert_about(fail(&pacer, Failure::Dns).await.unwrap(), s(3_600));
    sleep(s(3_700)).await;
    let probe = pacer.take("a.example").await;
    let second = pacer.take_within("a.example", s(0)).await;
    assert!(matches!(deferral(second).reason, DeferReason::InFlight { .. }));
    // Dropped without a word: the next one is the probe.
    drop(probe);
    let probe = pacer.take("a.example").await;
    probe.observe(StatusCode::OK, &HeaderMap::new());
    let at_once = async || pacer.take_within("a.example", s(0)).await.unwrap();
    drop((probe, at_once().await, at_once().await));
}

#[tokio::test(start_paused = true)]
async fn enhance_your_calm_is_like_a_429_and_no_failure() {
    let pacer = Pacer::new(one_second());
    assert_about(fail(&pacer, Failure::EnhanceYourCalm).await.unwrap(), s(60));
    assert_about(fail(&pacer, Failure::EnhanceYourCalm).await.unwrap(), s(120));
    let deferral = deferral(pacer.try_take("a.example").await);
    assert!(matches!(deferral.reason, DeferReason::Backoff { status: None, .. }));
}

#[tokio::test(start_paused = true)]
async fn adaptive_delay_follows_the_site_and_never_speeds_up_by_errors() {
    let pacer = Pacer::new(one_second().with_adaptive_delay());
    let waited = async |head: Duration, status: u16| {
        let permit = pacer.take_within("a.example", s(100)).await.unwrap();
        sleep(head).await;
        permit.observe(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        permit.waited()
    };
    assert_eq!(waited(s(2), 502).await, s(0));
    assert_eq!(waited(ms(10), 500).await, s(10), "five times two seconds");
    assert_eq!(waited(s(60), 200).await, s(10), "a quick error has not lowered it");
    assert_eq!(waited(ms(10), 200).await, s(30), "at most 30 s");
    assert_eq!(waited(ms(10), 200).await, s(1), "never below our own delay");
    assert_eq!(PacePolicy::archive().min_delay(), s(3));
}

#[tokio::test(start_paused = true)]
async fn a_host_can_have_its_own_pace() {
    let policy =
        one_second().with_own_sites([host("mine.example")]).with_host_delay(host("slow.example"), s(10));
    let pacer = Pacer::new(policy);
    for (host, delay) in [("mine.example", ms(100)), ("slow.example", s(10)), ("other.example", s(1))] {
        pacer.take(host).await.finish();
        assert_eq!(pacer.take(host).await.waited(), delay, "{host}");
    }
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(pacer.take_within("mine.example", s(1)).await.expect("four in flight"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_open_for_a_minute_is_reported_once() {
    let (pacer, events) = observed(one_second());
    let unread = pacer.take("a.example").await;
    sleep(s(20)).await;
    let other = pacer.take("b.example").await;
    let read = pacer.take("c.example").await;
    sleep(s(39)).await;
    drop(read);
    assert_eq!(events.take(), [""; 0]);
    sleep(s(2)).await;
    assert_eq!(events.take(), ["open a.example 60s"]);
    sleep(s(3_600)).await;
    assert_eq!(events.take(), ["open b.example 60s"]);
    drop((unread, other));
    assert_eq!(events.take(), [""; 0], "no second time");
    // When nothing is in flight nothing is watched; it begins again.
    sleep(s(3_600)).await;
    let _again = pacer.take("d.example").await;
    sleep(s(61)).await;
    assert_eq!(events.take(), ["open d.example 60s"]);
}

#[tokio::test(start_paused = true)]
async fn an_exception_to_politeness_is_reported_once_at_the_start() {
    let (_, events) = observed(one_second().danger_min_delay(ms(5)).with_own_sites([host("mine.example")]));
    assert_eq!(events.of("exception"), ["exception every host", "exception mine.example"]);
    let (_, events) = observed(one_second().danger_max_in_flight(2));
    assert_eq!(events.of("exception"), ["exception every host"], "by the requests in flight alone");
}

#[tokio::test(start_paused = true)]
async fn panics_of_the_users_code_stay_there() {
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&count);
    let observer = move |_: &Event<'_>| {
        counts.fetch_add(1, Ordering::SeqCst);
        panic!("the observer's own mistake")
    };
    let key = PacingKey::custom(|url| if url.path() == "/bad" { panic!("mistake") } else { None });
    let clock = Arc::new(BrokenClock::default());
    let policy = PacePolicy::default().with_key(key);
    let pacer = Pacer::builder(policy).observer(Arc::new(observer)).clock(clock.clone()).pacer();
    let refusal = pacer.get(&url("http://a.example/bad")).await.unwrap_err();
    assert!(matches!(refusal.kind, DeniedKind::Panicked { callback: "pacing key" }), "{refusal:?}");
    let permit = pacer.take("a.example").await;
    clock.0.store(true, Ordering::SeqCst);
    let refusal = pacer.try_take("b.example").await.unwrap_err();
    assert!(matches!(refusal.kind, DeniedKind::Panicked { callback: "clock" }), "{refusal:?}");
    permit.finish_with(TOO_MANY, &retry_after("5"));
    clock.0.store(false, Ordering::SeqCst);
    assert_eq!((pacer.stats().in_flight, pacer.stats().waiting), (0, 0));
    assert_about(pacer.take("a.example").await.waited(), s(5));
    assert_eq!(count.load(Ordering::SeqCst), 3);
}
