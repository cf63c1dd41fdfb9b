//! Which hosts are kept, and which may be removed.

use std::sync::Arc;

use crate::pacing::Pacer;
use abide_gate::Failure;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use crate::parts::support::pacing::{host, joined, ms, observed, one_second, s};

/// Takes and ends a permit of `count` new hosts.
async fn strangers(pacer: &Arc<Pacer>, from: usize, count: usize) {
    for n in from..from + count {
        pacer.take(&format!("stranger-{n}.example")).await.finish();
    }
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
    assert_eq!(pacer.report_of("stranger-7.example").requests, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_is_never_forgotten() {
    let pacer = Pacer::new(one_second().with_hosts_max(64));
    let open = pacer.take("open.example").await;
    let throttle = async || {
        pacer.take("throttled.example").await.finish_with(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new());
    };
    throttle().await;
    for _ in 0..2 {
        pacer.take("dead.example").await.failed(Failure::Dns);
    }
    let began = Instant::now();
    // 29 quiet minutes after a backoff of a minute and a bit.
    for round in 0..30 {
        strangers(&pacer, round * 500, 500).await;
        sleep(s(60)).await;
    }
    assert_eq!(pacer.report_of("open.example").in_flight, 1);
    assert!(pacer.slot("dead.example").wait > s(1_700), "an hour's pause");
    // The throttle is still known: the next one is the second, two minutes.
    throttle().await;
    let wait = pacer.slot("throttled.example").wait;
    assert!((s(120)..=s(132)).contains(&wait), "{wait:?}");
    drop(open);
    // Two hours later none of them is in use.
    assert!(began.elapsed() < s(1_900));
    sleep(s(7_200)).await;
    for round in 0..20 {
        strangers(&pacer, 100_000 + round * 500, 500).await;
        sleep(s(2)).await;
    }
    for name in ["open.example", "throttled.example", "dead.example"] {
        assert_eq!(pacer.report(&host(name)), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_of_hosts_in_use_grows_and_reports_it_once() {
    let (pacer, events) = observed(one_second().with_delay(s(3_600)).with_hosts_max(128));
    strangers(&pacer, 0, 5_000).await;
    assert_eq!((pacer.stats().hosts, events.of("overgrown").len()), (5_000, 1));
    for n in 0..5_000 {
        assert_eq!(pacer.slot(&format!("stranger-{n}.example")).wait, s(3_600), "stranger {n}");
    }
    // When none is in use any more, it shrinks to its bound again.
    sleep(s(3_601)).await;
    for round in 0..40 {
        strangers(&pacer, 10_000 + round, 1).await;
        for n in 0..1_000 {
            pacer.take_within(&format!("stranger-{n}.example"), ms(0)).await.ok();
        }
        sleep(s(3_601)).await;
    }
    assert!(pacer.stats().hosts < 2_000, "{:?}", pacer.stats());
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_bounded_where_the_delay_is_tiny() {
    let pacer = Pacer::new(one_second().danger_min_delay(ms(0)).with_max_wait(s(100)));
    let open = pacer.take("a.example").await;
    let waiting: Vec<_> = (0..10_000).map(|_| pacer.spawn_take("a.example", s(100))).collect();
    sleep(ms(1)).await;
    assert_eq!(pacer.stats().waiting, 10_000);
    assert!(pacer.try_take("a.example").await.is_err());
    drop(open);
    assert!(joined(waiting).await.iter().all(|(result, _)| result.is_ok()));
}
