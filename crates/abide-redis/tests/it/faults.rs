//! What happens to processes and to the server while several processes crawl, judged by what a website sees: no delay below the promise,
//! and every host is served again soon.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use abide_gate::Gate;
use abide_gate::pacing::PacePolicy;
use abide_gate::testing::hosts;
use abide_redis::Store;
use abide_tests::{Reply, Seen, Server};
use tokio::join;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::support::judge::{
    assert_spaced, by_host, by_worker, overlaps, start, stop_and_judge, until, until_all_came, until_served,
    website, within,
};
use crate::support::workers::{self, Crew, host_name, micros, run_time, stop};
use crate::support::{PATIENCE, Proxy, Redis, connect, ms, probe, wait_for};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Pause(u64),
    Kill,
    KillWithFile,
    Flush,
}

/// Two processes that want the same hosts, which send nothing without a lease; or each its own, which go on all the time.
async fn server_fails(fault: Fault, is_apart: bool) {
    let file = if fault == Fault::KillWithFile { "yes" } else { "no" };
    let Some(mut redis) = Redis::start_aged(&["--appendonly", file]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew {
        hosts: 2,
        delay: ms(500),
        is_apart,
        is_fail_closed: !is_apart,
        // A host that no process has when data is lost is served again after a second to notice, a lease and a delay.
        lease: ms(7_000),
        patience: ms(1_000),
        ..Crew::new(redis.url(), website.address())
    };
    let hosts = if is_apart { 4 } else { 2 };
    let (workers, began) = (crew.start(), Instant::now());
    until_served(&website, hosts, began).await;
    sleep(run_time(ms(4_000))).await;
    let mut away = ms(2_000);
    match fault {
        Fault::Pause(seconds) => {
            redis.pause();
            away = ms(seconds * 1_000);
        }
        Fault::Flush => redis.ask::<()>(&["FLUSHALL"]),
        Fault::Kill | Fault::KillWithFile => redis.kill(),
    }
    let down = Instant::now();
    if fault != Fault::Flush {
        sleep(away).await;
    }
    if is_apart {
        // The holder of a host goes on meanwhile.
        until_served(&website, hosts, down + ms(500)).await;
    }
    let redis = spawn_blocking(move || {
        match fault {
            Fault::Pause(_) => redis.resume(),
            Fault::Flush => {}
            Fault::Kill | Fault::KillWithFile => redis.start_again(),
        }
        redis
    });
    let redis = redis.await.unwrap();
    let took = until_served(&website, hosts, Instant::now()).await;
    println!("{fault:?}, apart: {is_apart}: every host was served again within {took:?}");
    sleep(run_time(ms(4_000))).await;
    stop_and_judge(workers, &website, &crew).await;
    drop(redis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_shortens_no_delay_and_keeps_no_host() {
    let both = |fault| async move { join!(server_fails(fault, false), server_fails(fault, true)) };
    join!(
        both(Fault::Pause(5)),
        both(Fault::Pause(7)),
        both(Fault::Pause(14)),
        both(Fault::Kill),
        both(Fault::KillWithFile),
        both(Fault::Flush),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_die_or_pause_shorten_no_delay() {
    let killed = async {
        let Some(redis) = Redis::start_aged(&[]) else { return };
        // Most of the time a request is in flight.
        let website = website(ms(300)).await;
        let crew = Crew { workers: 3, delay: ms(300), ..Crew::new(redis.url(), website.address()) };
        let mut workers = start(&crew, &website).await;
        workers.remove(0).kill();
        workers.remove(0).kill();
        let took = until_served(&website, crew.hosts as usize, Instant::now()).await;
        println!("killed: every host was served by another within {took:?}");
        stop_and_judge(workers, &website, &crew).await;
    };
    let paused = |lease| async move {
        let Some(redis) = Redis::start_aged(&[]) else { return };
        let (website, proxy) = (website(ms(20)).await, Proxy::start(redis.port()).await);
        // So that some command is on its way when the process stops.
        proxy.delay(ms(100));
        let url = proxy.url();
        let crew = Crew { delay: ms(300), lease, shows_looks: true, ..Crew::new(url, website.address()) };
        let workers = start(&crew, &website).await;
        workers[0].pause();
        sleep(ms(8_000)).await;
        let (goes_on, resumed) = (micros(SystemTime::now()), Instant::now());
        workers[0].resume();
        until_all_came(&website, &crew, resumed).await;
        stop(workers).await;
        // It looks at its lease just before it sends. If it is stopped between that look and the request, this one request comes when it
        // goes on. Whatever it looks at from then on is in time.
        let is_stray = |seen: &Seen| {
            let looked = seen.path.strip_prefix("/w0/").map(|looked| looked.parse::<u128>().unwrap());
            seen.at > resumed && looked.is_some_and(|looked| looked < goes_on)
        };
        let (strays, others): (Vec<_>, Vec<_>) = website.log().into_iter().partition(is_stray);
        println!("stopped between the look and the request: {}", strays.len());
        assert!(by_host(&strays).values().all(|seen| seen.len() == 1), "{strays:?}");
        assert_spaced(&by_host(&others), crew.delay);
    };
    join!(killed, paused(ms(8_000)), paused(ms(4_000)));
}

/// A process that got a 429 keeps the backoff, even if Redis has lost it. (What only Redis knew is lost with its data.)
async fn a_flush_makes_no_process_forget_a_backoff() {
    let Some(redis) = Redis::start_aged(&[]) else { return };
    let website = Server::start(|seen| match (seen.path.as_str(), seen.host()) {
        ("/robots.txt", _) => Reply::new(200, ""),
        (_, "h0.example") => Reply::retry_after(429, 600),
        _ => Reply::html("a page").after(ms(5)),
    })
    .await;
    let crew = Crew {
        lease: ms(1_000),
        delay: ms(300),
        is_fail_closed: true,
        ..Crew::new(redis.url(), website.address())
    };
    let workers = crew.start();
    for n in 0..6 {
        sleep(ms(700 + 137 * n)).await;
        redis.ask::<()>(&["FLUSHALL"]);
    }
    let flushed = Instant::now();
    // By then each would have had the lease of the first host again, as it had those of the others.
    let came = || {
        let pages = by_worker(&within(&website.log(), flushed, Instant::now()));
        pages.keys().filter(|whose| !whose.starts_with("h0.")).count()
    };
    let all = (crew.workers * (crew.hosts - 1)) as usize;
    until(&|| format!("{} of {all} came to another host", came()), &|| came() >= all).await;
    stop(workers).await;
    let log = website.log();
    assert_spaced(&by_host(&log), crew.delay);
    let asked: Vec<_> = by_worker(&log).into_iter().filter(|(whose, _)| whose.starts_with("h0.")).collect();
    assert!(!asked.is_empty() && asked.iter().all(|(_, seen)| seen.len() == 1), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushes_and_restarts_shorten_no_delay() {
    join!(flushes_and_restarts(), a_flush_makes_no_process_forget_a_backoff());
}

/// One after the other.
async fn flushes_and_restarts() {
    let Some(mut redis) = Redis::start_aged(&[]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew {
        lease: ms(2_000),
        delay: ms(300),
        is_fail_closed: true,
        ..Crew::new(redis.url(), website.address())
    };
    let workers = crew.start();
    let redis = spawn_blocking(move || {
        for n in 0..8 {
            std::thread::sleep(ms(600 + 137 * n));
            match n % 4 {
                3 => {
                    redis.kill();
                    redis.start_again();
                }
                _ => redis.ask::<()>(&["FLUSHALL"]),
            }
        }
        redis
    });
    let _redis = redis.await.unwrap();
    until_all_came(&website, &crew, Instant::now()).await;
    stop_and_judge(workers, &website, &crew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_shortens_no_delay_on_leased_hosts() {
    let Some(mut redis) = Redis::start_aged(&[]) else { return };
    let website = website(ms(20)).await;
    let crew = Crew { delay: ms(300), ..Crew::new(redis.url(), website.address()) };
    let mut workers = start(&crew, &website).await;
    redis.kill();
    let down = Instant::now();
    // Hosts that no process has.
    let others = Crew { first_host: crew.hosts, ..crew.clone() };
    workers.extend(others.start());
    sleep(run_time(crew.lease + ms(8_000))).await;
    // Holders go on after the end of their leases.
    let is_held = |seen: &Seen| (0..crew.hosts).any(|host| host_name(host) == seen.host());
    let goes_on = || within(&website.log(), down + crew.lease, Instant::now()).iter().any(is_held);
    until(&|| "no holder goes on".to_owned(), &goes_on).await;
    let until = Instant::now();
    stop(workers).await;
    let log = website.log();
    let (held, others): (Vec<_>, Vec<_>) = log.into_iter().partition(is_held);
    for (whose, log) in [("that a process holds", &held), ("that none holds", &others)] {
        let [all, early, open] = overlaps(&by_host(&within(log, down, until)), crew.delay);
        println!("hosts {whose}: of {all} requests {early} came inside the delay, {open} beside another");
    }
    assert_spaced(&by_host(&held), crew.delay);
    assert_spaced(&by_worker(&others), crew.delay * crew.workers);
}

/// Without a store: the delay times the number of processes, from a time of its own on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_started_without_store_keeps_a_longer_delay() {
    let website = website(ms(5)).await;
    let crew = Crew {
        patience: ms(1_000),
        workers: 3,
        ..Crew::new("redis://127.0.0.1:1/".to_owned(), website.address())
    };
    let workers = start(&crew, &website).await;
    sleep(ms(2_000)).await;
    stop(workers).await;
    assert_spaced(&by_worker(&website.log()), crew.delay * crew.workers);
}

/// Not a test: a process that is throttled by a 429, and prints so when that has been saved.
#[tokio::test]
async fn throttled() {
    let Some(url) = workers::role() else { return };
    let store = Arc::new(connect(&url).await);
    let pace = PacePolicy::default().with_store_timeout(PATIENCE);
    let gate = hosts::gate(Gate::builder().pace(pace).host_store(store));
    let url = "http://a.example/".parse().unwrap();
    let permit = hosts::acquire(&gate, &url, ms(0), gate.max_wait()).await.unwrap();
    let fields = [("retry-after".parse().unwrap(), "600".parse().unwrap())];
    permit.observe("429".parse().unwrap(), &fields.into_iter().collect());
    permit.saved().await;
    println!("\nsaved");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_backoff_survives_kill_9_of_process_and_server() {
    let Some(mut redis) = Redis::start_aged(&["--appendonly", "yes"]) else { return };
    let mut worker = workers::start("faults::throttled", redis.url());
    worker.says("saved");
    worker.kill();
    redis.kill();
    redis.start_again();
    let backoff = probe(&connect(&redis.url()).await, "a.example").await.unwrap().backoff.unwrap();
    assert!(backoff.left > ms(500_000) && backoff.throttles == 1, "{backoff:?}");
}

#[tokio::test]
async fn a_store_opened_while_the_server_is_down_works_later() {
    let Some(mut redis) = Redis::start() else { return };
    redis.kill();
    let store = Store::builder(&redis.url()).open().unwrap();
    assert!(probe(&store, "a.example").await.is_err());
    redis.start_again();
    wait_for("it is used", async || probe(&store, "a.example").await.is_ok()).await;
}
