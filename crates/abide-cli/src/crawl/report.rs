//! What a crawl did to each host, as the host saw it: one host has one turn, whatever its ports and schemes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abide::{Abide, Host as HostName};
use serde::Serialize;
use url::Url;

use crate::crawl::frontier::{Kind, Task};
use crate::fetch::Answer;
use crate::json::source_name;
use crate::trail::{Sent, public};
use crate::watch::{Answered, Heard, Hold, Watch};

pub(crate) struct Report {
    hosts: BTreeMap<String, Host>,
    started: Instant,
    /// What is kept in detail, over all hosts.
    events: usize,
    pub(crate) interrupted: bool,
    pub(crate) lasted: Duration,
}

/// One host; one line of `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Host {
    pub(crate) host: String,
    /// What went out to it: pages, sitemaps, hops, robots.txt.
    pub(crate) requests: usize,
    /// Pages; sitemaps are counted apart.
    pub(crate) fetched: usize,
    pub(crate) denied: usize,
    pub(crate) deferred: usize,
    pub(crate) refused: usize,
    pub(crate) errors: usize,
    /// Queued and not fetched: a limit was reached, the crawl was interrupted, or the host is held.
    pub(crate) left: usize,
    /// Fetched and not to be indexed.
    pub(crate) noindex: usize,
    pub(crate) bytes: u64,
    pub(crate) holds: usize,
    /// For turns, all requests together.
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
    #[serde(skip)]
    pub(crate) events: Vec<Event>,
    #[serde(skip)]
    pub(crate) held: Vec<Hold>,
    /// Where each request that was not for robots.txt began, also of those that are not among the events.
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
    pub(crate) outcome: &'static str,
    pub(crate) why: String,
    /// Where: another host, when a page has redirected there.
    pub(crate) host: String,
    pub(crate) urls: usize,
    /// The first of them, as it was asked for.
    pub(crate) example: String,
}

/// One request, for the timeline. Times are since the crawl began.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    /// When the body had ended, or was dropped; `None` if nothing came.
    pub(crate) end: Option<Duration>,
    pub(crate) status: Option<u16>,
    pub(crate) url: String,
    pub(crate) is_robots: bool,
}

impl Report {
    pub(crate) fn new(watch: &Watch) -> Self {
        Self {
            hosts: BTreeMap::new(),
            started: watch.started(),
            events: 0,
            interrupted: false,
            lasted: Duration::ZERO,
        }
    }

    /// Counts an answer for the host that was asked.
    pub(crate) fn note(&mut self, task: &Task, answer: &Answer) {
        let host = self.host_of(&task.url);
        let line = &answer.line;
        match line.outcome {
            "fetched" if task.kind == Kind::Sitemap => host.sitemaps += 1,
            "fetched" => host.fetched += 1,
            "denied" => host.denied += 1,
            "deferred" => host.deferred += 1,
            "refused" => host.refused += 1,
            _ => host.errors += 1,
        }
        host.bytes = host.bytes.saturating_add(line.bytes.unwrap_or(0));
        if line.outcome == "denied" {
            host.denied_by(answer);
        } else if matches!(line.outcome, "refused" | "error") {
            host.failed_by(task, answer);
        }
        if task.kind == Kind::Page {
            host.permitted(answer);
        }
    }

