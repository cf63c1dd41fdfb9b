//! Hosts that refuse us, time after time, on virtual time.

use std::sync::Arc;
use std::time::Duration;

use crate::pacing::Pacer;
use abide_gate::pacing::PacePolicy;
use abide_gate::testing::MemoryStore;
use abide_gate::{Denied, DeniedKind, Refusal, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::sleep;

use crate::parts::support::pacing::{TokioClock, ms, observed, one_second, page, s};

const HOUR: Duration = Duration::from_secs(3_600);

fn challenge() -> HeaderMap {
    HeaderMap::from_iter([("cf-mitigated".parse().unwrap(), "challenge".parse().unwrap())])
}

/// One request, unless it is refused: that.
async fn send(pacer: &Arc<Pacer>, status: u16, headers: &HeaderMap) -> Option<Denied> {
    match pacer.take_within("a.example", s(30)).await {
        Ok(permit) => {
            permit.observe(StatusCode::from_u16(status).unwrap(), headers);
            None
        }
        Err(cause) => Some(Denied::by(cause, &page("a.example"), WallMillis::from_millis(0))),
    }
}

/// So many URLs, and how many of them were requested.
async fn sent(pacer: &Arc<Pacer>, urls: usize, status: u16, headers: &HeaderMap) -> usize {
    let mut sent = 0;
    for _ in 0..urls {
        sent += usize::from(send(pacer, status, headers).await.is_none());
    }
    sent
}

#[track_caller]
fn assert_about(actual: Duration, expected: Duration) {
    let range = expected.saturating_sub(ms(2))..=expected.mul_f64(1.1) + ms(2);
    assert!(range.contains(&actual), "{actual:?}, expected {expected:?} and at most a tenth more");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_refuses_every_page_is_asked_25_times() {
    let (pacer, events) = observed(one_second());
    let none = HeaderMap::new();
    assert_eq!(sent(&pacer, 4_700, 403, &none).await, 25);
    let denied = send(&pacer, 403, &none).await.unwrap();
    assert!(
        matches!(denied.kind(), DeniedKind::Refusing { by: None, responses: 25, status: 403, .. }),
        "{denied}"
    );
    assert_eq!((denied.name(), denied.is_temporary()), ("refusing", true));
    let reported = events.of("Refusing");
    assert_eq!(reported.len(), 1, "{reported:?}");
    let report = pacer.report_of("a.example");
    assert_eq!((report.refusals, report.held_until.is_some(), report.backed_off_until), (25, true, None));
    assert_eq!((pacer.stats().refusing, pacer.stats().backed_off), (1, 0));
    assert_about(pacer.slot("a.example").wait, HOUR);
    assert_eq!(pacer.take("b.example").await.waited(), s(0));
}

#[tokio::test(start_paused = true)]
async fn five_recognised_refusals_are_enough() {
    let pacer = Pacer::new(one_second());
    assert_eq!(sent(&pacer, 100, 200, &challenge()).await, 5);
    let denied = send(&pacer, 200, &challenge()).await.unwrap();
    let by = Refusal::in_head(StatusCode::OK, &challenge());
    assert!(matches!(denied.kind(), DeniedKind::Refusing { by: found, .. } if *found == by), "{denied}");
    let patient = Pacer::new(one_second().with_refusals_max(2));
    assert_eq!(sent(&patient, 100, 403, &HeaderMap::new()).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_403_among_pages_that_are_fine_never_holds() {
    let pacer = Pacer::new(one_second());
    for number in 0..1_000 {
        let status = if number % 6 == 5 { 200 } else { 403 };
        assert!(send(&pacer, status, &HeaderMap::new()).await.is_none(), "{number}");
    }
    // Nor do those that neither count nor end the row, however many there are of them.
    for _ in 0..100 {
        assert!(send(&pacer, 451, &HeaderMap::new()).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_probe_doubles_the_hold_or_ends_it() {
    let pacer = Pacer::new(one_second());
    let none = HeaderMap::new();
    sent(&pacer, 30, 403, &none).await;
    for hours in [2, 4, 8] {
        sleep(pacer.slot("a.example").wait).await;
        assert_eq!(sent(&pacer, 9, 403, &none).await, 1, "one request is the probe");
        assert_about(pacer.slot("a.example").wait, HOUR * hours);
    }
    sleep(pacer.slot("a.example").wait).await;
    assert_eq!(sent(&pacer, 50, 200, &none).await, 50);
    assert_eq!(pacer.report_of("a.example").refusals, 0);
    assert_eq!(sent(&pacer, 24, 403, &none).await, 24, "the row begins anew");
}

#[tokio::test(start_paused = true)]
async fn one_request_at_a_time_probes_a_host_of_ones_own() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(4).danger_min_delay(ms(1)));
    sent(&pacer, 30, 403, &HeaderMap::new()).await;
    sleep(pacer.slot("a.example").wait).await;
    let probe = pacer.take_within("a.example", s(9)).await.unwrap();
    assert!(pacer.take_within("a.example", s(9)).await.is_err(), "the others wait for it");
    probe.observe(StatusCode::OK, &HeaderMap::new());
    assert!(pacer.take_within("a.example", s(9)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_are_refused_when_the_hold_begins() {
    let pacer = Pacer::new(one_second());
    sent(&pacer, 24, 403, &HeaderMap::new()).await;
    let last = pacer.take_within("a.example", s(30)).await.unwrap();
    let waiting = pacer.spawn_take("a.example", s(30));
    sleep(ms(10)).await;
    last.observe(StatusCode::FORBIDDEN, &HeaderMap::new());
    let (taken, _) = waiting.await.unwrap();
    let refused = taken.unwrap_err();
    assert!(matches!(refused.kind, DeniedKind::Refusing { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn processes_that_share_a_store_share_the_hold_and_its_probe() {
    let store = Arc::new(MemoryStore::new().with_clock(Arc::new(TokioClock)));
    let process = || {
        let builder =
            Pacer::builder(PacePolicy::default()).host_store(store.clone()).clock(Arc::new(TokioClock));
        builder.pacer()
    };
    let [first, second, third] = [process(), process(), process()];
    let none = HeaderMap::new();
    assert_eq!(sent(&first, 30, 403, &none).await, 25);
    sleep(s(20)).await;
    for other in [&second, &third] {
        let denied = send(other, 403, &none).await.unwrap();
        assert!(matches!(denied.kind(), DeniedKind::Refusing { responses: 25, status: 403, .. }), "{denied}");
        assert!(other.slot("a.example").wait > HOUR - s(60), "for as long");
    }
    sleep(first.slot("a.example").wait.max(second.slot("a.example").wait) + s(60)).await;
    assert_eq!(sent(&second, 9, 403, &none).await, 1, "one probe");
    sleep(s(20)).await;
    assert_eq!(sent(&third, 9, 403, &none).await, 0, "for all");
    sleep(second.slot("a.example").wait + s(60)).await;
    assert!(send(&first, 200, &none).await.is_none());
    sleep(s(20)).await;
    // It was let in, so a refusal is the first of a row.
    assert_eq!(sent(&third, 9, 403, &none).await, 9);
}
