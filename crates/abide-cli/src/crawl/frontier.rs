//! What is still to be fetched: a queue per host, hosts one after the other, each URL once.
//!
//! The gate alone decides when a request may leave. The frontier keeps a host that has to wait from holding
//! up the others: its URLs stay here, parked, rather than in tasks that wait for a permit.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use abide::Host as HostName;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::referrers::{Referrer, Referrers, Referring};
use crate::crawl::scope::{Reason, Scope};
use crate::sanitize::public_url;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UrlKind {
    #[default]
    Page,
    Sitemap,
    /// A sitemap that nothing names: it may well not be there.
    Guess,
    /// An image, a style or a script of a page: only checked.
    Asset,
    /// A page on a host that is not crawled: only checked.
    Link,
    /// By the gate, before the others of its site.
    Robots,
}

impl UrlKind {
    pub(crate) fn is_sitemap(self) -> bool {
        matches!(self, Self::Sitemap | Self::Guess)
    }

    /// Whether only its status counts: it is asked for with HEAD, and no link of it is followed.
    pub(crate) fn is_checked(self) -> bool {
        matches!(self, Self::Asset | Self::Link)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Sitemap | Self::Guess => "sitemap",
            Self::Asset => "asset",
            Self::Link => "link",
            Self::Robots => "robots",
        }
    }
}

/// A URL that may belong to the crawl, and how the crawl came upon it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) url: &'a Url,
    pub(crate) kind: UrlKind,
    /// Links from the pages given.
    pub(crate) depth: u32,
    /// Redirects that have led here, one behind the other.
    pub(crate) hops: u8,
    /// The redirect that has led here asks to wait until then.
    pub(crate) not_before: Option<Instant>,
    /// What names it, if it was not given.
    pub(crate) from: Option<Referrer>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(url: &'a Url, kind: UrlKind, depth: u32) -> Self {
        Self { url, kind, depth, hops: 0, not_before: None, from: None }
    }
}

/// What became of a URL that was to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    New,
    /// Each URL is requested once.
    Known,
    /// There is no room for more.
    Full,
    Left(Reason),
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
    /// Redirects that have led here, one behind the other.
    pub(crate) hops: u8,
    /// It is not asked for conditionally: what is known of its last version is not enough.
    pub(crate) is_whole: bool,
    /// It is asked for with GET though it is only checked: HEAD was answered with an error.
    pub(crate) is_head_in_doubt: bool,
    /// The redirect that has led here asks to wait until then. The rest of the queue goes on meanwhile.
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
    seen: HashMap<Url, Seen>,
    referrers: Referrers,
    /// Of the URLs that were seen, together.
    bytes: usize,
    /// New ones for which there was no room.
    pub(crate) dropped: usize,
    scope: Scope,
    /// Pages that may still be fetched.
    pub(crate) limits: HashMap<HostName, usize>,
    starts: HashSet<Url>,
    /// The host that was asked last: the others come first.
    last: String,
    pub(crate) pages_running: usize,
    pub(crate) checks_running: usize,
}

/// What is known of a URL.
#[derive(Debug, Default)]
struct Seen {
    /// A page may be named as a sitemap while it is queued.
    kind: UrlKind,
    named_by: Referring,
}

#[derive(Debug, Default)]
struct HostQueue {
    /// By which limits are kept: without a port.
    name: Option<HostName>,
    /// Its pages are fetched. URLs of the other hosts are only checked.
    is_crawled: bool,
    queue: VecDeque<Task>,
    /// URLs that are only checked.
    checks: VecDeque<Task>,
    is_busy: bool,
    parked_until: Option<Instant>,
    is_given_up: bool,
}

impl HostQueue {
    fn new(url: &Url, is_crawled: bool) -> Self {
        Self { name: HostName::of(url).ok(), is_crawled, ..Self::default() }
    }
}

impl HostQueue {
    /// The queue of URLs of this kind.
    fn of(&mut self, kind: UrlKind) -> &mut VecDeque<Task> {
        if kind.is_checked() { &mut self.checks } else { &mut self.queue }
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.queue.iter().chain(&self.checks)
    }
}

impl Frontier {
    /// Nothing to fetch yet; only the hosts of `urls`, and what else `scope` has, will be asked.
    pub(crate) fn new(urls: &[Url], scope: Scope) -> Self {
        let hosts = urls.iter().map(|url| (host_of(url), HostQueue::new(url, true))).collect();
        Self { hosts, scope, starts: urls.iter().map(known_as).collect(), ..Self::default() }
    }

