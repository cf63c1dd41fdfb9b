//! robots.txt first.

use abide_tests::{Reply, Server};
use abide_tower::{DeniedKind, Failure, ServiceError};
use http::header::USER_AGENT;
use tower::ServiceExt;

use crate::{client, get, refused, send, status};

fn robots(text: &'static str) -> impl Future<Output = Server> {
    Server::with_rules(text, |_| Reply::new(200, "page"))
}

#[tokio::test]
async fn what_is_disallowed_never_leaves() {
    let server = robots("User-agent: *\nDisallow: /private/").await;
    let client = client(&server);
    assert_eq!(status(&client, "http://a.example/x").await, 200);
    let error = send(&client, "http://a.example/private/x").await.unwrap_err();
    let denied = error.refused().unwrap();
    assert!(matches!(denied.kind(), DeniedKind::Disallowed { .. } if denied.hop() == 0), "{denied:?}");
    assert!(denied.to_string().contains("\"Disallow: /private/\" on line 2"), "{denied}");
    assert_eq!(error.to_string(), denied.to_string());
    assert_eq!(server.asked(), ["a.example/robots.txt", "a.example/x"]);
}

#[tokio::test]
async fn robots_txt_that_cannot_be_had_disallows() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("broken.example", "/robots.txt") => Reply::new(500, ""),
        ("cut.example", "/robots.txt") => Reply::raw(vec![abide_tests::Step::Send(b"HTTP/1.1 2".to_vec())]),
        ("coded.example", "/robots.txt") => {
            Reply::with_headers(200, &[("content-encoding", "br")], "not to be read")
        }
        ("none.example", "/robots.txt") => Reply::new(404, ""),
        _ => Reply::new(200, "page"),
    })
    .await;
    let client = client(&server);
    for (host, expected) in [
        ("broken.example", Failure::Status(500)),
        ("cut.example", Failure::Reset),
        ("coded.example", Failure::Body),
    ] {
        let denied = refused(&client, &format!("http://{host}/x")).await;
        let DeniedKind::Unreachable { cause, .. } = denied.kind() else { panic!("{host}: {denied:?}") };
        assert_eq!(*cause, expected, "{host}");
        assert_eq!(server.count(&format!("{host}/x")), 0);
    }
    assert_eq!(status(&client, "http://none.example/x").await, 200);
}

#[tokio::test]
async fn robots_txt_is_asked_as_the_crawler_and_plainly() {
    let server = robots("").await;
    assert_eq!(status(&client(&server), "http://a.example/x").await, 200);
    let log = server.log();
    let fields =
        |name| log.iter().map(|seen| seen.header(name).unwrap_or("-").to_owned()).collect::<Vec<_>>();
    assert_eq!(fields("user-agent"), ["ExampleBot/1.0 (+https://example.com/bot)"; 2]);
    assert_eq!(fields("accept-encoding"), ["gzip, deflate, br, zstd", "-"]);
    assert_eq!(fields("cookie"), ["-", "-"]);
}

#[tokio::test]
async fn a_user_agent_that_hides_the_crawler_is_refused() {
    let server = robots("").await;
    let client = client(&server);
    let mut request = get("http://a.example/x");
    request.headers_mut().insert(USER_AGENT, "Mozilla/5.0".parse().unwrap());
    let error = client.clone().oneshot(request).await.unwrap_err();
    assert!(matches!(error.refused().unwrap().kind(), DeniedKind::Identity { .. }));
    assert!(server.log().is_empty());
    let mut request = get("http://a.example/x");
    request.headers_mut().insert(USER_AGENT, "Archive (examplebot)".parse().unwrap());
    assert_eq!(client.oneshot(request).await.unwrap().status(), 200);
    assert_eq!(server.log()[1].header("user-agent"), Some("Archive (examplebot)"));
}

#[tokio::test]
async fn a_url_without_host_means_no_request() {
    let server = robots("").await;
    let client = client(&server);
    for uri in ["/x", "a.example:80"] {
        let error = send(&client, uri).await.unwrap_err();
        assert!(matches!(error, ServiceError::NoOrigin { .. }), "{uri}: {error:?}");
    }
    let denied = refused(&client, "ftp://a.example/x").await;
    assert!(matches!(denied.kind(), DeniedKind::UnsupportedUrl), "{denied:?}");
    assert!(server.log().is_empty());
}
