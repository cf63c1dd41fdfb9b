//! What a known host costs: its memory, and the nanoseconds and allocations of a decision.
//!
//! ```sh
//! cargo bench -p abide-gate --bench gate
//! ```

#![allow(clippy::arithmetic_side_effects, clippy::expect_used, reason = "what cannot go on ends the program")]

use futures_util::FutureExt;
use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::PacePolicy;
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_gate::{BoxFuture, Clock, Gate, Origin, SystemClock};
use abide_robots::Target;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use url::Url;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Decisions in a round.
const ROUND: u32 = 100_000;
/// Rounds; the fastest counts, as all do the same work and a busy machine only adds to it.
const ROUNDS: usize = 15;

/// A robots.txt with 40 rules for everybody.
#[derive(Debug)]
struct FortyRules;

impl Fetch for FortyRules {
    fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        let rules: String = (0..40).map(|number| format!("Disallow: /private/{number}/\n")).collect();
        let body = format!("User-agent: *\n{rules}");
        let reply = RobotsResponse::whole(http::StatusCode::OK, Default::default(), body, SystemClock.now());
        Box::pin(async { Ok(reply) })
    }
}

/// Small files, four hosts of which share one, with the fields that servers send.
#[derive(Debug)]
struct ManySites;

impl Fetch for ManySites {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        let digits = request.url().host_str().unwrap_or_default().bytes().filter(u8::is_ascii_digit);
        let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')) / 4;
        let rules: String = (0..12).map(|rule| format!("Disallow: /private/{number}/{rule}\n")).collect();
        let mut fields = http::HeaderMap::new();
        fields.insert("content-type", http::HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert("etag", http::HeaderValue::from_static("\"65f2c1a3-12c\""));
        fields.insert("last-modified", http::HeaderValue::from_static("Thu, 14 Mar 2024 09:12:51 GMT"));
        let body = format!("User-agent: *\n{rules}");
        let response = RobotsResponse::whole(http::StatusCode::OK, fields, body, SystemClock.now());
        Box::pin(async { Ok(response) })
    }
}

/// What a known host takes on the heap: its robots.txt, its record and its pace. `ABIDE_HOSTS` is how many there are.
fn memory(runtime: &tokio::runtime::Runtime) {
    let hosts = std::env::var("ABIDE_HOSTS").ok().and_then(|hosts| hosts.parse().ok()).unwrap_or(100_000_u32);
    let tokens = vec!["ExampleBot".parse().expect("a token")];
    let region = Region::new(ALLOCATOR);
    let gate = Gate::builder().build(tokens, Arc::new(ManySites));
    let origins = (0..hosts).map(|n| format!("https://www.site{n}.example").parse().expect("an origin"));
    runtime.block_on(gate.prefetch(origins));
    let heap = region.change();
    let known = (0..hosts).filter(|n| {
        let url = format!("https://www.site{n}.example/page").parse().expect("a URL");
        gate.check_cached(&url).is_some()
    });
    let known = known.count();
    let each = |count: usize| count as f64 / f64::from(hosts);
    println!("| hosts | known after all were asked | bytes each | blocks each |\n| --- | --- | --- | --- |");
    println!(
        "| {hosts} | {known} | {:.0} | {:.1} |",
        each(heap.bytes_allocated.saturating_sub(heap.bytes_deallocated)),
        each(heap.allocations.saturating_sub(heap.deallocations))
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    memory(&runtime);
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO).danger_max_in_flight(64);
    let tokens = vec!["ExampleBot".parse().expect("a token")];
    let gate = Gate::builder().pace(pace).build(tokens, Arc::new(FortyRules));
    let url: Url = "https://www.example.org/articles/2024/11/a-page".parse().expect("a URL");
    let origin = Origin::of(&url).expect("an origin");
    let handle = runtime.block_on(gate.answer(&origin)).expect("it is learnt");
    let headers = http::HeaderMap::new();
    println!("| | ns | allocations |\n| --- | --- | --- |");
    measure("the verdict, from what is known", || {
        black_box(gate.check_cached(black_box(&url)));
    });
    measure("check, acquire, report the response, end", || {
        let mut left = Duration::ZERO;
        let verdict = gate.check(black_box(&url), &mut left).now_or_never();
        let mut verdict = verdict.expect("it is known").expect("it is reachable");
        let permit = gate.acquire(&url, &mut verdict, &mut left).now_or_never();
        let permit = permit.expect("the host is free").expect("it is allowed");
        permit.finish_with(http::StatusCode::OK, &headers);
    });
    measure("one URL through a rules handle: yes or no", || {
        black_box(handle.is_allowed(&Target::of(black_box(&url))));
    });
    measure("one URL through a rules handle: with its reason", || {
        black_box(handle.explain(&Target::of(black_box(&url))));
    });
}

fn measure(what: &str, mut decide: impl FnMut()) {
    let (mut fastest, mut allocations) = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (region, began) = (Region::new(ALLOCATOR), Instant::now());
        (0..ROUND).for_each(|_| decide());
        fastest = fastest.min(began.elapsed());
        allocations = region.change().allocations;
    }
    let (nanos, each) = (fastest.as_nanos() as f64, f64::from(ROUND));
    println!("| {what} | {:.0} | {:.2} |", nanos / each, allocations as f64 / each);
}
