//! The body, its length, its errors and the URL reach the caller as the server sent them.

use std::time::Duration;

use abide::pacing::DeferReason;
use abide::{Denied, DeniedKind, Options, RequestBuilderExt, ResponseExt};
use abide_tests::{Reply, Server, Step};

use crate::client;

#[tokio::test]
async fn a_body_dropped_after_any_byte_ends_the_permit() {
    // More than is read ahead, and a tail that does not come: the wire is open until the drop.
    let page = format!("<head><title>x</title></head><body>{}", "<p>text\n".repeat(5_000)).into_bytes();
    let length = page.len();
    let server = Server::without_rules(move |seen| match seen.path.as_str() {
        "/next" => Reply::html("page"),
        _ => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
                page.len() + 1
            );
            let bytes = [head.as_bytes(), &page].concat();
            Reply::raw(vec![Step::Send(bytes), Step::Hang])
        }
    })
    .await;
    let client = client(&server);
    let soon = || Options::new().with_max_wait(Duration::from_millis(20));
    for taken in [0, 1, 88, 20_000, length - 1, length] {
        let mut page = client.get("http://a.example/open").send().await.unwrap();
        let mut seen = 0;
        while seen < taken
            && let Some(chunk) = page.chunk().await.unwrap()
        {
            seen += chunk.len();
        }
        let error = client.get("http://a.example/next").abide(soon()).send().await.unwrap_err();
        let denied = Denied::find(&error).unwrap();
        let DeniedKind::Deferred { reason } = denied.kind() else { panic!("{denied:?}") };
        assert!(matches!(reason, DeferReason::InFlight { .. }), "after {taken} bytes: {reason:?}");
        assert!(denied.to_string().contains("read its body to the end, or drop it"), "{denied}");
        drop(page);
        assert_eq!(client.get("http://a.example/next").send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn an_error_met_while_reading_ahead_comes_at_its_place() {
    let server = Server::without_rules(|_| Reply::raw(vec![Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 500\r\n\r\n<head><title>x</title>")]))
    .await;
    let mut page = client(&server).get("http://a.example/x").send().await.unwrap();
    assert_eq!(page.status(), 200, "send() returns the response");
    assert_eq!(page.permissions().noindex_known(), None);
    assert_eq!(page.chunk().await.unwrap().unwrap(), "<head><title>x</title>");
    assert!(page.chunk().await.is_err(), "the error comes where the body broke off");
}
