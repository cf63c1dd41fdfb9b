//! Leases and states of hosts, in memory, and which backoffs have to be written.
//!
//! One process has the file, so memory is enough for leases, and for when a host last had a request. [`HostEntry`] is the rule of what
//! is leased and merged. Here are plain functions of entries and `now`; the caller locks, and writes the rows.

#![allow(clippy::arithmetic_side_effects, reason = "what is added is at most a day")]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Backoff, DELAY_MAX, HostEntry, HostState, LeaseAsk, LeaseStatus};
use abide_gate::{Clock, WallMillis};

use crate::row::BackoffRow;

/// Both clocks, read one after the other: the process may be paused between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    at: Instant,
    wall: WallMillis,
}

impl Now {
    /// To turn times of the wall clock into ours: nothing comes out too early.
    pub(crate) fn for_reading(clock: &dyn Clock) -> Self {
        let wall = clock.wall();
        Self { wall, at: clock.now() }
    }

    /// To turn our times into those of the wall clock: nothing comes out too early. The wall clock and what is left are each cut to
    /// whole milliseconds, and an end that is later by less than one is not written.
    pub(crate) fn for_writing(clock: &dyn Clock) -> Self {
        let at = clock.now();
        Self { at, wall: clock.wall().plus(RESOLUTION * 3) }
    }
}

/// The leases and the states of all hosts.
#[derive(Debug)]
pub(crate) struct Hosts {
    opened: Instant,
    /// Of the last exchange.
    latest: Now,
    /// What is known of a host that is not known. Unless the file is new, each had a request when it was opened: what was on its way
    /// just before is not written, and no clock that runs on over a restart says how long ago that was.
    unknown: HostState,
    hosts: HashMap<Arc<str>, Known>,
    /// The same hosts, each once: the next to be looked at first.
    round: VecDeque<Arc<str>>,
    /// What has to be written. `None`: the row is removed.
    changed: Vec<(Arc<str>, Option<BackoffRow>)>,
}

#[derive(Debug)]
struct Known {
    entry: HostEntry,
    row: Option<Written>,
}

/// A row that is in the file, or on its way there.
#[derive(Clone, Copy, Debug)]
struct Written {
    until: Duration,
    row: BackoffRow,
}

/// When the store was opened, on its own line of time. A backoff that is over ended before that, and so did requests that matter.
const OPENED: Duration = DELAY_MAX;

/// Ends are written in milliseconds.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Two clocks that run apart by less have not been set.
const CLOCKS_AGREE: Duration = Duration::from_secs(1);

/// Each exchange looks at so many hosts, and adds one at most. So no exchange looks at all of them, and there are at most about twice
/// as many as something is owed to.
const LOOKED_AT: usize = 2;

impl Hosts {
    /// The backoffs that a file has kept.
    pub(crate) fn load(
        rows: impl IntoIterator<Item = (Arc<str>, BackoffRow)>,
        is_new: bool,
        now: Now,
    ) -> Self {
        let quiet = (!is_new).then_some(Duration::ZERO);
        let unknown = HostState { quiet, ..HostState::default() };
        let (hosts, round, changed) = (HashMap::new(), VecDeque::new(), Vec::new());
        let mut loaded = Self { opened: now.at, latest: now, unknown, hosts, round, changed };
        for (key, row) in rows {
            loaded.load_row(key, row, now);
        }
        loaded
    }

    fn load_row(&mut self, key: Arc<str>, row: BackoffRow, now: Now) {
        let (left, over) = (row.until.since(now.wall), now.wall.since(row.until));
        let stored = Backoff { left, over, throttles: row.throttles, cause: row.cause };
        let known = self.known(&key);
        known.entry.merge(&HostState { backoff: Some(stored), ..HostState::default() }, OPENED);
        match known.entry.state(OPENED).backoff {
            // It is written as it was read, or it would move a little each time.
            Some(kept) if kept == stored => known.row = Some(Written { until: end_of(kept, OPENED), row }),
            Some(cut) => {
                let row = written(cut, OPENED, now);
                known.row = Some(row);
                self.changed.push((key, Some(row.row)));
            }
            None => self.changed.push((key, None)),
        }
    }

