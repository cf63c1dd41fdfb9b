//! What is still to be fetched: a queue per host, hosts one after the other, each URL once.
//!
//! The gate alone decides when a request may leave. The frontier keeps a host that has to wait from holding up the others:
//! its URLs stay here, parked, rather than in tasks that wait for a permit.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use abide::Host as HostName;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::sanitize::public_url;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UrlKind {
    #[default]
    Page,
    Sitemap,
    /// By the gate, before the others of its site.
    Robots,
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) url: Url,
    pub(crate) host: String,
    /// Links from the pages given.
    pub(crate) depth: u32,
    pub(crate) kind: UrlKind,
    pub(crate) deferrals: u16,
    /// How often it was answered with 429, 503 or their kin, or not at all.
    pub(crate) tries: u16,
    /// It was deferred behind a redirect, which coming back later alone does not help: it waits inside the call.
    pub(crate) is_patient: bool,
    /// It was deferred by a host that is not its own: the rest of its host's queue goes on until then.
    pub(crate) not_before: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum Next {
    Task(Task),
    /// Nothing before then.
    Parked(Instant),
    /// Nothing until something that is under way ends, or nothing at all.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Frontier {
    /// Sorted, because the next host is the one behind the last.
    hosts: BTreeMap<String, HostQueue>,
    /// A page may be named as a sitemap while it is queued.
    seen: HashMap<Url, UrlKind>,
    /// Of the URLs that were seen, together.
    bytes: usize,
    /// New ones for which there was no room.
    pub(crate) dropped: usize,
    depth_max: Option<u32>,
    /// Pages that may still be fetched.
    pub(crate) limits: HashMap<HostName, usize>,
    starts: HashSet<Url>,
    /// The host that was asked last: the others come first.
    last: String,
    pub(crate) pages_running: usize,
}

#[derive(Debug, Default)]
struct HostQueue {
    /// By which limits are kept: without a port.
    name: Option<HostName>,
    queue: VecDeque<Task>,
    is_busy: bool,
    parked_until: Option<Instant>,
    is_given_up: bool,
}

impl HostQueue {
    fn of(url: &Url) -> Self {
        Self { name: HostName::of(url).ok(), ..Self::default() }
    }
}

impl Frontier {
    /// Nothing to fetch yet; only the hosts of `urls` will be asked.
    pub(crate) fn new(urls: &[Url], depth_max: Option<u32>) -> Self {
        let hosts = urls.iter().map(|url| (host_of(url), HostQueue::of(url))).collect();
        Self { hosts, depth_max, starts: urls.iter().map(known_as).collect(), ..Self::default() }
    }

