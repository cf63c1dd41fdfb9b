//! Every redirect hop is a request: asked, paced, address-checked, and stripped of what is not its business.

use abide::{Denied, DeniedKind, ResponseExt};
use abide_tests::{OWN_ADDRESSES, Reply, Server, Silent, Step};
use reqwest::header::HOST;

use crate::{Built, builder, chain, client, refused, status};

/// `/robots.txt` forbids `/secret`; `/to/<what>` redirects to the query.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        path if path.starts_with("/to/") => {
            let (code, target) = path["/to/".len()..].split_once('?').unwrap_or(("302", ""));
            Reply::redirect(code.parse().unwrap_or(302), &target.replace("%23", "#"))
        }
        _ => Reply::html("page"),
    })
    .await
}

#[tokio::test]
async fn a_hop_to_a_refused_address_sends_no_packet() {
    let silent = Silent::start().await;
    let port = silent.port();
    let server = site().await;
    let client = client(&server);
    for target in OWN_ADDRESSES {
        let denied = refused(&client, &format!("http://a.example/to/302?http://{target}:{port}/x")).await;
        assert_eq!((denied.name(), denied.hop()), ("address_refused", 1), "{target}: {denied:?}");
        let direct = refused(&client, &format!("http://{target}:{port}/x")).await;
        assert_eq!((direct.name(), direct.hop()), ("address_refused", 0), "{target}: {direct:?}");
    }
    assert_eq!(silent.connections(), 0, "the listener stayed silent");
}

#[tokio::test]
async fn a_host_field_of_another_site_is_refused_before_any_request() {
    let server = site().await;
    let client = client(&server);
    for host in ["b.example", "a.example:81", "a.example@b.example", ""] {
        let error = client.get("http://a.example/x").header(HOST, host).send().await.unwrap_err();
        let denied = Denied::find(&error).unwrap_or_else(|| panic!("{host}: {error:?}"));
        assert_eq!(denied.name(), "foreign_host", "{host}");
    }
    let second = client.get("http://a.example/x").header(HOST, "a.example").header(HOST, "b.example");
    let error = second.send().await.unwrap_err();
    let sentence = Denied::find(&error).unwrap().to_string();
    assert!(sentence.contains("its Host field is b.example"), "{sentence}");
    assert!(sentence.contains("request http://b.example/"), "{sentence}");
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[tokio::test]
async fn userinfo_is_nowhere() {
    let server = Server::with_rules("User-agent: *\nDisallow: /secret", |seen| match seen.path.as_str() {
        "/go" => Reply::redirect(302, "http://user:hunter2@b.example/x"),
        "/reset" => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    let page = client.get("http://a.example/go").send().await.unwrap();
    assert!(
        !format!("{:?} {}", page.fetch_info(), page.url()).contains("hunter2"),
        "{:?}",
        page.fetch_info()
    );
    assert_eq!(page.url().as_str(), "http://b.example/x");
    let hop = server.log().into_iter().find(|seen| seen.what() == "b.example/x").unwrap();
    assert_eq!(hop.header("authorization"), None);
    let denied = refused(&client, "http://user:hunter2@a.example/secret").await;
    assert!(!format!("{denied:?} {denied}").contains("hunter2"), "{denied}");
    // What is not built by the client keeps it, and reqwest's own errors show their URL.
    let request =
        reqwest::Request::new(http::Method::GET, "http://user:hunter2@a.example/reset".parse().unwrap());
    let error = client.execute(request).await.unwrap_err();
    assert_eq!(error.url().unwrap().as_str(), "http://a.example/reset", "{error:?}");
}

#[tokio::test]
async fn a_location_of_300_kb_makes_no_error_long() {
    let long = "x".repeat(300_000);
    let server = Server::start(move |seen| match seen.path.get(1..5).unwrap_or_default() {
        "robo" if seen.host() == "down.example" => Reply::new(503, ""),
        "robo" if seen.host() == "busy.example" => Reply::retry_after(429, 3600),
        "robo" => Reply::new(200, format!("User-agent: *\nDisallow: /secret{}*\n", "x".repeat(20_000))),
        "rese" => Reply::raw(vec![Step::Reset]),
        "to-s" => Reply::redirect(302, &format!("/secret{long}")),
        "to-r" => Reply::redirect(302, &format!("/reset{}", &long[..60_000])),
        "to-p" => Reply::redirect(302, &format!("/page{long}")),
        "to-d" => Reply::redirect(302, &format!("http://down.example/{long}")),
        "to-b" => Reply::redirect(302, &format!("http://busy.example/{long}")),
        "to-a" => Reply::redirect(302, &format!("http://127.0.0.2/{long}")),
        "to-l" => Reply::redirect(302, &format!("/to-l{}", &long[..60_000])),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    for (path, word) in [
        ("to-secret", "Disallow"),
        ("to-reset", "sending"),
        // More than an http::Uri holds, which reqwest says itself.
        ("to-page", "builder error"),
        ("to-down", "unreachable"),
        ("to-busy", "deferred"),
        ("to-address", "not a public address"),
        ("to-loop", "at most 10 redirects"),
    ] {
        let error = client.get(format!("http://a.example/{path}")).send().await.unwrap_err();
        let text: String = chain(&error).map(|cause| format!("{cause}: ")).collect();
        assert!(text.contains(word) && text.len() < 2000, "{path}: {} bytes: {:.400}", text.len(), text);
    }
}

#[tokio::test]
async fn an_inner_client_that_follows_is_noticed() {
    let server = site().await;
    let (abide, _) = builder(&server).parts();
    let follows = reqwest::Client::builder().dns_resolver(server.names()).build().unwrap();
    let client = abide.wrap(follows);
    let denied = refused(&client, "http://a.example/to/302?/elsewhere").await;
    let DeniedKind::RedirectBypass { got } = denied.kind() else { panic!("{denied:?}") };
    assert_eq!((denied.url().path(), got.path()), ("/to/302", "/elsewhere"));
    assert!(denied.to_string().contains("redirect::Policy::none()"), "{denied}");
    // No false alarm for a fragment or user information.
    assert_eq!(status(&client, "http://user:pw@a.example/x#fragment").await, 200);
}
