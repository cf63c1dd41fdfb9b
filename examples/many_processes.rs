//! Several crawler processes, one Redis, and what the websites see: one polite crawler.
//!
//! Starts itself again as workers. All of them crawl the same hosts of a small web on loopback as fast as
//! they may, and lease the hosts from each other through Redis: at a URL that is given, or else through a
//! `redis-server` that is started for it, if there is one here.

#![allow(clippy::restriction, reason = "an example counts a handful of pages")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use abide::Abide;
use abide::pacing::PacePolicy;
use abide_redis::Store;
use abide_tests::{Redis, Reply, Seen, Server};
use clap::Parser;

/// Lets many processes crawl the same hosts, politely.
#[derive(Debug, Parser)]
struct Args {
    /// Where Redis or Valkey is, such as redis://localhost:6379/0; without it, one is started
    redis: Option<String>,
    /// How many processes
    #[arg(long, default_value_t = 4)]
    workers: u32,
    /// Shortest time between two requests to a host, in seconds
    #[arg(long, default_value_t = 0.2)]
    delay: f64,
    /// How long they crawl, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// This is a worker: where the web is
    #[arg(long, hide = true)]
    web: Option<SocketAddr>,
}

const START_MAX: Duration = Duration::from_secs(10);
const HOSTS: [&str; 3] = ["bakery.example", "journal.example", "open.example"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let (Some(web), Some(redis)) = (args.web, &args.redis) {
        return work(&args, redis, web).await;
    }
    // Killed when this function ends.
    let server = if args.redis.is_none() { Redis::start_new(&[]) } else { None };
    let Some(redis) = args.redis.clone().or_else(|| server.as_ref().map(Redis::url)) else {
        println!("redis-server is not installed here: install it, or give the URL of a Redis or Valkey.");
        return Ok(());
    };
    // The store is tried first, so that a wrong URL is reported once and not by every worker.
    Store::builder(&redis).command_timeout(START_MAX).connect().await?;
    let web = Server::start(|seen| {
        let rules = "User-agent: *\nDisallow: /private/\n";
        let body = if seen.path == "/robots.txt" { rules } else { "a page" };
        Reply::new(200, body).after(Duration::from_millis(20))
    })
    .await;
    println!("{} processes, {} hosts, a promise of {} s\n", args.workers, HOSTS.len(), args.delay);
    let mut workers: Vec<Child> =
        (0..args.workers).map(|_| start_worker(&args, &redis, web.address())).collect::<Result<_, _>>()?;
    for worker in &mut workers {
        let status = tokio::task::block_in_place(|| worker.wait())?;
        anyhow::ensure!(status.success(), "a worker has failed");
    }
    report(&web.log());
    Ok(())
}

/// One process: a client with a shared store, and one task a host.
async fn work(args: &Args, redis: &str, web: SocketAddr) -> anyhow::Result<()> {
    let store = Arc::new(
        Store::builder(redis).command_timeout(START_MAX).key_prefix("many-processes").connect().await?,
    );
    let policy = PacePolicy::default()
        .danger_min_delay(Duration::try_from_secs_f64(args.delay)?)
        // A new Redis leases nothing for so long: it cannot know that it has lost nothing.
        .with_lease(Duration::from_secs(2));
    let mut builder = Abide::builder("AbideExample")
        .user_agent("AbideExample/0.1 (+https://example.com/bot)")
        .pace(policy)
        .robots_store(store.clone())
        .host_store(store)
        .allow_net("127.0.0.1/32".parse()?);
    for host in HOSTS {
        builder = builder.resolve(host, web);
    }
    let (abide, client) = builder.build_both(reqwest::Client::builder().tls_certs_only([]))?;
    let end = tokio::time::Instant::now() + Duration::from_secs(args.seconds);
    let mut hosts = tokio::task::JoinSet::new();
    for host in HOSTS {
        let client = client.clone();
        let url = format!("http://{host}/{}", std::process::id());
        hosts.spawn(tokio::time::timeout_at(end, async move {
            loop {
                match client.get(&url).send().await {
                    Ok(page) => drop(page.bytes().await),
                    // Deferred, or failed: somewhat later the host may be free.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }));
    }
    hosts.join_all().await;
    // The leases are given up, so that the next process need not wait for their end.
    abide.gate().settled(Duration::from_secs(2)).await;
    Ok(())
}

fn start_worker(args: &Args, redis: &str, web: SocketAddr) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(redis)
        .args(["--web", &web.to_string(), "--workers", &args.workers.to_string()])
        .args(["--delay", &args.delay.to_string(), "--seconds", &args.seconds.to_string()])
        .spawn()
}

fn report(log: &[Seen]) {
    let mut hosts: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in log {
        hosts.entry(seen.host()).or_default().push(seen);
    }
    println!("host              requests  robots.txt  processes  shortest delay  median delay");
    for (host, mut seen) in hosts {
        seen.sort_by_key(|seen| seen.at);
        let robots = seen.iter().filter(|seen| seen.path == "/robots.txt").count();
        let processes: BTreeSet<_> =
            seen.iter().map(|seen| &seen.path).filter(|&path| path != "/robots.txt").collect();
        // From the end of an answer to the next request, by any process.
        let mut delays: Vec<Duration> =
            seen.windows(2).map(|pair| pair[1].at.saturating_duration_since(pair[0].answered)).collect();
        delays.sort();
        let (shortest, median) = (delays.first(), delays.get(delays.len() / 2));
        println!(
            "{host:16} {:9} {robots:11} {:10} {:>13.1?} {:>11.1?}",
            seen.len(),
            processes.len(),
            shortest.copied().unwrap_or_default(),
            median.copied().unwrap_or_default(),
        );
    }
}
