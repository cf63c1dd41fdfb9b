//! A queue of URLs in a table of PostgreSQL, two workers, and one polite crawler.
//!
//! A worker takes only URLs whose host is free: it joins its queue with the view `abide.hosts`, in which
//! abide keeps who has which host, and when each may be asked again. `FOR UPDATE SKIP LOCKED` has no two
//! workers take the same URL. Needs a PostgreSQL at a URL that is given, or one that it may start.

#![allow(clippy::restriction, reason = "an example counts a handful of pages")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::{Abide, Denied};
use abide_postgres::Store;
use abide_tests::{Postgres, Reply, Seen, Server};
use clap::Parser;
use tokio_postgres::{Client, NoTls};

/// Crawls what is queued in a table.
#[derive(Debug, Parser)]
struct Args {
    /// Where PostgreSQL is, such as postgres://localhost/crawl, which gets the schema abide and a table
    /// queue; without it, one is started
    postgres: Option<String>,
}

const HOSTS: [&str; 4] = ["bakery.example", "journal.example", "open.example", "busy.example"];
const PAGES: usize = 6;
const DELAY: Duration = Duration::from_millis(300);

const QUEUE: &str = "
    CREATE TABLE IF NOT EXISTS queue (
        id bigserial PRIMARY KEY,
        url text NOT NULL UNIQUE,
        host text NOT NULL,
        not_before timestamptz NOT NULL DEFAULT now(),
        is_done boolean NOT NULL DEFAULT false
    )";

/// For a minute: a worker that takes a URL and dies gives it back by that.
///
/// A host is free for all, or it is this worker's own, and not backed off.
const TAKE: &str = "
    UPDATE queue SET not_before = now() + interval '1 minute' WHERE id = (
        SELECT queue.id FROM queue LEFT JOIN abide.hosts AS known ON known.host = queue.host
        WHERE NOT is_done AND not_before <= now() AND (
            known.host IS NULL OR known.free_at <= now()
            OR known.holder = $1 AND coalesce(known.backed_off_until, '-infinity') <= now())
        ORDER BY not_before LIMIT 1
        FOR UPDATE OF queue SKIP LOCKED)
    RETURNING id, url";

const DONE: &str = "UPDATE queue SET is_done = true WHERE id = $1";

const PUT_BACK: &str = "UPDATE queue SET not_before = $2 WHERE id = $1";

const LEFT: &str = "SELECT count(*) FROM queue WHERE NOT is_done";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    // Killed when this function ends.
    let server = if args.postgres.is_none() { Postgres::start(&[]) } else { None };
    let Some(database) = args.postgres.or_else(|| server.as_ref().map(Postgres::url)) else {
        println!("PostgreSQL is not installed here: install it, or give the URL of one.");
        return Ok(());
    };
    // In place of the real web. One page of each site is forbidden, and one site asks for a pause, once.
    let is_busy = AtomicBool::new(true);
    let web = Server::start(move |seen| match (seen.host(), seen.path.as_str()) {
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /page/1\n"),
        ("busy.example", _) if is_busy.swap(false, Ordering::Relaxed) => Reply::retry_after(429, 2),
        _ => Reply::html("a page").after(Duration::from_millis(20)),
    })
    .await;
    let queue = connect(&database).await?;
    queue.batch_execute(QUEUE).await?;
    for host in HOSTS {
        for page in 0..PAGES {
            let url = format!("http://{host}/page/{page}");
            let add = "INSERT INTO queue (url, host) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            queue.execute(add, &[&url, &host]).await?;
        }
    }
    // Each could be a process of its own, on a machine of its own: they share the database alone.
    let workers = ["one", "two"].map(|name| work(name, &database, web.address()));
    let [one, other] = workers;
    let (one, other) = tokio::try_join!(one, other)?;
    println!("worker one: {one}\nworker two: {other}\n");
    report(&web.log());
    Ok(())
}

async fn connect(database: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Until nothing is left in the queue. Returns what it has done.
async fn work(name: &str, database: &str, web: SocketAddr) -> anyhow::Result<String> {
    let (queue, store) = (connect(database).await?, Arc::new(Store::connect(database).await?));
    let policy = PacePolicy::default()
        .danger_min_delay(DELAY)
        // A new database leases nothing for so long: it cannot know that it has lost nothing.
        .with_lease(Duration::from_secs(2));
    let mut builder = Abide::builder("AbideExample")
        .user_agent("AbideExample/0.1 (+https://example.com/bot)")
        .pace(policy)
        .max_wait(Duration::from_secs(3))
        .robots_store(store.clone())
        .host_store(store)
        .allow_net("127.0.0.1/32".parse()?);
    for host in HOSTS {
        builder = builder.resolve(host, web);
    }
    let (abide, inner) = builder.build_with(reqwest::Client::builder().tls_certs_only([]))?;
    let client = abide.wrap(inner);
    let holder = abide.gate().holder().map(|holder| holder.to_string());
    let (mut fetched, mut put_back, mut refused) = (0, 0, 0);
    while queue.query_one(LEFT, &[]).await?.get::<_, i64>(0) > 0 {
        let Some(taken) = queue.query_opt(TAKE, &[&holder]).await? else {
            // No host is free, or the other worker has all that is left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (id, url): (i64, String) = (taken.get("id"), taken.get("url"));
        match client.get(format!("{url}?{name}")).send().await {
            // To come again when the site says so; until then neither worker takes a URL of this host.
            Ok(page) if page.status() == 429 => {
                let at = abide.next_slot(&url.parse()?)?.not_before;
                queue.execute(PUT_BACK, &[&id, &at]).await?;
                put_back += 1;
            }
            Ok(page) => {
                page.bytes().await?;
                queue.execute(DONE, &[&id]).await?;
                fetched += 1;
            }
            Err(error) => match Denied::find(&error).and_then(|denied| denied.retry_at()) {
                Some(at) => {
                    queue.execute(PUT_BACK, &[&id, &at]).await?;
                    put_back += 1;
                }
                None => {
                    queue.execute(DONE, &[&id]).await?;
                    refused += 1;
                }
            },
        }
    }
    // The leases are given up, so that the next process need not wait for their end.
    abide.gate().settled(Duration::from_secs(2)).await;
    Ok(format!("{fetched} pages, {put_back} put back, {refused} forbidden"))
}

fn report(log: &[Seen]) {
    let mut hosts: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in log {
        hosts.entry(seen.host()).or_default().push(seen);
    }
    println!("host              requests  robots.txt  workers  shortest delay");
    for (host, mut seen) in hosts {
        seen.sort_by_key(|seen| seen.at);
        let robots = seen.iter().filter(|seen| seen.path == "/robots.txt").count();
        let workers: BTreeSet<_> =
            seen.iter().filter_map(|seen| Some(seen.path.split_once('?')?.1)).collect();
        // From the end of an answer to the next request, by either worker.
        let delays = seen.windows(2).map(|pair| pair[1].at.saturating_duration_since(pair[0].answered));
        let shortest = delays.min().unwrap_or_default();
        println!("{host:16} {:9} {robots:11} {:8} {shortest:>15.1?}", seen.len(), workers.len());
    }
}
