//! What known hosts cost, from a thousand to a million, with default settings: memory, and a decision for one
//! at random.
//!
//! ```sh
//! cargo bench -p abide-gate --bench hosts            # all rows, each in a process of its own
//! cargo bench -p abide-gate --bench hosts -- 100000  # one
//! ```
//!
//! A robots.txt has some 300 bytes, and four hosts share one. A decision is check, permit, response, and the
//! permit's end, once for each of up to 200,000 hosts in random order: what the gate knows of a host is not
//! in the processor's caches, but the URL is, because a crawler has just parsed it. Times are those of the
//! fastest of 200 rounds. Instructions are counted by callgrind where valgrind is installed, with at most
//! 100,000 hosts.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

use std::alloc::System;
use std::fmt::Write;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use abide_gate::pacing::PacePolicy;
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_gate::{BoxFuture, Clock, Gate, SystemClock};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use url::Url;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const DECISIONS_MAX: u32 = 200_000;
const COUNTED_MAX: u32 = 100_000;
/// Of some milliseconds each, so that on a busy machine one of them is not interrupted.
const ROUNDS: usize = 200;

/// Small files with the fields that servers send; counts what it is asked.
#[derive(Debug, Default)]
struct Sites(AtomicU32);

impl Fetch for Sites {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let digits = request.url().host_str().unwrap_or_default().bytes().filter(u8::is_ascii_digit);
        let file = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')) / 4;
        let mut fields = HeaderMap::new();
        fields.insert("content-type", HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert("etag", HeaderValue::from_static("\"65f2c1a3-12c\""));
        fields.insert("last-modified", HeaderValue::from_static("Thu, 14 Mar 2024 09:12:51 GMT"));
        // In one piece, as a client has it: what this program wastes is not the gate's.
        let mut body = String::with_capacity(512);
        body.push_str("User-agent: *\n");
        (0..12)
            .for_each(|rule| writeln!(body, "Disallow: /private/{file}/{rule}").expect("a string takes it"));
        let response = RobotsResponse::whole(StatusCode::OK, fields, body, SystemClock.now());
        Box::pin(async { Ok(response) })
    }
}

fn url(host: u32) -> Url {
    format!("https://www.site{host}.example/page").parse().expect("a URL")
}

fn main() {
    let hosts = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    if let Some(hosts) = hosts {
        return measure(hosts);
    }
    println!(
        "| hosts | heap bytes each | blocks each | resident, MB | fetched again | a check at random, ns | with its permit, ns | instructions |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let bench = std::env::current_exe().expect("a program knows where it is");
    for hosts in [1_000, 10_000, 100_000, 1_000_000_u32] {
        let row = Command::new(&bench).arg(hosts.to_string()).output().expect("it runs");
        assert!(row.status.success(), "{}", String::from_utf8_lossy(&row.stderr));
        let count = if hosts <= COUNTED_MAX { instructions(&bench, hosts) } else { None };
        let count =
            count.map_or("–".to_owned(), |count| (count / u64::from(hosts.min(DECISIONS_MAX))).to_string());
        println!("{} {count} |", String::from_utf8_lossy(&row.stdout).trim_end());
    }
}

fn measure(hosts: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    let sites = Arc::new(Sites::default());
    let (region, before) = (Region::new(ALLOCATOR), resident());
    let gate = Gate::builder().build(vec!["ExampleBot".parse().expect("a token")], sites.clone());
    let origins =
        (0..hosts).map(|host| format!("https://www.site{host}.example").parse().expect("an origin"));
    runtime.block_on(gate.prefetch(origins));
    let (heap, resident) = (region.change(), resident() - before);

    let mut order: Vec<u32> = (0..hosts).collect();
    // Multiplied by an odd number, the high bits of each are mixed enough for an order that no cache
    // foresees.
    order.sort_unstable_by_key(|host| (u64::from(*host) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 7);
    let urls: Vec<Url> = order.iter().take(DECISIONS_MAX as usize).map(|host| url(*host)).collect();
    // The default delay after robots.txt.
    std::thread::sleep(PacePolicy::DELAY + Duration::from_millis(100));
    let _entered = runtime.enter();
    let check =
        fastest(&urls, |urls| urls.iter().filter(|url| gate.check_cached(black_box(url)).is_some()).count());
    let decision = fastest(&urls, |urls| decide_all(&gate, urls));
    let known = (0..hosts).filter(|host| gate.check_cached(&url(*host)).is_some()).count();
    let again = sites.0.load(Ordering::Relaxed) - hosts + (hosts - known as u32);
    let each = |count: usize| count as f64 / f64::from(hosts);
    println!(
        "| {hosts} | {:.0} | {:.1} | {:.0} | {again} | {check} | {decision} |",
        each(heap.bytes_allocated.saturating_sub(heap.bytes_deallocated)),
        each(heap.allocations.saturating_sub(heap.deallocations)),
        resident as f64 / 1e6,
    );
}

/// Nanoseconds for one URL, in the fastest round. `work` returns how many URLs it could decide, which must be
/// all.
fn fastest(urls: &[Url], work: impl Fn(&[Url]) -> usize) -> u128 {
    let rounds = urls.chunks(urls.len().div_ceil(ROUNDS)).map(|urls| {
        // Into the caches.
        urls.iter().for_each(|url| assert!(black_box(url.as_str()).is_ascii()));
        let began = Instant::now();
        assert_eq!(work(urls), urls.len(), "each host is known and free");
        began.elapsed().as_nanos() / urls.len() as u128
    });
    rounds.min().unwrap_or_default()
}

/// Returns how many could be decided without waiting. A function of its own, so that callgrind finds it.
#[inline(never)]
fn decide_all(gate: &Gate, urls: &[Url]) -> usize {
    let fields = HeaderMap::new();
    let decide = |url: &&Url| {
        let mut left = Duration::ZERO;
        let Some(Ok(mut verdict)) = gate.check(black_box(url), &mut left).now_or_never() else {
            return false;
        };
        let Some(Ok(permit)) = gate.acquire(url, &mut verdict, &mut left).now_or_never() else {
            return false;
        };
        permit.finish_with(StatusCode::OK, &fields);
        true
    };
    urls.iter().filter(decide).count()
}

/// Resident bytes of this process; nothing where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Those of all decisions.
fn instructions(bench: &std::path::Path, hosts: u32) -> Option<u64> {
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*decide_all*"];
    let output = Command::new("valgrind").args(options).arg(bench).arg(hosts.to_string()).output().ok()?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    log.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok())
}
