//! How often a request allocates: a bound, so that what was saved is not lost unnoticed. In a process of its
//! own, as the allocator counts all.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::alloc::System;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use abide::Abide;
use abide::pacing::PacePolicy;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use reqwest_middleware::ClientWithMiddleware;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 320;
const USER_AGENT: &str = "ExampleBot/1.0";

/// More than those of reqwest alone, for a request to a host that is known, whose answer is short.
const MORE_MAX: usize = 40;

/// One test, so that nothing else allocates meanwhile.
#[tokio::test(flavor = "current_thread")]
async fn a_request_to_a_known_host_allocates_little_more() {
    let address = serve().await;
    let inner = || reqwest::Client::builder().no_proxy().user_agent(USER_AGENT);
    let plain = inner().build().expect("a client").into();
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO);
    let abide = Abide::builder("ExampleBot")
        .user_agent(USER_AGENT)
        .allow_net(address.ip().into())
        .pace(pace)
        .build_client(inner())
        .expect("the settings are good");
    let (without, with) = (each(&plain, address).await, each(&abide, address).await);
    assert!(with <= without + MORE_MAX, "{without} without, {with} with");
    assert!(with > without, "something is counted");
}

/// Allocations for a request, those of the server included, which are the same. Of many requests the median,
/// because now and then a cache is cleaned, or a response comes in two pieces on a busy machine.
async fn each(client: &ClientWithMiddleware, address: SocketAddr) -> usize {
    let url: url::Url = format!("http://{address}/small").parse().expect("a URL");
    let mut counts = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let region = Region::new(ALLOCATOR);
        get(client, &url).await;
        counts.push(region.change().allocations);
    }
    counts.sort_unstable();
    *counts.get(REQUESTS / 2).expect("there are that many")
}

async fn get(client: &ClientWithMiddleware, url: &url::Url) {
    let response = client.get(url.clone()).send().await.expect("an answer");
    assert_eq!(response.bytes().await.expect("a body"), "ok");
}

async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(|request: Request<Incoming>| async move {
                let body = if request.uri().path() == "/robots.txt" {
                    "User-agent: *\nDisallow: /x\n"
                } else {
                    "ok"
                };
                let response = Response::builder().header("content-type", "text/plain");
                Ok::<_, Infallible>(response.body(Full::new(Bytes::from(body))).expect("a good response"))
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}
