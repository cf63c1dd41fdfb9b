//! What a crawl did to each host, as the host saw it: one host has one permit at a time, whatever its ports and schemes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abide::{Abide, Host as HostName};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::frontier::{Kind, Task};
use crate::crawl::page::{Class, Page, Record};
use crate::json::{millis, source_name};
use crate::observer::{Answered, Backoff, GateObserver, HostEvents};
use crate::outcome::Outcome;
use crate::recorder::Sent;

pub(crate) struct Report {
    hosts: BTreeMap<String, Host>,
    started: Instant,
    /// What earlier runs of the same crawl took, the pauses between them left out.
    before: Duration,
    /// What is kept in detail, over all hosts.
    events: usize,
    /// For the table of the HTML report, if there is to be one.
    pages: Option<Vec<Page>>,
    pub(crate) interrupted: bool,
    pub(crate) lasted: Duration,
}

/// One host; one line of `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Host {
    pub(crate) host: String,
    /// What went out to it: pages, sitemaps, hops, robots.txt.
    pub(crate) requests: usize,
    /// Pages that were answered, whatever the status; sitemaps are counted apart.
    pub(crate) fetched: usize,
    pub(crate) denied: usize,
    pub(crate) deferred: usize,
    pub(crate) refused: usize,
    pub(crate) errors: usize,
    /// Queued and not fetched: a limit was reached, the crawl was interrupted, or the host is backed off.
    pub(crate) left: usize,
    /// Fetched and not to be indexed.
    pub(crate) noindex: usize,
    pub(crate) bytes: u64,
    pub(crate) holds: usize,
    /// For permits, all requests together.
    pub(crate) waited_ms: u64,
    /// The shortest time between the beginnings of two requests.
    pub(crate) gap_min_ms: Option<u64>,
    pub(crate) crawl_delay: Option<f64>,
    /// Where the rules come from.
    pub(crate) robots: Option<&'static str>,
    pub(crate) robots_status: Option<u16>,
    /// How long ago the server sent or confirmed them.
    pub(crate) robots_age_s: Option<u64>,
    pub(crate) longest_wait_ms: u64,
    /// Deferred and put back into the queue.
    pub(crate) requeued: usize,
    /// What denied, the most frequent first.
    pub(crate) denied_by: Vec<DeniedBy>,
    /// On how many pages each rule and reservation was found.
    pub(crate) permissions: BTreeMap<String, usize>,
    /// Why others were refused or failed, the most frequent first.
    pub(crate) failed_by: Vec<FailedBy>,
    /// Sitemaps that were fetched.
    pub(crate) sitemaps: usize,
    /// Requests that were for robots.txt.
    pub(crate) robots_requests: usize,
    /// Requests that were for sitemaps, hops among them.
    pub(crate) sitemap_requests: usize,
    /// Of those that were fetched: 2xx.
    pub(crate) ok: usize,
    /// Of those that were fetched: a redirect led there, or was not followed.
    pub(crate) redirected: usize,
    /// Of those that were fetched: 4xx.
    pub(crate) client_errors: usize,
    /// Of those that were fetched: 5xx.
    pub(crate) server_errors: usize,
    /// Of those that were denied: robots.txt can't be fetched.
    pub(crate) unreachable: usize,
    #[serde(skip)]
    pub(crate) events: Vec<Event>,
    #[serde(skip)]
    pub(crate) backoffs: Vec<Backoff>,
    /// Where each request of this run that was not for robots.txt began, also of those that are not among the events.
    #[serde(skip)]
    begun: Vec<Duration>,
    /// A URL of it, to ask after its robots.txt at the end.
    #[serde(skip)]
    sample: Option<Url>,
}

/// A rule, or another reason, and how many URLs it denied.
#[derive(Debug, Serialize)]
pub(crate) struct DeniedBy {
    /// As written in robots.txt, or why there are none.
    pub(crate) rule: String,
    pub(crate) line: Option<u32>,
    /// Whose robots.txt it is: another host's, when a page has redirected there.
    pub(crate) host: String,
    pub(crate) urls: usize,
}

