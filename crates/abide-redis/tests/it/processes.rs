//! Several processes and one server, judged by what a website sees. The tests of this file and the next start many processes that mostly
//! wait, so each test tells several stories at the same time.

use std::time::Instant;

use abide_tests::{Seen, Server};
use tokio::join;
use tokio::time::sleep;

use crate::conformance::used;
use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, by_host, served_within, show_gaps, until_all_came,
    until_requests, website, within,
};
use crate::support::workers::{Crew, NO_STORE, run_time, stop};
use crate::support::{Proxy, Redis, ms};

/// Until every worker had its share of every host. What the website saw.
async fn run(crew: &Crew, website: &Server) -> Vec<Seen> {
    let (workers, began) = (crew.start(), Instant::now());
    sleep(run_time(ms(8_000))).await;
    until_requests(website, 100).await;
    // Each has its quantum of three seconds after the others, so eight would take half a minute.
    if crew.workers <= 3 {
        until_all_came(website, crew, began).await;
    }
    stop(workers).await;
    website.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_keep_every_delay_and_fetch_one_robots_txt() {
    let several = |workers| async move {
        let Some(redis) = Redis::start() else { return };
        redis.age();
        let website = website(ms(5)).await;
        let crew = Crew { workers, ..Crew::new(redis.url(), website.address()) };
        let log = run(&crew, &website).await;
        show_gaps(&format!("{workers} processes"), &by_host(&log));
        assert_spaced(&by_host(&log), crew.delay);
        assert_one_robots_txt_each(&log, crew.hosts);
    };
    let skewed = async {
        let Some(redis) = Redis::start() else { return };
        redis.age();
        let website = website(ms(5)).await;
        let crew = Crew { workers: 3, skew: -3_600, ..Crew::new(redis.url(), website.address()) };
        assert_spaced(&by_host(&run(&crew, &website).await), crew.delay);
    };
    // For the figures: what the machine itself adds to a delay.
    let alone = async {
        let website = website(ms(5)).await;
        let crew = Crew { workers: 1, ..Crew::new(NO_STORE.to_owned(), website.address()) };
        let log = run(&crew, &website).await;
        show_gaps("one process, without a store", &by_host(&log));
        assert_spaced(&by_host(&log), crew.delay);
    };
    join!(
        several(2),
        several(8),
        skewed,
        alone,
        a_slow_way_to_the_store(true),
        a_slow_way_to_the_store(false)
    );
}

/// How many commands a page, and which part of the pages is whose, at the delay of one second that is the default.
async fn costs(crew: Crew, seconds: u64) -> Option<(f64, Vec<f64>)> {
    let redis = Redis::start()?;
    redis.age();
    let website = website(ms(5)).await;
    let crew = Crew { store: redis.url(), server: website.address(), delay: ms(1_000), ..crew };
    let workers = crew.start();
    until_requests(&website, (crew.workers * crew.hosts * if crew.is_apart { 3 } else { 1 }) as usize).await;
    // The scripts of records of robots.txt are over.
    redis.ask::<()>(&["CONFIG", "RESETSTAT"]);
    let since = Instant::now();
    sleep(run_time(ms(seconds * 1_000))).await;
    let log = within(&website.log(), since, Instant::now());
    // All that is sent are scripts; what these call is counted apart.
    let commands = used(&redis, "evalsha") + used(&redis, "eval");
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.delay);
    let mut shares = vec![0.0; crew.workers as usize];
    for seen in &log {
        let worker: usize = seen.path.split('/').nth(1).unwrap()[1..].parse().unwrap();
        shares[worker] += 1.0 / log.len() as f64;
    }
    Some((commands as f64 / log.len() as f64, shares))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_few_commands_and_every_process_has_its_share() {
    let crew = Crew::new(String::new(), ([127, 0, 0, 1], 0).into());
    let (own, four, eight) = join!(
        costs(Crew { hosts: 10, is_apart: true, ..crew.clone() }, 12),
        costs(Crew { workers: 4, ..crew.clone() }, 40),
        costs(Crew { workers: 8, ..crew.clone() }, 12),
    );
    let (Some((own, _)), Some((four, shares)), Some((eight, _))) = (own, four, eight) else { return };
    println!(
        "commands a page: own hosts {own:.2}, four processes {four:.2}, eight {eight:.2}; shares of four {shares:.2?}"
    );
    assert!(own <= 0.5 && four <= 4.0 && eight <= 6.0, "{own} {four} {eight}");
    assert!(shares.iter().all(|share| *share >= 0.1), "{shares:?}");
}

/// It is waited for until it is too slow. Then no process waits for it with hosts of its own, and none takes another's.
async fn a_slow_way_to_the_store(is_apart: bool) {
    let Some(redis) = Redis::start() else { return };
    redis.age();
    let (website, proxy) = (website(ms(5)).await, Proxy::start(redis.port()).await);
    proxy.delay(ms(60));
    let crew = Crew { patience: ms(2_500), is_apart, ..Crew::new(proxy.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    let too_slow = Instant::now();
    proxy.delay(ms(4_000));
    sleep(2 * crew.patience).await;
    if is_apart {
        let hosts = (crew.workers * crew.hosts) as usize;
        served_within(&website, hosts, too_slow + 2 * crew.patience, ms(60_000)).await;
    } else {
        // For longer than a call waits.
        sleep(ms(6_000)).await;
    }
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.delay);
}
