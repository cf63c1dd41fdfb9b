//! The middleware in two halves, with something between them that keeps neither errors nor extensions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{Denied, DeniedKind, ResponseExt};
use abide_tests::{Reply, Server};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};

use crate::builder;

/// As an HTTP cache does it: a response is built anew, and an error becomes text. Every second request is a hit.
struct Cache {
    asked: Arc<AtomicUsize>,
    hits: bool,
}

#[async_trait::async_trait]
impl Middleware for Cache {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        use reqwest::ResponseBuilderExt;
        let url = request.url().clone();
        if self.hits && self.asked.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            let hit = http::Response::builder().url(url).status(200).body("from the cache").unwrap();
            return Ok(hit.into());
        }
        match next.run(request, extensions).await {
            Ok(response) => {
                let built = http::Response::builder().url(url).status(response.status());
                let built = built.body(response.bytes().await.unwrap()).unwrap();
                Ok(built.into())
            }
            Err(error) => Err(reqwest_middleware::Error::Middleware(anyhow::anyhow!("Cache error: {error}"))),
        }
    }
}

async fn halves(server: &Server, hits: bool) -> (ClientWithMiddleware, Duration) {
    let gap = Duration::from_millis(200);
    let (abide, inner) = builder(server)
        .pace(abide::pacing::PacePolicy::default().danger_min_delay(gap))
        .build_with(reqwest::Client::builder())
        .unwrap();
    let cache = Cache { asked: Arc::default(), hits };
    (ClientBuilder::new(inner).with(abide.gate()).with(cache).with(abide.pacing()).build(), gap)
}

async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/busy" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
        "/go" => Reply::redirect(302, "/secret"),
        _ => Reply::html("page"),
    })
    .await
}

#[tokio::test]
async fn a_cache_hit_is_gated_and_not_paced() {
    let server = site().await;
    let (client, gap) = halves(&server, true).await;
    drop(client.get("http://a.example/x").send().await.unwrap());
    let log = server.log();
    assert!(log[1].at - log[0].answered >= gap, "{:?}", log[1].at - log[0].answered);
    let hit = client.get("http://a.example/x").send().await.unwrap();
    assert_eq!(hit.fetch_info().unwrap().waited(), Duration::ZERO);
    assert_eq!(hit.text().await.unwrap(), "from the cache");
    assert_eq!(server.count("a.example/x"), 1);
    let error = client.get("http://a.example/secret").send().await.unwrap_err();
    assert!(Denied::find(&error).is_some_and(|denied| denied.is_disallowed()));
}

#[tokio::test]
async fn a_refusal_below_a_cache_stays_typed() {
    let server = site().await;
    let (client, _) = halves(&server, false).await;
    assert_eq!(client.get("http://a.example/busy").send().await.unwrap().status(), 429);
    let error = client.get("http://a.example/x").send().await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::Deferred { .. } = denied.kind() else { panic!("{error:?}") };
    assert_eq!(server.count("a.example/x"), 0);
}

#[tokio::test]
async fn the_pacing_half_alone_goes_out_neither_ungated_nor_unpaced() {
    let server = site().await;
    let (abide, inner) = builder(&server).build_with(reqwest::Client::builder()).unwrap();
    let client = ClientBuilder::new(inner).with(abide.pacing()).build();
    assert_eq!(client.get("http://a.example/x").send().await.unwrap().status(), 200);
    let error = client.get("http://a.example/secret").send().await.unwrap_err();
    assert!(Denied::find(&error).is_some_and(|denied| denied.is_disallowed()));
    assert_eq!(server.count("a.example/secret"), 0);
    for seen in server.log() {
        assert_eq!(seen.header("user-agent"), Some("ExampleBot/1.0 (+https://example.com/bot)"));
    }
}

/// What was refused, by name.
#[derive(Debug, Default)]
struct Refusals(Mutex<Vec<&'static str>>);

impl Refusals {
    fn observer(self: &Arc<Self>) -> Arc<dyn Fn(&abide::Event<'_>) + Send + Sync> {
        let this = Arc::clone(self);
        Arc::new(move |event| this.observe(event))
    }

    fn observe(&self, event: &abide::Event<'_>) {
        if let abide::Event::Refused { denied, .. } = event {
            self.0.lock().unwrap().push(denied.name());
        }
    }
}

#[tokio::test]
async fn the_pacing_half_alone_notices_a_client_that_follows() {
    let server = site().await;
    let refusals = Arc::new(Refusals::default());
    let (abide, _) =
        builder(&server).observer(refusals.observer()).build_with(reqwest::Client::builder()).unwrap();
    let follows = reqwest::Client::builder().dns_resolver(server.names()).build().unwrap();
    let client = ClientBuilder::new(follows).with(abide.pacing()).build();
    let error = client.get("http://a.example/go").send().await.unwrap_err();
    let denied = Denied::find(&error).unwrap();
    let DeniedKind::RedirectBypass { got } = denied.kind() else { panic!("{error:?}") };
    assert_eq!((denied.url().path(), got.path()), ("/go", "/secret"));
    client.get("http://a.example/secret").send().await.unwrap_err();
    assert_eq!(*refusals.0.lock().unwrap(), ["redirect_bypass", "disallowed"]);
}

/// As a retry middleware does it: 429 again after a few milliseconds, errors of middlewares never.
struct Retry;

#[async_trait::async_trait]
impl Middleware for Retry {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let again = request.try_clone().unwrap();
        let first = next.clone().run(request, extensions).await?;
        if first.status() != 429 {
            return Ok(first);
        }
        drop(first);
        tokio::time::sleep(Duration::from_millis(5)).await;
        next.run(again, extensions).await
    }
}

#[tokio::test]
async fn a_retry_above_is_paced_and_the_hold_wins_over_its_own_back_off() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        _ if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::with_headers(429, &[("retry-after", "1")], "")
        }
        _ => Reply::html("page"),
    })
    .await;
    let (abide, inner) = builder(&server).build_with(reqwest::Client::builder()).unwrap();
    let client = ClientBuilder::new(inner).with(Retry).with(abide.middleware()).build();
    assert_eq!(client.get("http://a.example/x").send().await.unwrap().status(), 200);
    let pages: Vec<_> = server.log().into_iter().filter(|seen| seen.path == "/x").collect();
    assert_eq!(pages.len(), 2);
    assert!(pages[1].at.duration_since(pages[0].answered) >= Duration::from_millis(990));
}