/// A reason other than robots.txt, and how many URLs it kept back.
#[derive(Debug, Serialize)]
pub(crate) struct FailedBy {
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    /// Where: another host, when a page has redirected there.
    pub(crate) host: String,
    pub(crate) urls: usize,
    /// The first of them, as it was asked for.
    pub(crate) example: String,
}

/// One request, for the timeline. Times are since the crawl began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    /// When the body had ended, or was dropped, or the request failed; `None` while it is under way.
    pub(crate) end: Option<Duration>,
    /// `None`: there was no response.
    pub(crate) status: Option<u16>,
    pub(crate) url: String,
    pub(crate) is_robots: bool,
}

/// What the journal keeps of a host at the end of a run, over all runs so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    host: String,
    requests: usize,
    robots_requests: usize,
    sitemap_requests: usize,
    waited_ms: u64,
    longest_wait_ms: u64,
    gap_min_ms: Option<u64>,
    requeued: usize,
    backoffs: Vec<Backoff>,
    robots: Vec<Event>,
}

impl Report {
    /// With `keeps_pages`, every page is kept for a table.
    pub(crate) fn new(observer: &GateObserver, keeps_pages: bool) -> Self {
        Self {
            hosts: BTreeMap::new(),
            started: observer.started(),
            before: Duration::ZERO,
            events: 0,
            pages: keeps_pages.then(Vec::new),
            interrupted: false,
            lasted: Duration::ZERO,
        }
    }

    /// Counts what became of a URL, for the host that was asked.
    pub(crate) fn note(&mut self, record: &Record) {
        let Ok(url) = record.page.url.parse() else { return };
        let host = self.host_of(&url);
        let page = &record.page;
        match page.outcome {
            Outcome::Fetched if page.kind == Kind::Sitemap => host.sitemaps += 1,
            Outcome::Fetched | Outcome::Allowed => host.fetched += 1,
            Outcome::Denied => host.denied += 1,
            Outcome::Deferred => host.deferred += 1,
            Outcome::Refused => host.refused += 1,
            Outcome::Error => host.errors += 1,
        }
        match page.class().filter(|_| page.kind == Kind::Page) {
            Some(Class::Ok) => host.ok += 1,
            Some(Class::Redirected) => host.redirected += 1,
            Some(Class::ClientError) => host.client_errors += 1,
            Some(Class::ServerError) => host.server_errors += 1,
            None => {}
        }
        host.bytes = host.bytes.saturating_add(page.bytes.unwrap_or(0));
        host.kept_back(record);
        host.permitted(record);
        if let Some(pages) = self.pages.as_mut().filter(|pages| pages.len() < PAGES_MAX) {
            pages.push(page.clone());
        }
    }

    /// Counts the requests of one URL for the hosts that saw them. `ended`: when the last body did, or the last request failed.
    pub(crate) fn sent(&mut self, kind: Kind, sent: &[Sent], ended: Option<Instant>) -> Vec<Event> {
        let (started, before) = (self.started, self.before);
        let since = |at: Instant| at.saturating_duration_since(started);
        let mut events = Vec::new();
        for (index, hop) in sent.iter().enumerate() {
            let is_last = index + 1 == sent.len();
            let end = if is_last { ended } else { hop.took.map(|took| hop.at + took) };
            let end = end.map(|end| before + since(end));
            let (at, url) = (before + since(hop.at), hop.url.to_string());
            let event = Event { at, end, status: hop.status, url, is_robots: false };
            self.host_of(&hop.url).begun.push(since(hop.at));
            self.draw(kind, &hop.url, event.clone());
            events.push(event);
        }
        events
    }

    fn draw(&mut self, kind: Kind, url: &Url, event: Event) {
        let is_kept = self.events < EVENTS_MAX;
        self.events += usize::from(is_kept);
        let host = self.host_of(url);
        host.sitemap_requests += usize::from(kind == Kind::Sitemap);
        if is_kept {
            host.events.push(event);
        }
    }

