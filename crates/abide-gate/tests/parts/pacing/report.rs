//! What a pacer says of itself: when a URL may go, what has happened to a host, and sums.

use std::sync::Arc;
use std::time::Duration;

use crate::pacing::{Ask, Pacer, Refusal};
use abide_gate::pacing::{BackoffCause, DeferReason, MemoryHostStore, Permit, Scope};
use abide_gate::{Clock, SystemClock, WallMillis};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::parts::support::pacing::{deferral, host, ms, one_second, s, url};

/// Two wait for `http://a.example/`, whose first response is open since one second ago.
async fn busy(pacer: &Pacer) -> (Permit, Vec<JoinHandle<Result<Permit, Refusal>>>) {
    let open = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    let waiting = (0..2)
        .map(|_| {
            let pacer = pacer.clone();
            tokio::spawn(async move { pacer.acquire(&url("http://a.example/"), Ask::new()).await })
        })
        .collect();
    sleep(s(1)).await;
    (open, waiting)
}

fn wall_in(span: Duration) -> WallMillis {
    SystemClock.wall().plus(span)
}

/// The wall clock runs on while a test with a paused clock runs.
fn is_about(at: WallMillis, expected: WallMillis) -> bool {
    at.since(expected).max(expected.since(at)) < s(5)
}

