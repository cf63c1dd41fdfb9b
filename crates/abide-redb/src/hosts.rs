//! Leases and states of hosts, in memory, and which backoffs have to be written.
//!
//! One process has the file, so memory is enough for leases, and for when a host last had a request.
//! [`HostEntry`] is the rule of what is leased and merged. Here are plain functions of entries and `now`; the
//! caller locks, and writes the rows.

#![allow(clippy::arithmetic_side_effects, reason = "what is added is at most a day")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_gate::pacing::{Backoff, DELAY_MAX, HostEntry, HostState, LeaseAsk, LeaseStatus};
use abide_gate::{Clock, WallMillis};

use crate::batch::Backoffs;
use crate::disk::SavedBackoffs;

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

    /// To turn our times into those of the wall clock: nothing comes out too early. The wall clock and what
    /// is left are each cut to whole milliseconds, and an end that is later by less than one is not written.
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
    exchanges: u32,
    hosts: HashMap<Arc<str>, KnownHost>,
}

#[derive(Debug)]
struct KnownHost {
    entry: HostEntry,
    row: Option<Written>,
}

/// The end of a backoff, by both clocks, and its count, as they are in the file or on their way there.
#[derive(Clone, Copy, Debug)]
struct Written {
    until: Duration,
    wall_until: WallMillis,
    throttles: u8,
}

/// When the store was opened, on its own line of time. A backoff that is over ended before that, and so did
/// requests that matter.
const OPENED: Duration = DELAY_MAX;

/// What is known of a host that is not known: it had a request when the store was opened. What was on its way
/// just before is not written, and no clock that runs on over a restart says how long ago that was.
const UNKNOWN: HostState = HostState { quiet: Some(Duration::ZERO), delay: Duration::ZERO, backoff: None };

/// Ends are written in milliseconds.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Two clocks that run apart by less have not been set.
const CLOCKS_AGREE: Duration = Duration::from_secs(1);

/// Hosts that are no longer in use are removed after so many exchanges: rarely enough to cost nothing, often
/// enough that the hosts of the last few minutes are most of what is kept.
const CLEAN_EVERY: u32 = 1_024;

impl Hosts {
    /// The backoffs that a file has kept; those that cannot be read, or are over, are removed from it.
    pub(crate) fn load(rows: SavedBackoffs, now: Now, changed: &mut Backoffs) -> Self {
        let mut loaded = Self { opened: now.at, latest: now, exchanges: 0, hosts: HashMap::new() };
        for (key, row) in rows {
            match row {
                Some(row) => loaded.load_row(key, row, now, changed),
                None => drop(changed.insert(key, None)),
            }
        }
        loaded
    }

    fn load_row(&mut self, key: Arc<str>, row: HostEntry, now: Now, changed: &mut Backoffs) {
        let stored = row.state(since_1970(now.wall));
        let known = self.known(&key);
        known.entry.merge(&HostState { quiet: UNKNOWN.quiet, ..stored }, OPENED);
        let kept = known.entry.state(OPENED);
        known.row = kept.backoff.map(|backoff| written(backoff, OPENED, now));
        // What is as it was read is not written again, or it would move a little each time.
        if kept.backoff.is_none() || kept.backoff != stored.backoff {
            changed.insert(key, kept.backoff.map(|_| row_of(kept, now)));
        }
    }

    /// One step of a host's lease. What has to be written then is put into `changed`.
    pub(crate) fn exchange(
        &mut self,
        host: &str,
        ask: &LeaseAsk,
        now: Now,
        changed: &mut Backoffs,
    ) -> (LeaseStatus, HostState) {
        // The clock is asked under no lock, so an exchange that asked it later may come first. That is no
        // clock that was set back.
        let now = if now.at < self.latest.at { self.latest } else { now };
        self.latest = now;
        let at = self.line(now);
        self.exchanges = self.exchanges.wrapping_add(1);
        if self.exchanges.is_multiple_of(CLEAN_EVERY) {
            let forgotten = self.hosts.extract_if(|_, known| !known.entry.is_in_use(at));
            changed.extend(forgotten.filter(|(_, known)| known.row.is_some()).map(|(key, _)| (key, None)));
        }
        let known = self.known(host);
        // No grace: leases are lost with the process that had them.
        let (lease, state) = known.entry.exchange(ask, at, Duration::ZERO);
        if let Some(backoff) = state.backoff
            && known.row.is_none_or(|row| row.lacks(backoff, at))
        {
            known.row = Some(written(backoff, at, now));
            changed.insert(host.into(), Some(row_of(state, now)));
        }
        (lease, state)
    }

    /// What the last commit changes: backoffs that are over go, and where the wall clock has been set forward
    /// since they were written, they are written again.
    pub(crate) fn at_the_end(&self, now: Now, changed: &mut Backoffs) {
        let at = self.line(now);
        for (key, known) in &self.hosts {
            let Some(old) = known.row else { continue };
            let state = known.entry.state(at);
            let new = state.backoff.map(|backoff| written(backoff, at, now));
            if new.is_none_or(|new| new.wall_until.since(old.wall_until) > CLOCKS_AGREE) {
                changed.insert(key.clone(), new.map(|_| row_of(state, now)));
            }
        }
    }

    fn line(&self, now: Now) -> Duration {
        OPENED + now.at.saturating_duration_since(self.opened)
    }

    fn known(&mut self, key: &str) -> &mut KnownHost {
        self.hosts.entry(key.into()).or_insert_with(|| {
            let mut entry = HostEntry::default();
            // Also for a host that was removed: it was not in use, and a request so long ago does not change
            // that.
            entry.merge(&UNKNOWN, OPENED);
            KnownHost { entry, row: None }
        })
    }
}

impl Written {
    /// The backoff lasts for longer than the file knows, or has a higher throttle count.
    fn lacks(&self, backoff: Backoff, now: Duration) -> bool {
        end_of(backoff, now) >= self.until + RESOLUTION || backoff.throttles > self.throttles
    }
}

/// `at` is `now` on the store's line.
fn written(backoff: Backoff, at: Duration, now: Now) -> Written {
    let Backoff { left, over, throttles, .. } = backoff;
    Written { until: end_of(backoff, at), wall_until: now.wall.plus(left).minus(over), throttles }
}

/// What is written of a host: all but when it had a request, and the delay from then. Its times are of the
/// wall clock.
fn row_of(state: HostState, now: Now) -> HostEntry {
    let mut row = HostEntry::default();
    row.merge(&HostState { quiet: None, delay: Duration::ZERO, ..state }, since_1970(now.wall));
    row
}

fn since_1970(wall: WallMillis) -> Duration {
    Duration::from_millis(wall.as_millis())
}

fn end_of(backoff: Backoff, now: Duration) -> Duration {
    now.saturating_add(backoff.left).saturating_sub(backoff.over)
}
