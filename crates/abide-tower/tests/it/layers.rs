//! Among other layers: refusals stay typed, retries are gated, nothing is blocked by those who wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_tests::{Reply, Server, StoppedClock, until};
use abide_tower::{Denied, ServiceError};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tower::retry::{Policy, RetryLayer};
use tower::util::BoxCloneService;
use tower::{ServiceBuilder, ServiceExt};

use crate::{Page, builder, client, get, inner, settings};

async fn web() -> Server {
    Server::with_rules("User-agent: *\nDisallow: /private/", |seen| match seen.path.as_str() {
        "/busy" => Reply::retry_after(503, 1),
        _ => Reply::new(200, "page"),
    })
    .await
}

/// Tries everything again that did not answer 200, twice.
#[derive(Clone)]
struct Stubborn {
    left: usize,
    tries: Arc<AtomicUsize>,
}

impl Policy<Request<Full<Bytes>>, Page, ServiceError> for Stubborn {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Full<Bytes>>,
        result: &mut Result<Page, ServiceError>,
    ) -> Option<Self::Future> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        let is_good = result.as_ref().is_ok_and(|page| page.status() == StatusCode::OK);
        self.left = self.left.checked_sub(1)?;
        (!is_good).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        Some(request.clone())
    }
}

fn is_disallowed(error: &(dyn std::error::Error + 'static)) -> bool {
    Denied::find(error).is_some_and(|denied| denied.is_disallowed())
}

#[tokio::test]
async fn a_refusal_is_found_through_every_layer() {
    let server = web().await;
    let url = "http://a.example/private/x";
    let tries = Arc::new(AtomicUsize::new(0));
    let stubborn = RetryLayer::new(Stubborn { left: 1, tries: Arc::clone(&tries) });

    let retried = ServiceBuilder::new().layer(stubborn.clone()).service(client(&server));
    assert!(is_disallowed(&retried.oneshot(get(url)).await.unwrap_err()));
    assert_eq!(tries.load(Ordering::Relaxed), 2);

    let timed = ServiceBuilder::new().timeout(Duration::from_secs(120)).service(client(&server));
    let boxed: tower::BoxError = timed.oneshot(get(url)).await.unwrap_err();
    assert!(is_disallowed(&*boxed));

    let all = ServiceBuilder::new()
        .buffer(8)
        .concurrency_limit(4)
        .timeout(Duration::from_secs(120))
        .layer(tower_http::follow_redirect::FollowRedirectLayer::new())
        .layer(stubborn)
        .service(client(&server));
    let all: BoxCloneService<_, _, tower::BoxError> = BoxCloneService::new(all);
    let boxed = all.oneshot(get(url)).await.unwrap_err();
    assert!(is_disallowed(&*boxed), "{boxed:?}");
    assert!(is_disallowed(anyhow::Error::from_boxed(boxed).context("while crawling").as_ref()));
    assert_eq!(server.count("a.example/private/x"), 0);
}

#[tokio::test]
async fn a_printed_chain_says_it_once() {
    let server = web().await;
    let error = client(&server).oneshot(get("http://a.example/private/x")).await.unwrap_err();
    let printed = format!("{:#}", anyhow::Error::new(error));
    assert!(printed.starts_with("http://a.example/private/x: "), "{printed}");
    assert!(printed.ends_with(": abide refused the request"), "{printed}");
    assert_eq!(printed.matches("http://a.example/private/x").count(), 1, "{printed}");
}

#[tokio::test]
async fn a_buffer_and_a_limit_of_one_below_are_no_deadlock() {
    let server = web().await;
    let settings = settings(&server);
    let bare = inner(&server, &settings);
    // robots.txt goes through the same narrow place as the request that waits for it.
    let narrow = ServiceBuilder::new().concurrency_limit(1).service(bare);
    let client = builder(settings).wrap(narrow).unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(120), client.oneshot(get("http://a.example/x")));
    assert_eq!(answered.await.expect("no deadlock").unwrap().status(), 200);
}

#[tokio::test]
async fn waiting_for_one_host_blocks_no_other() {
    let server = web().await;
    let settings = settings(&server);
    let narrow = ServiceBuilder::new().concurrency_limit(1).service(inner(&server, &settings));
    let client = builder(settings).wrap(narrow).unwrap();
    let clock = StoppedClock::stop();
    assert_eq!(client.clone().oneshot(get("http://a.example/busy")).await.unwrap().status(), 503);
    // Backed off for a second, inside the call.
    let waiting = tokio::spawn(client.clone().oneshot(get("http://a.example/x")));
    let host = abide_tower::Host::of(&"http://a.example/".parse().unwrap()).unwrap();
    until("it waits", || client.gate().report(&host).is_some_and(|report| report.waiting == 1)).await;
    assert_eq!(client.clone().oneshot(get("http://b.example/x")).await.unwrap().status(), 200);
    assert!(!waiting.is_finished());
    assert_eq!(clock.pass_until(waiting).await.unwrap().unwrap().status(), 200);
}
