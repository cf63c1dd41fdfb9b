//! How a refusal is found again in what the layers above make of it, and how the options of one request reach
//! it.

use std::time::Duration;

use abide::{Denied, DeniedKind, Options, RedirectPolicy, RequestBuilderExt, ResponseExt, Scan, Stopped};
use abide_tests::{Reply, Server, delays};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Extension};
use tower::ServiceExt;
use tower_service::Service;

use crate::layered::{follow, layered};
use crate::{Built, builder, chain, client, refused, retry, secure, status, trusting};

async fn site() -> Server {
    Server::with_rules("User-agent: *\nDisallow: /secret", |seen| match seen.path.as_str() {
        "/go" => Reply::redirect(302, "/x"),
        _ => Reply::html("<head><meta name=robots content=noindex></head>page"),
    })
    .await
}

fn wrapped(server: &Server, retries: usize) -> ClientWithMiddleware {
    let (abide, inner) = builder(server).parts();
    let mut layers = ClientBuilder::new(inner);
    for _ in 0..retries {
        layers = layers.with(retry(0));
    }
    layers.with(abide.middleware()).build()
}

/// Facts about reqwest-middleware and reqwest-retry that decide why a refusal has a source.
#[tokio::test]
async fn what_each_layer_leaves_of_a_refusal() {
    let server = site().await;
    for (retries, direct) in [(0, true), (1, false), (2, false)] {
        let error = wrapped(&server, retries).get("http://a.example/secret").send().await.unwrap_err();
        let is_direct =
            matches!(&error, reqwest_middleware::Error::Middleware(error) if error.is::<Denied>());
        assert_eq!(is_direct, direct, "{retries}: downcast");
        // Both wrap transparently: a walk goes past our own type, straight to what its `source` returns.
        assert!(!chain(&error).any(|cause| cause.is::<Denied>()), "{retries}: {error:?}");
        assert!(Denied::find(&error).is_some_and(|denied| denied.is_disallowed()), "{retries}");
        let context = anyhow::Error::from(error).context("while crawling");
        assert!(Denied::find(context.as_ref()).is_some(), "{retries}: anyhow");
        let boxed: Box<dyn std::error::Error + Send + Sync> = context.into();
        assert!(Denied::find(&*boxed).is_some(), "{retries}: boxed, as tower does it");
    }
    assert!(Denied::find(&std::io::Error::other("no refusal")).is_none());
}

#[tokio::test]
async fn a_printed_chain_says_each_thing_once() {
    let server = site().await;
    let error = client(&server).get("http://a.example/secret").send().await.unwrap_err();
    let printed = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(printed.matches("Disallow: /secret").count(), 1, "{printed}");
    assert!(printed.ends_with(": abide refused the request"), "{printed}");
}

#[tokio::test]
async fn the_client_as_a_service_is_gated_with_the_defaults() {
    let server = site().await;
    let mut client = client(&server);
    let request = |path: &str| {
        reqwest::Request::new(http::Method::GET, format!("http://a.example{path}").parse().unwrap())
    };
    let page = client.call(request("/go")).await.unwrap();
    assert_eq!(page.fetch_info().unwrap().hops().len(), 2);
    assert!(page.permissions().rules().noindex());
    let error = client.call(request("/secret")).await.unwrap_err();
    assert!(Denied::find(&error).unwrap().is_disallowed());
    let error = client.execute(request("/secret")).await.unwrap_err();
    assert!(Denied::find(&error).unwrap().is_disallowed());
}

