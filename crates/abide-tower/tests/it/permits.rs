//! One at a time, until the body has ended; nothing while the host is backed off.

use std::time::Duration;

use abide_tests::{Reply, Server, Step, StoppedClock, until};
use abide_tower::pacing::{DeferReason, PacePolicy};
use abide_tower::{DeniedKind, ResponseExt};
use http_body_util::BodyExt;

use crate::{client, client_with, impatient, send, settings, status};

/// So many times 64 KiB; more than lies in sockets on the way.
fn long(times: usize) -> Reply {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
    Reply::raw(vec![Step::Send(head), Step::Repeat(vec![b'x'; 64 * 1024], times)])
}

async fn web() -> Server {
    Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        (_, "/robots.txt") => Reply::new(404, ""),
        (_, "/endless") => long(1 << 14),
        (_, "/long") => long(1 << 9),
        (_, "/reset") => Reply::raw(vec![Step::Reset]),
        _ => Reply::new(200, "page"),
    })
    .await
}

#[tokio::test]
async fn the_permit_lasts_until_the_body_is_dropped() {
    let server = web().await;
    let client = client(&server);
    let page = send(&client, "http://a.example/endless").await.unwrap();
    let denied = impatient(&client, "http://a.example/x").await;
    assert!(
        matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::InFlight { .. } }),
        "{denied:?}"
    );
    // Another host is not concerned.
    assert_eq!(status(&client, "http://b.example/x").await, 200);
    drop(page);
    assert_eq!(status(&client, "http://a.example/x").await, 200);
}

#[tokio::test]
async fn the_permit_ends_with_the_body() {
    let server = web().await;
    let client = client(&server);
    // Read to its end within the time that a call waits, by a busy machine too.
    let page = send(&client, "http://a.example/long").await.unwrap();
    let mut body = page.into_body();
    let mut bytes = 0;
    while bytes < 1024 * 1024 {
        bytes += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    assert!(matches!(impatient(&client, "http://a.example/x").await.kind(), DeniedKind::Deferred { .. }));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { status(&client, "http://a.example/x").await }
    });
    while let Some(frame) = body.frame().await {
        frame.unwrap();
        assert!(!waiting.is_finished());
    }
    assert_eq!(waiting.await.unwrap(), 200);
    // The body is still there; its permit is not.
    drop(body);
}

#[tokio::test]
async fn a_small_page_gives_its_permit_back_unread() {
    let server = web().await;
    let client = client(&server);
    let _unread = send(&client, "http://a.example/x").await.unwrap();
    assert_eq!(status(&client, "http://a.example/y").await, 200);
}

#[tokio::test]
async fn a_call_that_is_dropped_on_the_wire_ends_its_permit() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/slow" => Reply::raw(vec![Step::Hang]),
        _ => Reply::new(404, ""),
    })
    .await;
    let client = client(&server);
    let slow = tokio::spawn({
        let client = client.clone();
        async move { status(&client, "http://a.example/slow").await }
    });
    until("it is asked for", || server.count("a.example/slow") == 1).await;
    slow.abort();
    assert_eq!(status(&client, "http://a.example/x").await, 404);
}

#[tokio::test]
async fn the_server_sees_the_delay() {
    let clock = StoppedClock::stop();
    let server = web().await;
    let delay = Duration::from_millis(80);
    let settings = settings(&server).pace(PacePolicy::default().danger_min_delay(delay));
    let client = client_with(&server, settings);
    for number in 0..3 {
        assert_eq!(clock.pass_until(status(&client, &format!("http://a.example/{number}"))).await, 200);
    }
    let log = server.log();
    for pair in log.windows(2) {
        assert!(pair[1].at.saturating_duration_since(pair[0].answered) >= delay);
    }
    let page = clock.pass_until(send(&client, "http://a.example/last")).await.unwrap();
    let info = page.fetch_info().unwrap();
    assert!(info.waited() > Duration::ZERO);
    assert_eq!(info.hops()[0].remote_addr(), Some(server.address()));
}

#[tokio::test]
async fn a_host_that_breaks_off_again_and_again_is_left_alone() {
    let server = web().await;
    let client = client(&server);
    for _ in 0..5 {
        let error = send(&client, "http://a.example/reset").await.unwrap_err();
        assert!(error.refused().is_none(), "{error:?}");
    }
    let denied = impatient(&client, "http://a.example/x").await;
    assert!(
        matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Breaker { .. } }),
        "{denied:?}"
    );
}
