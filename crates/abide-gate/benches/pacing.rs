//! What a permit costs, beside `governor`, keyed, in one run on one machine. Prints the tables of
//! `docs/dev/performance.md`:
//!
//! ```text
//! cargo bench -p abide-gate --bench pacing [-- hot] [hosts] [waiters]
//! ```
#![allow(clippy::restriction, reason = "a benchmark that cannot go on fails")]

use std::alloc::System;
use std::hint::black_box;
use std::iter::repeat_n;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use abide_gate::pacing::{PacePolicy, Permit};
use abide_gate::testing::hosts;
use abide_gate::{Denied, Gate};
use futures_util::future::try_join_all;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use http::{HeaderMap, StatusCode};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};
use url::Url;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HOSTS: usize = 1_000_000;

fn main() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    println!("| | abide | governor |\n| --- | --- | --- |");
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("hot") {
        hot(&runtime);
    }
    if wanted("hosts") {
        many_hosts(&runtime);
    }
    if wanted("waiters") {
        waiters();
    }
}

fn pacer() -> Gate {
    let policy = PacePolicy::default().danger_min_delay(Duration::ZERO).with_hosts_max(2 * HOSTS);
    hosts::gate(Gate::builder().pace(policy))
}

async fn acquire(pacer: &Gate, url: &Url) -> Result<Permit, Denied> {
    hosts::acquire(pacer, url, Duration::ZERO, Duration::from_secs(3_600)).await
}

/// A permit for each of these, one after the other.
fn each<'u>(runtime: &Runtime, pacer: &Gate, urls: impl IntoIterator<Item = &'u Url>, end: impl Fn(Permit)) {
    runtime.block_on(async {
        for url in urls {
            end(black_box(acquire(pacer, url).await.unwrap()));
        }
    });
}

fn governor() -> DefaultKeyedRateLimiter<String> {
    // Never the limit: as fast as it can answer.
    RateLimiter::keyed(Quota::per_second(NonZeroU32::MAX).allow_burst(NonZeroU32::MAX))
}

/// Nanoseconds for each of the `TIMES` of a round, the median of 500 rounds: short ones, so that most are not
/// interrupted by what else the machine does.
fn nanos(mut round: impl FnMut(usize)) -> f64 {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|n| {
            let began = Instant::now();
            round(n);
            began.elapsed()
        })
        .collect();
    rounds.sort();
    rounds[ROUNDS / 2].as_nanos() as f64 / TIMES as f64
}

const ROUNDS: usize = 500;
const TIMES: usize = HOSTS / ROUNDS;

/// One host, again and again: a permit is acquired, and its response has ended.
fn hot(runtime: &Runtime) {
    let (pacer, url): (_, Url) = (pacer(), "http://www.example.org/page".parse().unwrap());
    let ours = nanos(|_| each(runtime, &pacer, repeat_n(&url, TIMES), drop));
    let region = Region::new(ALLOCATOR);
    each(runtime, &pacer, repeat_n(&url, 1_000), drop);
    let allocations = region.change().allocations;
    let (limiter, key) = (governor(), "www.example.org".to_owned());
    let theirs = nanos(|_| {
        for _ in 0..TIMES {
            limiter.check_key(black_box(&key)).unwrap();
        }
    });
    println!(
        "| hot host, ns a permit (ours: acquired and ended; theirs: a check) | {ours:.0} | {theirs:.0} |"
    );
    println!("| hot host, allocations in 1,000 permits | {allocations} | |");
    let headers = HeaderMap::new();
    let observed = nanos(|_| {
        each(runtime, &pacer, repeat_n(&url, TIMES), |permit| permit.finish_with(StatusCode::OK, &headers));
    });
    println!("| the same, and the response observed | {observed:.0} | |");
}

