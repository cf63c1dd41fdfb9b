//! What a decision for a known host costs: nanoseconds and allocations, as a whole and by parts.
//!
//! ```sh
//! cargo bench -p abide-gate --bench gate
//! ```

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

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

const ROUND: u32 = 100_000;
/// Rounds; the fastest counts, as all do the same work and a busy machine only adds to it.
const ROUNDS: usize = 15;

/// A robots.txt with 40 rules for all crawlers.
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

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO).danger_max_in_flight(64);
    let tokens = vec!["ExampleBot".parse().expect("a token")];
    let gate = Gate::builder().pace(pace).build(tokens, Arc::new(FortyRules));
    let urls: Vec<Url> = (0..1_000)
        .map(|host| format!("https://www{host}.example.org/articles/2024/11/a-page").parse().expect("a URL"))
        .collect();
    runtime.block_on(gate.prefetch(urls.iter().filter_map(|url| Origin::of(url).ok())));
    let url = urls.first().expect("there are a thousand");
    let origin = Origin::of(url).expect("an origin");
    let handle = runtime.block_on(gate.entry(&origin)).expect("it is fetched");
    let headers = http::HeaderMap::new();
    println!("| | ns | allocations |\n| --- | --- | --- |");
    measure("the verdict, from what is known", || {
        black_box(gate.check_cached(black_box(url)));
    });
    let decide = |url: &Url| {
        let mut left = Duration::ZERO;
        let verdict = gate.check(black_box(url), &mut left).now_or_never();
        let mut verdict = verdict.expect("it is known").expect("it is reachable");
        let permit = gate.acquire(url, &mut verdict, &mut left).now_or_never();
        let permit = permit.expect("the host is free").expect("it is allowed");
        permit.finish_with(http::StatusCode::OK, &headers);
    };
    measure("check, acquire, report the response, end", || decide(url));
    let mut hosts = urls.iter().cycle();
    measure("the same for a thousand hosts in turn", || decide(hosts.next().expect("they go round")));
    measure("one URL through a rules handle: yes or no", || {
        black_box(handle.is_allowed(&Target::of(black_box(url))));
    });
    measure("one URL through a rules handle: with its reason", || {
        black_box(handle.explain(&Target::of(black_box(url))));
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