#[tokio::test(start_paused = true)]
async fn sums_are_over_all_hosts() {
    let pacer = Pacer::new(one_second());
    let (_open, _waiting) = busy(&pacer).await;
    let _another = pacer.acquire(&url("http://b.example/"), Ask::new()).await.unwrap();
    pacer.back_off(host("c.example").as_str(), wall_in(s(60)), BackoffCause::Operator);
    let stats = pacer.stats();
    assert_eq!((stats.hosts, stats.in_flight, stats.waiting, stats.backed_off), (3, 2, 2, 1));
    assert_eq!(pacer.reports().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_report_has_what_happened_to_a_host() {
    let pacer = Pacer::new(one_second());
    let (_open, _waiting) = busy(&pacer).await;
    let a = url("http://a.example/");
    let at_once = || pacer.acquire(&a, Ask::new().with_budget(Duration::ZERO));
    deferral(at_once().await);
    let late = deferral(at_once().await);
    assert!(late.0.not_before() > Some(SystemClock.wall()), "{late:?}");
    assert_eq!(Refusal::Panicked { callback: "clock" }.not_before(), None);
    let report = pacer.report(&host("a.example")).unwrap();
    assert_eq!((report.scope(), report.requests(), report.deferrals()), ("a.example", 1, 2));
    assert_eq!((report.in_flight(), report.waiting(), report.open()), (1, 2, Some(s(1))));
    assert_eq!((report.backoffs(), report.backed_off_until(), report.delay()), (0, None, s(1)));
    let until = pacer.back_off(host("a.example").as_str(), wall_in(s(60)), BackoffCause::Operator);
    let report = pacer.report(&host("a.example")).unwrap();
    assert!(is_about(report.backed_off_until().unwrap(), until) && report.backoffs() == 1);
    assert!(pacer.report(&host("b.example")).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_next_slot_counts_waiters_and_reserves_nothing() {
    let pacer = Pacer::new(one_second());
    let (_open, _waiting) = busy(&pacer).await;
    let next = pacer.next_slot(&url("http://a.example/"), Ask::new()).unwrap();
    assert_eq!((next.in_flight(), next.waiting(), next.overdue()), (1, 2, None));
    assert!(next.wait() >= s(2), "the delays of those before: {next:?}");
    assert!(is_about(next.not_before(), wall_in(next.wait())), "{next:?}");
    let free = pacer.next_slot(&url("http://b.example/"), Ask::new()).unwrap();
    assert_eq!((free.in_flight(), free.waiting(), free.wait()), (0, 0, Duration::ZERO));
    assert_eq!(pacer.stats().hosts, 1, "asking makes nothing known");
}

#[tokio::test(start_paused = true)]
async fn only_a_host_that_is_free_is_overdue() {
    let pacer = Pacer::new(one_second());
    let a = url("http://a.example/");
    let overdue = || pacer.next_slot(&a, Ask::new()).unwrap().overdue();
    assert_eq!(overdue(), None, "it was never asked");
    let permit = pacer.acquire(&a, Ask::new()).await.unwrap();
    sleep(s(5)).await;
    assert_eq!(overdue(), None, "a response is open");
    drop(permit);
    assert_eq!(overdue(), None, "its delay is not over");
    sleep(s(3)).await;
    assert_eq!(overdue(), Some(s(2)));
    pacer.back_off(host("a.example").as_str(), wall_in(s(60)), BackoffCause::Operator);
    assert_eq!(overdue(), None, "it is backed off");
}

#[tokio::test(start_paused = true)]
async fn the_next_ready_is_new_or_free_for_longest_or_free_first() {
    let pacer = Pacer::new(one_second());
    for (name, then) in [("long", s(2)), ("short", ms(1_500)), ("later", ms(300)), ("last", ms(100))] {
        drop(pacer.acquire(&url(&format!("http://{name}.example/")), Ask::new()).await.unwrap());
        sleep(then).await;
    }
    let _open = pacer.acquire(&url("http://open.example/"), Ask::new()).await.unwrap();
    let all = ["open", "last", "later", "short", "long", "new"].map(|name| host(&format!("{name}.example")));
    for n in (1..=all.len()).rev() {
        for row in [all[..n].to_vec(), all[..n].iter().rev().cloned().collect()] {
            let (ready, _) = pacer.next_ready(&row).unwrap();
            assert_eq!(ready, &all[n - 1], "of {row:?}");
        }
    }
    assert!(pacer.next_ready(&[]).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_that_of_the_scope_that_is_free_last() {
    let group = Scope::custom(|_| Some("farm".to_owned())).with_delay(s(10));
    let pacer = Pacer::new(one_second().with_scope(group));
    drop(pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap());
    for name in ["a", "b"] {
        let next = pacer.next_slot(&url(&format!("http://{name}.example/")), Ask::new()).unwrap();
        assert_eq!(next.wait(), s(10), "{name}");
    }
    let late = pacer.acquire(&url("http://b.example/"), Ask::new().with_budget(s(9))).await;
    let late = deferral(late);
    assert_eq!((late.scope(), late.reason()), ("custom/farm", &DeferReason::Delay { delay: s(10) }));
}

#[tokio::test(start_paused = true)]
async fn every_group_counts_once() {
    let (small, large) =
        (Scope::custom(|_| Some("small".to_owned())), Scope::custom(|_| Some("large".to_owned())));
    let policy = one_second()
        .with_scope(small.clone().with_delay(s(2)))
        .with_scope(large.with_delay(s(20)))
        .with_scope(small);
    let pacer = Pacer::new(policy);
    drop(pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap());
    let next = pacer.next_slot(&url("http://b.example/"), Ask::new()).unwrap();
    assert_eq!(next.wait(), s(20), "the second group is one of its own");
    assert_eq!(pacer.stats().hosts, 3, "the third is the first");
}

#[tokio::test(start_paused = true)]
async fn a_deferral_by_the_store_names_its_scope() {
    let store = Arc::new(MemoryHostStore::default());
    let pacer = || {
        let group = Scope::custom(|_| Some("farm".to_owned())).with_delay(s(50));
        Pacer::builder(one_second().with_scope(group)).store(store.clone()).build()
    };
    drop(pacer().acquire(&url("http://a.example/"), Ask::new()).await.unwrap());
    sleep(s(3)).await;
    let other = pacer();
    assert_eq!(deferral(other.acquire(&url("http://b.example/"), Ask::new()).await).scope(), "custom/farm");
}

#[tokio::test(start_paused = true)]
async fn an_open_response_is_the_reason_for_all_behind_it() {
    let pacer = Pacer::new(one_second());
    let _open = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    let ask = |seconds| {
        let pacer = pacer.clone();
        tokio::spawn(async move {
            pacer.acquire(&url("http://a.example/"), Ask::new().with_budget(s(seconds))).await
        })
    };
    let waiting = [ask(6), ask(5), ask(7)];
    for late in waiting {
        let late = deferral(late.await.unwrap());
        assert!(matches!(late.reason(), DeferReason::InFlight { .. }), "{late:?}");
    }
}

#[test]
fn eight_groups_are_kept() {
    let group = || Scope::custom(|_| None);
    let policy = (0..9).fold(one_second(), |policy, _| policy.with_scope(group()));
    assert_eq!(policy.scopes().len(), 8);
}

#[test]
fn short_spans_are_shown_with_a_tenth_and_longer_ones_without() {
    for (delay, told) in [(ms(250), "250 ms"), (ms(9_990), "9.9 s"), (ms(10_500), "10 s"), (s(9), "9 s")] {
        let (scope, reason) = ("a.example".into(), DeferReason::Delay { delay });
        let text = Refusal::Deferred { scope, not_before: WallMillis::from_millis(0), wait: s(1), reason }
            .to_string();
        assert!(text.contains(&format!("requests to a.example are {told} apart")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_shown_in_a_log() {
    let policy = one_second().with_scope(Scope::custom(|_| None)).with_delay(s(7));
    assert_eq!(policy.min_delay(), s(7));
    let pacer = Pacer::new(policy);
    let permit = pacer.acquire(&url("http://a.example/"), Ask::new()).await.unwrap();
    let shown = [
        (format!("{pacer:?}"), "Pacer"),
        (format!("{permit:?}"), "Permit"),
        (format!("{:?}", Scope::custom(|_| None)), "Scope"),
    ];
    for (shown, part) in shown {
        assert!(shown.contains(part), "{shown}");
    }
}
