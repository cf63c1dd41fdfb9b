//! The instants in which something begins or ends, and what is told of it, to the nanosecond.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pacing::{Ask, Pacer};
use abide_gate::pacing::{BackoffCause, DeferReason, MemoryHostStore, PacePolicy, Scope};
use abide_gate::{Clock, Event, Failure, ManualClock, WallMillis};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use crate::parts::support::faulty::Faulty;
use crate::parts::support::pacing::{Lagging, deferral, host, ms, one_second, s, url};

/// What was reported, but for permits.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        let text = match event {
            Event::BackedOff { scope, lasts, cause } => format!("{scope} held {lasts:?} {cause:?}"),
            Event::BreakerOpened { scope, lasts, failure: fault } => {
                format!("{scope} left {lasts:?} {fault}")
            }
            Event::BodyOpen { scope, open } => format!("{scope} open {open:?}"),
            Event::StoreDown { .. } => "down".to_owned(),
            Event::StoreBack => "back".to_owned(),
            _ => return,
        };
        self.0.lock().unwrap().push(text);
    }
}

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// With both clocks on tokio's time, and no jitter to speak of.
fn builder(policy: PacePolicy) -> (crate::pacing::PacerBuilder, Arc<ManualClock>, Arc<Told>) {
    let clock = Arc::new(ManualClock::starting_at(WallMillis::from_millis(1_000_000_000)));
    let told = Arc::new(Told::default());
    (Pacer::builder(policy).clock(clock.clone()).observer(told.observer()).seed(0), clock, told)
}

