//! Turns and holds as they are now. In memory, and loaded when the file is opened: asking for a turn reads no disk.
//!
//! Plain functions of the state and `now`; who calls them locks, and writes down what has to be.

use std::collections::HashMap;
use std::time::Duration;

use abide_gate::pacing::{
    Busy, Cause, Ended, LeaseAsk, LeaseId, RETRY_AFTER_MAX, Reply, ScopeAsk, ScopeKey, ScopeState,
};
use abide_gate::{Clock, WallMillis};
use tokio::time::Instant;

use crate::row::Turn;

/// Both clocks, read one after the other: the process may be put aside between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    pub(crate) wall: WallMillis,
}

impl Now {
    /// For turning times of the wall clock into ours: nothing comes out too early.
    pub(crate) fn read(clock: &dyn Clock) -> Self {
        let wall = clock.wall();
        Self { wall, at: clock.now() }
    }

    /// For turning our times into those of the wall clock: nothing comes out too early.
    pub(crate) fn read_for_writing(clock: &dyn Clock) -> Self {
        let at = clock.now();
        Self { at, wall: clock.wall().plus(Duration::from_millis(1)) }
    }

    fn on_the_wall(self, at: Instant) -> WallMillis {
        match at.checked_duration_since(self.at) {
            Some(ahead) => self.wall.plus(ahead),
            None => self.wall.minus(self.at - at),
        }
    }

