//! Hops apart: a redirect layer above sends each of them through the gate.

use abide_tests::{Reply, Server};
use abide_tower::{Denied, DeniedKind, Failure, ResponseExt};
use http::header::HOST;
use tower::{ServiceBuilder, ServiceExt};
use tower_http::follow_redirect::{FollowRedirectLayer, RequestUri};

use crate::{builder, client, get, inner, settings};

async fn web() -> Server {
    Server::with_rules("User-agent: *\nDisallow: /private/", |seen| match seen.path.as_str() {
        "/into-private" => Reply::redirect(302, "/private/x"),
        "/away" => Reply::redirect(301, "http://b.example/page"),
        _ => Reply::html("<meta name=robots content=nosnippet>page"),
    })
    .await
}

#[tokio::test]
async fn a_hop_to_another_host_is_checked_there() {
    let server = web().await;
    let service = ServiceBuilder::new().layer(FollowRedirectLayer::new()).service(client(&server));
    let mut request = get("http://a.example/away");
    request.headers_mut().insert(HOST, "a.example".parse().unwrap());
    let page = service.oneshot(request).await.unwrap();
    assert_eq!(
        server.asked(),
        ["a.example/robots.txt", "a.example/away", "b.example/robots.txt", "b.example/page"]
    );
    // The last hop's own: its verdict, its permissions, one hop.
    let info = page.fetch_info().unwrap();
    assert_eq!(info.hops().len(), 1);
    assert_eq!(info.hops()[0].url().as_str(), "http://b.example/page");
    assert_eq!(info.hops()[0].remote_addr(), Some(server.address()));
    assert!(info.verdict().unwrap().is_allowed());
    assert_eq!(page.permissions().rules().to_string(), "nosnippet");
    assert_eq!(page.extensions().get::<RequestUri>().unwrap().0, "http://b.example/page");
}

#[tokio::test]
async fn a_redirect_layer_below_is_noticed() {
    let server = web().await;
    let settings = settings(&server);
    let bare = inner(&server, &settings);
    let layer = builder(settings).build(bare.clone()).unwrap();
    let service = ServiceBuilder::new().layer(layer).layer(FollowRedirectLayer::new()).service(bare);
    // Where nothing redirects, nothing is wrong.
    assert_eq!(service.clone().oneshot(get("http://a.example/page")).await.unwrap().status(), 200);
    let error = service.oneshot(get("http://a.example/into-private")).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::RedirectBypass { got } = denied.kind() else { panic!("{error:?}") };
    assert_eq!(denied.url().as_str(), "http://a.example/into-private");
    assert_eq!(got.as_str(), "http://a.example/private/x");
}

#[tokio::test]
async fn a_transport_of_robots_txt_that_follows_is_not_trusted() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("a.example", "/robots.txt") => Reply::redirect(302, "http://b.example/robots.txt"),
        _ => Reply::new(200, "User-agent: *\nAllow: /"),
    })
    .await;
    let settings = settings(&server);
    let bare = inner(&server, &settings);
    let following = ServiceBuilder::new().layer(FollowRedirectLayer::new()).service(bare.clone());
    let layer = builder(settings).build(following).unwrap();
    let service = ServiceBuilder::new().layer(layer).service(bare);
    let error = service.oneshot(get("http://a.example/x")).await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    assert!(matches!(denied.kind(), DeniedKind::Unreachable { cause: Failure::Other, .. }), "{denied:?}");
    assert_eq!(server.count("a.example/x"), 0);
}
