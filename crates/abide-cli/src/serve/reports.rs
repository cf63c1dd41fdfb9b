//! `GET /v1/hosts`: what is known of hosts, for people and dashboards.
//!
//! Read from the gate when it is asked for. The service keeps nothing of its own about hosts.

use std::cmp::Reverse;
use std::collections::HashMap;

use abide::pacing::HostReport;
use abide::{Gate, Host, WallMillis};
use url::Url;

use super::calls::Crawler;
use super::error::CallError;
use super::first;
use super::messages::{HostAnswer, HostsAnswer, RobotsAnswer};
use crate::json::{RefusalLine, millis, rfc3339_millis, source_name};

/// Answers for more would be megabytes.
const HOSTS_MAX: usize = 1_000;

/// The busiest hosts. All crawlers pace hosts together, so one of them knows all.
pub(crate) fn hosts(crawlers: &[Crawler]) -> HostsAnswer {
    let Some(gate) = first(crawlers).map(abide::Abide::gate) else {
        return HostsAnswer { known: 0, hosts: Vec::new() };
    };
    let mut reports = gate.reports();
    let known = reports.len();
    reports.sort_unstable_by_key(|report| Reverse((report.waiting, report.in_flight, report.requests)));
    reports.truncate(HOSTS_MAX);
    let mut robots = robots(crawlers, |host| reports.iter().any(|report| *report.key == *host));
    let hosts = reports.iter().map(|report| {
        let robots = robots.remove(&*report.key).unwrap_or_default();
        answer(gate, report, robots)
    });
    HostsAnswer { known, hosts: hosts.collect() }
}

/// One host, by its name without a port.
pub(crate) fn host(crawlers: &[Crawler], name: &str) -> Result<HostAnswer, CallError> {
    let url =
        Url::parse(&format!("http://{name}/")).ok().filter(|url| url.path() == "/" && url.port().is_none());
    let host = url.and_then(|url| Host::of(&url).ok());
    let host = host.ok_or_else(|| CallError::bad_request("expected a host, without scheme and port"))?;
    let gate = first(crawlers).map(abide::Abide::gate).ok_or_else(CallError::unknown_host)?;
    let report = gate.report(&host).ok_or_else(CallError::unknown_host)?;
    let robots = robots(crawlers, |other| other == host.as_str()).remove(host.as_str());
    Ok(answer(gate, &report, robots.unwrap_or_default()))
}

fn answer(gate: &Gate, report: &HostReport, robots: Vec<RobotsAnswer>) -> HostAnswer {
    let time = |time: std::time::SystemTime| rfc3339_millis(WallMillis::from(time));
    // The key is that of a host, as nothing else is set.
    let host = Url::parse(&format!("http://{}/", report.key)).ok().and_then(|url| Host::of(&url).ok());
    let slot = host.and_then(|host| gate.next_ready([&host]).map(|(_, slot)| slot.not_before));
    HostAnswer {
        host: report.key.to_string(),
        next_slot: slot.map_or_else(|| rfc3339_millis(gate.wall()), time),
        backed_off_until: report.backed_off_until.map(time),
        held_until: report.held_until.map(time),
        refusals: report.refusals,
        refused_by: report.refused_by.as_ref().map(RefusalLine::new),
        waiting: report.waiting,
        in_flight: report.in_flight,
        delay_ms: millis(report.delay),
        requests: report.requests,
        deferrals: report.deferrals,
        backoffs: report.backoffs,
        waited_ms: millis(report.waited),
        longest_wait_ms: millis(report.longest_wait),
        robots,
    }
}

/// The robots.txt files in memory of the hosts that `is_wanted`. Looks at every file in memory once.
fn robots(crawlers: &[Crawler], is_wanted: impl Fn(&str) -> bool) -> HashMap<String, Vec<RobotsAnswer>> {
    let mut found: HashMap<String, Vec<RobotsAnswer>> = HashMap::new();
    for Crawler { name, abide, .. } in crawlers {
        for entry in abide.gate().entries() {
            let host = entry.origin().host();
            if is_wanted(host.as_str()) {
                found.entry(host.as_str().to_owned()).or_default().push(RobotsAnswer {
                    origin: entry.origin().as_str().to_owned(),
                    agent: name.clone(),
                    source: source_name(Some(entry.source())),
                    status: entry.status(),
                    crawl_delay: entry.crawl_delay().map(|delay| delay.as_secs_f64()),
                    retry_at: rfc3339_millis(entry.retry_at()),
                });
            }
        }
    }
    found
}