async fn take(pacer: &Pacer, name: &str) -> abide_gate::pacing::Permit {
    pacer.acquire(&url(&format!("http://{name}/")), Ask::new()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_host_is_reported_once_and_not_backed_off() {
    let (builder, _, told) = builder(one_second());
    let pacer = builder.build();
    for n in 1..=5 {
        assert_eq!(told.take(), [""; 0], "before fault {n}");
        let until = take(&pacer, "a.example").await.failed(Failure::Refused);
        assert_eq!(until.is_some(), n == 5);
    }
    assert_eq!(told.take(), ["a.example left 60s the connection was refused"]);
}

#[tokio::test(start_paused = true)]
async fn a_backed_off_host_is_reported_once_and_opens_no_breaker() {
    let (builder, _, told) = builder(one_second());
    let pacer = builder.build();
    let permit = take(&pacer, "a.example").await;
    sleep(ms(1)).await;
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    let heard = told.take();
    assert!(heard.len() == 1 && heard[0].starts_with("a.example held 6"), "{heard:?}");
    // The same event says nothing new.
    permit.observe(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    assert_eq!(told.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_backoff_is_over_in_the_instant_of_its_end() {
    for (after, is_held) in [(9_999, true), (10_000, false), (10_001, false)] {
        let (builder, clock, _) = builder(one_second());
        let pacer = builder.build();
        let permit = take(&pacer, "a.example").await;
        let end = clock.wall().plus(s(10));
        assert_eq!(pacer.back_off(host("a.example").as_str(), end, BackoffCause::Operator), end);
        sleep(ms(after)).await;
        assert_eq!(permit.observe(StatusCode::OK, &HeaderMap::new()), is_held.then_some(end), "{after}");
        assert_eq!(pacer.stats().backed_off, usize::from(is_held), "{after}");
        let report = pacer.report(&host("a.example")).unwrap();
        assert_eq!(report.backed_off_until(), is_held.then_some(end), "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_backed_off_hosts_are_two() {
    let (builder, clock, _) = builder(one_second());
    let pacer = builder.build();
    for name in ["a.example", "b.example"] {
        pacer.back_off(host(name).as_str(), clock.wall().plus(s(10)), BackoffCause::Operator);
    }
    assert_eq!(pacer.stats().backed_off, 2);
}

#[tokio::test(start_paused = true)]
async fn a_body_open_for_a_minute_is_reported() {
    for (millis, expected) in [(59_999, vec![]), (60_000, vec!["a.example open 60s"])] {
        let (builder, _, told) = builder(one_second());
        let pacer = builder.build();
        let permit = take(&pacer, "a.example").await;
        sleep(ms(millis)).await;
        drop(permit);
        assert_eq!(told.take(), expected, "{millis}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_defers_waiters_before_its_response_has_ended() {
    let pacer = Pacer::new(one_second());
    let permit = take(&pacer, "a.example").await;
    let a = url("http://a.example/");
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "600".parse().unwrap());
    let (deferral, ()) = tokio::join!(
        async {
            let began = Instant::now();
            let deferral = deferral(pacer.acquire(&a, Ask::new()).await);
            assert_eq!(began.elapsed(), s(5));
            deferral
        },
        async {
            sleep(s(5)).await;
            permit.observe(StatusCode::TOO_MANY_REQUESTS, &headers);
        }
    );
    assert!(matches!(deferral.reason(), DeferReason::Backoff { status: Some(429), .. }), "{deferral}");
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_ends_with_the_wait_costs_no_more() {
    let (builder, clock, _) = builder(one_second());
    let pacer = builder.store(Arc::new(MemoryHostStore::with_clock(clock.clone()))).build();
    pacer.back_off(host("a.example").as_str(), clock.wall().plus(s(5)), BackoffCause::Operator);
    assert_eq!(take(&pacer, "a.example").await.waited(), s(5));
}

#[tokio::test(start_paused = true)]
async fn without_its_store_a_process_waits_for_the_longer_delay() {
    for (budget, is_granted) in [(3_999, false), (4_000, true)] {
        let policy = one_second().with_expected_workers(4);
        let pacer = Pacer::builder(policy).store(Faulty::from_the_start()).build();
        take(&pacer, "a.example").await.finish();
        let next = pacer.acquire(&url("http://a.example/"), Ask::new().with_budget(ms(budget))).await;
        assert_eq!(next.ok().map(|permit| permit.waited()), is_granted.then_some(s(4)), "{budget}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_asked_again_every_second() {
    let (builder, _, told) = builder(one_second());
    let store = Faulty::from_the_start();
    let pacer = builder.store(store.clone()).build();
    let _open = take(&pacer, "a.example").await;
    let _another = take(&pacer, "b.example").await;
    let before = store.calls();
    sleep(s(10)).await;
    assert!((9..=11).contains(&(store.calls() - before)), "by one task: {}", store.calls() - before);
    assert_eq!(told.take(), ["down"]);
    store.heal();
    sleep(s(1)).await;
    assert_eq!(told.take(), ["back"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_in_flight_since_its_host_is_leased() {
    let store = Arc::new(MemoryHostStore::default());
    let policy = || one_second().danger_max_in_flight(3);
    let pacers = [0, 1].map(|_| Pacer::builder(policy()).store(store.clone()).build());
    take(&pacers[0], "a.example").await.finish();
    assert!(pacers[0].settled(s(1)).await);
    let permit = take(&pacers[1], "a.example").await;
    assert_eq!((permit.waited(), permit.elapsed()), (s(1), s(0)));
    assert_eq!(pacers[1].report(&host("a.example")).unwrap().open(), Some(Duration::ZERO));
    sleep(s(2)).await;
    assert_eq!(pacers[1].report(&host("a.example")).unwrap().open(), Some(s(2)));
}

#[tokio::test(start_paused = true)]
async fn of_equal_slots_the_first_is_returned() {
    let group = Scope::custom(|_| Some("group".to_owned())).with_delay(s(1));
    let pacer = Pacer::new(one_second().with_scope(group));
    take(&pacer, "a.example").await.finish();
    sleep(s(10)).await;
    let next = |name: &str| pacer.next_slot(&url(&format!("http://{name}/")), Ask::new()).unwrap();
    assert_eq!((next("a.example").wait(), next("a.example").overdue()), (s(0), Some(s(9))));
    assert_eq!(next("b.example").overdue(), None, "the host, which is as free as its group");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_nothing_was_sent_to_is_not_overdue() {
    let pacer = Pacer::new(one_second());
    take(&pacer, "a.example").await.give_back();
    sleep(s(10)).await;
    let next = pacer.next_slot(&url("http://a.example/"), Ask::new()).unwrap();
    assert_eq!((next.wait(), next.overdue()), (s(0), None));
}

#[tokio::test(start_paused = true)]
async fn the_first_ready_host_is_the_one_with_the_least_wait() {
    let pacer = Pacer::new(one_second());
    take(&pacer, "free.example").await.finish();
    sleep(s(5)).await;
    take(&pacer, "busy.example").await.finish();
    let first = |names: [&str; 2]| {
        let hosts = names.map(host);
        let (ready, _) = pacer.next_ready(&hosts).unwrap();
        names.iter().position(|name| ready == &host(name)).unwrap()
    };
    assert_eq!(first(["busy.example", "free.example"]), 1);
    assert_eq!(first(["free.example", "busy.example"]), 0);
    assert_eq!(first(["new-a.example", "new-b.example"]), 0);
    assert_eq!(first(["new-b.example", "new-a.example"]), 0);
}

#[tokio::test(start_paused = true)]
async fn where_something_is_in_flight_is_ready_after_where_nothing_is() {
    let pacer = Pacer::new(one_second().danger_max_in_flight(2));
    let _open = take(&pacer, "open.example").await;
    sleep(s(5)).await;
    take(&pacer, "closed.example").await.finish();
    sleep(s(5)).await;
    let hosts = ["open.example", "closed.example"].map(host);
    let (ready, slot) = pacer.next_ready(&hosts).unwrap();
    assert_eq!((ready, slot.overdue()), (&hosts[1], Some(s(4))));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_lags_behind_is_waited_for_with_a_store_too() {
    let clock = Arc::new(Lagging(Instant::now()));
    let store = Arc::new(MemoryHostStore::with_clock(clock.clone()));
    let pacers =
        [0, 1].map(|_| Pacer::builder(one_second()).clock(clock.clone()).store(store.clone()).build());
    let began = Instant::now();
    take(&pacers[0], "a.example").await.finish();
    assert!(pacers[0].settled(s(1)).await);
    take(&pacers[1], "a.example").await.finish();
    assert!((s(2)..s(3)).contains(&began.elapsed()), "{:?}", began.elapsed());
}
