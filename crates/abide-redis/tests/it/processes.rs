//! Several processes and one server, judged by what a website sees. The tests of this file and the next start many processes that mostly
//! wait, so each test tells several stories at the same time.

use std::time::Instant;

use abide_tests::{Seen, Server};
use tokio::join;
use tokio::time::sleep;

use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, by_host, show_delays, start, stop_and_judge, until_all_came,
    until_requests, until_served, website,
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
        let Some(redis) = Redis::start_aged(&[]) else { return };
        let website = website(ms(5)).await;
        let crew = Crew { workers, ..Crew::new(redis.url(), website.address()) };
        let log = run(&crew, &website).await;
        show_delays(&format!("{workers} processes"), &by_host(&log));
        assert_spaced(&by_host(&log), crew.delay);
        assert_one_robots_txt_each(&log, crew.hosts);
    };
    let skewed = async {
        let Some(redis) = Redis::start_aged(&[]) else { return };
        let website = website(ms(5)).await;
        let crew = Crew { workers: 3, skew: -3_600, ..Crew::new(redis.url(), website.address()) };
        assert_spaced(&by_host(&run(&crew, &website).await), crew.delay);
    };
    // For the figures: what the machine itself adds to a delay.
    let alone = async {
        let website = website(ms(5)).await;
        let crew = Crew { workers: 1, ..Crew::new(NO_STORE.to_owned(), website.address()) };
        let log = run(&crew, &website).await;
        show_delays("one process, without a store", &by_host(&log));
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

/// It is waited for until it is too slow. Then no process waits for it with hosts of its own, and none takes another's.
async fn a_slow_way_to_the_store(is_apart: bool) {
    let Some(redis) = Redis::start_aged(&[]) else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(redis.port()).await);
    proxy.delay(ms(60));
    let crew = Crew { patience: ms(2_500), is_apart, ..Crew::new(proxy.url(), website.address()) };
    let workers = start(&crew, &website).await;
    let too_slow = Instant::now();
    proxy.delay(ms(4_000));
    sleep(2 * crew.patience).await;
    if is_apart {
        let hosts = (crew.workers * crew.hosts) as usize;
        until_served(&website, hosts, too_slow + 2 * crew.patience).await;
    } else {
        // For longer than a call waits.
        sleep(ms(6_000)).await;
    }
    stop_and_judge(workers, &website, &crew).await;
}