#[tokio::test]
async fn options_can_be_set_for_all_requests_and_one_has_the_last_word() {
    let server = site().await;
    let (abide, inner) = builder(&server).parts();
    let all = Options::new().with_redirects(RedirectPolicy::never()).with_scan(Scan::Off);
    let client = ClientBuilder::new(inner).with_init(Extension(all)).with(abide.middleware()).build();
    let answer = client.get("http://a.example/go").send().await.unwrap();
    assert_eq!(answer.fetch_info().unwrap().stopped(), Some(Stopped::NotFollowing));
    let page = client.get("http://a.example/x").send().await.unwrap();
    assert_eq!(page.permissions().noindex_known(), None, "not scanned");
    let follow = Options::new().with_redirects(RedirectPolicy::default());
    let page = client.get("http://a.example/go").abide(follow.clone()).send().await.unwrap();
    assert_eq!(page.url().path(), "/x");
    assert_eq!(
        page.permissions().noindex_known(),
        None,
        "what one request leaves open stays as it is for all"
    );
    let read = Options::new().with_scan(Scan::Eager);
    let page = client.get("http://a.example/go").abide(follow).abide(read).send().await.unwrap();
    assert!(page.permissions().rules().noindex(), "{:?}", page.fetch_info());
    // No `with_init` runs for a request that was built elsewhere.
    let request = reqwest::Request::new(http::Method::GET, "http://a.example/go".parse().unwrap());
    assert_eq!(client.execute(request).await.unwrap().url().path(), "/x");
}

#[tokio::test]
async fn an_override_does_not_switch_off_pacing() {
    let server = site().await;
    let delay = Duration::from_millis(80);
    let client = builder(&server).delay(delay).client();
    let mine = Options::new().danger_ignore_robots("http://a.example".parse().unwrap(), "my own site");
    for _ in 0..3 {
        let page = client.get("http://a.example/secret").abide(mine.clone()).send().await.unwrap();
        assert_eq!(page.fetch_info().unwrap().verdict().unwrap().override_reason(), Some("my own site"));
    }
    let log = server.log();
    assert_eq!(log.len(), 4, "robots.txt is still asked for");
    assert!(delays(&log).all(|found| found >= delay));
}

/// What users put into their own structs, tasks and statics.
#[test]
fn what_is_promised_of_types() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sendable<T: Send + Sync + 'static>() {}
    fn send<T: Send>(_: T) {}
    fn shared_value<T: Clone + Send + Sync + 'static>(_: T) {}
    shared::<abide::Abide>();
    shared::<Denied>();
    shared::<abide::FetchInfo>();
    shared::<abide::RedirectHistory>();
    shared::<abide::Hop>();
    shared::<abide::Permissions>();
    shared::<abide::Preferences>();
    shared::<abide::Verdict>();
    shared::<Options>();
    shared::<abide::Gate>();
    shared::<abide::GateBuilder>();
    shared::<abide::RedirectPolicy>();
    sendable::<abide::BuildError>();
    sendable::<abide::Builder>();
    sendable::<abide::pacing::Permit>();
    let abide = abide::Abide::builder("ExampleBot").build().unwrap();
    shared_value(abide.middleware());
    send(abide.read(reqwest::Response::from(http::Response::new(""))));
    let url = "http://a.example/".parse().unwrap();
    let origin = abide::Origin::of(&url).unwrap();
    send(abide.check(&url));
    send(abide.acquire(&url));
    send(abide.rules(&origin));
    send(abide.invalidate(&origin));
    send(abide.prefetch([origin.clone()]));
    send(abide.wrap(reqwest::Client::new()).get(url).send());
}

#[test]
fn without_timers_nothing_is_sent_and_nothing_panics() {
    let whole = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (authority, server) = whole.block_on(secure("a.example", |_| Reply::html("page")));
    let client = builder(&server).build_client(trusting(&authority)).unwrap();
    let layer = layered(&server, &authority, Duration::ZERO, |builder| builder);
    let url = "https://a.example/x";
    assert_eq!(
        whole.block_on(async { (status(&client, url).await, follow(layer.clone(), url).await) }),
        (200, 200)
    );
    let bare = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let (denied, of_the_layer) = bare.block_on(async {
        let request = http::Request::get(url).body(reqwest::Body::default()).unwrap();
        let error = layer.oneshot(request).await.map(drop).unwrap_err();
        (refused(&client, url).await, error.refused().cloned().unwrap())
    });
    for denied in [denied, of_the_layer] {
        assert!(matches!(denied.kind(), DeniedKind::NoTimers), "{denied}");
    }
    assert_eq!(server.asked().len(), 4, "robots.txt and the page, by each client in the runtime with timers");
}
