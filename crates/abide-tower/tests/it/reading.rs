//! What the site permits, and the body untouched.

use std::sync::Arc;

use abide_permissions::MemoryPermissionStore;
use abide_tests::{Reply, Server};
use abide_tower::ResponseExt;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::{builder, client, get, inner, send, settings};

const PAGE: &str =
    "<!doctype html><title>A</title><meta name=robots content='noindex, max-snippet:20'></head><body>Text";

async fn web() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nContent-Usage: train-ai=n\nAllow: /"),
        "/page" => Reply::with_headers(
            200,
            &[
                ("content-type", "text/html"),
                ("robots-tag", "*;nosnippet, OtherBot;noarchive"),
                ("etag", "\"1\""),
            ],
            PAGE,
        ),
        "/unchanged" if seen.header("if-none-match").is_some() => Reply::with_headers(304, &[], ""),
        "/resumed" => {
            Reply::with_headers(206, &[("content-type", "text/css"), ("content-range", "bytes 0-1/2")], "{}")
        }
        _ => Reply::html(PAGE),
    })
    .await
}

#[tokio::test]
async fn fields_and_head_are_united_and_the_body_is_whole() {
    let server = web().await;
    let page = send(&client(&server), "http://a.example/page").await.unwrap();
    assert_eq!(page.permissions().rules().to_string(), "noindex, nosnippet, max-snippet:20");
    let preferences = page.fetch_info().unwrap().preferences();
    let training = preferences.resolve(&abide_permissions::Usage::TrainAi);
    assert_eq!(training, abide_permissions::Preference::Disallow);
    assert_eq!(page.headers()["content-length"], PAGE.len().to_string().as_str());
    assert_eq!(http_body::Body::size_hint(page.body()).exact(), Some(PAGE.len() as u64));
    assert_eq!(page.into_body().collect().await.unwrap().to_bytes(), PAGE);
}

#[tokio::test]
async fn a_304_comes_with_what_the_last_fetch_has_stored() {
    let server = web().await;
    let settings = settings(&server);
    let inner = inner(&server, &settings);
    let store = Arc::new(MemoryPermissionStore::new(std::num::NonZeroUsize::MIN.saturating_add(9)));
    let client = builder(settings).crawler(|crawler| crawler.permission_store(store)).wrap(inner).unwrap();
    let url = "http://a.example/unchanged";
    client.clone().oneshot(get(url)).await.unwrap();
    let mut request = get(url);
    request.headers_mut().insert("if-none-match", "\"1\"".parse().unwrap());
    let page = client.oneshot(request).await.unwrap();
    assert_eq!(page.status(), 304);
    assert!(!page.permissions().may_index());
}

/// RFC 9110 §15.3.7: it should not repeat the fields that the client has from the response before.
#[tokio::test]
async fn a_206_to_if_range_does_not_permit_by_silence() {
    let server = web().await;
    let mut request = get("http://a.example/resumed");
    assert!(client(&server).oneshot(request.clone()).await.unwrap().permissions().may_index());
    request.headers_mut().insert("if-range", "\"1\"".parse().unwrap());
    assert!(!client(&server).oneshot(request).await.unwrap().permissions().may_index());
}
