//! What a crawl did to each host, as the host saw it: one host has one permit at a time, whatever its ports
//! and schemes.
//!
//! Built from [`Fact`]s alone, those of a journal first. `summary` and `html` show it, and `--json` prints
//! its hosts.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use abide::{Abide, Host as HostName};
use serde::Serialize;
use url::Url;

use crate::crawl::facts::{BackoffSpan, CrawlRequest, Fact, Hold};
use crate::crawl::frontier::{Frontier, Task, UrlKind};
use crate::crawl::page::{Class, Page, PageRecord};
use crate::crawl::referrers::FIRST_MAX;
use crate::crawl::scope::LeftOut;
use crate::json::{millis, rfc3339, source_name};
use crate::outcome::Outcome;

#[derive(Debug, Default)]
pub(crate) struct Report {
    hosts: BTreeMap<String, HostLine>,
    /// How many requests are kept in detail.
    drawn: usize,
    /// For the table of the HTML report, if there is to be one, in the order in which they came.
    pub(crate) pages: Vec<Page>,
    keeps_pages: bool,
    /// URLs that are broken, in the order in which that was found.
    pub(crate) broken: Vec<Broken>,
    pub(crate) interrupted: bool,
    /// An earlier run has begun it.
    pub(crate) is_going_on: bool,
    pub(crate) lasted: Duration,
}

/// A URL that leads nowhere, with what names it.
#[derive(Debug, Serialize)]
pub(crate) struct Broken {
    pub(crate) url: String,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    pub(crate) kind: UrlKind,
    /// The first of the pages, sitemaps and redirects that name it; none for a URL that was given.
    pub(crate) linked_from: Vec<String>,
    /// How many there are; of a crawl that was resumed, at least so many.
    pub(crate) links: usize,
}

impl Broken {
    fn new(record: &PageRecord) -> Self {
        let page = &record.page;
        let linked_from = page.linked_from.clone();
        let why = record.cause.as_ref().map_or_else(|| page.why.clone(), |cause| cause.text.clone());
        let url = page.url.clone();
        let (status, outcome, kind, links) = (page.status, page.outcome, page.kind, linked_from.len());
        Self { url, status, outcome, why, kind, linked_from, links }
    }
}

/// One host; one line of `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct HostLine {
    pub(crate) host: String,
    /// What went out to it: pages, sitemaps, hops, robots.txt.
    pub(crate) requests: usize,
    /// Pages that were answered, whatever the status, and sitemaps that are errors; the others are counted
    /// apart.
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
    pub(crate) denied_by: Vec<Tally<Denial>>,
    /// On how many pages each rule and reservation was found.
    pub(crate) permissions: BTreeMap<String, usize>,
    /// Why others were refused or failed, the most frequent first.
    pub(crate) failed_by: Vec<Tally<FailureCause>>,
    pub(crate) sitemaps: usize,
    pub(crate) robots_requests: usize,
    /// Requests that were for sitemaps, hops among them.
    pub(crate) sitemap_requests: usize,
    /// This field, the next three, and `unchanged` are those that were fetched, by their [`Class`].
    pub(crate) ok: usize,
    pub(crate) redirected: usize,
    pub(crate) client_errors: usize,
    pub(crate) server_errors: usize,
    /// Of those that were denied: robots.txt can't be fetched.
    pub(crate) unreachable: usize,
    /// What its pages name, and the crawl leaves out, by reason.
    pub(crate) left_out: LeftOut,
    /// Of those that were fetched: they are as in an earlier crawl.
    pub(crate) unchanged: usize,
    /// It has refused so many requests in a row that it was held.
    pub(crate) refusing: Option<Hold>,
    /// Images, styles, scripts and links to it that were only checked; each counts by its outcome, too.
    pub(crate) checked: usize,
    #[serde(skip)]
    pub(crate) drawn: Vec<CrawlRequest>,
    #[serde(skip)]
    pub(crate) backoffs: Vec<BackoffSpan>,
    /// When each request began, also of those that are not drawn.
    #[serde(skip)]
    begun: Vec<Duration>,
    /// A URL of it, to ask after its robots.txt at the end.
    #[serde(skip)]
    sample: Option<Url>,
}

/// Why URLs were not fetched, and how many.
#[derive(Debug, Serialize)]
pub(crate) struct Tally<T> {
    #[serde(flatten)]
    pub(crate) why: T,
    pub(crate) urls: usize,
    /// The first of those that failed, as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) example: Option<String>,
}

