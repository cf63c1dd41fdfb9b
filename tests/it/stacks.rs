//! Chains with the neighbours that users have: reqwest-retry, reqwest-tracing, http-cache. Every order that
//! will be tried, checked by the server's log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{Abide, Builder, Denied, DeniedKind, Event, ResponseExt};
use abide_tests::{Reply, Seen, Server, Step, StoppedClock, delays};
use http_cache_reqwest::{Cache, CacheMode, HttpCache, HttpCacheOptions, MokaCache, MokaManager};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{DefaultRetryableStrategy, RetryTransientMiddleware, Retryable, RetryableStrategy};

use crate::{Built, back_off, builder, chain, refused as denied, retry};

const DELAY: Duration = Duration::from_millis(60);

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

/// `/robots.txt` forbids `/secret`; the rest can be cached, or fails.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" if seen.host() == "down.example" => Reply::new(503, ""),
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/fresh" => Reply::with_headers(
            200,
            &[FRESH, ("content-type", "text/html"), ("x-robots-tag", "noindex")],
            "<head><meta name=robots content=nosnippet></head>page",
        ),
        "/moved" => Reply::with_headers(301, &[FRESH, ("location", "/fresh")], ""),
        "/trap" => Reply::with_headers(301, &[FRESH, ("location", "/secret")], ""),
        "/tagged" if seen.header("if-none-match") == Some("\"one\"") => {
            Reply::with_headers(304, &[("etag", "\"one\"")], "")
        }
        "/tagged" => Reply::with_headers(200, &[("etag", "\"one\""), ("cache-control", "no-cache")], "page"),
        "/go" => Reply::redirect(302, "/secret"),
        "/flaky" => Reply::new(500, ""),
        "/busy" => Reply::retry_after(429, 3600),
        _ => Reply::html("page"),
    })
    .await
}

/// A crawler that waits [`DELAY`] between requests to a host.
fn crawler(server: &Server) -> (Abide, reqwest::Client) {
    builder(server).delay(DELAY).parts()
}

/// As the cookbook and `lib.rs` show it.
struct LeaveBusyHosts;

impl RetryableStrategy for LeaveBusyHosts {
    fn handle(&self, result: &reqwest_middleware::Result<reqwest::Response>) -> Option<Retryable> {
        match result {
            Ok(response) if matches!(response.status().as_u16(), 429 | 503) => None,
            result => DefaultRetryableStrategy.handle(result),
        }
    }
}

fn cache() -> Cache<MokaManager> {
    Cache(HttpCache {
        mode: CacheMode::Default,
        manager: MokaManager::new(MokaCache::new(1000)),
        options: HttpCacheOptions::default(),
    })
}

/// The names of what is refused, as an observer of the builder gets them.
fn noting_refusals(builder: Builder) -> (Builder, Arc<Mutex<Vec<&'static str>>>) {
    let names = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&names);
    let note = move |event: &Event<'_>| {
        if let Event::Refused { denied, .. } = event {
            noted.lock().unwrap().push(denied.name());
        }
    };
    (builder.observer(Arc::new(note)), names)
}

/// Without a cache.
fn retried(server: &Server) -> ClientWithMiddleware {
    let (abide, inner) = crawler(server);
    ClientBuilder::new(inner).with(retry(2)).with(abide.middleware()).build()
}

fn paths(server: &Server) -> Vec<String> {
    server.log().into_iter().map(|seen| seen.path).filter(|path| path != "/robots.txt").collect()
}

/// Every request of the log begins at least [`DELAY`] after the answer before it.
fn are_paced(log: &[Seen]) -> bool {
    delays(log).all(|delay| delay >= DELAY)
}

#[tokio::test]
async fn retries_above_abide_are_paced() {
    let server = site().await;
    assert_eq!(retried(&server).get("http://a.example/flaky").send().await.unwrap().status(), 500);
    let log = server.log();
    assert_eq!(log.len(), 4, "robots.txt, the request, two retries");
    assert!(are_paced(&log), "though the back-off is 5 ms at most");
}

#[tokio::test]
async fn a_backoff_wins_over_that_of_a_retry() {
    let server = Server::without_rules(|_| Reply::retry_after(429, 1)).await;
    assert_eq!(retried(&server).get("http://a.example/x").send().await.unwrap().status(), 429);
    let pages: Vec<_> = server.log().into_iter().filter(|seen| seen.path == "/x").collect();
    assert_eq!(pages.len(), 3);
    assert!(delays(&pages).all(|delay| delay >= Duration::from_millis(990)));
}

