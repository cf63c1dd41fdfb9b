//! What an exchange about a host costs on a PostgreSQL of one's own on loopback, with a disk that is waited
//! for. `cargo bench -p abide-postgres`.

#![allow(clippy::arithmetic_side_effects, reason = "what cannot go on ends the program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::HolderId;
use abide_gate::pacing::{Backoff, BackoffCause, HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_postgres::Store;
use abide_tests::Postgres;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const TIMES: u32 = 5_000;

/// In use, so that none of them goes.
const MANY: &str = "INSERT INTO abide.host (host, last, since, kept_until)
    SELECT 'other' || n || '.example', 1, 0, abide.micros() + 86400000000 + n FROM generate_series(1, 1000000) AS n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // Without a server nothing is measured, which `start` says.
    let settings = ["fsync=on", "shared_buffers=128MB", "track_functions=all", "max_wal_size=4GB"];
    let Some(server) = Postgres::start(&settings) else { return Ok(()) };
    let store = Store::connect(&server.url()).await?;
    for rows in ["1,000", "1,000,000"] {
        if rows != "1,000" {
            server.ask(MANY);
            server.ask("VACUUM ANALYZE abide.host");
            server.ask("CHECKPOINT");
        }
        // The second time, no row comes that was not there.
        for _ in 0..2 {
            measure(&server, &store, rows).await?;
        }
    }
    let began = Instant::now();
    for n in 0_u32..200 {
        let backoff = Backoff { left: Duration::from_secs(60 + 60 * u64::from(n)), ..BACKOFF };
        exchange(&store, 0, Some(backoff)).await?;
    }
    println!("{:.2} ms for a backoff, which is on disk then", began.elapsed().as_secs_f64() * 1e3 / 200.0);
    Ok(())
}

async fn measure(server: &Postgres, store: &Store, rows: &str) -> Result<()> {
    server.ask("SELECT pg_stat_reset()");
    let began = Instant::now();
    for n in 0..TIMES {
        exchange(store, n % 1_000, None).await?;
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    // What the server itself works bounds the pages of all processes together. It is counted after a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    exchange(store, 0, None).await?;
    let own = "SELECT round((total_time * 1000 / calls)::numeric) FROM pg_stat_user_functions WHERE funcname = 'exchanges'";
    let own = server.ask(own);
    println!(
        "{rows} hosts: {each:.0} µs for a renewal, one after the other, of which {own} µs in the function"
    );
    let asks: Vec<(Arc<str>, LeaseAsk)> = (0..64).map(|n| (host(n).into(), ask(None))).collect();
    let began = Instant::now();
    for _ in 0..100 {
        for reply in store.exchange_all(&asks).await {
            reply?;
        }
    }
    println!(
        "{rows} hosts: {:.1} µs for each of 64 in one statement",
        began.elapsed().as_secs_f64() * 1e6 / 6_400.0
    );
    Ok(())
}

const BACKOFF: Backoff = Backoff {
    left: Duration::ZERO,
    over: Duration::ZERO,
    throttles: 1,
    cause: BackoffCause::EnhanceYourCalm,
};

fn host(n: u32) -> String {
    format!("h{n}.example")
}

fn ask(backoff: Option<Backoff>) -> LeaseAsk {
    let (ttl, again_in) = (Duration::from_secs(8), Duration::from_millis(1_600));
    let want = Want::Lease { ttl, again_in, is_held: true };
    let state = HostState { quiet: Some(Duration::ZERO), delay: Duration::from_secs(1), backoff };
    LeaseAsk { holder: HolderId(1), number: 0, want, state }
}

async fn exchange(store: &Store, n: u32, backoff: Option<Backoff>) -> Result<()> {
    match store.exchange(&host(n), ask(backoff)).await?.0 {
        LeaseStatus::Leased { .. } => Ok(()),
        refused => Err(format!("{refused:?}").into()),
    }
}
