//! What a decision costs, for hot hosts and for one of many; and what a known host takes of the memory.
//!
//! ```sh
//! cargo bench -p abide-gate --bench gate             # nanoseconds and allocations of a decision
//! cargo bench -p abide-gate --bench gate -- hosts    # a thousand to a million hosts
//! ```

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on ends the program"
)]

use futures_util::FutureExt;
use std::alloc::System;
use std::hint::black_box;
use std::process::Command;
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

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hosts"] => {
            println!(
                "| hosts | known after all were asked | heap bytes each | blocks each | resident MB | ns a random decision |"
            );
            println!("| --- | --- | --- | --- | --- | --- |");
            for count in ["1000", "10000", "100000", "1000000"] {
                // A process each: memory that was given back may stay resident.
                let program = std::env::current_exe().expect("this program has a path");
                let status = Command::new(program).args(["hosts", count]).status().expect("it starts again");
                assert!(status.success(), "{count} hosts: expected a row, found {status}");
            }
        }
        ["hosts", count] => runtime.block_on(hosts(count.parse().expect("a number of hosts"))),
        _ => decisions(&runtime),
    }
}

/// What so many known hosts take, each with its robots.txt, its record and its pace, with default settings; and the decision for a random one.
async fn hosts(count: usize) {
    let name = |number: usize| format!("https://www.site{number}.example/page");
    let (region, resident) = (Region::new(ALLOCATOR), resident_kib());
    let gate = Gate::builder().build(vec!["ExampleBot".parse().expect("a token")], Arc::new(ManySites));
    gate.prefetch((0..count).map(|number| name(number).parse().expect("an origin"))).await;
    let (heap, resident) = (region.change(), resident_kib() - resident);
    let url = |number: usize| name(number).parse::<Url>().expect("a URL");
    let known = (0..count).filter(|number| gate.check_cached(&url(*number)).is_some()).count();

    // Each host once: the delay after its robots.txt is over, and no other begins. The step has no factor in common with the counts.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let urls: Vec<Url> = (0..count.min(100_000)).map(|n| url(n * 7_368_787 % count)).collect();
    let headers = http::HeaderMap::new();
    // The median of short rounds, most of which nothing interrupts.
    let mut rounds: Vec<Duration> = urls
        .chunks(DECISIONS)
        .map(|urls| {
            let began = Instant::now();
            urls.iter().for_each(|url| decide(&gate, url, &headers));
            began.elapsed()
        })
        .collect();
    rounds.sort();
    let nanos = rounds[rounds.len() / 2].as_nanos() as f64 / DECISIONS as f64;

    let each = |whole: usize| whole as f64 / count as f64;
    println!(
        "| {count} | {known} | {:.0} | {:.1} | {:.0} | {nanos:.0} |",
        each(heap.bytes_allocated - heap.bytes_deallocated),
        each(heap.allocations - heap.deallocations),
        resident as f64 / 1_000.0 * 1.024
    );
}

/// Random decisions in a round.
const DECISIONS: usize = 100;

/// `VmRSS`; elsewhere than on Linux zero.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// The whole of it: key, rules, match, and the permit, acquired and ended.
fn decide(gate: &Gate, url: &Url, headers: &http::HeaderMap) {
    let mut left = Duration::ZERO;
    let verdict = gate.check(black_box(url), &mut left).now_or_never();
    let mut verdict = verdict.expect("it is known").expect("it is reachable");
    let permit = gate.acquire(url, &mut verdict, &mut left).now_or_never();
    permit.expect("the host is free").expect("it is allowed").finish_with(http::StatusCode::OK, headers);
}

fn decisions(runtime: &tokio::runtime::Runtime) {
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO).danger_max_in_flight(64);
    let tokens = vec!["ExampleBot".parse().expect("a token")];
    let gate = Gate::builder().pace(pace).build(tokens, Arc::new(FortyRules));
    let url = |n: u32| format!("https://www{n}.example.org/articles/2024/11/a-page").parse().expect("a URL");
    let urls: Vec<Url> = (0..1_000).map(url).collect();
    runtime.block_on(gate.prefetch(urls.iter().map(|url| Origin::of(url).expect("an origin"))));
    let (url, mut next) = (&urls[0], 0);
    let mut turn = || {
        next = (next + 1) % urls.len();
        &urls[next]
    };
    let handle = runtime.block_on(gate.answer(&Origin::of(url).expect("an origin"))).expect("it is learnt");
    let headers = http::HeaderMap::new();
    println!("| | goal, ns | ns | allocations |\n| --- | --- | --- | --- |");
    measure("the verdict, from what is known", "", || drop(black_box(gate.check_cached(black_box(url)))));
    measure("the same, of a thousand hosts in turn", "", || {
        drop(black_box(gate.check_cached(black_box(turn()))));
    });
    measure("check, acquire, report the response, end", "400", || decide(&gate, url, &headers));
    measure("the same, of a thousand hosts in turn", "", || decide(&gate, turn(), &headers));
    measure("one URL through a rules handle: yes or no", "100", || {
        black_box(handle.is_allowed(&Target::of(black_box(url))));
    });
    measure("the same, with its reason", "", || drop(black_box(handle.explain(&Target::of(black_box(url))))));
}

fn measure(what: &str, goal: &str, mut decide: impl FnMut()) {
    let (mut fastest, mut allocations) = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (region, began) = (Region::new(ALLOCATOR), Instant::now());
        (0..ROUND).for_each(|_| decide());
        fastest = fastest.min(began.elapsed());
        allocations = region.change().allocations;
    }
    let (nanos, each) = (fastest.as_nanos() as f64, f64::from(ROUND));
    println!("| {what} | {goal} | {:.0} | {:.2} |", nanos / each, allocations as f64 / each);
}
