//! A server that says how many requests are left, on virtual time: none is refused.

use crate::pacing::Pacer;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::DeferReason;
use abide_gate::testing::MemoryStore;
use http::{HeaderMap, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::parts::support::pacing::{deferral, ms, observed, one_second, retry_after, s};

/// How the server counts.
#[derive(Debug, Clone, Copy)]
enum Window {
    /// All requests are there again at the end of each.
    Fixed,
    /// Each request is there again a window after it.
    Sliding,
}

/// A server with ten requests a minute, which says how many are left.
#[derive(Debug)]
struct Server {
    kind: Window,
    requests: Mutex<Vec<Instant>>,
    refused: Mutex<usize>,
}

const QUOTA: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);

impl Server {
    fn new(kind: Window) -> Arc<Self> {
        Arc::new(Self { kind, requests: Mutex::default(), refused: Mutex::default() })
    }

    fn answer(&self) -> (StatusCode, HeaderMap) {
        let now = Instant::now();
        let mut requests = self.requests.lock().unwrap();
        match self.kind {
            Window::Fixed if requests.first().is_some_and(|first| now >= *first + WINDOW) => requests.clear(),
            Window::Fixed => {}
            Window::Sliding => requests.retain(|at| now < *at + WINDOW),
        }
        let is_refused = requests.len() >= QUOTA;
        if is_refused {
            *self.refused.lock().unwrap() += 1;
        } else {
            requests.push(now);
        }
        let remaining = QUOTA - requests.len();
        // In whole seconds, as a server that does not round up has them.
        let reset = (requests[0] + WINDOW - now).as_secs();
        let headers = fields(&format!("\"pages\";r={remaining};t={reset}"));
        (if is_refused { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }, headers)
    }
}

/// Asks for pages again and again, for ten minutes. How many came.
async fn crawl(pacer: Arc<Pacer>, server: Arc<Server>) -> usize {
    let (mut pages, until) = (0, Instant::now() + s(600));
    while Instant::now() < until {
        let permit = match pacer.try_take("a.example").await {
            Ok(permit) => permit,
            refused => {
                sleep(deferral(refused).wait).await;
                continue;
            }
        };
        sleep(ms(20)).await;
        let (status, headers) = server.answer();
        permit.observe(status, &headers);
        permit.saved().await;
        sleep(ms(20)).await;
        drop(permit);
        pages += 1;
    }
    pages
}

#[tokio::test(start_paused = true)]
async fn ten_requests_a_minute_are_crawled_without_a_429() {
    for kind in [Window::Fixed, Window::Sliding] {
        let server = Server::new(kind);
        let pages = crawl(Pacer::new(one_second()), Arc::clone(&server)).await;
        assert_eq!(*server.refused.lock().unwrap(), 0, "{kind:?}");
        assert!((80..=101).contains(&pages), "{kind:?}: {pages} of some 100 pages");
    }
}

#[tokio::test(start_paused = true)]
async fn processes_that_share_a_store_share_the_quota() {
    for kind in [Window::Fixed, Window::Sliding] {
        let (server, store) = (Server::new(kind), Arc::new(MemoryStore::new()));
        let mut tasks = JoinSet::new();
        for seed in 0..2 {
            let pacer = Pacer::builder(one_second()).host_store(store.clone()).seed(seed).pacer();
            tasks.spawn(crawl(pacer, Arc::clone(&server)));
        }
        let pages = tasks.join_all().await;
        assert_eq!(*server.refused.lock().unwrap(), 0, "{kind:?}");
        assert!(pages.iter().sum::<usize>() >= 60, "{kind:?}: {pages:?}");
        assert!(pages.iter().all(|pages| *pages >= 10), "{kind:?}: each gets a part: {pages:?}");
    }
}

fn fields(value: &str) -> HeaderMap {
    HeaderMap::from_iter([("ratelimit".parse().unwrap(), value.parse().unwrap())])
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_is_a_deferral() {
    let pacer = Pacer::new(one_second());
    let permit = pacer.take("a.example").await;
    permit.finish_with(StatusCode::OK, &fields("\"day\";r=0;t=3599"));
    let deferral = deferral(pacer.try_take("a.example").await);
    assert_eq!((deferral.reason, deferral.wait), (DeferReason::RateLimit, s(3600)));
    assert_eq!(pacer.take("b.example").await.waited(), s(0));
}

#[tokio::test(start_paused = true)]
async fn retry_after_wins_and_nothing_ever_shortens_the_delay() {
    let pacer = Pacer::new(one_second());
    let next = async || {
        let permit = pacer.take_within("a.example", s(200_000)).await.unwrap();
        (permit.waited(), permit)
    };
    let (_, permit) = next().await;
    let mut headers = fields("\"day\";r=0;t=3599");
    headers.extend(retry_after("10"));
    permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &headers);
    let (waited, permit) = next().await;
    assert!((s(10)..=s(11)).contains(&waited), "{waited:?}");
    permit.finish_with(StatusCode::OK, &fields("\"day\";r=1000;t=1"));
    let (waited, permit) = next().await;
    assert_eq!(waited, s(1), "the delay stays");
    permit.finish_with(StatusCode::SERVICE_UNAVAILABLE, &fields("\"day\";r=0;t=3599"));
    assert_eq!(next().await.0, s(3600), "without a Retry-After the longer of both counts");
}

#[tokio::test(start_paused = true)]
async fn absurd_values_are_ignored_with_an_event() {
    let (pacer, events) = observed(one_second());
    for value in ["\"day\";r=0;t=99999999999", "\"day\";r=-1;t=60", "malformed;;"] {
        let permit = pacer.take("a.example").await;
        assert!(permit.waited() <= s(1));
        permit.finish_with(StatusCode::OK, &fields(value));
    }
    assert_eq!(events.take(), ["ignored a.example RateLimit", "ignored a.example RateLimit"]);
}
