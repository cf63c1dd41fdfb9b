//! Who may fetch what, and what is said about it.

use std::sync::atomic::{AtomicUsize, Ordering};

use abide::{Denied, DeniedKind, Origin};
use abide_tests::{Reply, Server};

use crate::{Built, builder, client, refused, status};

const ROBOTS: &str = "User-agent: *\nDisallow: /private/\nAllow: /private/press/\n";

async fn site() -> Server {
    Server::with_rules(ROBOTS, |_| Reply::html("<title>x</title>page")).await
}

#[tokio::test]
async fn allowed_pages_are_fetched_and_disallowed_ones_never_leave() {
    let server = site().await;
    let client = client(&server);
    assert_eq!(status(&client, "http://a.example/public").await, 200);
    assert_eq!(status(&client, "http://a.example/private/press/1").await, 200);
    let denied = refused(&client, "http://a.example/private/diary").await;
    let DeniedKind::Disallowed { verdict } = denied.kind() else { panic!("{denied:?}") };
    assert_eq!((denied.url().as_str(), denied.hop()), ("http://a.example/private/diary", 0));
    let rule = verdict.rule().expect("a rule decided");
    assert_eq!((rule.value(), rule.line()), (&b"/private/"[..], 2));
    assert!(denied.to_string().contains("\"Disallow: /private/\" on line 2"), "{denied}");
    let asked = ["a.example/robots.txt", "a.example/public", "a.example/private/press/1"];
    assert_eq!(server.asked(), asked);
}

#[tokio::test]
async fn every_origin_has_rules_of_its_own() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("closed.example", "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /"),
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nAllow: /"),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    assert_eq!(status(&client, "http://open.example/x").await, 200);
    assert!(refused(&client, "http://closed.example/x").await.is_disallowed());
    let port = server.address().port();
    assert_eq!(status(&client, &format!("http://open.example:{port}/x")).await, 200);
    assert_eq!(server.count("open.example/robots.txt"), 2, "another port is another origin");
}

#[tokio::test]
async fn a_chain_of_tokens_takes_the_first_with_a_group() {
    let server = Server::with_rules(
        "User-agent: ExampleBot\nDisallow: /general\n\nUser-agent: ExampleBot-News\nDisallow: /news\n",
        |_| Reply::html("page"),
    )
    .await;
    let both = abide::Abide::builder("ExampleBot-News")
        .fallback("ExampleBot")
        .resolver(server.names())
        .allow_net(server.address().ip().into())
        .delay(std::time::Duration::ZERO)
        .client();
    assert!(refused(&both, "http://a.example/news").await.is_disallowed());
    assert_eq!(status(&both, "http://a.example/general").await, 200);
}

#[tokio::test]
async fn a_reason_passes_robots_over_for_one_origin_only() {
    use abide::{Options, RequestBuilderExt, ResponseExt};
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /"),
        (_, "/away") => Reply::redirect(302, "http://other.example/x"),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    let mine = Options::new().danger_ignore_robots("http://mine.example".parse().unwrap(), "my own site");
    let page = client.get("http://mine.example/x").abide(mine.clone()).send().await.unwrap();
    assert_eq!(page.fetch_info().unwrap().verdict().unwrap().override_reason(), Some("my own site"));
    let error = client.get("http://mine.example/away").abide(mine).send().await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    assert!(denied.is_disallowed(), "{error:?}");
    assert_eq!((denied.url().host_str(), denied.hop()), (Some("other.example"), 1));
    assert_eq!(server.count("other.example/x"), 0);
}

#[tokio::test]
async fn robots_txt_can_be_fetched_ahead_and_forgotten() {
    let version = AtomicUsize::new(1);
    let server = Server::start(move |_| {
        Reply::new(200, format!("User-agent: *\nDisallow: /v{}", version.fetch_add(1, Ordering::SeqCst)))
    })
    .await;
    let (abide, _) = builder(&server).parts();
    let [origin, other]: [Origin; 2] =
        ["http://a.example", "http://b.example"].map(|text| text.parse().unwrap());
    abide.prefetch([origin.clone()]).await;
    let url = "http://a.example/v2".parse().unwrap();
    assert!(abide.check_cached(&url).unwrap().is_allowed());
    abide.invalidate(&origin).await;
    assert!(!abide.check(&url).await.unwrap().is_allowed());
    abide.prefetch([origin, other]).await;
    assert_eq!(server.asked(), ["a.example/robots.txt", "a.example/robots.txt", "b.example/robots.txt"]);
}
