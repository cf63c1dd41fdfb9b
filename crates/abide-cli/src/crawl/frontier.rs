//! What is still to be fetched: a queue per host, hosts one after the other, each URL once.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::sanitize::public_url;

/// What a URL is fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    #[default]
    Page,
    Sitemap,
    /// By the gate, before the others of its site.
    Robots,
}

/// One URL to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) url: Url,
    pub(crate) host: String,
    /// Links from the pages given.
    pub(crate) depth: u32,
    pub(crate) kind: Kind,
    /// How often it was deferred.
    pub(crate) deferrals: u16,
    /// How often it was answered with 429 or 503.
    pub(crate) tries: u16,
    /// It was deferred behind a redirect, which coming back later alone does not help: it waits inside the call.
    pub(crate) is_patient: bool,
}

/// What may be done now.
#[derive(Debug)]
pub(crate) enum Next {
    Task(Task),
    /// Nothing before then.
    Parked(Instant),
    /// Nothing until something that is under way ends, or nothing at all.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Frontier {
    hosts: BTreeMap<String, Host>,
    /// Deferred by a host that is not their own: they come back then, and the rest of their host's queue goes on.
    later: Vec<(Instant, Task)>,
    seen: HashSet<Url>,
    /// Of the URLs that were seen, together.
    bytes: usize,
    /// New ones for which there was no room.
    dropped: usize,
    depth_max: Option<u32>,
    /// Pages at most, by the host without its port.
    limits: BTreeMap<String, usize>,
    /// What the crawl began with.
    starts: HashSet<Url>,
    /// The host that was asked last: the others come first.
    last: String,
    pages_running: usize,
}

#[derive(Debug, Default)]
struct Host {
    queue: VecDeque<Task>,
    is_busy: bool,
    parked_until: Option<Instant>,
    is_given_up: bool,
    /// Pages that were begun.
    pages: usize,
}

impl Frontier {
    /// Nothing to fetch yet; only the hosts of `urls` will be asked.
    pub(crate) fn new(urls: &[Url], depth_max: Option<u32>) -> Self {
        let hosts = urls.iter().map(|url| (host_of(url), Host::default())).collect();
        Self {
            hosts,
            later: Vec::new(),
            seen: HashSet::new(),
            bytes: 0,
            dropped: 0,
            depth_max,
            limits: BTreeMap::new(),
            starts: urls.iter().map(known_as).collect(),
            last: String::new(),
            pages_running: 0,
        }
    }

    /// No more pages of this host than that.
    pub(crate) fn limit(&mut self, host: &str, max: usize) {
        self.limits.insert(host.to_owned(), max);
    }

    /// Queues a URL, unless it is known, too deep, or on another host. Says whether it did.
    pub(crate) fn add(&mut self, url: &Url, depth: u32, kind: Kind) -> bool {
        let known_as = known_as(url);
        let name = host_of(url);
        let Some(host) = self.hosts.get_mut(&name) else { return false };
        let is_too_deep = self.depth_max.is_some_and(|max| depth > max);
        let wanted = matches!(url.scheme(), "http" | "https") && !is_too_deep && !host.is_given_up;
        if !wanted || self.seen.contains(&known_as) {
            return false;
        }
        let bytes = self.bytes.saturating_add(url.as_str().len());
        if self.seen.len() >= SEEN_MAX || bytes > BYTES_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.bytes = bytes;
        self.seen.insert(known_as);
        let mut url = url.clone();
        url.set_fragment(None);
        host.queue.push_back(Task {
            url,
            host: name,
            depth,
            kind,
            deferrals: 0,
            tries: 0,
            is_patient: false,
        });
        true
    }

    /// How many links were left out for want of room.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    /// A URL that an earlier run has dealt with.
    pub(crate) fn know(&mut self, url: Url) {
        self.seen.insert(url);
    }

    /// Whether this is a start page, and so leads its site along when it redirects elsewhere.
    pub(crate) fn may_widen(&self, task: &Task) -> bool {
        task.kind == Kind::Page && self.starts.contains(&known_as(&task.url))
    }

    /// Makes the host of `to` one of ours. Says whether it was not.
    pub(crate) fn widen(&mut self, to: &Url) -> bool {
        let name = host_of(to);
        let is_new = !self.hosts.contains_key(&name);
        self.hosts.entry(name).or_default();
        self.seen.insert(to.clone());
        is_new
    }

