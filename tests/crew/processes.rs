//! Several processes and one server, checked by what a website sees. They mostly wait, so the test runs
//! several at the same time.

use std::time::Instant;

use tokio::join;
use tokio::time::sleep;

use super::website::{by_host, show_delays, start, stop_and_check, until_all_came, until_served, website};
use super::workers::{Crew, run_time};
use super::{Proxy, ms, wait_for};
use crate::store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_keep_every_delay() {
    join!(several(2, 0), several(8, 0), several(3, 3_600), a_slow_way(true), a_slow_way(false));
}

/// Until every worker had its share of every host.
async fn several(workers: u32, skew: u64) {
    let Some(server) = store::start() else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers, skew, ..Crew::new(server.url(), website.address()) };
    let (crawlers, began) = (crew.start(), Instant::now());
    sleep(run_time(ms(8_000))).await;
    wait_for("100 requests", async || website.log().len() >= 100).await;
    // Each has its quantum of three seconds after the others, so eight would take half a minute.
    if workers <= 3 {
        until_all_came(&website, &crew, began).await;
    }
    stop_and_check(crawlers, &website, &crew).await;
    show_delays(&format!("{workers} processes"), &by_host(&website.log()), crew.delay);
}

/// The store is waited for until it is too slow. Then no process waits for it with hosts of its own, and none
/// takes another's.
async fn a_slow_way(is_apart: bool) {
    let Some(server) = store::start() else { return };
    let (website, proxy) = (website(ms(5)).await, Proxy::start(server.port()).await);
    proxy.delay(60);
    let crew = Crew { patience: ms(2_500), is_apart, ..Crew::new(proxy.url(), website.address()) };
    let workers = start(&crew, &website).await;
    let too_slow = Instant::now();
    proxy.delay(4_000);
    sleep(2 * crew.patience).await;
    if is_apart {
        let hosts = (crew.workers * crew.hosts) as usize;
        until_served(&website, hosts, too_slow + 2 * crew.patience).await;
    } else {
        // For longer than a call waits.
        sleep(ms(6_000)).await;
    }
    stop_and_check(workers, &website, &crew).await;
}
