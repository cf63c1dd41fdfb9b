//! Reports of the pacer: when a URL may go, what has happened to a host, and sums.

use std::sync::Arc;
use std::time::Duration;

use crate::pacing::Pacer;
use abide_gate::pacing::{DeferReason, Permit};
use tokio::time::sleep;

use crate::parts::support::pacing::{deferral, host, left, ms, one_second, page, s};

/// A response of `a.example` has been open for one second, and two requests wait.
async fn busy(pacer: &Arc<Pacer>) -> Permit {
    let open = pacer.take("a.example").await;
    for _ in 0..2 {
        pacer.spawn_take("a.example", s(30));
    }
    sleep(s(1)).await;
    open
}

#[tokio::test(start_paused = true)]
async fn sums_are_over_all_hosts() {
    let pacer = Pacer::new(one_second());
    let _open = busy(&pacer).await;
    let _another = pacer.take("b.example").await;
    for name in ["c.example", "d.example"] {
        pacer.back_off_for(name, s(60));
    }
    let stats = pacer.stats();
    assert_eq!((stats.hosts, stats.in_flight, stats.waiting, stats.backed_off), (4, 2, 2, 2));
    assert_eq!(pacer.reports().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_report_has_what_happened_to_a_host() {
    let pacer = Pacer::new(one_second());
    pacer.take("a.example").await.finish();
    let _open = busy(&pacer).await;
    let at_once = || pacer.take_within("a.example", Duration::ZERO);
    deferral(at_once().await);
    let late = deferral(at_once().await);
    assert_eq!(late.wait, s(4), "{late:?}");
    let report = pacer.report_of("a.example");
    assert_eq!((&*report.key, report.requests, report.deferrals), ("a.example", 2, 2));
    assert_eq!((report.waited, report.longest_wait), (s(1), s(1)));
    assert_eq!((report.in_flight, report.waiting, report.open), (1, 2, Some(s(1))));
    assert_eq!((report.backoffs, report.backed_off_until, report.delay), (0, None, s(1)));
    let until = pacer.back_off_for("a.example", s(60));
    let report = pacer.report_of("a.example");
    assert_eq!((report.backed_off_until, report.backoffs), (Some(until.to_system_time()), 1));
    assert!(pacer.report(&host("b.example")).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_next_slot_counts_waiters_and_reserves_nothing() {
    let pacer = Pacer::new(one_second());
    let _open = busy(&pacer).await;
    let next = pacer.slot("a.example");
    assert_eq!((next.in_flight, next.waiting, next.overdue), (1, 2, None));
    assert!(next.wait >= s(2), "the delays of those before: {next:?}");
    assert_eq!(left(next.not_before.into()), next.wait);
    let free = pacer.slot("b.example");
    assert_eq!((free.in_flight, free.waiting, free.wait), (0, 0, Duration::ZERO));
    assert_eq!(pacer.stats().hosts, 1, "asking makes nothing known");
}

#[tokio::test(start_paused = true)]
async fn only_a_host_that_is_free_is_overdue() {
    let pacer = Pacer::new(one_second());
    let overdue = || pacer.slot("a.example").overdue;
    assert_eq!(overdue(), None, "it was never asked");
    pacer.take("a.example").await.give_back();
    sleep(s(10)).await;
    assert_eq!(overdue(), None, "nothing was sent to it");
    let permit = pacer.take("a.example").await;
    sleep(s(5)).await;
    assert_eq!(overdue(), None, "a response is open");
    drop(permit);
    assert_eq!(overdue(), None, "its delay is not over");
    sleep(s(3)).await;
    assert_eq!(overdue(), Some(s(2)));
    pacer.back_off_for("a.example", s(60));
    assert_eq!(overdue(), None, "it is backed off");
}

#[tokio::test(start_paused = true)]
async fn the_next_ready_is_new_or_free_for_longest_or_free_first() {
    let pacer = Pacer::new(one_second());
    for (name, then) in [("long", s(2)), ("short", ms(1_500)), ("later", ms(300)), ("last", ms(100))] {
        drop(pacer.take(&format!("{name}.example")).await);
        sleep(then).await;
    }
    let _open = pacer.take("open.example").await;
    let all = ["open", "last", "later", "short", "long", "new"].map(|name| host(&format!("{name}.example")));
    for n in (1..=all.len()).rev() {
        for row in [all[..n].to_vec(), all[..n].iter().rev().cloned().collect()] {
            let (ready, _) = pacer.next_ready(&row).unwrap();
            assert_eq!(ready, &all[n - 1], "of {row:?}");
        }
    }
    assert!(pacer.next_ready(&[]).is_none());
    let equals = ["new", "newer", "newest"].map(|name| host(&format!("{name}.example")));
    assert_eq!(pacer.next_ready(&equals).unwrap().0, &equals[0], "the first of equals");
    pacer.acquire(&page("slow.example"), s(60), s(0)).await.unwrap().finish();
    let slow = [host("slow.example")];
    assert_eq!(pacer.next_ready(&slow).unwrap().1.wait, s(60), "by the Crawl-delay that was asked last");
}

#[tokio::test(start_paused = true)]
async fn an_open_response_is_the_reason_for_all_behind_it() {
    let pacer = Pacer::new(one_second());
    let _open = pacer.take("a.example").await;
    for late in [6, 5, 7].map(|seconds| pacer.spawn_take("a.example", s(seconds))) {
        let late = deferral(late.await.unwrap().0);
        assert!(matches!(late.reason, DeferReason::InFlight { .. }), "{late:?}");
    }
}