#[tokio::test]
async fn refusals_are_never_retried_and_found_through_retries() {
    let server = site().await;
    let (builder, refusals) = noting_refusals(builder(&server).delay(DELAY));
    let (abide, inner) = builder.parts();
    let client = ClientBuilder::new(inner).with(retry(3)).with(retry(3)).with(abide.middleware()).build();
    for (url, expected) in [
        // The retry asks again, and is deferred: the 429 backs the host off for an hour.
        ("http://busy.example/busy", "deferred"),
        ("http://busy.example/x", "deferred"),
        ("http://a.example/secret", "disallowed"),
        ("http://down.example/x", "unreachable"),
        ("http://127.0.0.2/", "address_refused"),
        ("ftp://a.example/", "unsupported_url"),
    ] {
        let denied = denied(&client, url).await;
        assert_eq!(denied.name(), expected, "{url}: {denied:?}");
        let refused = std::mem::take(&mut *refusals.lock().unwrap());
        assert_eq!(refused, [expected], "{url} is refused once");
    }
    assert_eq!((server.count("busy.example/busy"), server.count("busy.example/x")), (1, 0), "asked for once");
}

#[tokio::test]
async fn abide_above_a_cache_is_gated_and_paces_hits_needlessly() {
    let server = site().await;
    let (abide, inner) = crawler(&server);
    let client = ClientBuilder::new(inner).with(retry(2)).with(abide.middleware()).with(cache()).build();
    // What a busy machine takes between two requests would count as a part of the delay.
    let clock = StoppedClock::stop();
    for _ in 0..3 {
        let page = clock.pass_until(client.get("http://a.example/fresh").send()).await.unwrap();
        assert!(page.fetch_info().unwrap().waited() >= DELAY / 2);
        assert!(page.permissions().rules().noindex());
        page.bytes().await.unwrap();
    }
    assert_eq!(paths(&server), ["/fresh"]);
    let denied = clock.pass_until(denied(&client, "http://a.example/trap")).await;
    assert!(denied.is_disallowed() && denied.hop() == 1, "{denied:?}");
}

#[tokio::test]
async fn abide_inside_a_cache_leaves_text_and_no_fetch_info() {
    let server = site().await;
    let (abide, inner) = crawler(&server);
    let client = ClientBuilder::new(inner).with(cache()).with(abide.middleware()).build();
    let error = client.get("http://a.example/secret").send().await.unwrap_err();
    assert!(Denied::find(&error).is_none(), "a cache keeps the text only: {error:?}");
    assert!(format!("{error:?}").contains("Disallow: /secret"), "{error:?}");
    let miss = client.get("http://a.example/fresh").send().await.unwrap();
    assert!(miss.fetch_info().is_none(), "a cache builds new responses, also on a miss");
    assert_eq!(miss.permissions().noindex_known(), None, "and then nothing is known, rather than permitted");
}

/// The order that the docs recommend: retry > HTTP cache > abide > wire.
#[tokio::test]
async fn hits_send_nothing_and_what_else_passes_a_cache_is_gated_and_paced() {
    let server = site().await;
    let (abide, inner) = crawler(&server);
    let client = ClientBuilder::new(inner).with(retry(2)).with(cache()).with(abide.middleware()).build();
    for number in 0..3 {
        let page = client.get("http://a.example/fresh").send().await.unwrap();
        let page = abide.read(page).await;
        assert!(page.permissions().rules().noindex(), "{number}: from its fields");
        assert!(page.permissions().rules().nosnippet(), "{number}: from its head");
        let info = page.fetch_info().unwrap();
        assert!(info.hops().is_empty() && info.verdict().unwrap().is_allowed(), "{number}: {info:?}");
        assert_eq!(page.url().as_str(), "http://a.example/fresh");
        assert!(page.text().await.unwrap().ends_with("</head>page"), "the body stays whole");
    }
    for _ in 0..3 {
        let page = client.get("http://a.example/tagged").send().await.unwrap();
        assert_eq!((page.status().as_u16(), &*page.text().await.unwrap()), (200, "page"));
    }
    client.get("http://a.example/secret").send().await.unwrap_err();
    client.get("http://a.example/trap").send().await.unwrap_err();
    let log = server.log();
    assert_eq!(paths(&server), ["/fresh", "/tagged", "/tagged", "/tagged", "/trap"]);
    assert!(log[3].header("if-none-match").is_some(), "{log:?}");
    assert!(are_paced(&log), "robots.txt, misses and revalidations");
}

fn sent_again(denied: &Denied) -> Option<u32> {
    match denied.kind() {
        DeniedKind::SentAgain { times } => Some(*times),
        _ => None,
    }
}

