//! The instants in which something begins or ends, and what is reported of it, to the nanosecond.

use std::sync::Arc;

use crate::pacing::Pacer;
use abide_gate::Clock;
use abide_gate::pacing::{BackoffCause, OnStoreOutage};
use abide_gate::testing::MemoryStore;
use http::{HeaderMap, StatusCode};
use tokio::time::sleep;

use crate::parts::support::faulty::Faulty;
use crate::parts::support::pacing::{Events, TokioClock, host, ms, observed, one_second, s};

#[tokio::test(start_paused = true)]
async fn a_backoff_is_over_in_the_instant_of_its_end() {
    for (after, is_held) in [(9_999, true), (10_000, false), (10_001, false)] {
        let pacer = Pacer::new(one_second());
        let permit = pacer.take("a.example").await;
        let end = TokioClock.wall().plus(s(10));
        assert_eq!(pacer.back_off("a.example", end, BackoffCause::Operator), end);
        sleep(ms(after)).await;
        assert_eq!(permit.observe(StatusCode::OK, &HeaderMap::new()), is_held.then_some(end), "{after}");
        assert_eq!(pacer.stats().backed_off, usize::from(is_held), "{after}");
        let report = pacer.report_of("a.example");
        let end = end.to_system_time();
        assert_eq!(report.backed_off_until, is_held.then_some(end), "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_asked_again_every_second() {
    let (store, events) = (Faulty::from_the_start(), Arc::new(Events::default()));
    let policy = one_second().with_store_outage(OnStoreOutage::Continue { workers: 1 });
    let pacer = Pacer::builder(policy).host_store(store.clone()).observer(events.observer()).pacer();
    let _open = pacer.take("a.example").await;
    let _another = pacer.take("b.example").await;
    let before = store.calls();
    sleep(s(10)).await;
    assert!((9..=11).contains(&(store.calls() - before)), "by one task: {}", store.calls() - before);
    assert_eq!(events.take(), ["store down"]);
    store.heal();
    sleep(s(1)).await;
    assert_eq!(events.take(), ["store back"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_in_flight_since_its_host_is_leased() {
    let store = Arc::new(MemoryStore::new());
    let policy = || one_second().danger_max_in_flight(3);
    let pacers = [0, 1].map(|_| Pacer::builder(policy()).host_store(store.clone()).pacer());
    pacers[0].take("a.example").await.finish();
    assert!(pacers[0].settled(s(1)).await);
    let permit = pacers[1].take("a.example").await;
    assert_eq!((permit.waited(), permit.elapsed()), (s(1), s(0)));
    assert_eq!(pacers[1].report_of("a.example").open, Some(s(0)));
    sleep(s(2)).await;
    assert_eq!((permit.elapsed(), pacers[1].report_of("a.example").open), (s(2), Some(s(2))));
}

#[tokio::test(start_paused = true)]
async fn of_equal_slots_the_first_is_returned() {
    let (pacer, events) = observed(one_second());
    pacer.take("a.example").await.finish();
    pacer.take_within("a.example", s(0)).await.unwrap_err();
    assert_eq!(events.of("deferred"), ["deferred a.example"]);
    sleep(s(10)).await;
    let slot = pacer.slot("a.example");
    assert_eq!((slot.wait, slot.overdue), (s(0), Some(s(9))));
    assert_eq!(pacer.slot("b.example").overdue, None, "it was never asked");
}

#[tokio::test(start_paused = true)]
async fn where_something_is_in_flight_is_ready_after_where_nothing_is() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(2));
    let _open = pacer.take("open.example").await;
    sleep(s(5)).await;
    pacer.take("closed.example").await.finish();
    sleep(s(5)).await;
    let hosts = ["open.example", "closed.example"].map(host);
    let (ready, slot) = pacer.next_ready(&hosts).unwrap();
    assert_eq!((ready, slot.overdue), (&hosts[1], Some(s(4))));
}