    /// The next URL: of the first host behind the last one that has something to do.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.call_back(now);
        let limits = &self.limits;
        let may = |name: &str, host: &Host| {
            let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
            !host.is_busy && !host.queue.is_empty() && limits.get(name).is_none_or(|max| host.pages < *max)
        };
        let ready =
            |name: &str, host: &Host| may(name, host) && host.parked_until.is_none_or(|until| until <= now);
        let after = (std::ops::Bound::Excluded(&self.last), std::ops::Bound::Unbounded);
        let mut in_turn = self.hosts.range::<String, _>(after).chain(&self.hosts);
        let Some(name) = in_turn.find(|(name, host)| ready(name, host)).map(|(name, _)| name.clone()) else {
            let parked = self.hosts.iter().filter(|(name, host)| may(name, host));
            let times = parked.filter_map(|(_, host)| host.parked_until);
            let times = times.chain(self.later.iter().map(|(until, _)| *until));
            return times.min().map_or(Next::Nothing, Next::Parked);
        };
        let task = self.hosts.get_mut(&name).and_then(|host| {
            host.is_busy = true;
            host.parked_until = None;
            host.queue.pop_front()
        });
        self.last = name;
        match task {
            Some(task) => {
                let is_page = usize::from(task.kind == Kind::Page);
                self.pages_running += is_page;
                if let Some(host) = self.hosts.get_mut(&task.host) {
                    host.pages += is_page;
                }
                Next::Task(task)
            }
            None => Next::Nothing,
        }
    }

    /// Those whose time has come go to the front of their queues.
    fn call_back(&mut self, now: Instant) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.later).into_iter().partition(|(until, _)| *until <= now);
        self.later = later;
        for (_, task) in due {
            if let Some(host) = self.hosts.get_mut(&task.host) {
                host.queue.push_front(task);
            }
        }
    }

    /// The host of `task` may be asked for the next one.
    pub(crate) fn ended(&mut self, task: &Task) {
        self.pages_running -= usize::from(task.kind == Kind::Page);
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.is_busy = false;
        }
    }

    /// Puts `task` back to the front; its host rests until then.
    pub(crate) fn park(&mut self, task: Task, until: Instant) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.parked_until = Some(until);
            host.pages = host.pages.saturating_sub(usize::from(task.kind == Kind::Page));
            host.queue.push_front(deferred(task));
        }
    }

    /// Puts `task` back at that time; its host goes on meanwhile.
    pub(crate) fn postpone(&mut self, task: Task, until: Instant) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.pages = host.pages.saturating_sub(usize::from(task.kind == Kind::Page));
        }
        self.later.push((until, deferred(task)));
    }

    /// Drops what is queued for the host of `task`, and says how much that was.
    pub(crate) fn give_up(&mut self, task: &Task) -> usize {
        let Some(host) = self.hosts.get_mut(&task.host) else { return 0 };
        host.is_given_up = true;
        std::mem::take(&mut host.queue).len()
    }

    pub(crate) fn pages_running(&self) -> usize {
        self.pages_running
    }

    /// Everything that is still to be fetched.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Task> {
        self.hosts.values().flat_map(|host| &host.queue).chain(self.later.iter().map(|(_, task)| task))
    }

    /// How many that are.
    pub(crate) fn len(&self) -> usize {
        self.hosts.values().map(|host| host.queue.len()).sum::<usize>() + self.later.len()
    }

    /// How many are queued for one host.
    pub(crate) fn queued(&self, host: &str) -> usize {
        self.hosts.get(host).map_or(0, |host| host.queue.len())
    }

    /// Hosts that rest, and until when.
    pub(crate) fn parked(&self) -> impl Iterator<Item = (&str, Instant)> {
        self.hosts.iter().filter_map(|(name, host)| Some((name.as_str(), host.parked_until?)))
    }
}

fn deferred(mut task: Task) -> Task {
    task.deferrals = task.deferrals.saturating_add(1);
    task
}

/// The URL by which a page is known, whatever the credentials and the part of it that is linked to: without user information and fragment.
pub(crate) fn known_as(url: &Url) -> Url {
    let mut url = public_url(url);
    url.set_fragment(None);
    url
}

/// The host, with its port if that is not the scheme's own.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// URLs that are remembered and queued, of about 100 bytes each.
const SEEN_MAX: usize = 1_000_000;
/// All of them together: each may be as long as a page, and is kept twice.
const BYTES_MAX: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn frontier(urls: &[&str], depth_max: Option<u32>) -> Frontier {
        let urls: Vec<Url> = urls.iter().map(|text| url(text)).collect();
        let mut frontier = Frontier::new(&urls, depth_max);
        assert!(urls.iter().all(|url| frontier.add(url, 0, Kind::Page)));
        frontier
    }

    fn next(frontier: &mut Frontier) -> Option<Task> {
        match frontier.next(Instant::now()) {
            Next::Task(task) => Some(task),
            _ => None,
        }
    }

    #[test]
    fn urls_of_any_length_fill_no_more_than_there_is_room_for() {
        let mut frontier = frontier(&["http://a/"], None);
        frontier.bytes = BYTES_MAX - 100;
        let long = "x".repeat(40);
        let added =
            (0..9).filter(|number| frontier.add(&url(&format!("http://a/{number}{long}")), 1, Kind::Page));
        assert_eq!(added.count(), 2);
        assert_eq!(frontier.dropped(), 7);
        // One that is known already is none of them.
        assert!(!frontier.add(&url(&format!("http://a/0{long}")), 1, Kind::Page));
        assert_eq!(frontier.dropped(), 7);
    }

    #[test]
    fn what_another_host_defers_comes_back_and_delays_nothing() {
        let mut frontier = frontier(&["http://a/1", "http://a/2"], None);
        let first = next(&mut frontier).unwrap();
        frontier.ended(&first);
        let until = Instant::now() + Duration::from_secs(60);
        frontier.postpone(first, until);
        assert_eq!(frontier.len(), 2);
        let second = next(&mut frontier).unwrap();
        assert_eq!(second.url.as_str(), "http://a/2");
        frontier.ended(&second);
        assert!(matches!(frontier.next(Instant::now()), Next::Parked(at) if at == until));
        let Next::Task(task) = frontier.next(until) else { panic!("its time has come") };
        assert_eq!((task.url.as_str(), task.deferrals), ("http://a/1", 1));
    }
}