    /// Counts the requests of one URL for the hosts that saw them. `ended`: when the last body did.
    pub(crate) fn sent(&mut self, kind: Kind, sent: &[Sent], ended: Instant) {
        let since = |at: Instant| at.saturating_duration_since(self.started);
        let events: Vec<_> = sent
            .iter()
            .enumerate()
            .map(|(index, hop)| {
                let end =
                    if index + 1 == sent.len() { Some(ended) } else { hop.took.map(|took| hop.at + took) };
                let end = end.filter(|_| hop.status.is_some()).map(since);
                let (at, status, url) = (since(hop.at), hop.status, hop.url.to_string());
                Event { at, end, status, url, is_robots: false }
            })
            .collect();
        for (event, hop) in events.into_iter().zip(sent) {
            let is_kept = self.events < EVENTS_MAX;
            self.events += usize::from(is_kept);
            let host = self.host_of(&hop.url);
            host.begun.push(event.at);
            host.sitemap_requests += usize::from(kind == Kind::Sitemap);
            if is_kept {
                host.events.push(event);
            }
        }
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
    pub(crate) fn end(&mut self, watch: &Watch, abide: &Abide, delay: Duration) {
        self.lasted = self.started.elapsed();
        let heard = watch.take().hosts;
        let robots_only =
            heard.keys().filter(|name| !self.hosts.contains_key(*name)).cloned().collect::<Vec<_>>();
        for name in robots_only {
            self.host(name);
        }
        let mut left = EVENTS_MAX.saturating_sub(self.events);
        for host in self.hosts.values_mut() {
            if let Some(heard) = heard.get(&host.host) {
                host.hear(heard, delay, &mut left);
            }
            host.know_robots(abide);
            host.events.sort_by_key(|event| event.at);
        }
    }

    /// Everything asked for was fetched.
    pub(crate) fn is_clean(&self) -> bool {
        let failed = |host: &Host| host.denied + host.deferred + host.refused + host.errors;
        !self.interrupted && self.hosts.values().map(failed).sum::<usize>() == 0
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
    fn permitted(&mut self, answer: &Answer) {
        self.noindex += usize::from(answer.line.noindex == Some(true));
        let tags = answer.line.permissions.iter();
        let stated = tags.flat_map(|tags| tags.rules.stated()).map(str::to_owned);
        for name in stated.chain(answer.reserved.iter().map(|usage| format!("no {usage}"))) {
            if self.permissions.len() < NAMES_MAX || self.permissions.contains_key(&name) {
                *self.permissions.entry(name).or_default() += 1;
            }
        }
    }

    /// Requests that were denied, by the rule or the reason.
    fn denied_by(&mut self, answer: &Answer) {
        let rule = answer.line.verdict.as_ref().and_then(|verdict| verdict.rule.as_ref());
        let hop = answer.line.hops.last().and_then(|hop| hop.url.parse::<Url>().ok());
        let host = hop.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.host.clone());
        let (text, line) = match rule {
            Some(rule) => (rule.to_string(), Some(rule.line)),
            None => ("robots.txt cannot be reached".to_owned(), None),
        };
        if let Some(by) =
            self.denied_by.iter_mut().find(|by| by.rule == text && by.line == line && by.host == host)
        {
            by.urls += 1;
        } else if self.denied_by.len() < NAMES_MAX {
            self.denied_by.push(DeniedBy { rule: text, line, host, urls: 1 });
        }
    }

    /// What was refused or failed, by the sentence, without the URL that it may begin with.
    fn failed_by(&mut self, task: &Task, answer: &Answer) {
        let line = &answer.line;
        let hop = line.hops.last().and_then(|hop| hop.url.parse::<Url>().ok());
        let own = || self.host.clone();
        let host = hop.as_ref().and_then(Url::host_str).map_or_else(own, str::to_owned);
        let last = line.final_url.as_deref().unwrap_or_default();
        let without = |url: &str| line.why.strip_prefix(url).and_then(|why| why.strip_prefix(": "));
        let sentence = || without(last).or_else(|| without(&line.url)).unwrap_or(&line.why);
        let why = answer.address.as_deref().unwrap_or_else(sentence);
        let outcome = line.outcome;
        let is_same = |by: &&mut FailedBy| by.why == why && by.host == host && by.outcome == outcome;
        if let Some(by) = self.failed_by.iter_mut().find(is_same) {
            by.urls += 1;
        } else if self.failed_by.len() < NAMES_MAX {
            let (why, example) = (why.to_owned(), public(&task.url).into());
            self.failed_by.push(FailedBy { outcome, why, host, urls: 1, example });
        }
    }

    /// The outcome of its robots.txt, and the age of the copy, as they are at the end.
    fn know_robots(&mut self, abide: &Abide) {
        self.denied_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        self.failed_by.sort_by_key(|by| std::cmp::Reverse(by.urls));
        let verdict = self.sample.as_ref().and_then(|url| abide.check_cached(url));
        let Some(answer) = verdict.as_ref().and_then(|verdict| verdict.entry()) else { return };
        self.robots = Some(source_name(Some(answer.source())));
        self.robots_status = answer.status();
        self.robots_age_s = answer.age(abide.gate_handle().wall()).map(|age| age.as_secs());
        self.crawl_delay = answer.crawl_delay().map(|delay| delay.as_secs_f64());
    }

    /// Turns, waits and holds. A turn that no page took was taken by robots.txt.
    fn hear(&mut self, heard: &Heard, delay: Duration, left: &mut usize) {
        self.begun.sort();
        let robots = without_pages(&heard.turns, &self.begun);
        let turns = without_returned(&heard.turns, &robots, delay);
        self.requests = turns.len();
        self.sample = self.sample.take().or_else(|| heard.root.clone());
        self.waited_ms = millis(heard.waited);
        self.longest_wait_ms = millis(heard.longest_wait);
        self.holds = heard.holds.len();
        self.held.clone_from(&heard.holds);
        let gaps = turns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        self.gap_min_ms = gaps.min().map(millis);
        let robots: Vec<Duration> = robots.into_iter().filter(|at| turns.binary_search(at).is_ok()).collect();
        self.robots_requests = robots.len();
        let kept = robots.len().min(*left);
        *left -= kept;
        for at in &robots[..kept] {
            // One that was redirected has an answer that comes only after further turns.
            let next = turns.get(turns.partition_point(|turn| turn <= at));
            let is_its = |answer: &&Answered| answer.at >= *at && next.is_none_or(|next| answer.at <= *next);
            let answer = heard.answers.iter().find(is_its);
            let (end, status) = (answer.map(|answer| answer.at), answer.and_then(|answer| answer.status));
            let url = format!("{}/robots.txt", self.host);
            self.events.push(Event { at: *at, end, status, url, is_robots: true });
        }
    }
}

/// The turns that are not the last one before the beginning of a page. Both are in order.
fn without_pages(turns: &[Duration], pages: &[Duration]) -> Vec<Duration> {
    let mut robots = Vec::new();
    let mut turns = turns.iter().copied().peekable();
    for page in pages {
        while let Some(turn) = turns.next_if(|turn| turn <= page) {
            robots.push(turn);
        }
        robots.pop();
    }
    robots.extend(turns);
    robots
}

/// The turns that were used. Rules can change while a request waits; then its turn is given back unsent, and robots.txt takes the
/// next one at once, where a request that was sent would have been owed the whole delay.
fn without_returned(turns: &[Duration], robots: &[Duration], delay: Duration) -> Vec<Duration> {
    let is_returned = |index: usize| {
        let next = turns.get(index + 1);
        next.is_some_and(|next| next.saturating_sub(turns[index]) < delay / 2)
            && robots.contains(&turns[index])
    };
    (0..turns.len()).filter(|index| !is_returned(*index)).map(|index| turns[index]).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

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
    fn a_turn_that_was_given_back_is_no_request() {
        for (turns, robots, delay, used) in [
            (&[0, 10, 11, 20][..], &[10, 11][..], 8, &[0, 11, 20][..]),
            (&[0, 10, 20], &[0, 10, 20], 8, &[0, 10, 20]),
            (&[0, 1, 2], &[0, 1, 2], 0, &[0, 1, 2]),
            (&[0, 1], &[1], 8, &[0, 1]),
        ] {
            let found = without_returned(&seconds(turns), &seconds(robots), Duration::from_secs(delay));
            assert_eq!(found, seconds(used), "{turns:?}");
        }
    }

    #[test]
    fn a_turn_that_no_page_took_was_taken_by_robots_txt() {
        for (turns, pages, robots) in [
            (&[][..], &[][..], &[][..]),
            (&[0], &[], &[0]),
            (&[0, 10, 20], &[11, 21], &[0]),
            (&[0, 1, 10, 11, 20], &[12, 21], &[0, 1, 10]),
            (&[5, 10, 30], &[6], &[10, 30]),
        ] {
            assert_eq!(without_pages(&seconds(turns), &seconds(pages)), seconds(robots), "{turns:?}");
        }
    }
}