    /// Queues a URL, unless it is known, too deep, or on another host. One that is known as a page, and named as a sitemap now, is read as a
    /// sitemap if it is still queued; if it was fetched already, it stays a page, because each URL is requested once. Says whether this is new.
    pub(crate) fn add(&mut self, url: &Url, depth: u32, kind: UrlKind) -> bool {
        let known_as = known_as(url);
        let name = host_of(url);
        let Some(host) = self.hosts.get_mut(&name) else { return false };
        let is_too_deep = self.depth_max.is_some_and(|max| depth > max);
        let wanted = matches!(url.scheme(), "http" | "https") && !is_too_deep;
        if !wanted {
            return false;
        }
        if let Some(known) = self.seen.get_mut(&known_as) {
            return kind == UrlKind::Sitemap && std::mem::replace(known, kind) != kind;
        }
        let bytes = self.bytes.saturating_add(url.as_str().len());
        if self.seen.len() >= SEEN_MAX || bytes > BYTES_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.bytes = bytes;
        self.seen.insert(known_as, kind);
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
            not_before: None,
        });
        true
    }

    /// Whether the host of `url` is one of ours.
    pub(crate) fn has_host(&self, url: &Url) -> bool {
        self.hosts.contains_key(&host_of(url))
    }

    /// A URL that an earlier run has dealt with, or that a redirect has brought. Says whether it is new.
    pub(crate) fn know(&mut self, url: Url) -> bool {
        let before = self.seen.len();
        self.seen.entry(url).or_default();
        self.seen.len() > before
    }

    /// Whether this is a start page, and so leads its site along when it redirects elsewhere.
    pub(crate) fn may_widen(&self, task: &Task) -> bool {
        task.kind == UrlKind::Page && self.starts.contains(&known_as(&task.url))
    }

    /// Makes the host of `to` one of ours. Says whether `to` is new.
    pub(crate) fn widen(&mut self, to: &Url) -> bool {
        self.hosts.entry(host_of(to)).or_insert_with(|| HostQueue::of(to));
        self.know(known_as(to))
    }

    /// The next URL: of the first host behind the last one that has something to do.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        let limit = |host: &HostQueue| self.limits.get(host.name.as_ref()?);
        let may =
            |host: &HostQueue| !host.is_busy && !host.is_given_up && limit(host).is_none_or(|left| *left > 0);
        // In turn: the hosts behind the last one, then all from the first on.
        let after = (std::ops::Bound::Excluded(&self.last), std::ops::Bound::Unbounded);
        let in_turn = self.hosts.range::<String, _>(after).chain(&self.hosts).filter(|(_, host)| may(host));
        let mut ready = in_turn.filter(|(_, host)| host.parked_until.is_none_or(|until| until <= now));
        let found = ready.find_map(|(name, host)| {
            let is_due = |task: &Task| task.not_before.is_none_or(|at| at <= now);
            Some((name.clone(), host.queue.iter().position(is_due)?))
        });
        let Some((name, place)) = found else {
            let waiting = self.hosts.iter().filter(|(_, host)| may(host));
            let times = waiting.filter_map(|(_, host)| {
                let first = host.queue.iter().map(|task| task.not_before).min()?;
                // `None` is the least: a URL that may go now waits for its host alone.
                host.parked_until.max(first)
            });
            return times.min().map_or(Next::Nothing, Next::Parked);
        };
        self.last = name;
        let Some(host) = self.hosts.get_mut(&self.last) else { return Next::Nothing };
        let Some(mut task) = host.queue.remove(place) else { return Next::Nothing };
        task.kind = self.seen.get(&known_as(&task.url)).copied().unwrap_or(task.kind);
        host.is_busy = true;
        host.parked_until = None;
        if task.kind == UrlKind::Page {
            self.pages_running += 1;
            // Now, because another port of this host may be next.
            self.count(&task, |left| left - 1);
        }
        Next::Task(task)
    }

    /// The host of `task` may be asked for the next one. Its page counts towards the limit of the host if it was fetched.
    pub(crate) fn ended(&mut self, task: &Task, is_fetched: bool) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.is_busy = false;
        }
        if task.kind == UrlKind::Page {
            self.pages_running -= 1;
            self.count(task, |left| left + usize::from(!is_fetched));
        }
    }

    fn count(&mut self, task: &Task, left: impl Fn(usize) -> usize) {
        let name = self.hosts.get(&task.host).and_then(|host| host.name.as_ref());
        if let Some(limit) = name.and_then(|name| self.limits.get_mut(name)) {
            *limit = left(*limit);
        }
    }

    /// Puts `task` back to the front, for then. `rests`: so does its host, which goes on meanwhile otherwise.
    pub(crate) fn put_back(&mut self, mut task: Task, until: Instant, rests: bool) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            *(if rests { &mut host.parked_until } else { &mut task.not_before }) = Some(until);
            host.queue.push_front(task);
        }
    }

    /// Leaves what is queued for the host of `task`, and what will be, to the next run.
    pub(crate) fn give_up(&mut self, task: &Task) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.is_given_up = true;
        }
    }

    pub(crate) fn left(&self) -> impl Iterator<Item = &Task> {
        self.hosts.values().flat_map(|host| &host.queue)
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.values().map(|host| host.queue.len()).sum()
    }

    pub(crate) fn parked(&self, now: Instant) -> usize {
        self.hosts.values().filter(|host| host.parked_until.is_some_and(|until| until > now)).count()
    }
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

/// URLs that are known and queued, of about 100 bytes each.
const SEEN_MAX: usize = 1_000_000;
/// All of them together: each may be as long as a page, and is kept twice.
const BYTES_MAX: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_for_all_ports_of_a_host_together() {
        let urls = ["http://a/", "http://a:8080/"].map(|url| url.parse().unwrap());
        let mut frontier = Frontier::new(&urls, None);
        frontier.limits.insert(HostName::of(&urls[0]).unwrap(), 1);
        assert!(urls.iter().all(|url| frontier.add(url, 0, UrlKind::Page)));
        assert!(matches!(frontier.next(Instant::now()), Next::Task(_)));
        assert!(matches!(frontier.next(Instant::now()), Next::Nothing));
    }

    #[test]
    fn where_a_start_page_has_moved_to_is_known_whatever_its_fragment() {
        let (start, moved) = ("http://a/".parse().unwrap(), "http://b/x#y".parse::<Url>().unwrap());
        let mut frontier = Frontier::new(&[start], None);
        assert!(frontier.widen(&moved) && !frontier.widen(&moved) && !frontier.add(&moved, 1, UrlKind::Page));
    }

    #[test]
    fn what_is_found_of_a_host_that_was_given_up_is_left_for_the_next_run() {
        let [one, two] = ["http://a/1", "http://a/2"].map(|url| url.parse().unwrap());
        let mut frontier = Frontier::new(std::slice::from_ref(&one), None);
        assert!(frontier.add(&one, 0, UrlKind::Page));
        let Next::Task(task) = frontier.next(Instant::now()) else { panic!("nothing to do") };
        frontier.ended(&task, false);
        frontier.give_up(&task);
        assert!(frontier.add(&two, 1, UrlKind::Page));
        assert!(matches!(frontier.next(Instant::now()), Next::Nothing));
        assert_eq!(frontier.left().count(), 1);
    }

    #[test]
    fn urls_of_any_length_fill_no_more_than_there_is_room_for() {
        let url = |number: usize| format!("http://a/{number}{}", "x".repeat(40)).parse().unwrap();
        let mut frontier = Frontier::new(&[url(0)], None);
        frontier.bytes = BYTES_MAX - 100;
        assert_eq!((0..9).filter(|number| frontier.add(&url(*number), 1, UrlKind::Page)).count(), 2);
        assert_eq!(frontier.dropped, 7);
        // One that is known already is none of them.
        assert!(!frontier.add(&url(0), 1, UrlKind::Page));
        assert_eq!(frontier.dropped, 7);
    }
}