    /// A past time of the wall clock. What lies in the future, or too far back for the other clock, is now.
    fn before(self, past: WallMillis) -> Instant {
        self.at.checked_sub(self.wall.since(past)).unwrap_or(self.at)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Turns {
    scopes: HashMap<ScopeKey, Entry>,
    /// Forgotten here, and to be forgotten by the file.
    gone: Vec<ScopeKey>,
    /// When a file was opened that had not been closed in order. Nobody knows which requests were under way just before this, so it
    /// counts as the end of a response for every scope.
    floor: Option<Instant>,
    since_cleaning: u32,
}

#[derive(Debug)]
struct Entry {
    /// The latest of all starts and ends.
    anchor: Option<Instant>,
    hold: Option<Hold>,
    /// Most often none or one.
    leases: Vec<(LeaseId, Instant)>,
    /// Nothing is owed after this.
    forget_at: Instant,
    is_in_file: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Instant,
    /// The same, as it was said. It is written as it was read, or it would move a little each time.
    wall: WallMillis,
    cause: Cause,
}

/// So many calls, and what is not owed any more is forgotten.
const CLEAN_EVERY: u32 = 1_024;

/// Kept for so long after the last promise has been kept.
const KEPT: Duration = Duration::from_secs(3_600);

/// A hold from outside that lies further ahead (24 h and the jitter) is the mistake of a clock: it is cut to 24 h.
const HOLD_CREDIBLE: Duration = Duration::from_secs(27 * 3_600);

impl Turns {
    /// The turns that a file has kept. Every scope waits a whole gap from `floor`, if there is one.
    pub(crate) fn load(
        rows: impl IntoIterator<Item = (ScopeKey, Turn)>,
        floor: Option<WallMillis>,
        now: Now,
    ) -> Self {
        let floor = floor.map(|floor| now.before(floor));
        let mut turns = Self { floor, ..Self::default() };
        for (key, row) in rows {
            let entry = Entry::load(&row, now);
            if entry.forget_at <= now.at {
                turns.gone.push(key);
            } else {
                turns.scopes.insert(key, entry);
            }
        }
        turns
    }

    pub(crate) fn reserve(&mut self, scopes: &[ScopeAsk], ask: LeaseAsk, now: Now) -> Reply {
        self.clean(now);
        let (now, floor) = (now.at, self.floor);
        let mut start = now;
        for (scope, wanted) in scopes.iter().enumerate() {
            let mut none = Entry::new(now);
            let entry = self.scopes.get_mut(&wanted.key).unwrap_or(&mut none);
            entry.leases.retain(|(_, expiry)| now < *expiry);
            if let Some((wait, reason)) = entry.busy(wanted, floor, ask.max_wait, now) {
                return Reply::Refused { scope, wait, reason };
            }
            start = start.max(entry.start(wanted.gap, floor).0.unwrap_or(now));
        }
        for wanted in scopes {
            let entry = self.entry(&wanted.key, now);
            entry.anchor = entry.anchor.max(Some(start));
            let expiry = later(start, ask.ttl);
            entry.leases.push((ask.lease, expiry));
            entry.keep_for(expiry, wanted.gap);
        }
        Reply::Granted { wait: start - now }
    }

    pub(crate) fn renew(&mut self, scopes: &[ScopeAsk], lease: LeaseId, ttl: Duration, now: Now) {
        let now = now.at;
        for wanted in scopes {
            let Some(entry) = self.scopes.get_mut(&wanted.key) else { continue };
            let alive = entry.leases.iter_mut().find(|(id, expiry)| *id == lease && now < *expiry);
            if let Some((_, expiry)) = alive {
                *expiry = later(now, ttl);
                entry.keep_for(later(now, ttl), wanted.gap);
            }
        }
    }

    pub(crate) fn release(&mut self, scopes: &[ScopeAsk], lease: LeaseId, ended: Ended, now: Now) {
        self.clean(now);
        for wanted in scopes {
            let entry = self.entry(&wanted.key, now.at);
            entry.leases.retain(|(id, _)| *id != lease);
            if ended != Ended::Unsent {
                entry.anchor = entry.anchor.max(Some(now.at));
            }
            entry.keep_for(now.at, wanted.gap);
        }
    }

    /// Holds a scope. Returns the end that is in force, and what the file is to be told.
    pub(crate) fn hold(
        &mut self,
        scope: &ScopeKey,
        until: WallMillis,
        cause: Cause,
        now: Now,
    ) -> (WallMillis, Turn) {
        let wanted = Hold::load(until, cause, now);
        let entry = self.entry(scope, now.at);
        let hold = entry.hold.filter(|hold| hold.until >= wanted.until).unwrap_or(wanted);
        entry.hold = Some(hold);
        entry.keep_for(hold.until, Duration::ZERO);
        entry.is_in_file = true;
        (hold.save(now), entry.save(now))
    }

    pub(crate) fn peek(&self, scope: &ScopeKey, now: Now) -> ScopeState {
        let Some(entry) = self.scopes.get(scope) else { return ScopeState::default() };
        let alive = entry.leases.iter().filter(|(_, expiry)| now.at < *expiry).count();
        ScopeState::new(
            u32::try_from(alive).unwrap_or(u32::MAX),
            entry.anchor.map(|anchor| now.at.saturating_duration_since(anchor)),
            entry.hold.map_or(Duration::ZERO, |hold| hold.until.saturating_duration_since(now.at)),
        )
    }

    /// What the file is to forget.
    pub(crate) fn take_gone(&mut self) -> Vec<ScopeKey> {
        std::mem::take(&mut self.gone)
    }

    /// Everything that is owed to anybody, for the last commit. What is on the wire ends now, as far as is known.
    pub(crate) fn all(&mut self, now: Now) -> impl Iterator<Item = (ScopeKey, Turn)> {
        self.forget(now);
        self.scopes.iter_mut().map(move |(key, entry)| {
            if entry.leases.iter().any(|(_, expiry)| now.at < *expiry) {
                entry.anchor = entry.anchor.max(Some(now.at));
            }
            (key.clone(), entry.save(now))
        })
    }

    fn entry(&mut self, key: &ScopeKey, now: Instant) -> &mut Entry {
        if !self.scopes.contains_key(key) {
            self.scopes.insert(key.clone(), Entry::new(now));
        }
        self.scopes.get_mut(key).expect("it was inserted if it was not there")
    }

    fn clean(&mut self, now: Now) {
        self.since_cleaning += 1;
        if self.since_cleaning >= CLEAN_EVERY {
            self.since_cleaning = 0;
            self.forget(now);
        }
    }

    fn forget(&mut self, now: Now) {
        let gone = &mut self.gone;
        self.scopes.retain(|key, entry| {
            let is_owed = now.at < entry.forget_at;
            if !is_owed && entry.is_in_file {
                gone.push(key.clone());
            }
            is_owed
        });
    }
}

impl Hold {
    fn load(wall: WallMillis, cause: Cause, now: Now) -> Self {
        let ahead = wall.since(now.wall);
        match ahead > HOLD_CREDIBLE {
            true => Self { until: now.at + RETRY_AFTER_MAX, wall: now.wall.plus(RETRY_AFTER_MAX), cause },
            false => Self { until: now.at + ahead, wall, cause },
        }
    }

    /// Its end, as it was said; or as it is now, if the wall clock has been set forward since.
    fn save(&self, now: Now) -> WallMillis {
        let end = now.on_the_wall(self.until);
        if end.since(self.wall) > CLOCKS_AGREE { end } else { self.wall }
    }
}

impl Entry {
    fn new(now: Instant) -> Self {
        Self { anchor: None, hold: None, leases: Vec::new(), forget_at: now, is_in_file: false }
    }

    /// A stored turn, in the times of this process.
    fn load(row: &Turn, now: Now) -> Self {
        Self {
            anchor: row.anchor.map(|at| now.before(at)),
            hold: row
                .hold
                .filter(|(until, _)| *until > now.wall)
                .map(|(until, cause)| Hold::load(until, cause, now)),
            leases: Vec::new(),
            forget_at: now.at + row.forget_at.since(now.wall).min(OWED_MAX),
            is_in_file: true,
        }
    }

    fn save(&self, now: Now) -> Turn {
        Turn {
            forget_at: now.on_the_wall(self.forget_at),
            anchor: self.anchor.map(|at| now.on_the_wall(at)),
            hold: self.hold.map(|hold| (hold.save(now), hold.cause)),
        }
    }

    /// Why a request cannot start within `max_wait`.
    fn busy(
        &self,
        wanted: &ScopeAsk,
        floor: Option<Instant>,
        max_wait: Duration,
        now: Instant,
    ) -> Option<(Duration, Busy)> {
        if self.leases.len() >= wanted.max_in_flight.into() {
            let first = self.leases.iter().map(|(_, expiry)| *expiry).min().unwrap_or(now);
            return Some((first.saturating_duration_since(now), Busy::InFlight));
        }
        let (start, why) = self.start(wanted.gap, floor);
        let wait = start?.saturating_duration_since(now);
        (wait > max_wait).then_some((wait, why))
    }

    fn start(&self, gap: Duration, floor: Option<Instant>) -> (Option<Instant>, Busy) {
        let start = self.anchor.max(floor).map(|anchor| later(anchor, gap));
        match self.hold {
            Some(Hold { until, cause, .. }) if Some(until) > start => (Some(until), Busy::Hold(cause)),
            _ => (start, Busy::Gap),
        }
    }

    fn keep_for(&mut self, until: Instant, gap: Duration) {
        self.forget_at = self.forget_at.max(later(until, gap.saturating_add(KEPT)));
    }
}

/// Two clocks that run apart by less have not been set.
const CLOCKS_AGREE: Duration = Duration::from_secs(1);

/// No stored scope is kept for longer without a new word of it: the longest hold, the longest gap, and what they are kept for.
const OWED_MAX: Duration = Duration::from_secs(2 * 86_400);

/// Instants overflow; ten years ahead is for ever.
fn later(at: Instant, by: Duration) -> Instant {
    const EVER: Duration = Duration::from_secs(10 * 366 * 86_400);
    at + by.min(EVER)
}
