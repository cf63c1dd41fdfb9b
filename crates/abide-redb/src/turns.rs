//! Turns and holds as they are now. In memory, and the holds are loaded when the file is opened: asking for a turn reads no disk.
//!
//! Plain functions of the state and `now`; who calls them locks, and writes down what has to be.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use abide_gate::pacing::{
    Busy, Cause, Ended, LeaseAsk, LeaseId, RETRY_AFTER_MAX, Reply, STRIKES_KEPT, ScopeAsk, ScopeKey,
    ScopeState,
};
use abide_gate::{Clock, WallMillis};
use tokio::time::Instant;

use crate::row::Held;

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
}

#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Those to whom something may be owed. Each call looks at twice as many as it may add, and forgets those to whom nothing is owed:
    /// there are at most about twice as many as were asked for within [`KEPT`] and their gap, or are held.
    scopes: HashMap<ScopeKey, Entry>,
    /// The same, each once: the next to be looked at first.
    round: VecDeque<ScopeKey>,
    /// Forgotten here, and to be forgotten by the file.
    gone: Vec<ScopeKey>,
    /// When a file was opened that was not new. It counts as the end of a response for every scope: nobody knows which requests were
    /// under way just before, and no clock that runs on over a restart says how long ago that was.
    floor: Option<Instant>,
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
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Instant,
    /// The same, as it was said. It is written as it was read, or it would move a little each time.
    wall: WallMillis,
    strikes: u8,
    cause: Cause,
}

/// Kept for so long after the last promise has been kept.
const KEPT: Duration = Duration::from_secs(3_600);

/// A hold from outside that lies further ahead (24 h and the jitter) is the mistake of a clock: it is cut to 24 h.
const HOLD_CREDIBLE: Duration = Duration::from_secs(27 * 3_600);

impl Turns {
    /// The holds that a file has kept. Unless it is new, every scope waits a whole gap from now.
    pub(crate) fn load(rows: impl IntoIterator<Item = (ScopeKey, Held)>, is_new: bool, now: Now) -> Self {
        let mut turns = Self { floor: (!is_new).then_some(now.at), ..Self::default() };
        for (key, held) in rows {
            let hold = Hold::load(held, now);
            if hold.is_over(now.at) {
                turns.gone.push(key);
            } else {
                turns.put_hold(&key, hold, now);
            }
        }
        turns
    }

    pub(crate) fn reserve(&mut self, scopes: &[ScopeAsk], ask: LeaseAsk, now: Now) -> Reply {
        self.clean(scopes.len() * 2, now);
        let (now, floor) = (now.at, self.floor);
        let (mut start, mut strikes) = (now, 0);
        for (scope, wanted) in scopes.iter().enumerate() {
            let mut none = Entry::new(now);
            let entry = self.scopes.get_mut(&wanted.key).unwrap_or(&mut none);
            entry.leases.retain(|(_, expiry)| now < *expiry);
            if let Some((wait, reason)) = entry.busy(wanted, floor, ask.max_wait, now) {
                return Reply::Refused { scope, wait, reason };
            }
            start = start.max(entry.start(wanted.gap, floor, now).0.unwrap_or(now));
            strikes = strikes.max(entry.strikes(now));
        }
        for wanted in scopes {
            let entry = self.entry(&wanted.key, now);
            entry.anchor = entry.anchor.max(Some(start));
            let expiry = later(start, ask.ttl);
            entry.leases.push((ask.lease, expiry));
            entry.keep_for(expiry, wanted.gap);
        }
        Reply::Granted { wait: start - now, strikes }
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
        self.clean(scopes.len() * 2, now);
        for wanted in scopes {
            let entry = self.entry(&wanted.key, now.at);
            entry.leases.retain(|(id, _)| *id != lease);
            if ended != Ended::Unsent {
                entry.anchor = entry.anchor.max(Some(now.at));
            }
            entry.keep_for(now.at, wanted.gap);
        }
    }

    /// Holds a scope. Returns the end of the hold that is in force, or now, and what the file is to be told.
    pub(crate) fn hold(&mut self, scope: &ScopeKey, asked: Held, now: Now) -> (WallMillis, Option<Held>) {
        let told = if now.wall.since(asked.until) < STRIKES_KEPT { asked.strikes } else { 0 };
        let wanted = Hold::load(Held { strikes: told, ..asked }, now);
        let entry = self.entry(scope, now.at);
        let strikes = told.max(entry.strikes(now.at));
        let longer = entry.hold.filter(|hold| hold.until >= wanted.until).unwrap_or(wanted);
        let hold = Hold { strikes, ..longer };
        self.put_hold(scope, hold, now);
        let held = hold.save(now);
        (held.until.max(now.wall), (!hold.is_over(now.at)).then_some(held))
    }

    fn put_hold(&mut self, scope: &ScopeKey, hold: Hold, now: Now) {
        let entry = self.entry(scope, now.at);
        entry.hold = Some(hold);
        entry.keep_for(hold.until, Duration::ZERO);
    }

    pub(crate) fn peek(&self, scope: &ScopeKey, now: Now) -> ScopeState {
        let Some(entry) = self.scopes.get(scope) else { return ScopeState::default() };
        let alive = entry.leases.iter().filter(|(_, expiry)| now.at < *expiry).count();
        ScopeState::new(
            u32::try_from(alive).unwrap_or(u32::MAX),
            entry.anchor.map(|anchor| now.at.saturating_duration_since(anchor)),
            entry.hold.map_or(Duration::ZERO, |hold| hold.until.saturating_duration_since(now.at)),
            entry.strikes(now.at),
        )
    }