/// A million hosts: the first permit, a permit at random, and what an idle host takes.
fn many_hosts(runtime: &Runtime) {
    let urls: Vec<Url> = (0..HOSTS).map(|n| format!("http://host-{n}.example/").parse().unwrap()).collect();
    let keys: Vec<String> = urls.iter().map(|url| url.host_str().unwrap().to_owned()).collect();
    let shuffled: Vec<usize> = (0..HOSTS).map(|n| n.wrapping_mul(7_368_787) % HOSTS).collect();
    let (pacer, limiter) = (pacer(), governor());

    let (ours_first, ours_bytes) = each_host(|| each(runtime, &pacer, &urls, drop));
    let (theirs_first, theirs_bytes) = each_host(|| {
        for key in &keys {
            limiter.check_key(key).unwrap();
        }
    });
    println!("| {HOSTS} hosts, ns the first permit | {ours_first} | {theirs_first} |");
    let ours = nanos(|round| {
        let urls = shuffled[round * TIMES..][..TIMES].iter().map(|n| &urls[*n]);
        each(runtime, &pacer, urls, drop);
    });
    let theirs = nanos(|round| {
        for n in &shuffled[round * TIMES..][..TIMES] {
            limiter.check_key(black_box(&keys[*n])).unwrap();
        }
    });
    println!("| {HOSTS} hosts, ns a permit at random | {ours:.0} | {theirs:.0} |");
    println!("| bytes a host that is idle | {ours_bytes} | {theirs_bytes} |");

    let fields = HeaderMap::new();
    let throttle = |permit: Permit| permit.finish_with(StatusCode::TOO_MANY_REQUESTS, &fields);
    let (_, held) = each_host(|| each(runtime, &pacer, &urls, throttle));
    println!("| bytes more while it is backed off, or has a throttle count | {held} | not known to it |");
    println!("| of which the names are | {} | |", keys.iter().map(String::len).sum::<usize>() / HOSTS);
}

/// Nanoseconds of this work, and bytes that it leaves allocated, for each of the hosts.
fn each_host(work: impl FnOnce()) -> (u128, usize) {
    let (region, began) = (Region::new(ALLOCATOR), Instant::now());
    work();
    let (took, change) = (began.elapsed(), region.change());
    (took.as_nanos() / HOSTS as u128, (change.bytes_allocated - change.bytes_deallocated) / HOSTS)
}

/// 2,000 tasks wait for one host at 5 ms: processor time, and how many were overtaken.
fn waiters() {
    const WAITERS: usize = 2_000;
    const GAP: Duration = Duration::from_millis(5);
    let url: Arc<Url> = Arc::new("http://www.example.org/".parse().unwrap());
    let policy = PacePolicy::default().danger_min_delay(GAP);
    let pacer = hosts::gate(Gate::builder().pace(policy));
    let ours = crowd(WAITERS, || {
        let (pacer, url) = (pacer.clone(), Arc::clone(&url));
        async move { drop(acquire(&pacer, &url).await.unwrap()) }
    });
    let quota = Quota::with_period(GAP).unwrap().allow_burst(NonZeroU32::MIN);
    let limiter: Arc<DefaultKeyedRateLimiter<String>> = Arc::new(RateLimiter::keyed(quota));
    let theirs = crowd(WAITERS, || {
        let (limiter, key) = (Arc::clone(&limiter), "www.example.org".to_owned());
        // `until_key_ready`, with tokio's timer: it asks, waits as long as the reply says, and asks again.
        async move {
            use governor::clock::{Clock as _, DefaultClock};
            let clock = DefaultClock::default();
            while let Err(not_until) = limiter.check_key(&key) {
                tokio::time::sleep(not_until.wait_time_from(clock.now())).await;
            }
        }
    });
    let [ours_ms, theirs_ms] = [ours.0, theirs.0].map(|seconds| seconds * 1e3);
    println!("| {WAITERS} waiters on one host at 5 ms, CPU ms | {ours_ms:.0} | {theirs_ms:.0} |");
    println!("| the same, wall s (the ideal: 10.0) | {:.2} | {:.2} |", ours.2, theirs.2);
    println!("| the same, overtaken | {} | {} |", ours.1, theirs.1);
}

/// Processor seconds, how many neighbours went in the wrong order, and seconds.
fn crowd<F: Future<Output = ()> + Send + 'static>(size: usize, wait: impl Fn() -> F) -> (f64, usize, f64) {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let (cpu, began) = (cpu_seconds(), Instant::now());
    let order: Vec<usize> = runtime.block_on(async {
        let task = |_| {
            let (wait, done) = (wait(), Arc::clone(&done));
            tokio::spawn(async move {
                wait.await;
                done.fetch_add(1, Ordering::SeqCst)
            })
        };
        try_join_all((0..size).map(task).collect::<Vec<_>>()).await.unwrap()
    });
    let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    (cpu_seconds() - cpu, overtaken, began.elapsed().as_secs_f64())
}

/// User and system time of this process, from /proc (hundredths of a second).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    ticks.iter().sum::<f64>() / 100.0
}
