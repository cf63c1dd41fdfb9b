//! The defaults that `docs/defaults.md` states are those of the code: the figures are read from its table.

use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::robots_cache::RobotsPolicy;
use abide::{ReadOptions, RedirectPolicy};

const PAGE: &str = include_str!("../../docs/defaults.md");

/// What the first row about `what` has as the default.
fn stated(what: &str) -> &'static str {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {what} | ")));
    row.and_then(|row| row.split(" | ").next()).unwrap_or_else(|| panic!("the page has no row {what:?}"))
}

/// The times that the row names.
fn times<const N: usize>(what: &str) -> [Duration; N] {
    let words: Vec<_> = stated(what).split(' ').map(|word| word.trim_end_matches([',', ';'])).collect();
    let times = words.windows(2).filter_map(|pair| {
        let unit = [("s", 1), ("min", 60), ("h", 3_600)].into_iter().find(|(unit, _)| *unit == pair[1])?.1;
        Some(Duration::from_secs(pair[0].parse::<u64>().ok()? * unit))
    });
    times.collect::<Vec<_>>().try_into().unwrap_or_else(|found| panic!("{what}: {found:?}"))
}

/// The one number that the row names.
fn number(what: &str) -> usize {
    let digits: String = stated(what).chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{what}: {digits:?}"))
}

#[test]
fn the_defaults_are_those_that_the_page_states() {
    let [delay] = times("delay from the end of a response to the next request");
    let [wait] = times("wait for permits inside a call, all its redirects together");
    let [of_hosts, of_records] = times("a store that does not respond");
    let [lease] = times("lease of a host");
    let pace = PacePolicy::default()
        .danger_min_delay(delay)
        .danger_max_in_flight(u16::try_from(number("requests in flight per host")).unwrap())
        .with_max_wait(wait)
        .with_hosts_max(number("hosts kept in memory"))
        .with_store_timeout(of_hosts)
        .with_lease(lease);
    assert_eq!(format!("{pace:?}"), format!("{:?}", PacePolicy::default()));

    let [shortest, longest, unstated] = times("cached for");
    assert_eq!(longest, unstated);
    let [first, last] = times("next attempt when unreachable");
    let [deadline] = times("time on the wire");
    let robots = RobotsPolicy::default()
        .with_lifetimes(shortest, longest)
        .with_retry(first, last)
        .with_body_limit(number("size that is read"))
        // "5, then as if there were none"
        .with_redirects_max(number("redirects"))
        .with_deadline(deadline)
        .with_fetches_max(number("fetches at a time"))
        .with_memory_max((number("memory of all copies") as u64) << 20)
        .with_store_timeout(of_records);
    assert_eq!(format!("{robots:?}"), format!("{:?}", RobotsPolicy::default()));

    assert!(PAGE.contains("| redirects | 10, each checked |"));
    assert_eq!(RedirectPolicy::default().with_hops_max(10), RedirectPolicy::default());
    let read = ReadOptions::for_tokens([]);
    assert_eq!(read.head_limit(), number("head that is read") << 10);
    assert_eq!(read.field_limit(), number("`Robots-Tag`, `X-Robots-Tag`, each") << 10);
}
