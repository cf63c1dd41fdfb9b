//! What the store costs: microseconds a permit and a record, bytes on the disk and in memory.
//!
//! ```text
//! cargo run --release -p abide-redb --example store_cost -- DIRECTORY
//! ```
//! The directory should be on the disk that is meant; a file system in memory makes every commit look free.

#![allow(clippy::restriction, reason = "what cannot go on ends the program")]
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, PacePolicy, Want};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::MemoryStore;
use abide_gate::testing::hosts;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Clock, Gate, GateBuilder, HolderId, Origin, SystemClock, WallMillis};
use abide_permissions::{Fetched, Head, PermissionRecord, PermissionStore};
use abide_redb::Store;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const RECORDS: u64 = 100_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let directory = std::env::args().nth(1).ok_or("expected a directory, found none")?;
    let path = Path::new(&directory).join("cost.redb");
    let _ = std::fs::remove_file(&path);
    let store = Store::builder().write_behind(Duration::from_secs(3_600)).open(&path)?;
    permits("without a store", Gate::builder()).await?;
    permits("with this store", Gate::builder().host_store(Arc::new(store.clone()))).await?;
    backoffs(&store).await?;
    println!("resident before any record: {}", resident());
    let region = Region::new(ALLOCATOR);
    records(&store).await?;
    permissions(&store).await?;
    println!("heap kept after these records: {} KiB", kept(&region));
    println!("resident after them: {}", resident());
    println!("file: {} KiB", std::fs::metadata(&path)?.len() >> 10);
    memory().await?;
    reopening(store, &path).await?;
    std::fs::remove_file(&path)?;
    Ok(())
}

fn origin(n: u64) -> Outcome<Origin> {
    Ok(format!("https://host-{n}.example").parse()?)
}

/// A record of about 600 bytes.
fn record(n: u64) -> Outcome<RobotsRecord> {
    let text = "User-agent: *\nDisallow: /private/\nDisallow: /search?\n".repeat(7);
    Ok(sample_record(&origin(n)?, WallMillis::from_millis(SystemClock.wall().as_millis() + n), text))
}

async fn permits(name: &str, settings: GateBuilder) -> Outcome<()> {
    let gate = hosts::gate(settings.pace(PacePolicy::default().danger_min_delay(Duration::ZERO)));
    let urls: Result<Vec<_>, _> =
        (0..20_000).map(|n| format!("https://permit-{n}.example/").parse()).collect();
    let urls = urls?;
    for which in ["first", "second"] {
        let began = Instant::now();
        for url in &urls {
            drop(hosts::acquire(&gate, url, Duration::ZERO, gate.max_wait()).await?);
        }
        println!("the {which} permit of a host, {name}: {} ns", each(began, 20_000));
    }
    // Each lease has a task, which would end while something else is measured.
    gate.settled(Duration::from_secs(60)).await;
    Ok(())
}

async fn backoffs(store: &Store) -> Outcome<()> {
    let cause = BackoffCause::Operator;
    let backoff = Backoff { left: Duration::from_secs(3_600), over: Duration::ZERO, throttles: 0, cause };
    let state = HostState { backoff: Some(backoff), ..HostState::default() };
    let mut each = Vec::new();
    for n in 0..200 {
        let (began, ask) =
            (Instant::now(), LeaseAsk { holder: HolderId(1), number: 0, want: Want::Release, state });
        store.exchange(&format!("host-{n}.example"), ask).await?;
        each.push(began.elapsed());
    }
    each.sort();
    println!("a backoff, on the disk: median {:?}, 99 % {:?}", each[100], each[197]);
    Ok(())
}

async fn records(store: &Store) -> Outcome<()> {
    let (mut saving, mut writing) = (Duration::ZERO, Duration::ZERO);
    for first in (0..RECORDS).step_by(1_000) {
        let batch: Outcome<Vec<_>> = (first..first + 1_000).map(record).collect();
        let batch = batch?;
        let began = Instant::now();
        for record in &batch {
            RobotsStore::save(store, record.origin(), record).await?;
        }
        saving += began.elapsed();
        let began = Instant::now();
        store.flush().await?;
        writing += began.elapsed();
    }
    println!("a record, handed over: {} ns", saving.as_nanos() / u128::from(RECORDS));
    println!("a record, written in batches of 1,000: {} ns", writing.as_nanos() / u128::from(RECORDS));
    reading("this store", store).await
}

async fn reading(name: &str, store: &impl RobotsStore) -> Outcome<()> {
    let began = Instant::now();
    for n in 0..20_000_u64 {
        let scattered = n.wrapping_mul(2_654_435_761) % RECORDS;
        black_box(store.load(&origin(scattered)?).await?.ok_or("expected a record")?);
    }
    println!("a record, read at random, {name}: {} ns", each(began, 20_000));
    Ok(())
}

async fn permissions(store: &Store) -> Outcome<()> {
    let fields: [(&str, &[u8]); 2] = [("robots-tag", b"*;noindex"), ("cache-control", b"max-age=600")];
    let fetched = Fetched::new(200, &fields, Head::default(), SystemClock.wall().to_system_time());
    for n in 0..20_000 {
        let url = format!("https://host-{n}.example/page");
        PermissionStore::save(store, &PermissionRecord::new(url, &fetched)).await?;
    }
    Ok(store.flush().await?)
}

/// The same in memory, to compare.
async fn memory() -> Outcome<()> {
    let (store, region) = (MemoryStore::new(), Region::new(ALLOCATOR));
    for n in 0..RECORDS {
        store.save(&origin(n)?, &record(n)?).await?;
    }
    println!("the store in memory: heap for {RECORDS} records {} KiB", kept(&region));
    reading("in memory", &store).await
}

async fn reopening(store: Store, path: &Path) -> Outcome<()> {
    let began = Instant::now();
    store.close().await?;
    println!("closing: {:?}", began.elapsed());
    drop(store);
    for verify in [true, false] {
        let began = Instant::now();
        let store = Store::builder().verify(verify).open(path)?;
        println!("opening, verify({verify}): {:?}", began.elapsed());
        store.close().await?;
    }
    Ok(())
}

/// KiB that are still allocated.
fn kept(region: &Region<'_, std::alloc::System>) -> usize {
    let heap = region.change();
    (heap.bytes_allocated - heap.bytes_deallocated) >> 10
}

fn each(began: Instant, count: u64) -> u128 {
    began.elapsed().as_nanos() / u128::from(count)
}

/// As the system reports it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or("unknown".to_owned(), |line| line.trim().to_owned())
}