#[tokio::test]
async fn a_retry_below_the_pacing_is_noticed_and_refused() {
    let server = site().await;
    let (abide, inner) = crawler(&server);
    let whole = ClientBuilder::new(inner).with(abide.middleware()).with(retry(2)).build();
    let denial = denied(&whole, "http://a.example/flaky").await;
    assert_eq!((sent_again(&denial), denial.hop()), (Some(3), 0), "{denial:?}");
    assert!(denial.to_string().contains("put retries above abide"), "{denial}");
    // What is not sent again passes.
    assert_eq!(whole.get("http://a.example/fresh").send().await.unwrap().status(), 200);
}

/// A limit that is documented; when it falls, say so there.
#[tokio::test]
async fn a_retry_of_timeouts_below_the_pacing_is_not_noticed() {
    let clock = StoppedClock::stop();
    let server = Server::without_rules(|_| Reply::raw(vec![Step::Hang])).await;
    let (abide, inner) = crawler(&server);
    let client = ClientBuilder::new(inner).with(abide.middleware()).with(retry(1)).build();
    let request = client.get("http://a.example/x").timeout(Duration::from_secs(10));
    let error = clock.pass_until(request.send()).await.unwrap_err();
    assert!(Denied::find(&error).is_none(), "{error:?}");
    assert_eq!(paths(&server), ["/x"; 2]);
}

#[tokio::test]
async fn abide_twice_in_a_chain_waits_for_itself_and_says_so() {
    let server = site().await;
    let (abide, inner) = builder(&server).max_wait(Duration::from_millis(100)).parts();
    let client = ClientBuilder::new(inner).with(abide.middleware()).with(abide.middleware()).build();
    let denied = denied(&client, "http://a.example/x").await;
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied:?}");
    assert!(denied.to_string().contains("open"), "{denied}");
    assert!(paths(&server).is_empty());
}

#[tokio::test]
async fn a_network_error_becomes_text_in_a_cache() {
    // No connection is kept, on which a request would be sent once more.
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::raw(vec![Step::send("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n")]),
        _ => Reply::raw(vec![Step::Reset]),
    })
    .await;
    let (abide, inner) = crawler(&server);
    let whole = ClientBuilder::new(inner.clone()).with(retry(2)).with(abide.middleware()).build();
    let error = whole.get("http://a.example/x").send().await.unwrap_err();
    assert!(Denied::find(&error).is_none());
    assert!(chain(&error).any(|cause| cause.is::<std::io::Error>()), "{error:?}");
    assert_eq!(paths(&server), ["/x"; 3], "a reset is transient");
    assert!(are_paced(&server.log()));
    let cached = ClientBuilder::new(inner).with(retry(2)).with(cache()).with(abide.middleware()).build();
    let cached = cached.get("http://b.example/x").send().await.unwrap_err();
    // http-cache keeps the text, so a retry above a cache does not know that it was transient.
    assert!(!chain(&cached).any(|cause| cause.is::<std::io::Error>()), "{cached:?}");
    assert_eq!(server.count("b.example/x"), 1);
}

/// A host that is busy answers 429 or 503, with and without Retry-After; the rest of it fails or is well.
async fn busy() -> Server {
    Server::without_rules(|seen| match (seen.path.as_str(), seen.host()) {
        ("/flaky", _) => Reply::new(500, ""),
        (_, "a.example") => Reply::new(503, "busy"),
        (_, "b.example") => Reply::with_headers(503, &[("retry-after", "3600")], "busy"),
        (_, "c.example") => Reply::new(429, "busy"),
        (_, "d.example") => Reply::with_headers(429, &[("retry-after", "1")], "busy"),
        _ => Reply::html("page"),
    })
    .await
}

#[tokio::test]
async fn a_strategy_that_leaves_429_and_503_to_abide_keeps_the_response() {
    for with_cache in [false, true] {
        let server = busy().await;
        let (abide, inner) = crawler(&server);
        let retry = RetryTransientMiddleware::new_with_policy_and_strategy(back_off(2), LeaveBusyHosts);
        let client = ClientBuilder::new(inner).with(retry);
        let client = if with_cache { client.with(cache()) } else { client };
        let client = client.with(abide.middleware()).build();
        for (host, status) in [("a", 503), ("b", 503), ("c", 429), ("d", 429)] {
            let url = format!("http://{host}.example/x");
            let response = client.get(&url).send().await.unwrap();
            assert_eq!((response.status().as_u16(), &*response.text().await.unwrap()), (status, "busy"));
            assert_eq!(server.count(&format!("{host}.example/x")), 1, "asked for once");
            if host != "d" && !with_cache {
                assert_eq!(denied(&client, &url).await.name(), "deferred", "abide backs the host off");
            }
        }
        // What fails otherwise is retried, and paced.
        assert_eq!(client.get("http://e.example/flaky").send().await.unwrap().status(), 500);
        assert_eq!(server.count("e.example/flaky"), 3);
        let log = server.log();
        assert!(are_paced(&log[log.len() - 4..]), "robots.txt, one request, two retries");
    }
}