    /// One step of a host's lease.
    pub(crate) fn exchange(&mut self, host: &str, ask: &LeaseAsk, now: Now) -> (LeaseStatus, HostState) {
        // The clock is asked under no lock, so an exchange that asked it later may come first. That is no clock that was set back.
        let now = if now.at < self.latest.at { self.latest } else { now };
        self.latest = now;
        let at = self.line(now);
        self.clean(at);
        let known = self.known(host);
        let (lease, state) = known.entry.exchange(ask, at, Duration::ZERO);
        if let Some(backoff) = state.backoff
            && known.row.is_none_or(|row| row.lacks(backoff, at))
        {
            let row = written(backoff, at, now);
            known.row = Some(row);
            self.changed.push((host.into(), Some(row.row)));
        }
        (lease, state)
    }

    /// What has to be written.
    pub(crate) fn take_changed(&mut self) -> Vec<(Arc<str>, Option<BackoffRow>)> {
        std::mem::take(&mut self.changed)
    }

    /// What the last commit changes: backoffs that are over go, and where the wall clock has been set forward since they were written,
    /// they are written again.
    pub(crate) fn at_the_end(&self, now: Now) -> impl Iterator<Item = (Arc<str>, Option<BackoffRow>)> {
        let at = self.line(now);
        self.hosts.iter().filter_map(move |(key, known)| {
            let old = known.row?.row.until;
            let row = known.entry.state(at).backoff.map(|backoff| written(backoff, at, now).row);
            let changes = row.is_none_or(|row| row.until.since(old) > CLOCKS_AGREE);
            changes.then(|| (key.clone(), row))
        })
    }

    fn line(&self, now: Now) -> Duration {
        OPENED + now.at.saturating_duration_since(self.opened)
    }

    fn known(&mut self, key: &str) -> &mut Known {
        let key: Arc<str> = key.into();
        if !self.hosts.contains_key(&key) {
            self.round.push_back(Arc::clone(&key));
        }
        let unknown = self.unknown;
        self.hosts.entry(key).or_insert_with(|| {
            let mut entry = HostEntry::default();
            entry.merge(&unknown, OPENED);
            Known { entry, row: None }
        })
    }

    /// Forgets those of the next few hosts that nothing is owed to.
    fn clean(&mut self, now: Duration) {
        for _ in 0..LOOKED_AT.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { return };
            if self.hosts.get(&key).is_some_and(|known| known.entry.is_owed(now)) {
                self.round.push_back(key);
            } else if self.hosts.remove(&key).is_some_and(|known| known.row.is_some()) {
                self.changed.push((key, None));
            }
        }
    }
}

impl Written {
    /// The backoff lasts for longer than the file knows, or has a higher throttle count.
    fn lacks(&self, backoff: Backoff, now: Duration) -> bool {
        end_of(backoff, now) >= self.until + RESOLUTION || backoff.throttles > self.row.throttles
    }
}

/// `at` is `now` on the store's line.
fn written(backoff: Backoff, at: Duration, now: Now) -> Written {
    let Backoff { left, over, throttles, cause } = backoff;
    let until = now.wall.plus(left).minus(over);
    Written { until: end_of(backoff, at), row: BackoffRow { until, throttles, cause } }
}

fn end_of(backoff: Backoff, now: Duration) -> Duration {
    now.saturating_add(backoff.left).saturating_sub(backoff.over)
}

#[cfg(test)]
mod tests {
    use abide_gate::HolderId;
    use abide_gate::pacing::Want;

    use super::*;

    const DELAY: Duration = Duration::from_secs(1);

    fn host(n: usize) -> Arc<str> {
        format!("h{n}.example").as_str().into()
    }

    #[test]
    fn an_exchange_looks_at_few_hosts_and_forgets_old_ones() {
        let start = Now { at: Instant::now(), wall: WallMillis::from_millis(1_800_000_000_000) };
        let late = Now { at: start.at + 3 * DELAY, wall: start.wall.plus(3 * DELAY) };
        let mut hosts = Hosts::load([], true, start);
        let mut exchange = |host: Arc<str>, now: Now| {
            let before = hosts.hosts.len();
            let state = HostState { quiet: Some(Duration::ZERO), delay: DELAY, backoff: None };
            hosts.exchange(&host, &LeaseAsk { holder: HolderId(1), want: Want::Release, state }, now);
            assert_eq!(hosts.hosts.len(), hosts.round.len());
            (before.saturating_sub(hosts.hosts.len()), hosts.hosts.len())
        };
        for n in 0..5_000 {
            assert_eq!(exchange(host(n), start).1, n + 1);
        }
        for n in 0..2_600 {
            assert!(exchange(host(0), late).0 <= LOOKED_AT, "exchange {n}");
        }
        assert_eq!(exchange(host(0), late).1, 1, "only what is owed is left");
    }
}