    /// Queues a URL, unless it is known or does not belong to the crawl. One that is known as a page, and
    /// named as a sitemap now, is read as a sitemap if it is still queued; if it was fetched already, it
    /// stays a page.
    pub(crate) fn add(&mut self, candidate: Candidate<'_>) -> Added {
        let Candidate { url, kind, depth, hops, not_before, from } = candidate;
        if !matches!(url.scheme(), "http" | "https") {
            return Added::Left(Reason::Scheme);
        }
        let is_crawled = self.has_host(url);
        if !is_crawled && !self.scope.has_external(kind) {
            return Added::Left(Reason::OtherHost);
        }
        let known_as = known_as(url);
        if let Some(known) = self.seen.get_mut(&known_as) {
            known.named_by.add(from);
            // What was, or would be, only checked is a page of the crawl.
            let is_page = known.kind.is_checked() && !kind.is_checked();
            let is_new = kind == UrlKind::Sitemap && std::mem::replace(&mut known.kind, kind) != kind;
            if !is_page {
                return if is_new { Added::New } else { Added::Known };
            }
        }
        // What was given is fetched in any case.
        if !self.starts.contains(&known_as) && self.scope.excludes(url, kind) {
            return Added::Left(Reason::Excluded);
        }
        if self.scope.is_beyond(depth) {
            return Added::Left(Reason::Depth);
        }
        // Behind the redirect of a long URL there may be a longer one: each is kept twice.
        let bytes = self.bytes.saturating_add(url.as_str().len());
        let host = host_of(url);
        let is_host_new = !self.hosts.contains_key(&host);
        let named_by = self.seen.get(&known_as).map_or_else(|| Referring::by(from), |seen| seen.named_by);
        if self.seen.len() >= SEEN_MAX || bytes > BYTES_MAX || is_host_new && self.hosts.len() >= HOSTS_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return Added::Full;
        }
        self.bytes = bytes;
        self.seen.insert(known_as, Seen { kind, named_by });
        let queue = self.hosts.entry(host.clone()).or_insert_with(|| HostQueue::new(url, is_crawled));
        let mut url = url.clone();
        url.set_fragment(None);
        if !kind.is_checked() {
            queue.checks.retain(|task| task.url != url);
        }
        queue.of(kind).push_back(Task {
            url,
            host,
            depth,
            kind,
            deferrals: 0,
            tries: 0,
            hops,
            is_whole: false,
            is_head_in_doubt: false,
            not_before,
        });
        Added::New
    }

    /// The page, sitemap or redirect at `url`, as [`requested`] gives it, as one that names other URLs.
    pub(crate) fn referrer(&mut self, url: &Url) -> Referrer {
        self.referrers.of(url.as_str())
    }

    /// The first of those that name `url`, and how many there are.
    pub(crate) fn named_by(&self, url: &Url) -> (Vec<String>, usize) {
        let seen = self.seen.get(&known_as(url));
        seen.map(|seen| self.referrers.names(&seen.named_by)).unwrap_or_default()
    }

    /// Whether the host of `url` is one of ours.
    pub(crate) fn has_host(&self, url: &Url) -> bool {
        let host = host_of(url);
        self.hosts.get(&host).is_some_and(|host| host.is_crawled) || self.scope.has_subdomain(&host)
    }

    /// A URL that an earlier run has dealt with.
    pub(crate) fn know(&mut self, url: Url) {
        self.seen.entry(url).or_default();
    }

    /// Whether this is a start page, or where one redirects to.
    pub(crate) fn is_start(&self, task: &Task) -> bool {
        task.kind == UrlKind::Page && self.starts.contains(&known_as(&task.url))
    }

    /// Whether a start page may lead its site along to where it redirects.
    pub(crate) fn may_lead(&self, from: &Url, to: &Url) -> bool {
        self.has_host(to) || self.scope.follows_start(from, to)
    }

    /// A start page redirects to `to`, which is one as well, and its host one of ours.
    pub(crate) fn lead(&mut self, to: &Url) {
        self.hosts.entry(host_of(to)).or_insert_with(|| HostQueue::new(to, true)).is_crawled = true;
        self.starts.insert(known_as(to));
    }

    /// The next URL: of the first host behind the last one that has something to do. `may_fetch`: a page or a
    /// sitemap; `may_check`: one that is only checked.
    pub(crate) fn next(&mut self, now: Instant, may_fetch: bool, may_check: bool) -> Next {
        let limit = |host: &HostQueue| self.limits.get(host.name.as_ref()?);
        let may_fetch = |host: &HostQueue| may_fetch && limit(host).is_none_or(|left| *left > 0);
        // Those that may be started, in two queues of which one may be empty.
        let startable = |host: &'_ HostQueue| (may_fetch(host), may_check);
        let idle = |(_, host): &(&String, &HostQueue)| !host.is_busy && !host.is_given_up;
        // In turn: the hosts behind the last one, then all from the first on.
        let after = (std::ops::Bound::Excluded(&self.last), std::ops::Bound::Unbounded);
        let in_turn = self.hosts.range::<String, _>(after).chain(&self.hosts).filter(idle);
        let mut ready = in_turn.filter(|(_, host)| host.parked_until.is_none_or(|until| until <= now));
        let found = ready.find_map(|(name, host)| {
            let (may_fetch, may_check) = startable(host);
            let is_due = |task: &Task| task.not_before.is_none_or(|at| at <= now);
            let page = host.queue.iter().position(is_due).filter(|_| may_fetch);
            let check = || host.checks.iter().position(is_due).filter(|_| may_check);
            let (kind, place) =
                page.map(|place| (UrlKind::Page, place)).or_else(|| Some((UrlKind::Link, check()?)))?;
            Some((name.clone(), kind, place))
        });
        let Some((name, kind, place)) = found else {
            let times = self.hosts.iter().filter(idle).filter_map(|(_, host)| {
                let (may_fetch, may_check) = startable(host);
                let pages = host.queue.iter().filter(|_| may_fetch);
                let first = pages.chain(host.checks.iter().filter(|_| may_check));
                let first = first.map(|task| task.not_before).min()?;
                // `None` is the least: a URL that may go now waits for its host alone.
                host.parked_until.max(first)
            });
            return times.min().map_or(Next::Nothing, Next::Parked);
        };
        self.last = name;
        let Some(host) = self.hosts.get_mut(&self.last) else { return Next::Nothing };
        let Some(mut task) = host.of(kind).remove(place) else { return Next::Nothing };
        task.kind = self.seen.get(&known_as(&task.url)).map_or(task.kind, |seen| seen.kind);
        host.is_busy = true;
        host.parked_until = None;
        self.checks_running += usize::from(task.kind.is_checked());
        if task.kind == UrlKind::Page {
            self.pages_running += 1;
            // Now, because another port of this host may be next.
            self.count(&task, |left| left - 1);
        }
        Next::Task(task)
    }

    /// The host of `task` may be asked for the next one. Its page counts towards the limit of the host if it
    /// was fetched.
    pub(crate) fn ended(&mut self, task: &Task, is_fetched: bool) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.is_busy = false;
        }
        self.checks_running -= usize::from(task.kind.is_checked());
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

    /// Puts `task` back to the front, for then. Until then its host rests.
    pub(crate) fn put_back(&mut self, task: Task, until: Instant) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.parked_until = Some(until);
            host.of(task.kind).push_front(task);
        }
    }

    /// Leaves what is queued for the host of `task`, and what will be, to the next run.
    pub(crate) fn give_up(&mut self, task: &Task) {
        if let Some(host) = self.hosts.get_mut(&task.host) {
            host.is_given_up = true;
        }
    }

    pub(crate) fn left(&self) -> impl Iterator<Item = &Task> {
        self.hosts.values().flat_map(HostQueue::tasks)
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.values().map(|host| host.queue.len() + host.checks.len()).sum()
    }

    /// Pages (and sitemaps) that are queued, and pages under way.
    pub(crate) fn pages(&self) -> usize {
        self.hosts.values().map(|host| host.queue.len()).sum::<usize>() + self.pages_running
    }

    pub(crate) fn parked(&self, now: Instant) -> usize {
        self.hosts.values().filter(|host| host.parked_until.is_some_and(|until| until > now)).count()
    }
}

