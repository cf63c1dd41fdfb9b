//! What an answer at hand costs, and with it a whole decision: may this URL be asked for now?
//!
//! ```text
//! cargo bench -p abide-gate --bench access --all-features
//! ```
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on fails"
)]

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::PacePolicy;
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_gate::{BoxFuture, Clock, Gate, Origin, SystemClock};
use abide_robots::{ProductToken, Target};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use url::Url;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Every site has the same 40 rules.
#[derive(Debug)]
struct Site;

impl Fetch for Site {
    fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        let rules: String = (0..40).map(|n| format!("Disallow: /private/{n}/\n")).collect();
        let body = format!("User-agent: *\n{rules}");
        let reply =
            RobotsResponse::whole(http::StatusCode::OK, http::HeaderMap::new(), body, SystemClock.now());
        Box::pin(async { Ok(reply) })
    }
}

/// Nanoseconds of the fastest of many rounds, and the allocations of a thousand; `round` does it so many times.
fn row(name: &str, goal: &str, mut round: impl FnMut(usize)) {
    const TIMES: usize = 2_000;
    let mut took = || {
        let began = Instant::now();
        round(TIMES);
        began.elapsed()
    };
    let fastest = (0..300).map(|_| took()).min().unwrap_or_default();
    let region = Region::new(ALLOCATOR);
    round(1_000);
    let allocations = region.change().allocations;
    println!("| {name} | {goal} | {} | {allocations} |", fastest.as_nanos() / TIMES as u128);
}

/// The same for what does not wait.
fn plain<T>(name: &str, goal: &str, run: impl Fn(usize) -> T) {
    row(name, goal, |times| (0..times).for_each(|n| _ = black_box(run(n))));
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let token = ProductToken::new("ExampleBot").unwrap();
    let cache = Gate::builder().build(vec![token.clone()], Arc::new(Site));
    let origins: Vec<Origin> =
        (0..1_000).map(|n| format!("https://host-{n}.example").parse().unwrap()).collect();
    runtime.block_on(cache.prefetch(origins.iter().cloned()));

    println!("| | goal, ns | ns | allocations in 1,000 |\n| --- | --- | --- | --- |");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    plain("the clock alone", "", |_| clock.wall());
    plain("the rules of an origin, from the cache", "", |_| cache.cached(&origins[0]));
    plain("of a thousand origins in turn", "", |n| cache.cached(&origins[n % 1_000]));
    let target = Target::new("/public/diary");
    plain("from the cache, and asked", "", |_| cache.cached(&origins[0]).map(|it| it.is_allowed(&target)));
    let (answer, path) = (cache.cached(&origins[0]).unwrap(), "/public/diary");
    plain("a URL of a bulk check, by the rules at hand", "100", |_| {
        answer.is_allowed(&Target::new(black_box(path)))
    });
    decisions(&runtime, token);
}

/// The whole of it: the key, the rules, the match, and the turn of the host, taken and ended.
fn decisions(runtime: &tokio::runtime::Runtime, token: ProductToken) {
    let pace = PacePolicy::default().danger_min_delay(Duration::ZERO);
    let gate = Gate::builder().pace(pace).build(vec![token], Arc::new(Site));
    let urls: Vec<Url> =
        (0..1_000).map(|n| format!("https://host-{n}.example/public/diary").parse().unwrap()).collect();
    let budget = Duration::from_secs(1);
    let some = |times: usize, hosts: usize| {
        runtime.block_on(async {
            for n in 0..times {
                drop(black_box(gate.admit(&urls[n % hosts], budget).await.unwrap()));
            }
        });
    };
    some(urls.len(), urls.len());
    row("a decision for a hot host, its turn taken and ended", "400", |times| some(times, 1));
    row("of a thousand hosts in turn", "", |times| some(times, 1_000));
}
