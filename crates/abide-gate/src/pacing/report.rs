//! Reports: when a host is free next, and what happened to it.
//!
//! All of it looks at the schedules as they are and changes nothing. A frontier that holds many hosts asks for the next time of each
//! instead of sleeping in a call; a report at the end of a crawl needs sums, so there are counters and never a list per request.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use url::Url;

use super::acquire::ScopeRequest;
use super::pacer::Pacer;
use super::schedule::{Schedule, Terms};
use crate::clock::Moment;
use crate::denied::Refusal;
use crate::{Host, Stats, WallMillis};

impl Pacer {
    /// When this URL could go out, without waiting and without reserving anything. Asks this process only, not the shared store.
    /// Refuses as [`acquire`](Self::acquire) does, but never defers.
    pub(crate) fn next_slot(&self, url: &Url, crawl_delay: Duration) -> Result<NextSlot, Refusal> {
        let (now, host, groups) = (self.now()?, self.host(url, crawl_delay)?, self.groups(url, crawl_delay)?);
        let slot = |scope: &ScopeRequest<'_>| self.slot_at(&scope.key, scope.terms, now);
        let groups = groups.iter().map(slot);
        Ok(groups.fold(slot(&host), |last, other| if other.wait > last.wait { other } else { last }))
    }

    /// [`Gate::next_ready`](crate::Gate::next_ready), with the delay that was last asked for each host.
    pub(crate) fn next_ready<'h>(
        &self,
        hosts: impl IntoIterator<Item = &'h Host>,
    ) -> Option<(&'h Host, NextSlot)> {
        let now = self.now_or_system();
        let slots = hosts.into_iter().map(|host| {
            let last =
                self.with_schedule(host.as_str(), |schedule| schedule.last_delay()).unwrap_or_default();
            (host, self.slot_at(host.as_str(), self.policy.terms_of(host.as_str()).at_least(last), now))
        });
        slots.reduce(|best, next| if is_earlier(&next.1, &best.1) { next } else { best })
    }

    fn slot_at(&self, key: &str, asked: Terms, now: Moment) -> NextSlot {
        let found = self.with_schedule(key, |schedule| {
            let terms = schedule.terms(asked);
            let queued = schedule.queue().map(|queue| queue.delays).unwrap_or_default();
            let start = schedule.start(terms).at;
            // A host that was never asked is free as well, but not overdue.
            let is_overdue = schedule.is_free(terms, now) && start > Moment::NEVER;
            let (at, overdue) = (schedule.arrival(terms, queued, now).at, now.since(start));
            (at, is_overdue.then_some(overdue), schedule.waiting(), schedule.in_flight)
        });
        let (at, overdue, waiting, in_flight) = found.unwrap_or((now, None, 0, 0));
        let (not_before, wait) = (self.wall_at(now, at).to_system_time(), at.since(now));
        NextSlot { not_before, wait, overdue, waiting, in_flight: in_flight.into() }
    }

    /// What happened to a host, if it is known.
    pub(crate) fn report(&self, host: &Host) -> Option<HostReport> {
        let (now, wall) = (self.now_or_system(), self.wall());
        self.with_schedule(host.as_str(), |schedule| report(schedule, now, wall))
    }

    /// The same for all hosts and groups of hosts that are known.
    pub(crate) fn reports(&self) -> Vec<HostReport> {
        let (now, wall) = (self.now_or_system(), self.wall());
        let mut reports = Vec::new();
        self.table.for_each(|schedule| reports.push(report(schedule, now, wall)));
        reports
    }

    /// Sums over all hosts that are known. Looks at each of them.
    pub(crate) fn stats(&self) -> Stats {
        let (now, mut stats) = (self.now_or_system(), Stats::default());
        self.table.for_each(|schedule| {
            stats.hosts += 1;
            stats.in_flight += usize::from(schedule.in_flight);
            stats.waiting += schedule.waiting();
            stats.backed_off += usize::from(schedule.feedback().backoff.until > now);
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

fn report(schedule: &Schedule, now: Moment, wall: WallMillis) -> HostReport {
    let (counts, held) = (schedule.counts, schedule.feedback().backoff.until);
    HostReport {
        scope: schedule.key.as_str().into(),
        requests: counts.requests,
        deferrals: counts.deferrals,
        backoffs: schedule.backoffs.into(),
        waited: Duration::from_millis(counts.waited_millis.into()),
        longest_wait: Duration::from_millis(counts.longest_millis.into()),
        in_flight: schedule.in_flight.into(),
        waiting: schedule.waiting(),
        open: (schedule.in_flight > 0).then(|| now.since(schedule.open_since())),
        backed_off_until: (held > now).then(|| wall.plus(held.since(now)).to_system_time()),
        delay: schedule.last_delay(),
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
///         println!("{}: {} requests, one waited {:?}", host.scope, host.requests, host.longest_wait);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostReport {
    /// The host, or the key of the group.
    pub scope: Box<str>,
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
    /// The delay that applied last.
    pub delay: Duration,
}
