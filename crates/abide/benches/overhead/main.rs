//! What the middleware costs: requests on loopback with plain reqwest, with a read timeout, with a middleware
//! that does nothing, and with abide.
//!
//! ```sh
//! cargo bench -p abide --bench overhead
//! ```
//!
//! The rounds take turns, so that a busy machine slows all down alike; what counts are the ratios. Measured
//! is the processor time of the client alone: the server is a process of its own.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::{Abide, ResponseExt, Scan};
use async_trait::async_trait;
use cpu_time::ProcessTime;
use http::Extensions;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

mod crawl;
#[path = "../../../abide-permissions/benches/pages.rs"]
mod pages;
mod server;

use crawl::{Client, crawl};
use server::{Server, serve};

const ROUND: usize = 4_000;
const ROUNDS: usize = 31;
/// What every client calls itself.
const USER_AGENT: &str = "ExampleBot/1.0 (+https://example.com/bot)";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words.as_slice() {
        ["--serve"] => runtime(2).block_on(serve()),
        ["--crawl", client, hosts @ ..] => {
            let hosts = hosts.iter().map(ToString::to_string).collect();
            println!("{}", runtime(2).block_on(crawl(crawl_client(client), hosts)));
        }
        ["--count", client, path, requests, in_flight @ ..] => {
            let requests = requests.parse().expect("a number of requests");
            let in_flight = in_flight.first().map_or(1, |text| text.parse().expect("how many are in flight"));
            runtime(1).block_on(count(Server::start().address, client, path, requests, in_flight));
        }
        _ => {
            let server = Server::start();
            println!(
                "| client | threads | in flight | page | processor µs | above reqwest | ratio | with a read timeout |"
            );
            println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
            for (threads, in_flight, path) in
                [(1, 32, "small"), (2, 32, "small"), (2, 1, "small"), (2, 32, "1-KB"), (2, 32, "9-KB")]
            {
                runtime(threads).block_on(compare(server.address, threads, in_flight, path));
            }
        }
    }
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(threads).enable_all().build().expect("it starts")
}

/// By its name on the command line.
fn crawl_client(name: &str) -> Client {
    let scan = match name {
        "by-hand" => return Client::Reqwest(inner(builder())),
        "abide-without-scan" => Scan::Headers,
        _ => Scan::Eager,
    };
    Client::Abide(abide(1, scan))
}

/// For callgrind, which counts instructions whatever else the machine does, and for `strace -c`: these
/// requests, and nothing else.
async fn count(address: SocketAddr, client: &str, path: &str, requests: usize, in_flight: usize) {
    let (host, path) = path.split_once('/').unwrap_or(("127.0.0.1", path));
    let url = format!("http://{host}:{}/{path}", address.port());
    let mut clients = clients(in_flight).into_iter();
    let (name, client) = clients.find(|(name, _)| name.contains(client)).expect("one of the clients");
    one_round(&client, &url, requests, in_flight, name == "abide").await;
}

/// Every client in turn, round by round. What else the machine does lasts longer than a round, so each is
/// compared with reqwest's of the same turn.
async fn compare(address: SocketAddr, threads: usize, in_flight: usize, path: &str) {
    let url = format!("http://{address}/{path}");
    let clients = clients(in_flight);
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); clients.len()];
    for round in 0..=ROUNDS {
        for ((name, client), measured) in clients.iter().zip(&mut measured) {
            let used = one_round(client, &url, ROUND, in_flight, *name == "abide").await;
            // The first one warms up: connections, robots.txt.
            if round > 0 {
                measured.push(used.as_secs_f64() * 1e6 / ROUND as f64);
            }
        }
    }
    for ((name, _), rounds) in clients.iter().zip(&measured) {
        let turns = |client: usize| rounds.iter().zip(&measured[client]);
        let ratio = |client| median(turns(client).map(|(used, by)| used / by));
        let used = median(rounds.iter().copied());
        let (above, ratio, limited) = (median(turns(0).map(|(used, by)| used - by)), ratio(0), ratio(1));
        println!(
            "| {name} | {threads} | {in_flight} | {path} | {used:.1} | {above:.1} | {ratio:.2} | {limited:.2} |"
        );
    }
}

fn clients(in_flight: usize) -> [(&'static str, ClientWithMiddleware); 4] {
    // reqwest alone, through the same type: without middlewares it calls the client at once.
    let plain = inner(builder()).into();
    // Gives up on a silent server when abide does.
    let limited = inner(builder().read_timeout(Duration::from_secs(60))).into();
    let empty = ClientBuilder::new(inner(builder())).with(Empty).build();
    let abide = abide(in_flight as u16, Scan::Eager);
    [
        ("reqwest", plain),
        ("reqwest with a read timeout", limited),
        ("an empty middleware", empty),
        ("abide", abide),
    ]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the processor time that the requests took, of all threads.
async fn one_round(
    client: &ClientWithMiddleware,
    url: &str,
    requests: usize,
    in_flight: usize,
    has_info: bool,
) -> Duration {
    let url: url::Url = url.parse().expect("a URL");
    let left = Arc::new(AtomicUsize::new(requests));
    let before = ProcessTime::now();
    let mut workers = JoinSet::new();
    for _ in 0..in_flight {
        let (client, url, left) = (client.clone(), url.clone(), Arc::clone(&left));
        workers.spawn(async move { requests_of(&client, &url, &left, has_info).await });
    }
    workers.join_all().await;
    before.elapsed()
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

/// reqwest as it comes, which follows redirects like abide, with the User-Agent and codings that abide sends:
/// all write and parse the same bytes.
fn inner(builder: reqwest::ClientBuilder) -> reqwest::Client {
    let codings = http::HeaderValue::from_static("zstd,gzip,deflate,br");
    builder
        .user_agent(USER_AGENT)
        .default_headers(http::HeaderMap::from_iter([(http::header::ACCEPT_ENCODING, codings)]))
        .build()
        .expect("a client")
}

/// Everything on: robots.txt, a permit with delay 0, the address guard, the header rules, and for
/// [`Scan::Eager`] HTML heads.
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
