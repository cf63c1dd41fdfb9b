//! Several processes and one server, judged by what a website sees.

use std::time::{Duration, Instant};

use abide_tests::{Reply, Seen, Server};
use tokio::time::sleep;

use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, assert_spaced_together, by_host, by_worker, show_gaps,
    until_all_came, until_requests, until_shared, website, within,
};
use crate::support::workers::{Crew, NO_STORE, run_time, stop};
use crate::support::{Proxy, Redis, WITHOUT_EVAL, ms};

/// Until every worker had its share of every host. What the website saw.
async fn run(crew: &Crew, website: &Server) -> Vec<Seen> {
    let (workers, began) = (crew.start(), Instant::now());
    sleep(run_time()).await;
    until_requests(website, 100).await;
    until_all_came(website, crew, began).await;
    stop(workers).await;
    website.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_keep_every_gap_and_fetch_one_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew::new(redis.url(), website.address());
    let log = run(&crew, &website).await;
    show_gaps("two", &by_host(&log));
    show_scripts(&redis, &log);
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

/// For the figures: what the machine itself adds to a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_without_a_store_keeps_every_gap() {
    let website = website(ms(5)).await;
    let crew = Crew { workers: 1, ..Crew::new(NO_STORE.to_owned(), website.address()) };
    let log = run(&crew, &website).await;
    show_gaps("one, without a store", &by_host(&log));
    assert_spaced(&by_host(&log), crew.gap);
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
    let crew = Crew { workers: 8, ..Crew::new(redis.url(), website.address()) };
    let log = run(&crew, &website).await;
    show_gaps("eight", &by_host(&log));
    show_scripts(&redis, &log);
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_without_scripts_keep_every_gap() {
    let Some(redis) = Redis::start_with(WITHOUT_EVAL) else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers: 3, ..Crew::new(redis.url(), website.address()) };
    let log = run(&crew, &website).await;
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_its_turn_until_the_lease_ends_and_no_longer() {
    let Some(redis) = Redis::start() else { return };
    // Most of the time a request is in flight.
    let website = website(ms(200)).await;
    let crew = Crew { workers: 4, lease: ms(1_500), ..Crew::new(redis.url(), website.address()) };
    let (mut workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    for _ in 0..2 {
        sleep(ms(700)).await;
        workers.remove(0).kill();
    }
    let killed = Instant::now();
    // The leases of the dead are over then.
    until_all_came(&website, &Crew { workers: 2, ..crew.clone() }, killed).await;
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.gap);
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
    let crew = Crew { gap: ms(300), is_fail_closed: true, ..Crew::new(redis.url(), website.address()) };
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
    until_all_came(&website, &crew, Instant::now()).await;
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.gap);
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
    let crew = Crew { gap: ms(300), is_fail_closed: true, ..Crew::new(redis.url(), website.address()) };
    let mut workers = crew.start();
    for n in 0..6 {
        sleep(ms(700 + 37 * n)).await;
        redis.ask::<()>(&["FLUSHALL"]);
        if n == 2 {
            // Has heard nothing by itself.
            workers.push(crew.start_one(crew.workers));
        }
    }
    // The others are asked.
    until_requests(&website, 40).await;
    stop(workers).await;
    let hosts = by_host(&website.log());
    let pages = hosts["h0.example"].iter().filter(|seen| seen.path != "/robots.txt");
    assert_eq!(pages.count(), 1);
    assert_eq!(hosts.len() as u32, crew.hosts);
    assert_spaced(&hosts, crew.gap);
}

/// The replica knows nothing of the last moments, and takes over with all the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_shortens_no_gap() {
    let Some(mut primary) = Redis::start_with(&["--repl-diskless-sync-delay", "0"]) else { return };
    let Some(replica) = Redis::start() else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(primary.port()).await);
    let crew = Crew {
        gap: ms(300),
        is_fail_closed: true,
        lease: ms(3_000),
        ..Crew::new(proxy.url(), website.address())
    };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    while replica.info("replication", "master_link_status") != "up" {
        sleep(ms(20)).await;
    }
    replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    // Half a second of turns is lost.
    sleep(ms(500)).await;
    proxy.lead_to(replica.port());
    primary.kill();
    until_all_came(&website, &crew, Instant::now()).await;
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_down_each_process_keeps_its_own_and_a_longer_gap() {
    let Some(mut redis) = Redis::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers: 3, ..Crew::new(redis.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    sleep(ms(500)).await;
    let down = Instant::now();
    redis.kill();
    // Nobody stops.
    until_all_came(&website, &crew, down + ms(300)).await;
    let back = Instant::now();
    redis.start_again();
    until_shared(&website, &crew, back).await;
    stop(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&within(&log, log[0].at, down)), crew.gap);
    assert_spaced(&by_worker(&log), crew.gap);
    // Who has noticed slows down.
    let alone = within(&log, down + ms(300), back);
    assert_spaced(&by_worker(&alone), crew.gap * crew.workers);
    assert_spaced_together(&within(&log, back, Instant::now()), crew.gap);
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
    let crew = Crew { gap: ms(150), ..Crew::new(redis.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    let filling = tokio::task::spawn_blocking(move || {
        let filler = "x".repeat(200_000);
        for n in 0.. {
            redis.tell(&["SET", &format!("somebody-elses:{n}"), &filler]);
            std::thread::sleep(pause);
            let is_over = began.elapsed() > ms(6_000);
            if is_over && redis.info("stats", "evicted_keys").parse::<u64>().unwrap() > 20 {
                break;
            }
        }
        redis
    });
    until_all_came(&website, &crew, began).await;
    let _redis = filling.await.unwrap();
    stop(workers).await;
    (website.log(), crew)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_small_leaves_local_limits() {
    let Some(redis) = Redis::start_with(&["--maxmemory", "1mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let website = website(ms(5)).await;
    let crew = Crew::new(redis.url(), website.address());
    assert_spaced(&by_worker(&run(&crew, &website).await), crew.gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_way_to_the_store_is_waited_for_and_a_too_slow_one_is_not() {
    let Some(redis) = Redis::start() else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(redis.port()).await);
    proxy.delay(ms(60));
    let crew = Crew { patience: ms(2_500), ..Crew::new(proxy.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    let too_slow = Instant::now();
    proxy.delay(ms(4_000));
    // Nobody waits for the store for ever.
    let given_up = too_slow + 2 * crew.patience;
    until_all_came(&website, &crew, given_up).await;
    stop(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&within(&log, log[0].at, too_slow)), crew.gap);
    assert_spaced(&by_worker(&log), crew.gap);
    assert_spaced(&by_worker(&within(&log, given_up, Instant::now())), crew.gap * crew.workers);
}
