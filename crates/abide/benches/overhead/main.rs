//! What the middleware costs: requests on loopback with plain reqwest, with a middleware that does nothing, and with abide.
//!
//! ```sh
//! cargo bench -p abide --bench overhead
//! ```
//!
//! The rounds take turns, so that a busy machine slows all down alike; what counts are the ratios. Measured is the processor time of the
//! client alone: the server is a process of its own.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::{Abide, ResponseExt, Scan};
use async_trait::async_trait;
use http::Extensions;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use tokio::task::JoinSet;

mod crawl;
#[path = "../../../abide-permissions/benches/pages.rs"]
mod pages;
mod server;

use crawl::{Client, crawl};
use server::{Server, serve};

const ROUND: usize = 4_000;
const ROUNDS: usize = 15;
/// What every client calls itself.
const USER_AGENT: &str = "ExampleBot/1.0 (+https://example.com/bot)";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("it starts");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    runtime.block_on(async {
        match words.as_slice() {
            ["--serve"] => serve().await,
            ["--crawl", client, hosts @ ..] => {
                println!(
                    "{}",
                    crawl(crawl_client(client), hosts.iter().map(ToString::to_string).collect()).await
                );
            }
            ["--count", client, path, requests, in_flight @ ..] => {
                let requests = requests.parse().expect("a number of requests");
                let in_flight =
                    in_flight.first().map_or(1, |text| text.parse().expect("how many are in flight"));
                count(Server::start().address, client, path, requests, in_flight).await;
            }
            _ => {
                let server = Server::start();
                println!("| client | in flight | page | processor µs | above reqwest | ratio |");
                println!("| --- | --- | --- | --- | --- | --- |");
                for (in_flight, path) in [(32, "small"), (1, "small"), (32, "1-KB"), (32, "9-KB")] {
                    compare(server.address, in_flight, path).await;
                }
            }
        }
    });
}

/// By its name on the command line.
fn crawl_client(name: &str) -> Client {
    let scan = match name {
        "by-hand" => return Client::Reqwest(inner()),
        "abide-without-scan" => Scan::Headers,
        _ => Scan::Eager,
    };
    Client::Abide(abide(1, scan))
}

/// For callgrind, which counts instructions whatever else the machine does, and for `strace -c`: these requests, and nothing else.
async fn count(address: SocketAddr, client: &str, path: &str, requests: usize, in_flight: usize) {
    let (host, path) = path.split_once('/').unwrap_or(("127.0.0.1", path));
    let url = format!("http://{host}:{}/{path}", address.port());
    let mut clients = clients(in_flight).into_iter();
    let (name, client) = clients.find(|(name, _)| name.contains(client)).expect("one of the clients");
    one_round(&client, &url, requests, in_flight, name == "abide").await;
}

/// One table: every client in turn, round by round.
async fn compare(address: SocketAddr, in_flight: usize, path: &str) {
    let url = format!("http://{address}/{path}");
    let clients = clients(in_flight);
    let mut measured: Vec<Vec<Duration>> = vec![Vec::new(); clients.len()];
    for round in 0..=ROUNDS {
        for ((name, client), measured) in clients.iter().zip(&mut measured) {
            let used = one_round(client, &url, ROUND, in_flight, *name == "abide").await;
            // The first one warms up: connections, robots.txt.
            if round > 0 {
                measured.push(used);
            }
        }
    }
    let medians: Vec<f64> = measured.into_iter().map(median).collect();
    for ((name, _), used) in clients.iter().zip(&medians) {
        let reqwest = medians[0];
        println!(
            "| {name} | {in_flight} | {path} | {used:.1} | {:.1} | {:.2} |",
            used - reqwest,
            used / reqwest
        );
    }
}

fn clients(in_flight: usize) -> [(&'static str, ClientWithMiddleware); 3] {
    let empty = ClientBuilder::new(inner()).with(Empty).build();
    // reqwest alone, through the same type: without middlewares it calls the client at once.
    let plain = inner().into();
    [("reqwest", plain), ("an empty middleware", empty), ("abide", abide(in_flight as u16, Scan::Eager))]
}

/// The middle of all rounds, in microseconds a request.
fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    rounds[rounds.len() / 2].as_secs_f64() * 1e6 / ROUND as f64
}

/// Returns the processor time that the requests took.
async fn one_round(
    client: &ClientWithMiddleware,
    url: &str,
    requests: usize,
    in_flight: usize,
    has_info: bool,
) -> Duration {
    let url: url::Url = url.parse().expect("a URL");
    let left = Arc::new(AtomicUsize::new(requests));
    let before = processor_time();
    let mut workers = JoinSet::new();
    for _ in 0..in_flight {
        let (client, url, left) = (client.clone(), url.clone(), Arc::clone(&left));
        workers.spawn(async move { requests_of(&client, &url, &left, has_info).await });
    }
    workers.join_all().await;
    processor_time() - before
}

/// Takes requests from `left` until there are none.
async fn requests_of(client: &ClientWithMiddleware, url: &url::Url, left: &AtomicUsize, has_info: bool) {
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let response = client.get(url.clone()).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.fetch_info().is_some(), has_info);
        assert!(response.bytes().await.expect("a body").len() >= 2);
    }
}

/// The time that all threads of this process have spent on a processor: Linux reports it in nanoseconds. Elsewhere zero.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// With the same User-Agent and codings as abide sends, so that all write and parse the same bytes.
fn inner() -> reqwest::Client {
    let codings = http::HeaderValue::from_static("zstd,gzip,deflate,br");
    builder()
        .user_agent(USER_AGENT)
        .default_headers(http::HeaderMap::from_iter([(http::header::ACCEPT_ENCODING, codings)]))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client")
}

/// Everything on: robots.txt, a permit with delay 0, the address guard, the header rules, and for [`Scan::Eager`] HTML heads.
fn abide(in_flight: u16, scan: Scan) -> ClientWithMiddleware {
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO).danger_max_in_flight(in_flight);
    Abide::builder("ExampleBot")
        .user_agent(USER_AGENT)
        .allow_net("127.0.0.0/8".parse().expect("a network"))
        .pace(pace)
        .scan(scan)
        .build_client(builder())
        .expect("the settings are good")
}

/// The server may have a name in place of its address: `--count abide site.example/small 250`.
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().resolve("site.example", ([127, 0, 0, 1], 0).into())
}

struct Empty;

#[async_trait]
impl Middleware for Empty {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        next.run(request, extensions).await
    }
}
