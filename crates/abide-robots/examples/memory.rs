//! Heap bytes that a cached host costs, ours beside the peers': a counting allocator, the `hosts` workload, a
//! moka cache.
//!
//! ```sh
//! cargo run --release -p abide-robots --example memory
//! ```

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]

use std::alloc::System;
use std::collections::HashSet;
use std::sync::Arc;

use abide_robots::{ProductToken, Rules};
use moka::sync::Cache;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../benches/workload.rs"]
mod workload;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HOSTS: usize = 200_000;

fn main() {
    let bodies = workload::hosts(HOSTS);
    let bytes: usize = bodies.iter().map(String::len).sum();
    println!("{HOSTS} hosts, {} bytes of robots.txt each on average\n", bytes / HOSTS);
    println!("| | bytes a host | blocks a host |\n| --- | --- | --- |");
    let tokens = [ProductToken::new(workload::AGENT).expect("the name of the crawler is a token")];

    row("moka, no value", &bodies, |_| ());
    row("moka + `Arc<texting_robots::Robot>`", &bodies, |body| {
        Arc::new(texting_robots::Robot::new(workload::AGENT, body).expect("it reads its input"))
    });
    row("moka + `Arc<robotxt::Robots>`", &bodies, |body| {
        Arc::new(robotxt::Robots::parse(body, workload::AGENT))
    });
    row("moka + body, parsed at each use", &bodies, |body| Arc::<[u8]>::from(body));
    row("moka + `Rules`", &bodies, |body| Rules::parse(body, &tokens));
    let mut known = HashSet::new();
    row("moka + `Rules`, equal ones shared", &bodies, |body| {
        let rules = Rules::parse(body, &tokens);
        known.get(&rules).cloned().unwrap_or_else(|| {
            known.insert(rules.clone());
            rules
        })
    });
}

/// Keys are numbers, as small as a key can be: what a key costs beyond that is the same for all.
fn row<V: Clone + Send + Sync + 'static>(name: &str, bodies: &[String], mut value: impl FnMut(&[u8]) -> V) {
    let region = Region::new(ALLOCATOR);
    let cache: Cache<u64, V> = Cache::new(bodies.len() as u64 * 2);
    for (host, body) in (0..).zip(bodies) {
        cache.insert(host, value(body.as_bytes()));
    }
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), bodies.len() as u64, "nothing was evicted");
    let change = region.change();
    let bytes =
        change.bytes_allocated as isize + change.bytes_reallocated - change.bytes_deallocated as isize;
    let blocks = change.allocations as isize - change.deallocations as isize;
    let hosts = bodies.len() as f64;
    let bytes = (bytes as f64 / hosts).round() as u64;
    let shown =
        if bytes < 1_000 { bytes.to_string() } else { format!("{},{:03}", bytes / 1_000, bytes % 1_000) };
    println!("| {name} | {shown} | {:.1} |", blocks as f64 / hosts);
}
