//! What is remembered, and what may be forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pacing::{Ask, Pacer};
use abide_gate::pacing::Scope;
use abide_gate::{Event, Failure};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use crate::parts::support::pacing::{deferral, host, ms, one_second, s, url};

/// Takes and ends a permit of `count` new hosts.
async fn strangers(pacer: &Pacer, from: usize, count: usize) {
    for n in from..from + count {
        pacer.acquire(&url(&format!("http://stranger-{n}.example/")), Ask::new()).await.unwrap().finish();
    }
}

#[derive(Debug, Default)]
struct Overgrown(AtomicUsize);

impl Overgrown {
    fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &Event<'_>) {
        if let Event::Overgrown { .. } = event {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_never_forgotten_while_its_delay_runs() {
    let pacer = Pacer::new(one_second().with_hosts_max(64));
    let a = url("http://a.example/");
    pacer.acquire(&a, Ask::new().with_crawl_delay(s(600))).await.unwrap().finish();
    // Ten thousand other hosts come and go; each of them may be forgotten after a second.
    for round in 0..100 {
        strangers(&pacer, round * 100, 100).await;
        sleep(s(2)).await;
    }
    assert!(pacer.stats().hosts < 1_000, "{:?}", pacer.stats());
    let deferral = deferral(pacer.acquire(&a, Ask::new().with_crawl_delay(s(600))).await);
    assert_eq!(deferral.wait(), s(400));
}

#[tokio::test(start_paused = true)]
async fn no_host_is_forgotten_while_there_is_room() {
    let pacer = Pacer::new(one_second().danger_min_delay(ms(0)));
    strangers(&pacer, 0, 500).await;
    sleep(s(86_400)).await;
    for _ in 0..100 {
        strangers(&pacer, 1_000, 500).await;
    }
    assert_eq!(pacer.stats().hosts, 1_000);
    assert_eq!(pacer.report(&host("stranger-7.example")).unwrap().requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_is_never_forgotten() {
    let pacer = Pacer::new(one_second().with_hosts_max(64));
    let to = |name: &str| url(&format!("http://{name}.example/"));
    let take = async |name: &str| pacer.acquire(&to(name), Ask::new()).await.unwrap();
    let open = take("open").await;
    take("held").await.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    for _ in 0..2 {
        take("dead").await.failed(Failure::Dns);
    }
    let began = Instant::now();
    // 29 quiet minutes after a backoff of a minute and a bit.
    for round in 0..30 {
        strangers(&pacer, round * 500, 500).await;
        sleep(s(60)).await;
    }
    assert_eq!(pacer.report(&host("open.example")).unwrap().in_flight(), 1);
    assert!(pacer.next_slot(&to("dead"), Ask::new()).unwrap().wait() > s(1_700), "an hour's pause");
    // The throttle is still known: the next one is the second, two minutes.
    take("held").await.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    let wait = pacer.next_slot(&to("held"), Ask::new()).unwrap().wait();
    assert!((s(120)..=s(132)).contains(&wait), "{wait:?}");
    drop(open);
    // Two hours later nothing is owed to any of them.
    assert!(began.elapsed() < s(1_900));
    sleep(s(7_200)).await;
    for round in 0..20 {
        strangers(&pacer, 100_000 + round * 500, 500).await;
        sleep(s(2)).await;
    }
    for name in ["open.example", "held.example", "dead.example"] {
        assert_eq!(pacer.report(&host(name)), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_scopes_of_a_request_do_not_make_room_for_each_other() {
    let group = |name: &'static str| {
        Scope::custom(move |url| Some(format!("{name}{}", url.host_str()?))).with_delay(s(1))
    };
    let policy =
        one_second().with_hosts_max(1).with_scope(group("a")).with_scope(group("b")).with_scope(group("c"));
    let pacer = Pacer::new(policy.danger_min_delay(ms(0)));
    for n in 0..2_000 {
        let to = url(&format!("http://h{n}.example/"));
        pacer.acquire(&to, Ask::new().with_budget(s(0))).await.unwrap().finish();
        assert_eq!(pacer.next_slot(&to, Ask::new()).unwrap().wait(), s(1), "all four are remembered");
        sleep(s(2)).await;
    }
    assert!(pacer.stats().hosts < 200, "{:?}", pacer.stats());
}

#[tokio::test(start_paused = true)]
async fn a_table_of_hosts_in_use_grows_and_reports_it_once() {
    let told = Arc::new(Overgrown::default());
    let policy = one_second().with_delay(s(3_600)).with_hosts_max(128);
    let pacer = Pacer::builder(policy).observer(told.observer()).build();
    strangers(&pacer, 0, 5_000).await;
    assert_eq!((pacer.stats().hosts, told.0.load(Ordering::SeqCst)), (5_000, 1));
    for n in 0..5_000 {
        let next = pacer.next_slot(&url(&format!("http://stranger-{n}.example/")), Ask::new()).unwrap();
        assert_eq!(next.wait(), s(3_600), "stranger {n}");
    }
    // When nothing is owed any more, it shrinks to its bound again.
    sleep(s(3_601)).await;
    for round in 0..40 {
        strangers(&pacer, 10_000 + round, 1).await;
        for n in 0..1_000 {
            pacer
                .acquire(&url(&format!("http://stranger-{n}.example/")), Ask::new().with_budget(ms(0)))
                .await
                .ok();
        }
        sleep(s(3_601)).await;
    }
    assert!(pacer.stats().hosts < 2_000, "{:?}", pacer.stats());
}

#[tokio::test(start_paused = true)]
async fn an_open_body_is_reported_by_the_cleaning() {
    #[derive(Debug, Default)]
    struct Open(AtomicUsize);
    impl Open {
        fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
            let this = Arc::clone(self);
            Arc::new(move |event| this.observe(event))
        }

        fn observe(&self, event: &Event<'_>) {
            if let Event::BodyOpen { scope: "forgotten.example", .. } = event {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    let told = Arc::new(Open::default());
    let pacer = Pacer::builder(one_second()).observer(told.observer()).build();
    let open = pacer.acquire(&url("http://forgotten.example/"), Ask::new()).await.unwrap();
    sleep(s(61)).await;
    for n in 0..100 {
        strangers(&pacer, n * 1_000, 1_000).await;
    }
    assert_eq!(told.0.load(Ordering::SeqCst), 1);
    drop(open);
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_bounded_where_the_delay_is_tiny() {
    let policy = one_second().danger_min_delay(ms(0)).with_max_wait(s(100));
    let pacer = Pacer::new(policy);
    let a = url("http://a.example/");
    let open = pacer.acquire(&a, Ask::new()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..10_000 {
        let (pacer, a) = (pacer.clone(), a.clone());
        waiting.push(tokio::spawn(async move { pacer.acquire(&a, Ask::new()).await.is_ok() }));
    }
    sleep(ms(1)).await;
    assert_eq!(pacer.stats().waiting, 10_000);
    assert!(pacer.acquire(&a, Ask::new()).await.is_err());
    drop(open);
    for task in waiting {
        assert!(task.await.unwrap());
    }
}