/// A rule, or another reason to deny, as a [`Cause`](crate::crawl::page::Cause) has it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Denial {
    /// As written in robots.txt, or why there are none.
    pub(crate) rule: String,
    pub(crate) line: Option<u32>,
    pub(crate) host: String,
}

/// A reason other than robots.txt.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FailureCause {
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    pub(crate) host: String,
}

impl<T: PartialEq> Tally<T> {
    fn count(list: &mut Vec<Self>, why: T, example: Option<String>) {
        if let Some(tally) = list.iter_mut().find(|tally| tally.why == why) {
            tally.urls += 1;
        // A reason beyond the bound is not counted: a site could make up as many as it likes.
        } else if list.len() < NAMES_MAX {
            list.push(Self { why, urls: 1, example });
        }
    }
}

impl Report {
    pub(crate) fn new(keeps_pages: bool) -> Self {
        Self { keeps_pages, ..Self::default() }
    }

    /// Counts what happened, in this run or in an earlier one.
    pub(crate) fn count(&mut self, fact: Fact) {
        match fact {
            Fact::Permit { host, at, waited, is_robots } => {
                let waited = millis(waited);
                let seen = self.host(host);
                seen.waited_ms += waited;
                seen.longest_wait_ms = seen.longest_wait_ms.max(waited);
                if is_robots {
                    let (host, url) = (seen.host.clone(), format!("{}/robots.txt", seen.host));
                    let request = CrawlRequest { kind: UrlKind::Robots, url, at, end: None, status: None };
                    self.sent(host, request);
                }
            }
            Fact::Robots { site, at, status } => {
                let host = self.host_of(&site);
                host.robots_status = status;
                let drawn = host.drawn.last_mut();
                // One that was redirected has an answer that comes only after further permits.
                if let Some(request) = drawn.filter(|last| last.kind == UrlKind::Robots && last.end.is_none())
                {
                    (request.end, request.status) = (Some(at), status);
                }
                self.lasted = self.lasted.max(at);
            }
            Fact::Backoff { host, backoff } => self.host(host).back_off(backoff),
            Fact::Refusing { host, hold } => self.host(host).refusing = Some(hold),
            Fact::Sent(request) => {
                if let Ok(url) = request.url.parse() {
                    let host = self.host_of(&url).host.clone();
                    self.sent(host, request);
                }
            }
            Fact::Unsent(host) => self.host(host).forget_unsent(),
            Fact::Back(url) => self.host_of(&url).requeued += 1,
            Fact::Done(record) => self.done(*record),
            Fact::Resumed => {
                self.is_going_on = true;
                self.hosts.values_mut().for_each(HostLine::measure_gaps);
                // A hold of the last run that is over says nothing of this one. Times of one form compare as
                // texts.
                let now = rfc3339(SystemTime::now().into());
                self.hosts
                    .values_mut()
                    .for_each(|host| _ = host.refusing.take_if(|hold| hold.held_until <= now));
            }
        }
    }

    fn sent(&mut self, host: String, request: CrawlRequest) {
        self.lasted = self.lasted.max(request.end.unwrap_or(request.at));
        let is_drawn = self.drawn < DRAWN_MAX;
        self.drawn += usize::from(is_drawn);
        let host = self.host(host);
        host.requests += 1;
        host.robots_requests += usize::from(request.kind == UrlKind::Robots);
        host.sitemap_requests += usize::from(request.kind.is_sitemap());
        host.begun.push(request.at);
        if is_drawn {
            host.drawn.push(request);
        }
    }

