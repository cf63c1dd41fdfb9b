//! What an exchange about a host and a record cost on a Redis of one's own on loopback. `cargo bench -p abide-redis`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what cannot go on ends the program"
)]

use std::time::{Duration, Instant};

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{HolderId, Origin, WallMillis};
use abide_redis::Store;
use abide_tests::Redis;
use redis::cmd;

/// How often each thing is done.
const TIMES: usize = 20_000;
/// So many at a time, where it is not one after the other.
const AT_ONCE: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a redis-server nothing is measured, which `start` says.
    let Some(server) = Redis::start_new(&[]) else { return Ok(()) };
    let url = server.url();
    let mut client = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    for _ in 0..2 {
        let began = Instant::now();
        for _ in 0..TIMES {
            cmd("PING").exec_async(&mut client).await?;
        }
        show("a round trip of the client library alone (PING)", began, TIMES);
    }
    exchanges(&Store::connect(&url).await?).await?;
    server_time(&mut client).await?;
    records(&Store::connect(&url).await?).await?;
    Ok(())
}

/// A process that has hosts for itself renews the lease of each every four seconds, that is, every fourth page at the default delay.
const EXCHANGES_A_PAGE: f64 = 0.25;

async fn exchanges(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    for n in 0..TIMES {
        renew(store, n).await?;
    }
    show("an exchange about a host: one after the other", began, TIMES);
    let began = Instant::now();
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..TIMES / AT_ONCE {
                    renew(&store, task * 1_009 + n).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    show(&format!("an exchange about a host: {AT_ONCE} at a time, by this one process"), began, TIMES);
    Ok(())
}

async fn renew(store: &Store, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (ttl, again_in) = (Duration::from_secs(8), Duration::from_millis(1_600));
    let want = Want::Lease { ttl, again_in, is_held: true };
    let state = HostState { quiet: Some(Duration::ZERO), delay: Duration::from_secs(1), backoff: None };
    let host = format!("h{}.example", n % 1_000);
    match store.exchange(host.as_str(), LeaseAsk { holder: HolderId(1), want, state }).await?.0 {
        LeaseStatus::Leased { .. } => Ok(()),
        refused => Err(format!("{refused:?}").into()),
    }
}

async fn records(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    for (size, times) in [(2_000, TIMES / 4), (512_000, 400)] {
        let origin = |n: usize| -> Origin { format!("https://r{}.example", n % 500).parse().expect("a URL") };
        let record = |n| sample_record(&origin(n), WallMillis::from_millis(0), vec![b'#'; size]);
        let records: Vec<_> = (0..times.min(500)).map(record).collect();
        let began = Instant::now();
        for n in 0..times {
            store.save(&origin(n), &records[n % records.len()]).await?;
        }
        show(&format!("a record of {size} bytes, saved"), began, times);
        let began = Instant::now();
        for n in 0..times {
            store.load(&origin(n)).await?.ok_or("it was saved")?;
        }
        show(&format!("a record of {size} bytes, loaded"), began, times);
    }
    Ok(())
}

/// What the server itself works for an exchange, which bounds the pages of all processes together.
async fn server_time(
    client: &mut redis::aio::MultiplexedConnection,
) -> Result<(), Box<dyn std::error::Error>> {
    let stats: String = cmd("INFO").arg("commandstats").query_async(client).await?;
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).ok_or("scripts were run")?;
    let each =
        line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let each: f64 = each.parse()?;
    println!(
        "{each:>10.1} µs of the server's time for an exchange: {:.0} pages a second at {EXCHANGES_A_PAGE} exchanges a page",
        1e6 / each / EXCHANGES_A_PAGE
    );
    let keys: Vec<String> = cmd("KEYS").arg("abide:*:host:h7.example").query_async(client).await?;
    let host = keys.first().ok_or("there is a host")?;
    let bytes: u64 = cmd("MEMORY").arg("USAGE").arg(host).query_async(client).await?;
    println!(
        "{bytes:>10} bytes of the server's memory for a host, for a minute longer than anything is owed to it"
    );
    Ok(())
}

fn show(what: &str, began: Instant, times: usize) {
    let each = began.elapsed().as_secs_f64() * 1e6 / times as f64;
    println!("{each:>10.1} µs  {:>8.0} a second  {what}", 1e6 / each);
}
