//! What happens to processes and to the server while several processes crawl, checked by what a website sees:
//! no delay below the promise, and every host is served again soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use abide_tests::{Reply, Seen, Server as Website, Step};
use tokio::join;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::website::{
    after, assert_spaced, by_host, by_worker, show_delays, start, stop_and_check, until_all_came,
    until_served, website,
};
use super::workers::{Crew, host_name, long_run, micros, run_time, stop};
use super::{Proxy, ms, wait_for};
use crate::store::{self, Server};

/// What is done to a server, and undone after a while.
#[derive(Clone)]
pub(crate) struct Fault {
    name: &'static str,
    away: Duration,
    strike: Act,
    mend: Act,
    /// Records of robots.txt are there after it.
    keeps_records: bool,
}

type Act = Arc<dyn Fn(&mut Server) + Send + Sync>;

impl Fault {
    /// For so many seconds.
    pub(crate) fn lasting(
        away: u64,
        name: &'static str,
        strike: impl Fn(&mut Server) + Send + Sync + 'static,
        mend: impl Fn(&mut Server) + Send + Sync + 'static,
    ) -> Self {
        let (strike, mend) = (Arc::new(strike), Arc::new(mend));
        Self { name, away: Duration::from_secs(away), strike, mend, keeps_records: true }
    }

    /// It is over at once.
    pub(crate) fn at_once(name: &'static str, strike: impl Fn(&mut Server) + Send + Sync + 'static) -> Self {
        Self::lasting(0, name, strike, |_| ())
    }

    /// Or are not there, unless it is so.
    pub(crate) fn keeping_records(self, keeps_records: bool) -> Self {
        Self { keeps_records, ..self }
    }

    pub(crate) fn paused(away: u64, name: &'static str) -> Self {
        Self::lasting(away, name, |server| server.pause(), |server| server.resume())
    }

    pub(crate) fn killed(name: &'static str) -> Self {
        Self::lasting(2, name, Server::kill, Server::start_again)
    }
}

/// Two processes that want the same hosts; or each its own, which go on all the time. In a long run four
/// processes and eight hosts, and the site's log says how well they are served.
pub(crate) async fn server_fails(server: Server, fault: Fault, is_apart: bool) {
    let url = server.url();
    server_fails_behind(server, fault, is_apart, url).await;
}

/// The same where the processes reach the server by another URL, as through a proxy.
pub(crate) async fn server_fails_behind(mut server: Server, fault: Fault, is_apart: bool, url: String) {
    let website = site().await;
    let (workers, hosts) = if long_run().is_some() { (4, 8) } else { (2, 2) };
    let crew = Crew {
        workers,
        hosts: if is_apart { (hosts / workers).max(2) } else { hosts },
        delay: ms(500),
        is_apart,
        reads_robots: true,
        // A host that no process has when data is lost is served again after a second to notice, a lease and
        // a delay.
        lease: ms(7_000),
        patience: ms(1_000),
        ..Crew::new(url, website.address())
    };
    let hosts = (if is_apart { crew.workers * crew.hosts } else { crew.hosts }) as usize;
    let (processes, began) = (crew.start(), Instant::now());
    until_served(&website, hosts, began).await;
    sleep(run_time(ms(4_000)) / 2).await;
    let Fault { name, away, strike, mend, keeps_records } = fault;
    let struck = Instant::now();
    let striking = spawn_blocking(move || {
        strike(&mut server);
        server
    });
    let mut server = striking.await.unwrap();
    let down = Instant::now();
    sleep(away).await;
    if is_apart && away > Duration::ZERO {
        // The holder of a host goes on meanwhile.
        until_served(&website, hosts, down + ms(500)).await;
    }
    let back = spawn_blocking(move || {
        mend(&mut server);
        server
    });
    let _server = back.await.unwrap();
    let took = until_served(&website, hosts, Instant::now()).await;
    sleep(run_time(ms(4_000)) / 2).await;
    stop_and_check(processes, &website, &crew).await;
    let log = website.log();
    let fetches = log.iter().filter(|seen| seen.path == "/robots.txt").count();
    let whose = format!(
        "{name}, apart: {is_apart}: every host was served again within {took:?}; robots.txt {fetches} times for {hosts} hosts"
    );
    show_delays(&whose, &by_host(&log), crew.delay);
    if keeps_records {
        let before = log.iter().filter(|seen| seen.path == "/robots.txt" && seen.at < struck).count();
        assert_eq!(before, hosts, "{name}: all share what one has fetched");
        // One that gets a host just before, and cannot read the record any more, fetches it itself.
        let most = hosts * if is_apart { 1 } else { crew.workers as usize };
        assert!(fetches <= most, "{name}: robots.txt is fetched {fetches} times, {most} at most");
    }
}

/// It fails while two processes want the same hosts, and while each has hosts of its own.
pub(crate) async fn both(start: impl Fn() -> Option<Server>, fault: Fault) {
    let (Some(one), Some(other)) = (start(), start()) else { return };
    join!(server_fails(one, fault.clone(), false), server_fails(other, fault, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_shortens_no_delay_and_keeps_no_host() {
    let killed = Fault::killed("killed").keeping_records(store::IS_DURABLE);
    join!(
        both(store::start, Fault::paused(5, "paused for 5 s")),
        both(store::start, Fault::paused(7, "paused for 7 s")),
        both(store::start, Fault::paused(14, "paused for 14 s")),
        both(store::start, killed)
    );
}

/// With rules, which are fetched once for all processes.
async fn site() -> Website {
    Website::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /closed\n"),
        _ => Reply::html("a page").after(ms(5)),
    })
    .await
}

async fn a_process_is_killed() {
    let Some(server) = store::start() else { return };
    // Most of the time a request is in flight.
    let website = website(ms(300)).await;
    let crew = Crew { workers: 3, delay: ms(300), ..Crew::new(server.url(), website.address()) };
    let mut workers = start(&crew, &website).await;
    drop(workers.split_off(1));
    let took = until_served(&website, crew.hosts as usize, Instant::now()).await;
    println!("killed: every host was served by another within {took:?}");
    stop_and_check(workers, &website, &crew).await;
}

/// While it waits for robots.txt, which it was to fetch for all: the next one to get the lease of the host
/// fetches it.
async fn a_process_is_killed_that_fetches_robots_txt() {
    let Some(server) = store::start() else { return };
    let is_mute = Arc::new(AtomicBool::new(true));
    let hangs = Arc::clone(&is_mute);
    let website = Website::start(move |seen| match seen.path.as_str() {
        "/robots.txt" if hangs.load(Ordering::SeqCst) => Reply::raw(vec![Step::Hang]),
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /closed\n").after(ms(500)),
        _ => Reply::html("a page").after(ms(5)),
    })
    .await;
    let first = Crew { reads_robots: true, workers: 1, ..Crew::new(server.url(), website.address()) };
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
    let Some(server) = store::start() else { return };
    let (website, proxy) = (website(ms(20)).await, Proxy::start(server.port()).await);
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
    let Some(mut server) = store::start() else { return };
    let website = website(ms(20)).await;
    let crew = Crew { delay: ms(300), goes_on, ..Crew::new(server.url(), website.address()) };
    let mut workers = start(&crew, &website).await;
    server.kill();
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
