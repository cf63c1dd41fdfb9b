//! Spans and events in `tracing`.

use abide_tests::{Captured, Reply, Server, Step, listen};
use tower::ServiceExt;
use tracing::Instrument;

use crate::{client, get, refused, send, status};

/// The spans and events of calls since the first so many, by name.
fn since(captured: &Captured, first: usize) -> Vec<String> {
    let of_calls = captured.ours().into_iter().filter(|said| said.target == "abide::request");
    of_calls.skip(first).map(|said| said.name).collect()
}

#[tokio::test]
async fn each_request_has_a_span_and_each_failure_an_event() {
    let (captured, _listening) = listen();
    let server = Server::with_rules("User-agent: *\nDisallow: /private/", |seen| match seen.path.as_str() {
        "/reset" => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    assert_eq!(status(&client, "http://a.example/x").await, 200);
    assert_eq!(since(&captured, 0), ["abide.request", "abide.hop"]);
    let request = &captured.named("abide.request")[0];
    assert!(request.text.contains("status=200"), "{request:?}");

    refused(&client, "http://a.example/private/x").await;
    assert_eq!(since(&captured, 2), ["abide.request", "abide.request.refused"]);

    assert!(send(&client, "http://a.example/reset").await.is_err());
    assert_eq!(since(&captured, 4), ["abide.request", "abide.hop", "abide.request.failed"]);
}

#[tokio::test]
async fn a_call_is_a_child_of_the_span_of_its_future() {
    let server = Server::start(|_| Reply::html("page")).await;
    let (captured, _listening) = listen();
    // The span is entered when the call is polled, not while its future is made.
    let instrumented = client(&server).map_future(|call| call.instrument(tracing::info_span!("theirs")));
    instrumented.oneshot(get("http://a.example/x")).await.unwrap();
    let parents: Vec<_> = captured.named("abide.request").into_iter().map(|request| request.parent).collect();
    assert_eq!(parents, [Some("theirs".to_owned())]);
}
