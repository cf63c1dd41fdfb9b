//! Several processes and one server, judged by what a website sees.

use std::time::{Duration, Instant};

use abide_tests::{Reply, Seen, Server};
use tokio::time::sleep;

use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, by_host, by_worker, show_gaps, website, within,
};
use crate::support::workers::{Crew, NO_STORE, Worker, run_time};
use crate::support::{Proxy, Redis, WITHOUT_EVAL, ms};

fn join(workers: Vec<Worker>) {
    workers.into_iter().for_each(Worker::join);
}

/// Every worker has had its share, and the hosts were not idle for most of the time.
fn assert_busy(log: &[Seen], crew: &Crew) {
    let workers = by_worker(log);
    assert_eq!(workers.len() as u32, crew.workers * crew.hosts, "every worker came to every host");
    let ideal = crew.lasts.div_duration_f64(crew.gap) * f64::from(crew.hosts);
    assert!(log.len() as f64 > ideal / 5.0, "{} of {ideal} requests", log.len());
}

async fn run(crew: &Crew) {
    join_later(crew.start()).await;
}

/// Waits without keeping the website from its work.
pub(crate) async fn join_later(workers: Vec<Worker>) {
    tokio::task::spawn_blocking(|| join(workers)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_keep_every_gap_and_fetch_one_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew::new(redis.url(), website.address());
    run(&crew).await;
    let log = website.log();
    show_gaps("two", &by_host(&log));
    show_scripts(&redis, &log);
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
    assert_busy(&log, &crew);
}

/// For the figures: what the machine itself adds to a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_without_a_store_keeps_every_gap() {
    let website = website(ms(5)).await;
    let crew = Crew { workers: 1, ..Crew::new(NO_STORE.to_owned(), website.address()) };
    run(&crew).await;
    let log = website.log();
    show_gaps("one, without a store", &by_host(&log));
    assert_spaced(&by_host(&log), crew.gap);
    assert_busy(&log, &crew);
}