/// A URL as it is requested and shown: without user information and fragment.
pub(crate) fn requested(url: &Url) -> Url {
    let mut url = public_url(url);
    url.set_fragment(None);
    url
}

/// The URL by which a page is known, however it is written: those that RFC 3986 §6.2.2 calls equivalent are
/// one.
pub(crate) fn known_as(url: &Url) -> Url {
    let url = requested(url);
    if !url.as_str().contains('%') {
        return url;
    }
    // Neither makes another URL of it, so it can be parsed; that a path gets no new dot segments is the
    // parser's doing.
    normalized(url.as_str()).parse().unwrap_or(url)
}

/// Percent-encodings in upper case, and those of unreserved characters decoded.
pub(crate) fn normalized(text: &str) -> String {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut text, part| {
        let hex = part.get(..2).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        // Behind a `%` that begins none, a digit would make one.
        let is_behind_bare = text.bytes().rev().take(2).any(|byte| byte == b'%');
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match byte {
            Some(byte) if is_unreserved(byte) && !is_behind_bare => text.push(byte.into()),
            Some(byte) => text.push_str(&format!("%{byte:02X}")),
            None => text.push('%'),
        }
        text.push_str(part.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default());
        text
    })
}

/// The host, with its port if that is not the scheme's own.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// URLs that are known and queued, of about 100 bytes each.
const SEEN_MAX: usize = 1_000_000;
/// Hosts: with `--subdomains` a site may have as many as it likes.
const HOSTS_MAX: usize = 100_000;
/// All of them together: each may be as long as a page, and is kept twice.
const BYTES_MAX: usize = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(url: &Url) -> Candidate<'_> {
        Candidate::new(url, UrlKind::Page, 0)
    }

    #[test]
    fn a_limit_counts_for_all_ports_of_a_host_together() {
        let urls = ["http://a/", "http://a:8080/"].map(|url| url.parse().unwrap());
        let mut frontier = Frontier::new(&urls, Scope::default());
        frontier.limits.insert(HostName::of(&urls[0]).unwrap(), 1);
        assert!(urls.iter().all(|url| frontier.add(page(url)) == Added::New));
        assert!(matches!(frontier.next(Instant::now(), true, true), Next::Task(_)));
        assert!(matches!(frontier.next(Instant::now(), true, true), Next::Nothing));
    }

    #[test]
    fn urls_that_are_equivalent_are_one() {
        for (one, other, is_same) in [
            ("http://a/caf%c3%a9", "http://a/caf%C3%A9", true),
            ("http://a/%63afe?%7e", "http://u:p@a/cafe?~#x", true),
            ("http://a/%2fx", "http://a//x", false),
            ("http://a/%zz%", "http://a/%zz%", true),
            ("http://a/%25%36%33", "http://a/%2563", true),
            ("http://a/%%36%31", "http://a/a", false),
            ("http://a/x/%2e%2E/y", "http://a/y", true),
        ] {
            let [one, other] = [one, other].map(|text| known_as(&text.parse().unwrap()));
            assert_eq!(one == other, is_same, "{one} {other}");
            assert_eq!(known_as(&one), one);
        }
    }

    #[test]
    fn what_is_found_of_a_host_that_was_given_up_is_left_for_the_next_run() {
        let [one, two] = ["http://a/1", "http://a/2"].map(|url| url.parse().unwrap());
        let mut frontier = Frontier::new(std::slice::from_ref(&one), Scope::default());
        assert_eq!(frontier.add(page(&one)), Added::New);
        let Next::Task(task) = frontier.next(Instant::now(), true, true) else { panic!("nothing to do") };
        frontier.ended(&task, false);
        frontier.give_up(&task);
        assert_eq!(frontier.add(page(&two)), Added::New);
        assert!(matches!(frontier.next(Instant::now(), true, true), Next::Nothing));
        assert_eq!(frontier.left().count(), 1);
    }

    #[test]
    fn urls_of_any_length_fill_no_more_than_there_is_room_for() {
        let url = |number: usize| format!("http://a/{number}{}", "x".repeat(40)).parse().unwrap();
        let mut frontier = Frontier::new(&[url(0)], Scope::default());
        frontier.bytes = BYTES_MAX - 100;
        assert_eq!((0..9).filter(|number| frontier.add(page(&url(*number))) == Added::New).count(), 2);
        assert_eq!(frontier.dropped, 7);
        // One that is known already is none of them.
        assert_eq!(frontier.add(page(&url(0))), Added::Known);
        assert_eq!(frontier.dropped, 7);
    }
}