    /// Counts what became of a URL, for the host that was asked.
    fn done(&mut self, record: PageRecord) {
        let Ok(url) = record.page.url.parse() else { return };
        let host = self.host_of(&url);
        let page = &record.page;
        host.left_out.add_all(&record.left_out);
        // One that is an error, or leads elsewhere, has named nothing, so it counts as that.
        let is_sitemap =
            page.kind == UrlKind::Sitemap && page.status.is_none_or(|status| status < 300 || status == 304);
        if record.is_guess && page.outcome == Outcome::Fetched && !is_sitemap {
            return;
        }
        match page.outcome {
            Outcome::Fetched if is_sitemap => host.sitemaps += 1,
            Outcome::Fetched | Outcome::Allowed => host.fetched += 1,
            Outcome::Denied => host.denied += 1,
            Outcome::Deferred => host.deferred += 1,
            Outcome::Refused => host.refused += 1,
            Outcome::Error => host.errors += 1,
        }
        match page.class().filter(|_| !is_sitemap) {
            Some(Class::Ok) => host.ok += 1,
            Some(Class::Unchanged) => host.unchanged += 1,
            Some(Class::Redirected) => host.redirected += 1,
            Some(Class::ClientError) => host.client_errors += 1,
            Some(Class::ServerError) => host.server_errors += 1,
            None => {}
        }
        host.checked += usize::from(page.kind.is_checked());
        host.bytes = host.bytes.saturating_add(page.bytes.unwrap_or(0));
        host.kept_back(&record);
        host.permitted(&record);
        if record.is_broken() && self.broken.len() < BROKEN_MAX {
            self.broken.push(Broken::new(&record));
        }
        if self.keeps_pages && self.pages.len() < PAGES_MAX {
            // Those of the broken ones are kept there; a site may have URLs as long as a page.
            self.pages.push(Page { linked_from: Vec::new(), ..record.page });
        }
    }

    /// Counts a URL that is not fetched in this run.
    pub(crate) fn left(&mut self, task: &Task) {
        self.host_of(&task.url).left += 1;
    }

    /// Hosts of which requests are counted, and none was sent: a robots.txt whose address is refused once it
    /// is resolved gives its permit back.
    pub(crate) fn unsent(&self, abide: &Abide) -> Vec<String> {
        let unsent = abide.gate().reports().into_iter().filter(|known| known.requests == 0);
        let is_counted = |name: &String| self.hosts.get(name).is_some_and(|host| !host.begun.is_empty());
        unsent.map(|known| (*known.key).into()).filter(is_counted).collect()
    }

    /// What can be said only at the end.
    pub(crate) fn end(&mut self, abide: &Abide, lasted: Duration) {
        self.lasted = lasted;
        for host in self.hosts.values_mut() {
            host.measure_gaps();
            host.know_robots(abide);
        }
    }

    /// Completes what names the broken URLs: more pages may have been read since.
    pub(crate) fn link(&mut self, frontier: &Frontier) {
        for broken in &mut self.broken {
            let Ok(url) = broken.url.parse() else { continue };
            let (first, links) = frontier.named_by(&url);
            // An earlier run has read pages that this one has not.
            for name in first {
                if broken.linked_from.len() < FIRST_MAX && !broken.linked_from.contains(&name) {
                    broken.linked_from.push(name);
                }
            }
            broken.links = broken.links.max(links).max(broken.linked_from.len());
        }
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &HostLine> {
        self.hosts.values()
    }

    pub(crate) fn sum(&self, count: impl Fn(&HostLine) -> usize) -> usize {
        self.hosts().map(count).sum()
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.drawn < self.sum(|host| host.requests)
    }

    fn host_of(&mut self, url: &Url) -> &mut HostLine {
        let name = HostName::of(url).map(|host| host.as_str().to_owned());
        let host = self.host(name.unwrap_or_else(|_| url.host_str().unwrap_or_default().to_owned()));
        host.sample.get_or_insert_with(|| url.clone());
        host
    }

    fn host(&mut self, name: String) -> &mut HostLine {
        self.hosts.entry(name.clone()).or_insert_with(|| HostLine { host: name, ..HostLine::default() })
    }
}

impl HostLine {
    /// The URLs that were to be fetched, each with one outcome.
    pub(crate) fn urls(&self) -> usize {
        self.fetched + self.sitemaps + self.denied + self.deferred + self.refused + self.errors + self.left
    }

    /// No page of it was to be fetched: others link to it, or take images, styles or scripts from it.
    pub(crate) fn is_only_checked(&self) -> bool {
        self.checked > 0 && self.urls() == self.checked && self.refusing.is_none()
    }

    /// One that extends the backoff in force is the same backoff.
    fn back_off(&mut self, backoff: BackoffSpan) {
        if let Some(last) = self.backoffs.last_mut().filter(|last| backoff.from < last.until) {
            last.until = last.until.max(backoff.until);
        } else if self.backoffs.len() < BACKOFFS_MAX {
            self.holds += 1;
            self.backoffs.push(backoff);
        }
    }

