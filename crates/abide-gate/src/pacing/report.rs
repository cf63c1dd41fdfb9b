//! Reports: when a host is free next, and what happened to it.
//!
//! All of it looks at the hosts as they are and changes nothing. A frontier that holds many hosts asks for
//! the next time of each instead of sleeping in a call; a report at the end of a crawl needs sums, so there
//! are counters and never a list per request.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use url::Url;

use super::host::{PacedHost, Terms};
use super::pacer::Pacer;

use crate::clock::Moment;
use crate::denied::DenialCause;
use crate::{Host, Refusal, Stats, WallMillis};

impl Pacer {
    /// When this URL could go out, without waiting and without reserving anything. Asks this process only,
    /// not the shared store. Refuses as [`acquire`](Self::acquire) does, but never defers.
    pub(crate) fn next_slot(&self, url: &Url, crawl_delay: Duration) -> Result<NextSlot, DenialCause> {
        let now = self.now()?;
        let (key, terms) = self.key_and_terms(url, crawl_delay)?;
        Ok(self.slot_at(&key, terms, now))
    }

    /// [`Gate::next_ready`](crate::Gate::next_ready), with the delay that was last asked for each host.
    pub(crate) fn next_ready<'h>(
        &self,
        hosts: impl IntoIterator<Item = &'h Host>,
    ) -> Option<(&'h Host, NextSlot)> {
        let now = self.now_or_system();
        let slots = hosts.into_iter().map(|host| {
            let key = self.policy.key.of_host(host.as_str());
            let last = self.hosts.find(&key, |known| known.last_delay()).unwrap_or_default();
            (host, self.slot_at(&key, self.policy.terms_of(host.as_str()).at_least(last), now))
        });
        slots.reduce(|best, next| if is_earlier(&next.1, &best.1) { next } else { best })
    }

    fn slot_at(&self, key: &str, asked: Terms, now: Moment) -> NextSlot {
        let found = self.hosts.find(key, |host| {
            let terms = host.terms(asked);
            let due = host.due(terms).at;
            // A host that was never asked is free as well, but not overdue.
            let is_overdue = host.is_free(terms, now) && due > Moment::NEVER;
            let (at, overdue) = (host.arrival(terms, host.queued(), now).at, now.since(due));
            (at, is_overdue.then_some(overdue), host.waiting(), host.in_flight)
        });
        let (at, overdue, waiting, in_flight) = found.unwrap_or((now, None, 0, 0));
        let (not_before, wait) = (self.wall_at(now, at).to_system_time(), at.since(now));
        NextSlot { not_before, wait, overdue, waiting, in_flight: in_flight.into() }
    }

    /// What happened to a host, if it is known.
    pub(crate) fn report(&self, host: &Host) -> Option<HostReport> {
        let (now, wall) = (self.now_or_system(), self.wall());
        self.hosts.find(&self.policy.key.of_host(host.as_str()), |host| report(host, now, wall))
    }

    /// The same for all hosts and groups of hosts that are known.
    pub(crate) fn reports(&self) -> Vec<HostReport> {
        let (now, wall) = (self.now_or_system(), self.wall());
        let mut reports = Vec::new();
        self.hosts.for_each(|host| reports.push(report(host, now, wall)));
        reports
    }

    /// Sums over all hosts that are known. Looks at each of them.
    pub(crate) fn stats(&self) -> Stats {
        let (now, mut stats) = (self.now_or_system(), Stats::default());
        self.hosts.for_each(|host| {
            stats.hosts += 1;
            stats.in_flight += usize::from(host.in_flight);
            stats.waiting += host.waiting();
            let feedback = host.feedback();
            stats.backed_off += usize::from(feedback.backoff.until > now);
            stats.refusing += usize::from(feedback.refusals.until > now);
        });
        stats
    }
}

/// Free for longer, or else free first. What was never asked counts as free since the start.
fn is_earlier(a: &NextSlot, b: &NextSlot) -> bool {
    let rank = |next: &NextSlot| match next.overdue {
        _ if next.wait > Duration::ZERO || next.in_flight > 0 => (false, Duration::ZERO),
        None => (true, Duration::MAX),
        Some(overdue) => (true, overdue),
    };
    (rank(a), Reverse(a.wait)) > (rank(b), Reverse(b.wait))
}

fn report(host: &PacedHost, now: Moment, wall: WallMillis) -> HostReport {
    let (counts, held, row) = (host.counts, host.feedback().backoff.until, host.feedback().refusals);
    HostReport {
        key: Arc::clone(&host.key),
        requests: counts.requests,
        deferrals: counts.deferrals,
        backoffs: counts.backoffs,
        waited: Duration::from_millis(counts.waited_millis.into()),
        longest_wait: Duration::from_millis(counts.longest_millis.into()),
        in_flight: host.in_flight.into(),
        waiting: host.waiting(),
        open: (host.in_flight > 0).then(|| now.since(host.open_since())),
        backed_off_until: (held > now).then(|| wall.plus(held.since(now)).to_system_time()),
        refusals: row.responses,
        refused_by: row.by,
        held_until: (row.until > now).then(|| wall.plus(row.until.since(now)).to_system_time()),
        delay: host.last_delay(),
    }
}

/// When the next request to a host could be sent. Reserves nothing.
///
/// ```
/// use abide_gate::Gate;
/// use url::Url;
///
/// /// Seconds until the host of a URL can be sent to, for a queue that is sorted by it.
/// fn seconds(gate: &Gate, url: &Url) -> Option<u64> {
///     gate.next_slot(url).ok().map(|slot| slot.wait.as_secs())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextSlot {
    /// The earliest time of a request that is made now. Requests in flight count as if they ended now.
    pub not_before: SystemTime,
    /// The same, from now. Zero if it could be sent at once.
    pub wait: Duration,
    /// How long the host has been free. `None` if it is not free, or had no request so far.
    pub overdue: Option<Duration>,
    /// How many requests wait for the host.
    pub waiting: usize,
    /// How many requests are in flight.
    pub in_flight: usize,
}

/// The state and counts of one host, or group of hosts. Counters stop at 4,294,967,295.
///
/// ```
/// use abide_gate::Gate;
///
/// fn print_slowest(gate: &Gate) {
///     if let Some(host) = gate.reports().into_iter().max_by_key(|host| host.longest_wait) {
///         println!("{}: {} requests, one waited {:?}", host.key, host.requests, host.longest_wait);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostReport {
    /// The host, or the name of the group: [`PacingKey`](super::PacingKey).
    pub key: Arc<str>,
    /// Requests that got a permit.
    pub requests: u32,
    /// Requests that were deferred.
    pub deferrals: u32,
    /// How often it was backed off.
    pub backoffs: u32,
    /// All waits together, in whole milliseconds, each rounded up; at most 49 days.
    pub waited: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// How long the oldest response in flight has been open.
    pub open: Option<Duration>,
    /// The end of the backoff in force.
    pub backed_off_until: Option<SystemTime>,
    /// Refusals in a row so far, with nothing else in between.
    pub refusals: u32,
    /// Who refuses, if one of them was recognised.
    pub refused_by: Option<Refusal>,
    /// The end of the hold, if the host is held for its refusals.
    pub held_until: Option<SystemTime>,
    /// The delay that applied last.
    pub delay: Duration,
}
