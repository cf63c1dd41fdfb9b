//! What an exchange about a host costs on a Redis of one's own on loopback. `cargo bench -p abide-redis`.

#![allow(clippy::arithmetic_side_effects, reason = "what cannot go on ends the program")]

use std::time::{Duration, Instant};

use abide_gate::HolderId;
use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_redis::Store;
use abide_tests::Redis;

const TIMES: usize = 20_000;

/// A process that has hosts for itself renews the lease of each every four seconds, that is, every fourth
/// page at the default delay.
const EXCHANGES_A_PAGE: f64 = 0.25;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a redis-server nothing is measured, which `start_new` says.
    let Some(server) = Redis::start_new(&[]) else { return Ok(()) };
    let store = Store::connect(&server.url()).await?;
    let began = Instant::now();
    for n in 0..TIMES {
        renew(&store, n).await?;
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / TIMES as f64;
    println!("{each:.1} µs for an exchange, one after the other");

    // What the server itself works bounds the pages of all processes together.
    let stats = server.info("commandstats", "cmdstat_evalsha");
    let each = stats.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next());
    let each: f64 = each.ok_or("scripts were run")?.parse()?;
    let pages = 1e6 / each / EXCHANGES_A_PAGE;
    println!(
        "{each:.1} µs of the server's time: {pages:.0} pages a second at {EXCHANGES_A_PAGE} exchanges a page"
    );
    Ok(())
}

async fn renew(store: &Store, n: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (ttl, again_in) = (Duration::from_secs(8), Duration::from_millis(1_600));
    let want = Want::Lease { ttl, again_in, is_held: true };
    let state = HostState { quiet: Some(Duration::ZERO), delay: Duration::from_secs(1), backoff: None };
    let host = format!("h{}.example", n % 1_000);
    match store.exchange(&host, LeaseAsk { holder: HolderId(1), number: 0, want, state }).await?.0 {
        LeaseStatus::Leased { .. } => Ok(()),
        refused => Err(format!("{refused:?}").into()),
    }
}
