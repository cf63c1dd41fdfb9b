//! What a server saw, and whether that was polite.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abide_tests::{Reply, Seen, Server, delays};

use super::wait_for;
use super::workers::{Crew, Worker, stop};

/// Answers every page after a moment.
pub(crate) async fn website(page_takes: Duration) -> Server {
    Server::start(move |_| Reply::html("a page").after(page_takes)).await
}

/// Requests in the order of arrival, by what they have in common.
pub(crate) type Groups = BTreeMap<String, Vec<Seen>>;

pub(crate) fn by_host(log: &[Seen]) -> Groups {
    group(log, |seen| seen.host().to_owned())
}

/// What one worker sent to one host.
pub(crate) fn by_worker(log: &[Seen]) -> Groups {
    group(log, |seen| format!("{} {}", seen.host(), seen.path.split('/').nth(1).unwrap_or_default()))
}

fn group(log: &[Seen], key: impl Fn(&Seen) -> String) -> Groups {
    let mut groups = Groups::new();
    for seen in log {
        groups.entry(key(seen)).or_default().push(seen.clone());
    }
    groups.values_mut().for_each(|seen| seen.sort_by_key(|seen| seen.at));
    groups
}

/// Of all processes: never two in flight, never inside the delay.
pub(crate) fn assert_spaced(groups: &Groups, delay: Duration) {
    for (whose, seen) in groups {
        let least = delays(seen).min();
        assert!(least.is_none_or(|least| least >= delay), "{whose}: {least:?} apart: {seen:?}");
    }
}

/// Starts the workers, and waits until each has come to every host.
pub(crate) async fn start(crew: &Crew, website: &Server) -> Vec<Worker> {
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(website, crew, began).await;
    workers
}

/// Stops the workers; every delay was kept on every host.
pub(crate) async fn stop_and_check(workers: Vec<Worker>, website: &Server, crew: &Crew) {
    stop(workers).await;
    assert_spaced(&by_host(&website.log()), crew.delay);
}

/// Every worker comes to every host after this moment; how soon is for benchmarks to say.
pub(crate) async fn until_all_came(website: &Server, crew: &Crew, since: Instant) {
    // Each has its quantum of three seconds after the other.
    let all = (crew.workers * crew.hosts) as usize;
    wait_for("every worker comes to every host", async || by_worker(&after(website, since)).len() == all)
        .await;
}

/// What arrived after this moment.
pub(crate) fn after(website: &Server, since: Instant) -> Vec<Seen> {
    website.log().into_iter().filter(|seen| since <= seen.at).collect()
}

/// Each of these hosts is asked after this moment. How long it took for all of them is a figure.
pub(crate) async fn until_served(website: &Server, hosts: usize, since: Instant) -> Duration {
    wait_for("every host is served", async || by_host(&after(website, since)).len() == hosts).await;
    by_host(&after(website, since)).values().map(|seen| seen[0].at - since).max().unwrap()
}

/// For the figures: `cargo test ... -- --nocapture`.
pub(crate) fn show_delays(whose: &str, groups: &Groups, delay: Duration) {
    let mut all: Vec<Duration> = groups.values().flat_map(|seen| delays(seen)).collect();
    all.sort();
    let Some(last) = all.len().checked_sub(1) else { return println!("{whose}: no delays") };
    let at = |share: f64| all[(last as f64 * share) as usize];
    let (count, early) = (all.len(), all.partition_point(|apart| *apart < delay));
    let [shortest, percent, median] = [0.0, 0.01, 0.5].map(at);
    println!(
        "{whose}: {early} of {count} delays too short; shortest {shortest:?}, 1 % {percent:?}, median {median:?}"
    );
}