    /// The requests of an earlier run.
    pub(crate) fn was_sent(&mut self, kind: Kind, events: Vec<Event>) {
        for event in events {
            let Ok(url) = event.url.parse() else { continue };
            self.before = self.before.max(event.end.unwrap_or(event.at));
            self.host_of(&url).requests += 1;
            self.draw(kind, &url, event);
        }
    }

    /// What an earlier run had counted for a host at its end.
    pub(crate) fn had_counted(&mut self, lasted: Duration, totals: Totals) {
        self.before = self.before.max(lasted);
        let host = self.host(totals.host);
        host.requests = totals.requests;
        host.robots_requests = totals.robots_requests;
        host.sitemap_requests = totals.sitemap_requests;
        (host.waited_ms, host.longest_wait_ms) = (totals.waited_ms, totals.longest_wait_ms);
        (host.gap_min_ms, host.requeued) = (totals.gap_min_ms, totals.requeued);
        (host.holds, host.backoffs) = (totals.backoffs.len(), totals.backoffs);
        host.events.retain(|event| !event.is_robots);
        host.events.extend(totals.robots);
    }

    /// For the journal, at the end of a run.
    pub(crate) fn totals(&self) -> impl Iterator<Item = Totals> {
        let robots = |host: &Host| {
            host.events.iter().filter(|event| event.is_robots).take(ROBOTS_MAX).cloned().collect()
        };
        self.hosts().map(move |host| Totals {
            host: host.host.clone(),
            requests: host.requests,
            robots_requests: host.robots_requests,
            sitemap_requests: host.sitemap_requests,
            waited_ms: host.waited_ms,
            longest_wait_ms: host.longest_wait_ms,
            gap_min_ms: host.gap_min_ms,
            requeued: host.requeued,
            backoffs: host.backoffs.clone(),
            robots: robots(host),
        })
    }

    pub(crate) fn requeued(&mut self, task: &Task) {
        self.host_of(&task.url).requeued += 1;
    }

    /// URLs of the host of `task` that are not fetched in this run.
    pub(crate) fn left(&mut self, task: &Task, count: usize) {
        self.host_of(&task.url).left += count;
    }

    /// What can be said only at the end.
    ///
    /// `delay`: what lies between two requests at least.
    pub(crate) fn end(&mut self, observer: &GateObserver, abide: &Abide, delay: Duration) {
        self.lasted = self.before + self.started.elapsed();
        let observed = observer.take().hosts;
        let robots_only =
            observed.keys().filter(|name| !self.hosts.contains_key(*name)).cloned().collect::<Vec<_>>();
        for name in robots_only {
            self.host(name);
        }
        let mut left = EVENTS_MAX.saturating_sub(self.events);
        for host in self.hosts.values_mut() {
            if let Some(seen) = observed.get(&host.host) {
                host.add(seen, delay, self.before, &mut left);
            }
            host.know_robots(abide);
            host.events.sort_by_key(|event| event.at);
        }
    }

    /// The pages for the table, in the order in which they were fetched.
    pub(crate) fn pages(&self) -> &[Page] {
        self.pages.as_deref().unwrap_or_default()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// A sum over all hosts.
    pub(crate) fn sum(&self, count: impl Fn(&Host) -> usize) -> usize {
        self.hosts().map(count).sum()
    }

    /// Whether there are more requests than are kept in detail.
    pub(crate) fn is_cut(&self) -> bool {
        self.sum(|host| host.events.len()) < self.sum(|host| host.requests)
    }

    fn host_of(&mut self, url: &Url) -> &mut Host {
        let name = HostName::of(url).map(|host| host.as_str().to_owned());
        let host = self.host(name.unwrap_or_else(|_| url.host_str().unwrap_or_default().to_owned()));
        host.sample.get_or_insert_with(|| url.clone());
        host
    }

    fn host(&mut self, name: String) -> &mut Host {
        self.hosts.entry(name.clone()).or_insert_with(|| Host { host: name, ..Host::default() })
    }
}

impl Host {
    /// The URLs that were to be fetched, each with one outcome.
    pub(crate) fn urls(&self) -> usize {
        self.fetched + self.sitemaps + self.denied + self.deferred + self.refused + self.errors + self.left
    }

