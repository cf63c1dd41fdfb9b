//! One at a time, until the body has ended; nothing while the host is backed off.

use abide_tests::{Reply, Server, Step, until};
use abide_tower::DeniedKind;
use abide_tower::pacing::DeferReason;

use crate::{client, impatient, send, status};

async fn web() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        // More than lies in sockets on the way.
        "/endless" => Reply::raw(vec![
            Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec()),
            Step::Repeat(vec![b'x'; 64 * 1024], 1 << 14),
        ]),
        "/reset" => Reply::raw(vec![Step::Reset]),
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
