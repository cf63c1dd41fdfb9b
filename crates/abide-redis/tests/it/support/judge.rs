//! What a server saw, and whether that was polite.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abide_tests::{Reply, Seen, Server};

use super::workers::{Crew, Worker, stop};
use super::{LONG, ms};

/// Answers every page after a moment, and robots.txt after a longer one, so that several processes could ask for it at once.
pub(crate) async fn website(page_takes: Duration) -> Server {
    Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /private\n").after(ms(50)),
        _ => Reply::html("a page").after(page_takes),
    })
    .await
}

/// The log, host by host, in the order of arrival.
pub(crate) fn by_host(log: &[Seen]) -> BTreeMap<String, Vec<Seen>> {
    group(log, |seen| seen.host().to_owned())
}

/// What one worker sent to one host.
pub(crate) fn by_worker(log: &[Seen]) -> BTreeMap<String, Vec<Seen>> {
    let pages = log.iter().filter(|seen| seen.path != "/robots.txt").cloned().collect::<Vec<_>>();
    group(&pages, |seen| format!("{} {}", seen.host(), seen.path.split('/').nth(1).unwrap_or_default()))
}

fn group(log: &[Seen], key: impl Fn(&Seen) -> String) -> BTreeMap<String, Vec<Seen>> {
    let mut groups: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for seen in log {
        groups.entry(key(seen)).or_default().push(seen.clone());
    }
    for seen in groups.values_mut() {
        seen.sort_by_key(|seen| seen.at);
    }
    groups
}

/// Of all processes: never two in flight, never inside the delay. What the server measures begins when it hands its answer over, which is
/// before the client has it.
pub(crate) fn assert_spaced(groups: &BTreeMap<String, Vec<Seen>>, delay: Duration) {
    for (whose, seen) in groups {
        for pair in seen.windows(2) {
            let apart = pair[1].at.saturating_duration_since(pair[0].answered);
            assert!(apart >= delay, "{whose}: {} {apart:?} after {}", pair[1].path, pair[0].path);
        }
    }
}

/// Starts the workers, and waits until each has come to every host.
pub(crate) async fn start(crew: &Crew, website: &Server) -> Vec<Worker> {
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(website, crew, began).await;
    workers
}

/// Stops the workers; every delay was kept on every host.
pub(crate) async fn stop_and_judge(workers: Vec<Worker>, website: &Server, crew: &Crew) {
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.delay);
}

/// How many requests followed another to their host, and of these: how many came inside the delay, and how many while it was open.
pub(crate) fn overlaps(groups: &BTreeMap<String, Vec<Seen>>, delay: Duration) -> [usize; 3] {
    let pairs = || groups.values().flat_map(|seen| seen.windows(2));
    let inside = |delay| move |pair: &&[Seen]| pair[1].at < pair[0].answered + delay;
    [pairs().count(), pairs().filter(inside(delay)).count(), pairs().filter(inside(ms(0))).count()]
}

pub(crate) fn assert_one_robots_txt_each(log: &[Seen], hosts: u32) {
    let asked = log.iter().filter(|seen| seen.path == "/robots.txt").count();
    assert_eq!(asked, hosts as usize, "one robots.txt for each origin, by whichever process");
}

/// Every worker comes to every host after this moment; how soon is for benchmarks to say.
pub(crate) async fn until_all_came(website: &Server, crew: &Crew, since: Instant) {
    // Each has its quantum of three seconds after the other.
    let all = (crew.workers * crew.hosts) as usize;
    let came = || by_worker(&within(&website.log(), since, Instant::now())).len();
    until(&|| format!("{} of {all} came to a host", came()), &|| came() == all).await;
}

/// So many requests have arrived.
pub(crate) async fn until_requests(website: &Server, requests: usize) {
    let came = || website.log().len();
    until(&|| format!("{} of {requests} requests", came()), &|| came() >= requests).await;
}

pub(crate) async fn until(what: &dyn Fn() -> String, is_so: &dyn Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not go on: {}", what());
        tokio::time::sleep(ms(50)).await;
    }
}

/// Only what arrived in this time.
pub(crate) fn within(log: &[Seen], from: Instant, until: Instant) -> Vec<Seen> {
    log.iter().filter(|seen| from <= seen.at && seen.at < until).cloned().collect()
}

/// Each of these hosts is asked after this moment. How long it took for all of them is a figure.
pub(crate) async fn until_served(website: &Server, hosts: usize, since: Instant) -> Duration {
    let came = || by_host(&within(&website.log(), since, Instant::now())).len();
    until(&|| format!("{} of {hosts} hosts were asked", came()), &|| came() == hosts).await;
    let log = by_host(&within(&website.log(), since, Instant::now()));
    log.values().map(|seen| seen[0].at - since).max().unwrap()
}

/// For the figures: `cargo test ... -- --nocapture`.
pub(crate) fn show_delays(whose: &str, groups: &BTreeMap<String, Vec<Seen>>) {
    let apart = |pair: &[Seen]| pair[1].at.saturating_duration_since(pair[0].answered);
    let mut delays: Vec<Duration> = groups.values().flat_map(|seen| seen.windows(2).map(apart)).collect();
    delays.sort();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let (least, thousandth, hundredth, median) = (at(0.0), at(0.001), at(0.01), at(0.5));
    println!(
        "{whose}: {} delays: {least:?}, 0.1 % {thousandth:?}, 1 % {hundredth:?}, median {median:?}",
        delays.len()
    );
}
