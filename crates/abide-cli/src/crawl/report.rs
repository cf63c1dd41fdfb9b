//! What a crawl did to each host.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use abide::{Abide, WallMillis};
use serde::Serialize;

use crate::crawl::frontier::{Frontier, Task, host_of};
use crate::fetch::Line;
use crate::trail::Sent;
use crate::{online, style};

pub(crate) struct Report {
    hosts: BTreeMap<String, Host>,
    started: Instant,
    started_wall: WallMillis,
    pub(crate) interrupted: bool,
}

/// One host; one line of `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Host {
    pub(crate) host: String,
    pub(crate) requests: usize,
    pub(crate) fetched: usize,
    pub(crate) denied: usize,
    pub(crate) deferred: usize,
    pub(crate) refused: usize,
    pub(crate) errors: usize,
    /// Queued and not asked for: a limit was reached, or the host is held.
    pub(crate) left: usize,
    /// Fetched and not to be indexed.
    pub(crate) noindex: usize,
    pub(crate) bytes: u64,
    pub(crate) holds: usize,
    pub(crate) waited_ms: u64,
    /// The shortest time between the beginnings of two requests.
    pub(crate) gap_min_ms: Option<u64>,
    pub(crate) crawl_delay: Option<f64>,
    /// Where the rules come from.
    pub(crate) robots: Option<&'static str>,
    #[serde(skip)]
    pub(crate) events: Vec<Event>,
    /// When robots.txt was last asked for, of those times that are among the events.
    #[serde(skip)]
    robots_at: Option<WallMillis>,
}

/// One request, for the timeline.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Since the crawl began.
    pub(crate) at: Duration,
    pub(crate) took: Option<Duration>,
    pub(crate) status: Option<u16>,
    pub(crate) url: String,
}

impl Report {
    pub(crate) fn new(wall: WallMillis) -> Self {
        Self { hosts: BTreeMap::new(), started: Instant::now(), started_wall: wall, interrupted: false }
    }

    /// Counts an answer for the host that was asked, and its requests for the hosts that saw them.
    pub(crate) fn note(&mut self, task: &Task, line: &Line, sent: &[Sent], abide: &Abide) {
        let host = self.host(&task.host);
        match line.outcome {
            "fetched" => host.fetched += 1,
            "denied" => host.denied += 1,
            "deferred" => host.deferred += 1,
            "refused" => host.refused += 1,
            _ => host.errors += 1,
        }
        host.noindex += usize::from(line.noindex == Some(true));
        host.bytes = host.bytes.saturating_add(line.bytes.unwrap_or(0));
        host.waited_ms = host.waited_ms.saturating_add(line.waited_ms);
        if let Some(verdict) = &line.verdict
            && line.hops.len() <= 1
        {
            host.robots = Some(verdict.source);
            host.crawl_delay = verdict.crawl_delay;
        }
        let started = self.started;
        for sent in sent {
            let event = Event {
                at: sent.at.saturating_duration_since(started),
                took: sent.took,
                status: sent.status,
                url: sent.url.to_string(),
            };
            let host = self.host(&host_of(&sent.url));
            host.requests += 1;
            host.events.push(event);
        }
        self.robots_request(task, abide);
    }

    /// robots.txt is fetched by the gate itself; when it last was is known from its answer.
    fn robots_request(&mut self, task: &Task, abide: &Abide) {
        let Some(verdict) = abide.check_cached(&task.url) else { return };
        let Some(answer) = verdict.answer() else { return };
        let asked_at = answer.asked_at();
        if asked_at < self.started_wall {
            return;
        }
        let event = Event {
            at: asked_at.since(self.started_wall),
            took: None,
            status: answer.status(),
            url: answer.origin().robots_url().into(),
        };
        let host = self.host(&task.host);
        // One event for each answer, which many pages share.
        if host.robots_at.replace(asked_at) != Some(asked_at) {
            host.requests += 1;
            host.events.push(event);
        }
    }

    pub(crate) fn holds(&self, task: &Task) -> usize {
        self.hosts.get(&task.host).map_or(0, |host| host.holds)
    }

    pub(crate) fn held(&mut self, task: &Task) {
        self.host(&task.host).holds += 1;
    }

    /// The rest of the host's queue was dropped with `task`.
    pub(crate) fn given_up(&mut self, task: &Task, dropped: usize) {
        let host = self.host(&task.host);
        host.holds += 1;
        host.left += dropped;
    }

    /// What is still queued at the end; and what can be said only then.
    pub(crate) fn left(&mut self, frontier: &Frontier) {
        for (name, queued) in frontier.queued() {
            self.host(name).left += queued;
        }
        for host in self.hosts.values_mut() {
            host.events.sort_by_key(|event| event.at);
            let gaps = host.events.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at));
            host.gap_min_ms = gaps.min().map(|gap| u64::try_from(gap.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// Everything asked for was fetched.
    pub(crate) fn is_clean(&self) -> bool {
        let failed = |host: &Host| host.denied + host.deferred + host.refused + host.errors;
        !self.interrupted && self.hosts.values().map(failed).sum::<usize>() == 0
    }

    pub(crate) fn refused(&self) -> usize {
        self.hosts.values().map(|host| host.denied + host.deferred + host.refused).sum()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    pub(crate) fn print_json(&self) -> anyhow::Result<()> {
        self.hosts().try_for_each(online::print_json)
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let mut out = anstream::stdout().lock();
        let (dim, reset) = (style::DIM, format!("{:#}", style::DIM));
        writeln!(
            out,
            "{dim}{:<28} {:>8} {:>8} {:>7} {:>9} {:>8} {:>6} {:>6} {:>9}  robots.txt{reset}",
            "host", "requests", "fetched", "denied", "deferred", "refused", "errors", "left", "least gap"
        )?;
        for host in self.hosts() {
            let gap =
                host.gap_min_ms.map_or_else(|| "-".to_owned(), |gap| format!("{:.1} s", gap as f64 / 1e3));
            let Host { host: name, requests, fetched, denied, deferred, refused, errors, left, .. } = host;
            let robots = host.robots.unwrap_or("not asked");
            writeln!(
                out,
                "{name:<28} {requests:>8} {fetched:>8} {denied:>7} {deferred:>9} {refused:>8} {errors:>6} {left:>6} {gap:>9}  {robots}"
            )?;
        }
        Ok(())
    }

    fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.entry(name.to_owned()).or_insert_with(|| Host { host: name.to_owned(), ..Host::default() })
    }
}
