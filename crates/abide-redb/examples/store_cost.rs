//! What the store costs: nanoseconds a lease, microseconds a record, bytes on the disk and in memory.
//!
//! ```text
//! cargo run --release -p abide-redb --example store_cost -- DIRECTORY
//! ```
//! The directory should be on the disk that is meant; a file system in memory makes every commit look free.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "what cannot go on ends the program"
)]
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, PacePolicy, Want};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::testing::hosts;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Clock, Gate, HolderId, MemoryStore, Origin, SystemClock, WallMillis};
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
    leases(&store).await?;
    backoffs(&store).await?;
    println!("resident before any record: {}", resident());
    let region = Region::new(ALLOCATOR);
    records(&store).await?;
    permissions(&store).await?;
    let heap = region.change();
    println!("heap kept after these records: {} KiB", (heap.bytes_allocated - heap.bytes_deallocated) >> 10);
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

/// A number that jumps about.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(2_654_435_761) % RECORDS
}

async fn leases(store: &Store) -> Outcome<()> {
    const LEASES: u64 = 100_000;
    let hosts: Vec<_> = (0..1_000).map(key).collect();
    let lease = Want::Lease { ttl: Duration::from_secs(8), again_in: Duration::from_secs(2), is_held: false };
    let began = Instant::now();
    for n in 0..LEASES {
        let host = &hosts[(n % 1_000) as usize];
        for want in [lease, Want::Release] {
            let state = HostState { quiet: Some(Duration::ZERO), ..HostState::default() };
            black_box(store.exchange(host, LeaseAsk { holder: HolderId(1), want, state }).await?);
        }
    }
    println!("a lease in the store, taken and given up: {} ns", each(began, LEASES));
    for (name, store) in [("without a store", None), ("with this store", Some(store.clone()))] {
        let mut settings = Gate::builder().pace(PacePolicy::default().danger_min_delay(Duration::ZERO));
        if let Some(store) = store {
            settings = settings.host_store(Arc::new(store));
        }
        let gate = hosts::gate(settings);
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
    }
    Ok(())
}

fn key(n: u64) -> Arc<str> {
    Arc::from(format!("host-{n}.example").as_str())
}

/// A host is backed off for an hour.
async fn back_off(store: &Store, n: u64) -> Outcome<()> {
    let backoff = Backoff {
        left: Duration::from_secs(3_600),
        over: Duration::ZERO,
        throttles: 0,
        cause: BackoffCause::Operator,
    };
    let state = HostState { backoff: Some(backoff), ..HostState::default() };
    store.exchange(&key(n), LeaseAsk { holder: HolderId(1), want: Want::Release, state }).await?;
    Ok(())
}

async fn backoffs(store: &Store) -> Outcome<()> {
    const BACKOFFS: u64 = 200;
    let mut each = Vec::new();
    for n in 0..BACKOFFS {
        let began = Instant::now();
        back_off(store, n).await?;
        each.push(began.elapsed());
    }
    each.sort();
    println!("a backoff, on the disk: median {:?}, 99 % {:?}", each[100], each[197]);
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..BACKOFFS {
        let store = store.clone();
        all.spawn(async move { back_off(&store, 1_000 + n).await.map_err(|error| error.to_string()) });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    println!("{BACKOFFS} backoffs at once, all on the disk: {:?}", began.elapsed());
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
    for name in ["first", "again"] {
        let began = Instant::now();
        for n in 0..20_000 {
            black_box(RobotsStore::load(store, &origin(scattered(n))?).await?.ok_or("expected a record")?);
        }
        println!("a record, read at random ({name}): {} ns", each(began, 20_000));
    }
    Ok(())
}

async fn permissions(store: &Store) -> Outcome<()> {
    let fields: [(&str, &[u8]); 2] = [("robots-tag", b"*;noindex"), ("cache-control", b"max-age=600")];
    let visit = Fetched::new(200, &fields, Head::default(), SystemClock.wall().to_system_time());
    let url = |n: u64| format!("https://host-{n}.example/page");
    let began = Instant::now();
    for batch in 0..20 {
        for n in 0..1_000 {
            PermissionStore::save(store, &PermissionRecord::new(url(batch * 1_000 + n), &visit)).await?;
        }
        store.flush().await?;
    }
    println!("a record of permissions, written in batches of 1,000: {} ns", each(began, 20_000));
    let began = Instant::now();
    for n in 0..20_000 {
        let url = url(scattered(n) % 20_000);
        black_box(PermissionStore::load(store, &url).await?.ok_or("expected a record")?);
    }
    println!("a record of permissions, read: {} ns", each(began, 20_000));
    Ok(())
}

/// The same in memory, to compare.
async fn memory() -> Outcome<()> {
    let (store, region) = (MemoryStore::new(), Region::new(ALLOCATOR));
    for n in 0..RECORDS {
        store.save(&origin(n)?, &record(n)?).await?;
    }
    let heap = region.change();
    println!(
        "the store in memory: heap for {RECORDS} records {} KiB",
        (heap.bytes_allocated - heap.bytes_deallocated) >> 10
    );
    let began = Instant::now();
    for n in 0..20_000 {
        black_box(store.load(&origin(scattered(n))?).await?);
    }
    println!("the store in memory: a record, read: {} ns", each(began, 20_000));
    Ok(())
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
    let store = Store::open(path)?;
    let began = Instant::now();
    let swept = store.sweep(WallMillis::from_millis(u64::MAX)).await?;
    println!("sweeping {swept} records: {:?}", began.elapsed());
    store.close().await?;
    Ok(())
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