    fn forget_unsent(&mut self) {
        let unsent = std::mem::take(&mut self.begun).len();
        self.requests = self.requests.saturating_sub(unsent);
        self.robots_requests = self.robots_requests.saturating_sub(unsent);
        self.drawn.truncate(self.drawn.len().saturating_sub(unsent));
    }

    /// Of one run: the pause between two is not part of their times.
    fn measure_gaps(&mut self) {
        // Facts come as pages end, and not in the order in which their requests began.
        self.begun.sort_unstable();
        let gaps = self.begun.iter().zip(self.begun.iter().skip(1)).map(|(one, next)| *next - *one);
        self.gap_min_ms = gaps.map(millis).chain(self.gap_min_ms).min();
        self.begun.clear();
    }

    fn permitted(&mut self, record: &PageRecord) {
        self.noindex += usize::from(record.page.kind == UrlKind::Page && record.page.noindex == Some(true));
        for name in &record.permissions {
            if let Some(count) = self.permissions.get_mut(name) {
                *count += 1;
            } else if self.permissions.len() < NAMES_MAX {
                self.permissions.insert(name.clone(), 1);
            }
        }
    }

    /// Counts what was denied, refused or failed by its cause.
    fn kept_back(&mut self, record: &PageRecord) {
        let (page, Some(cause)) = (&record.page, &record.cause) else { return };
        let (outcome, text, host) = (page.outcome, cause.text.clone(), cause.host.clone());
        if outcome == Outcome::Denied {
            self.unreachable += usize::from(record.is_unreachable());
            Tally::count(&mut self.denied_by, Denial { rule: text, line: cause.line, host }, None);
        } else if outcome != Outcome::Deferred {
            let example = Some(page.url.clone());
            Tally::count(&mut self.failed_by, FailureCause { outcome, why: text, host }, example);
        }
    }

    /// The outcome of its robots.txt, and the age of the copy, as they are at the end.
    fn know_robots(&mut self, abide: &Abide) {
        self.denied_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        self.failed_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        let verdict = self.sample.as_ref().and_then(|url| abide.check_cached(url));
        let Some(answer) = verdict.as_ref().and_then(|verdict| verdict.entry()) else {
            // What could not be fetched is forgotten sooner than a long crawl ends.
            let is_own = |by: &Tally<Denial>| by.why.line.is_none() && by.why.host == self.host;
            self.robots = self.denied_by.iter().any(is_own).then_some("unreachable");
            return;
        };
        self.robots = Some(source_name(Some(answer.source())));
        self.robots_status = answer.status();
        self.robots_age_s = answer.age(abide.gate().wall()).map(|age| age.as_secs());
        self.crawl_delay = answer.crawl_delay().map(|delay| delay.as_secs_f64());
    }
}

/// Rows of the table that is searched: some 200 bytes each.
const PAGES_MAX: usize = 100_000;
/// Broken URLs that are listed; all are counted.
const BROKEN_MAX: usize = 10_000;
/// Requests that are kept in detail, for the timeline: about 200 bytes each, and what a browser can draw.
const DRAWN_MAX: usize = 20_000;
/// Of one host, for the report: more is not readable.
const BACKOFFS_MAX: usize = 1000;
/// Rules that denied, and permissions, of one host.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_one_of_a_run() {
        let mut report = Report::default();
        let sent = |millis| {
            let (kind, at) = (UrlKind::Page, Duration::from_millis(millis));
            Fact::Sent(CrawlRequest { kind, url: "http://a/".to_owned(), at, end: None, status: None })
        };
        for fact in [sent(10), sent(1010), Fact::Resumed, sent(1011), sent(3011)] {
            report.count(fact);
        }
        report.end(&Abide::builder("ExampleBot").build().unwrap(), Duration::ZERO);
        assert_eq!(report.hosts().next().unwrap().gap_min_ms, Some(1000));
    }

    #[test]
    fn robots_txt_that_failed_stays_unreachable() {
        let abide = Abide::builder("ExampleBot").build().unwrap();
        let by = |host: &str, line| Denial { rule: String::new(), line, host: host.to_owned() };
        for (why, robots) in [
            (by("a.example", None), Some("unreachable")),
            (by("b.example", None), None),
            (by("a.example", Some(1)), None),
        ] {
            let mut host = HostLine { host: "a.example".to_owned(), ..HostLine::default() };
            Tally::count(&mut host.denied_by, why, None);
            host.know_robots(&abide);
            assert_eq!(host.robots, robots);
        }
    }
}
