//! What an answer at hand costs: `cargo bench -p abide-gate --bench access`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use abide_gate::access::{AccessCache, BoxFuture, Fetch, FetchError, RobotsReply, RobotsRequest};
use abide_gate::{Clock, Origin, SystemClock};
use abide_robots::{ProductToken, Target};

#[derive(Debug)]
struct Site;

impl Fetch for Site {
    fn fetch(&self, _: RobotsRequest) -> BoxFuture<'_, Result<RobotsReply, FetchError>> {
        let body = "User-agent: *\nDisallow: /private/\nDisallow: /*.pdf$\nAllow: /private/press/\n";
        let reply = RobotsReply::whole(http::StatusCode::OK, http::HeaderMap::new(), body, SystemClock.now());
        Box::pin(async { Ok(reply) })
    }
}

fn report(name: &str, rounds: u32, mut run: impl FnMut(u32)) {
    (0..rounds / 10).for_each(&mut run);
    let best = (0..5)
        .map(|_| {
            let started = Instant::now();
            (0..rounds).for_each(&mut run);
            started.elapsed() / rounds
        })
        .min();
    println!("{name:<40} {best:?}");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let token = ProductToken::new("ExampleBot").expect("a product token");
    let cache = AccessCache::builder(vec![token], Arc::new(Site)).build();
    let origins: Vec<Origin> =
        (0..1000).map(|n| format!("https://host-{n}.example").parse().expect("an origin")).collect();
    runtime.block_on(cache.prefetch(origins.iter().cloned()));

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    report("the clock alone", 1_000_000, |_| {
        black_box(clock.wall());
    });
    report("cached, one origin", 1_000_000, |_| {
        black_box(cache.cached(&origins[0]));
    });
    report("cached, 1,000 origins", 1_000_000, |n| {
        black_box(cache.cached(&origins[n as usize % 1000]));
    });
    let target = Target::new("/private/diary");
    report("cached and asked", 1_000_000, |_| {
        black_box(cache.cached(&origins[0]).map(|answer| answer.is_allowed(&target)));
    });
    runtime.block_on(async {
        let started = Instant::now();
        for _ in 0..1_000_000 {
            black_box(cache.of(&origins[0]).await.is_ok());
        }
        println!("{:<40} {:?}", "of, fresh", started.elapsed() / 1_000_000);
    });
}
