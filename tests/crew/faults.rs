//! What happens to processes and to the server while several processes crawl, checked by what a website sees:
//! no delay below the promise, and every host is served again soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use abide_tests::{Redis, Reply, Seen, Server, Step};
use tokio::join;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::support::website::{
    after, assert_spaced, by_host, by_worker, show_delays, start, stop_and_check, until_all_came,
    until_served, website,
};
use crate::support::workers::{Crew, host_name, micros, run_time, stop};
use crate::support::{Proxy, ms, wait_for};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Pause(u64),
    Kill,
    KillWithFile,
    Flush,
}

/// Two processes that want the same hosts; or each its own, which go on all the time.
async fn server_fails(fault: Fault, is_apart: bool) {
    let file = if fault == Fault::KillWithFile { "yes" } else { "no" };
    let Some(mut redis) = Redis::start_new(&["--appendonly", file]) else { return };
    redis.age();
    let website = website(ms(5)).await;
    let crew = Crew {
        hosts: 2,
        delay: ms(500),
        is_apart,
        // A host that no process has when data is lost is served again after a second to notice, a lease and
        // a delay.
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
    let back = spawn_blocking(move || {
        match fault {
            Fault::Pause(_) => redis.resume(),
            Fault::Flush => {}
            Fault::Kill | Fault::KillWithFile => redis.start_again(),
        }
        redis
    });
    let _redis = back.await.unwrap();
    let took = until_served(&website, hosts, Instant::now()).await;
    println!("{fault:?}, apart: {is_apart}: every host was served again within {took:?}");
    sleep(run_time(ms(4_000))).await;
    stop_and_check(workers, &website, &crew).await;
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

async fn a_process_is_killed() {
    let Some(redis) = Redis::start() else { return };
    // Most of the time a request is in flight.
    let website = website(ms(300)).await;
    let crew = Crew { workers: 3, delay: ms(300), ..Crew::new(redis.url(), website.address()) };
    let mut workers = start(&crew, &website).await;
    drop(workers.split_off(1));
    let took = until_served(&website, crew.hosts as usize, Instant::now()).await;
    println!("killed: every host was served by another within {took:?}");
    stop_and_check(workers, &website, &crew).await;
}

/// While it waits for robots.txt, which it was to fetch for all: the next one to get the lease of the host
/// fetches it.
async fn a_process_is_killed_that_fetches_robots_txt() {
    let Some(redis) = Redis::start() else { return };
    let is_mute = Arc::new(AtomicBool::new(true));
    let hangs = Arc::clone(&is_mute);
    let website = Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" if hangs.load(Ordering::SeqCst) => Reply::raw(vec![Step::Hang]),
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /closed\n").after(ms(500)),
        _ => Reply::html("a page").after(ms(5)),
    })
    .await;
    let first = Crew { reads_robots: true, workers: 1, ..Crew::new(redis.url(), website.address()) };
    let hosts = first.hosts as usize;
    let dying = first.start();
    wait_for("each robots.txt is on the way", async || website.log().len() == hosts).await;
    let crew = Crew { workers: 2, ..first };
    let workers = crew.start();
    sleep(ms(2_000)).await;
    assert_eq!(website.log().len(), hosts, "the others wait for it");
    is_mute.store(false, Ordering::SeqCst);
    drop(dying);
    let killed = Instant::now();
    let pages = async || after(&website, killed).into_iter().filter(|seen| seen.path != "/robots.txt");
    let are_served = async || by_host(&pages().await.collect::<Vec<_>>()).len() == hosts;
    wait_for("every host is served", are_served).await;
    let took = killed.elapsed();
    println!("killed while it fetched robots.txt: every host was served by another within {took:?}");
    assert!(took < ms(20_000), "{took:?}");
    until_all_came(&website, &Crew { workers: 3, ..crew.clone() }, killed).await;
    stop_and_check(workers, &website, &crew).await;
    for (host, seen) in by_host(&after(&website, killed)) {
        let fetches = seen.iter().filter(|seen| seen.path == "/robots.txt").count();
        assert_eq!(fetches, 1, "{host}: the two that are left share it");
    }
}

async fn a_process_is_paused(lease: u64) {
    let Some(redis) = Redis::start() else { return };
    let (website, proxy) = (website(ms(20)).await, Proxy::start(redis.port()).await);
    // So that some command is on its way when the process stops.
    proxy.delay(100);
    let crew = Crew { delay: ms(300), lease: ms(lease), ..Crew::new(proxy.url(), website.address()) };
    let workers = start(&crew, &website).await;
    workers[0].pause();
    sleep(ms(8_000)).await;
    let (goes_on, resumed) = (micros(SystemTime::now()), Instant::now());
    workers[0].resume();
    until_all_came(&website, &crew, resumed).await;
    stop(workers).await;
    // It looks at its lease just before it sends. If it is stopped between that look and the request, this
    // one request comes when it goes on. Whatever it looks at from then on is in time.
    let is_stray = |seen: &Seen| {
        let looked = seen.path.strip_prefix("/w0/").map(|looked| looked.parse::<u128>().unwrap());
        seen.at > resumed && looked.is_some_and(|looked| looked < goes_on)
    };
    let (strays, others): (Vec<_>, Vec<_>) = website.log().into_iter().partition(is_stray);
    println!("stopped between the look and the request: {}", strays.len());
    assert!(by_host(&strays).values().all(|seen| seen.len() == 1), "{strays:?}");
    assert_spaced(&by_host(&others), crew.delay);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_die_or_pause_shorten_no_delay() {
    join!(
        a_process_is_killed(),
        a_process_is_killed_that_fetches_robots_txt(),
        a_process_is_paused(8_000),
        a_process_is_paused(4_000)
    );
}

/// Hosts that no process holds get nothing; or each process keeps the delay times the number of processes.
async fn a_server_is_away(goes_on: bool) {
    let Some(mut redis) = Redis::start() else { return };
    let website = website(ms(20)).await;
    let crew = Crew { delay: ms(300), goes_on, ..Crew::new(redis.url(), website.address()) };
    let mut workers = start(&crew, &website).await;
    redis.kill();
    let down = Instant::now();
    let others = Crew { first_host: crew.hosts, ..crew.clone() };
    workers.extend(others.start());
    sleep(run_time(crew.lease + ms(8_000))).await;
    // Holders go on after the end of their leases.
    let is_held = |seen: &Seen| (0..crew.hosts).any(|host| host_name(host) == seen.host());
    wait_for("a holder goes on", async || after(&website, down + crew.lease).iter().any(is_held)).await;
    stop(workers).await;
    let (held, others): (Vec<_>, Vec<_>) = website.log().into_iter().partition(is_held);
    show_delays("hosts that a process holds", &by_host(&held), crew.delay);
    assert_spaced(&by_host(&held), crew.delay);
    assert_eq!(others.is_empty(), !goes_on);
    if goes_on {
        show_delays("hosts that none holds", &by_host(&others), crew.delay);
    }
    assert_spaced(&by_worker(&others), crew.delay * crew.workers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_shortens_no_delay() {
    join!(a_server_is_away(false), a_server_is_away(true));
}