    /// What a page permits.
    fn permitted(&mut self, record: &Record) {
        self.noindex += usize::from(record.page.kind == Kind::Page && record.page.noindex == Some(true));
        for name in &record.permissions {
            if let Some(count) = self.permissions.get_mut(name) {
                *count += 1;
            } else if self.permissions.len() < NAMES_MAX {
                self.permissions.insert(name.clone(), 1);
            }
        }
    }

    /// Counts what was denied, refused or failed by its cause.
    fn kept_back(&mut self, record: &Record) {
        let (page, Some(cause)) = (&record.page, &record.cause) else { return };
        if page.outcome == Outcome::Denied {
            self.unreachable += usize::from(cause.line.is_none());
            let is_same =
                |by: &&mut DeniedBy| (by.line, &by.rule, &by.host) == (cause.line, &cause.text, &cause.host);
            if let Some(by) = self.denied_by.iter_mut().find(is_same) {
                by.urls += 1;
            } else if self.denied_by.len() < NAMES_MAX {
                let (rule, host) = (cause.text.clone(), cause.host.clone());
                self.denied_by.push(DeniedBy { rule, line: cause.line, host, urls: 1 });
            }
        } else if matches!(page.outcome, Outcome::Refused | Outcome::Error) {
            let is_same = |by: &&mut FailedBy| {
                (by.outcome, &by.why, &by.host) == (page.outcome, &cause.text, &cause.host)
            };
            if let Some(by) = self.failed_by.iter_mut().find(is_same) {
                by.urls += 1;
            } else if self.failed_by.len() < NAMES_MAX {
                let (why, host, example) = (cause.text.clone(), cause.host.clone(), page.url.clone());
                self.failed_by.push(FailedBy { outcome: page.outcome, why, host, urls: 1, example });
            }
        }
    }

    /// The outcome of its robots.txt, and the age of the copy, as they are at the end.
    fn know_robots(&mut self, abide: &Abide) {
        self.denied_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        self.failed_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        let verdict = self.sample.as_ref().and_then(|url| abide.check_cached(url));
        let Some(answer) = verdict.as_ref().and_then(|verdict| verdict.entry()) else {
            // What could not be fetched is forgotten sooner than a long crawl ends.
            let is_own = |by: &DeniedBy| by.line.is_none() && by.host == self.host;
            self.robots = self.denied_by.iter().any(is_own).then_some("unreachable");
            return;
        };
        self.robots = Some(source_name(Some(answer.source())));
        self.robots_status = answer.status();
        self.robots_age_s = answer.age(abide.gate_handle().wall()).map(|age| age.as_secs());
        self.crawl_delay = answer.crawl_delay().map(|delay| delay.as_secs_f64());
    }