    /// What the file is to forget.
    pub(crate) fn take_gone(&mut self) -> Vec<ScopeKey> {
        std::mem::take(&mut self.gone)
    }

    /// All holds, for the last commit: the wall clock may have been set since they were written. `None`: it is over.
    pub(crate) fn holds(&self, now: Now) -> impl Iterator<Item = (ScopeKey, Option<Held>)> {
        self.scopes.iter().filter_map(move |(key, entry)| {
            let hold = entry.hold?;
            Some((key.clone(), (!hold.is_over(now.at)).then(|| hold.save(now))))
        })
    }

    fn entry(&mut self, key: &ScopeKey, now: Instant) -> &mut Entry {
        if !self.scopes.contains_key(key) {
            self.scopes.insert(key.clone(), Entry::new(now));
            self.round.push_back(key.clone());
        }
        self.scopes.get_mut(key).expect("it was inserted if it was not there")
    }

    /// Looks at the next few, so that no call waits for all.
    fn clean(&mut self, count: usize, now: Now) {
        for _ in 0..count.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { return };
            match self.scopes.get(&key) {
                Some(entry) if now.at < entry.forget_at => self.round.push_back(key),
                entry => {
                    let is_in_file = entry.is_some_and(|entry| entry.hold.is_some());
                    self.scopes.remove(&key);
                    if is_in_file {
                        self.gone.push(key);
                    }
                }
            }
        }
    }
}

impl Hold {
    fn load(Held { until: wall, strikes, cause }: Held, now: Now) -> Self {
        let (ahead, ago) = (wall.since(now.wall), now.wall.since(wall));
        match ahead > HOLD_CREDIBLE {
            true => {
                let (until, wall) = (now.at + RETRY_AFTER_MAX, now.wall.plus(RETRY_AFTER_MAX));
                Self { until, wall, strikes, cause }
            }
            // Some machines cannot say what was before they were started.
            false => {
                let until = now.at.checked_sub(ago).unwrap_or(now.at) + ahead;
                Self { until, wall, strikes, cause }
            }
        }
    }

    /// The hold has ended, and its strikes are forgiven.
    fn is_over(&self, now: Instant) -> bool {
        let kept = if self.strikes > 0 { STRIKES_KEPT } else { Duration::ZERO };
        later(self.until, kept) <= now
    }

    /// Its end, as it was said; or as it is now, if the wall clock has been set forward since.
    fn save(&self, now: Now) -> Held {
        let end = now.on_the_wall(self.until);
        let until = if end.since(self.wall) > CLOCKS_AGREE { end } else { self.wall };
        Held { until, strikes: self.strikes, cause: self.cause }
    }
}

impl Entry {
    fn new(now: Instant) -> Self {
        Self { anchor: None, hold: None, leases: Vec::new(), forget_at: now }
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
            let starts = self.anchor.filter(|_| wanted.max_in_flight == 1).unwrap_or(now);
            return Some((starts.saturating_duration_since(now), Busy::InFlight));
        }
        let (start, why) = self.start(wanted.gap, floor, now);
        let wait = start?.saturating_duration_since(now);
        (wait > max_wait).then_some((wait, why))
    }

    fn start(&self, gap: Duration, floor: Option<Instant>, now: Instant) -> (Option<Instant>, Busy) {
        let start = self.anchor.max(floor).map(|anchor| later(anchor, gap));
        match self.hold {
            Some(Hold { until, strikes, cause, .. }) if Some(until) > start.max(Some(now)) => {
                (Some(until), Busy::Hold { cause, strikes })
            }
            _ => (start, Busy::Gap),
        }
    }

    /// Those that are not forgiven.
    fn strikes(&self, now: Instant) -> u8 {
        self.hold.filter(|hold| !hold.is_over(now)).map_or(0, |hold| hold.strikes)
    }

    fn keep_for(&mut self, until: Instant, gap: Duration) {
        self.forget_at = self.forget_at.max(later(until, gap.saturating_add(KEPT)));
    }
}

/// Two clocks that run apart by less have not been set.
const CLOCKS_AGREE: Duration = Duration::from_secs(1);

/// Instants overflow; ten years ahead is for ever.
fn later(at: Instant, by: Duration) -> Instant {
    const EVER: Duration = Duration::from_secs(10 * 366 * 86_400);
    at + by.min(EVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_looks_at_all_scopes_and_in_the_end_all_that_is_not_owed_is_forgotten() {
        let start = Now { at: Instant::now(), wall: WallMillis(1_800_000_000_000) };
        let late = Now { at: start.at + 2 * KEPT, wall: start.wall.plus(2 * KEPT) };
        let mut turns = Turns::default();
        let mut release = |host: &str, now: Now| {
            let before = turns.scopes.len();
            let scopes = [ScopeAsk::new(host.into(), Duration::from_secs(1), 1)];
            turns.release(&scopes, LeaseId(1), Ended::Response, now);
            assert_eq!(turns.scopes.len(), turns.round.len());
            (before.saturating_sub(turns.scopes.len()), turns.scopes.len())
        };
        for n in 0..5_000 {
            release(&format!("h{n}.example"), start);
        }
        for _ in 0..3_000 {
            assert!(release("late.example", late).0 <= 2, "a few at a time");
        }
        assert_eq!(release("late.example", late).1, 1, "only what is owed is left");
    }
}