/// For the figures: how often the server is asked for a request.
fn show_scripts(redis: &Redis, log: &[Seen]) {
    let stats = redis.info("commandstats", "cmdstat_evalsha");
    let scripts: f64 = stats.split([',', '=']).nth(1).unwrap().parse().unwrap();
    println!("{scripts} scripts for {} requests: {:.1} each", log.len(), scripts / log.len() as f64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_keep_every_gap_and_fetch_one_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let lasts = run_time().unwrap_or(ms(8_000));
    let crew = Crew { workers: 8, lasts, ..Crew::new(redis.url(), website.address()) };
    run(&crew).await;
    let log = website.log();
    show_gaps("eight", &by_host(&log));
    show_scripts(&redis, &log);
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
    assert_busy(&log, &crew);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_without_scripts_keep_every_gap() {
    let Some(redis) = Redis::start_with(WITHOUT_EVAL) else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers: 3, ..Crew::new(redis.url(), website.address()) };
    run(&crew).await;
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
    assert_busy(&log, &crew);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_its_turn_until_the_lease_ends_and_no_longer() {
    let Some(redis) = Redis::start() else { return };
    // Most of the time a request is in flight.
    let website = website(ms(200)).await;
    let crew = Crew { workers: 4, lasts: ms(6_000), ..Crew::new(redis.url(), website.address()) };
    let mut workers = crew.start();
    for _ in 0..2 {
        sleep(ms(1_700)).await;
        workers.remove(0).kill();
    }
    let killed = Instant::now();
    join_later(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    let after = within(&log, killed + ms(1_800), Instant::now());
    assert_eq!(by_host(&after).len() as u32, crew.hosts, "the leases of the dead are over: {}", after.len());
    for host in 0..crew.hosts {
        let flight = format!("abide:{{h{host}.example}}:flight");
        let alive: u64 = redis.ask(&["ZCOUNT", &flight, &now(&redis), "+inf"]);
        assert_eq!(alive, 0, "no lease is left");
    }
}

/// In microseconds.
fn now(redis: &Redis) -> String {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]);
    (seconds * 1_000_000 + micros).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_and_a_flush_shorten_no_gap() {
    let Some(mut redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { lasts: ms(7_000), is_fail_closed: true, ..Crew::new(redis.url(), website.address()) };
    let workers = crew.start();
    for n in 0..8 {
        sleep(ms(500 + 37 * n)).await;
        match n % 4 {
            3 => {
                redis.kill();
                redis.start_again();
            }
            _ => redis.ask::<()>(&["FLUSHALL"]),
        }
    }
    join_later(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    let after = within(&log, log[log.len() - 1].at - ms(1_500), Instant::now());
    assert_eq!(by_host(&after).len() as u32, crew.hosts, "it goes on");
}

/// One host answers 429, once; whoever has heard of it says so again each time, before anybody's gap is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_lets_nobody_ask_a_host_that_is_held() {
    let Some(redis) = Redis::start() else { return };
    let website = Server::start(|seen| match (seen.path.as_str(), seen.host()) {
        ("/robots.txt", _) => Reply::new(200, ""),
        (_, "h0.example") => Reply::with_headers(429, &[("retry-after", "600")], ""),
        _ => Reply::html("a page").after(ms(5)),
    })
    .await;
    let (gap, lasts) = (ms(300), ms(6_000));
    let crew = Crew { gap, lasts, is_fail_closed: true, ..Crew::new(redis.url(), website.address()) };
    let mut workers = crew.start();
    for n in 0..6 {
        sleep(ms(700 + 37 * n)).await;
        redis.ask::<()>(&["FLUSHALL"]);
        if n == 2 {
            // Has heard nothing by itself.
            workers.push(crew.start_one(crew.workers));
        }
    }
    join_later(workers).await;
    let log = website.log();
    let hosts = by_host(&log);
    let pages = |host: &str| hosts[host].iter().filter(|seen| seen.path != "/robots.txt").count();
    assert_eq!(pages("h0.example"), 1, "of {} requests", log.len());
    assert!(pages("h1.example") > 5, "the others are asked between the flushes: {}", log.len());
    assert_spaced(&hosts, crew.gap);
}

/// The replica knows nothing of the last moments, and takes over with all the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_shortens_no_gap() {
    let Some(mut primary) = Redis::start_with(&["--repl-diskless-sync-delay", "0"]) else { return };
    let Some(replica) = Redis::start() else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(primary.port()).await);
    let crew = Crew { lasts: ms(6_000), is_fail_closed: true, ..Crew::new(proxy.url(), website.address()) };
    let workers = crew.start();
    sleep(ms(1_500)).await;
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    while replica.info("replication", "master_link_status") != "up" {
        sleep(ms(20)).await;
    }
    replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    // Half a second of turns is lost.
    sleep(ms(500)).await;
    proxy.lead_to(replica.port());
    let over = Instant::now();
    primary.kill();
    join_later(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    let after = within(&log, over + ms(200), Instant::now());
    assert_eq!(by_worker(&after).len() as u32, crew.workers * crew.hosts, "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_down_each_process_keeps_its_own_and_a_longer_gap() {
    let Some(mut redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers: 3, lasts: ms(10_000), ..Crew::new(redis.url(), website.address()) };
    let workers = crew.start();
    sleep(ms(2_500)).await;
    let down = Instant::now();
    redis.kill();
    sleep(ms(3_000)).await;
    redis.start_again();
    let back = Instant::now();
    join_later(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&within(&log, log[0].at, down)), crew.gap);
    assert_spaced(&by_worker(&log), crew.gap);
    // Who has noticed slows down; nobody stops.
    let alone = within(&log, down + ms(300), back);
    assert_spaced(&by_worker(&alone), crew.gap * crew.workers);
    assert_eq!(by_worker(&alone).len() as u32, crew.workers * crew.hosts);
    // Each finds out within some seconds that it is back.
    let together = within(&log, back + ms(3_000), Instant::now());
    assert_spaced(&by_host(&together), crew.gap);
    assert!(by_host(&together).len() as u32 == crew.hosts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_shortens_no_gap() {
    let Some(redis) = Redis::start() else { return };
    // What is not used is gone within some seconds: so are other hosts' turns, and records of robots.txt.
    let (log, crew) = run_while_evicting(redis, ms(200)).await;
    assert_spaced(&by_host(&log), crew.gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_of_what_is_in_use_leaves_local_limits() {
    let Some(redis) = Redis::start() else { return };
    let (log, crew) = run_while_evicting(redis, ms(10)).await;
    assert_spaced(&by_worker(&log), crew.gap);
}

/// Somebody else fills the memory, every so often with a twentieth of it.
async fn run_while_evicting(redis: Redis, pause: Duration) -> (Vec<Seen>, Crew) {
    let room = redis.info("memory", "used_memory").parse::<u64>().unwrap() + 4_000_000;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", &room.to_string()]);
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    // It looks at all keys before it chooses one.
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-samples", "64"]);
    let website = website(ms(2)).await;
    let crew = Crew { gap: ms(150), lasts: ms(9_000), ..Crew::new(redis.url(), website.address()) };
    let (workers, end) = (crew.start(), Instant::now() + crew.lasts);
    let filling = tokio::task::spawn_blocking(move || {
        let (mut n, filler) = (0, "x".repeat(200_000));
        while Instant::now() < end {
            redis.tell(&["SET", &format!("somebody-elses:{n}"), &filler]);
            n += 1;
            std::thread::sleep(pause);
        }
        redis
    });
    join_later(workers).await;
    let evicted: u64 = filling.await.unwrap().info("stats", "evicted_keys").parse().unwrap();
    assert!(evicted > 20, "{evicted}");
    let log = website.log();
    assert_eq!(by_worker(&log).len() as u32, crew.workers * crew.hosts, "of {}", log.len());
    (log, crew)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_small_leaves_local_limits() {
    let Some(redis) = Redis::start_with(&["--maxmemory", "1mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let website = website(ms(5)).await;
    let crew = Crew { lasts: ms(4_000), ..Crew::new(redis.url(), website.address()) };
    run(&crew).await;
    let log = website.log();
    assert_spaced(&by_worker(&log), crew.gap);
    assert_eq!(by_worker(&log).len() as u32, crew.workers * crew.hosts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_way_to_the_store_is_waited_for_and_a_too_slow_one_is_not() {
    let Some(redis) = Redis::start() else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(redis.port()).await);
    proxy.delay(ms(60));
    let crew = Crew { lasts: ms(9_000), ..Crew::new(proxy.url(), website.address()) };
    let workers = crew.start();
    sleep(ms(4_500)).await;
    proxy.delay(ms(1_500));
    let too_slow = Instant::now();
    join_later(workers).await;
    let log = website.log();
    let slow = within(&log, log[0].at, too_slow);
    assert_spaced(&by_host(&slow), crew.gap);
    assert_eq!(by_worker(&slow).len() as u32, crew.workers * crew.hosts);
    let alone = within(&log, too_slow + ms(1_500), Instant::now());
    assert_spaced(&by_worker(&log), crew.gap);
    assert_spaced(&by_worker(&alone), crew.gap * crew.workers);
    assert_eq!(by_host(&alone).len() as u32, crew.hosts, "nobody waits for the store for ever");
}