    /// Permits, waits and backoffs. A permit that no page took was taken by robots.txt. `before`: what earlier runs took.
    fn add(&mut self, seen: &HostEvents, delay: Duration, before: Duration, left: &mut usize) {
        self.begun.sort();
        let robots = without_pages(&seen.permits, &self.begun);
        let permits = without_returned(&seen.permits, &robots, delay);
        self.requests += permits.len();
        self.sample = self.sample.take().or_else(|| seen.root.clone());
        self.waited_ms += millis(seen.waited);
        self.longest_wait_ms = self.longest_wait_ms.max(millis(seen.longest_wait));
        self.holds += seen.backoffs.len();
        let moved = |backoff: &Backoff| Backoff {
            from: before + backoff.from,
            until: before + backoff.until,
            ..backoff.clone()
        };
        self.backoffs.extend(seen.backoffs.iter().map(moved));
        let gaps =
            permits.iter().zip(permits.iter().skip(1)).map(|(permit, next)| next.saturating_sub(*permit));
        self.gap_min_ms = gaps.map(millis).chain(self.gap_min_ms).min();
        let robots: Vec<Duration> =
            robots.into_iter().filter(|at| permits.binary_search(at).is_ok()).collect();
        self.robots_requests += robots.len();
        let kept = robots.len().min(*left);
        *left -= kept;
        for at in robots.iter().take(kept) {
            // One that was redirected has an answer that comes only after further permits.
            let next = permits.get(permits.partition_point(|permit| permit <= at));
            let is_its = |answer: &&Answered| answer.at >= *at && next.is_none_or(|next| answer.at <= *next);
            let answer = seen.answers.iter().find(is_its);
            let status = answer.and_then(|answer| answer.status);
            let end = answer.map(|answer| before + answer.at);
            let url = format!("{}/robots.txt", self.host);
            self.events.push(Event { at: before + *at, end, status, url, is_robots: true });
        }
    }
}

/// The permits that are not the last one before the beginning of a page. Both are in order.
fn without_pages(permits: &[Duration], pages: &[Duration]) -> Vec<Duration> {
    let mut robots = Vec::new();
    let mut permits = permits.iter().copied().peekable();
    for page in pages {
        while let Some(permit) = permits.next_if(|permit| permit <= page) {
            robots.push(permit);
        }
        robots.pop();
    }
    robots.extend(permits);
    robots
}

/// The permits that were used. Rules can change while a request waits; then its permit is given back unsent, and robots.txt takes the
/// next one at once, where a request that was sent would have been owed the whole delay.
fn without_returned(permits: &[Duration], robots: &[Duration], delay: Duration) -> Vec<Duration> {
    let next = permits.iter().skip(1).map(Some).chain([None]);
    let is_returned = |permit: &Duration, next: Option<&Duration>| {
        next.is_some_and(|next| next.saturating_sub(*permit) < delay / 2) && robots.contains(permit)
    };
    permits
        .iter()
        .zip(next)
        .filter(|(permit, next)| !is_returned(permit, *next))
        .map(|(permit, _)| *permit)
        .collect()
}

/// Of one host, in the journal: a line of it must stay short enough to be read again.
const ROBOTS_MAX: usize = 1000;
/// Rows of the table that is searched: some 200 bytes each.
const PAGES_MAX: usize = 100_000;

/// Requests that are kept in detail, for the timeline: about 200 bytes each, and what a browser can draw.
const EVENTS_MAX: usize = 20_000;
/// Rules that denied, and permissions, of one host.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(list: &[u64]) -> Vec<Duration> {
        list.iter().map(|seconds| Duration::from_secs(*seconds)).collect()
    }

    #[test]
    fn robots_txt_that_failed_stays_unreachable() {
        let abide = Abide::builder("ExampleBot").build().unwrap();
        let by = |host: &str, line| DeniedBy { rule: String::new(), line, host: host.to_owned(), urls: 1 };
        for (by, robots) in [
            (by("a.example", None), Some("unreachable")),
            (by("b.example", None), None),
            (by("a.example", Some(1)), None),
        ] {
            let mut host = Host { host: "a.example".to_owned(), ..Host::default() };
            host.denied_by.push(by);
            host.know_robots(&abide);
            assert_eq!(host.robots, robots);
        }
    }

    #[test]
    fn a_permit_that_was_given_back_is_no_request() {
        for (permits, robots, delay, used) in [
            (&[0, 10, 11, 20][..], &[10, 11][..], 8, &[0, 11, 20][..]),
            (&[0, 10, 20], &[0, 10, 20], 8, &[0, 10, 20]),
            (&[0, 1, 2], &[0, 1, 2], 0, &[0, 1, 2]),
            (&[0, 1], &[1], 8, &[0, 1]),
        ] {
            let found = without_returned(&seconds(permits), &seconds(robots), Duration::from_secs(delay));
            assert_eq!(found, seconds(used), "{permits:?}");
        }
    }

    #[test]
    fn a_permit_that_no_page_took_was_taken_by_robots_txt() {
        for (permits, pages, robots) in [
            (&[][..], &[][..], &[][..]),
            (&[0], &[], &[0]),
            (&[0, 10, 20], &[11, 21], &[0]),
            (&[0, 1, 10, 11, 20], &[12, 21], &[0, 1, 10]),
            (&[5, 10, 30], &[6], &[10, 30]),
        ] {
            assert_eq!(without_pages(&seconds(permits), &seconds(pages)), seconds(robots), "{permits:?}");
        }
    }
}
