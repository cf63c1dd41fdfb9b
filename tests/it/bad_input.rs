//! Bad input gets a clear, typed error that says what to do, and nothing is sent.

use abide::{Denied, DeniedKind};
use abide_tests::{Reply, Server};

use crate::{builder, client, status};

#[tokio::test]
async fn the_user_agent_of_reqwests_builder_is_replaced() {
    let server = Server::start(|_| Reply::new(200, "")).await;
    let mut defaults = reqwest::header::HeaderMap::new();
    defaults.insert("user-agent", "Mozilla/5.0".parse().unwrap());
    for inner in [
        reqwest::Client::builder().user_agent("Mozilla/5.0"),
        reqwest::Client::builder().default_headers(defaults),
    ] {
        let client = builder(&server).build_client(inner).unwrap();
        assert_eq!(status(&client, "http://a.example/x").await, 200);
    }
    let log = server.log();
    assert_eq!(log.len(), 4, "robots.txt and the page, twice");
    for seen in log {
        assert_eq!(seen.header("user-agent"), Some(crate::AGENT));
    }
}

#[tokio::test]
async fn other_schemes_are_never_allowed() {
    let server = Server::start(|_| Reply::new(404, "")).await;
    let client = client(&server);
    for url in ["ftp://a.example/x", "file:///etc/passwd", "ws://a.example/x"] {
        let request = reqwest::Request::new(reqwest::Method::GET, url.parse().unwrap());
        let error = client.execute(request).await.unwrap_err();
        let denied = Denied::find(&error).unwrap();
        assert!(matches!(denied.kind(), DeniedKind::UnsupportedUrl), "{url}: {denied:?}");
        assert!(denied.to_string().starts_with("expected an http or https URL"), "{denied}");
    }
    let malformed = client.get("http://").send().await.unwrap_err();
    assert!(malformed.is_builder() || malformed.to_string().contains("builder"), "{malformed:?}");
}
