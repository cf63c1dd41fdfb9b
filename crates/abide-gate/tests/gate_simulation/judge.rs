//! The judge. It stands where the servers stand: it sees what arrives and when, what was answered, and what each process read in
//! its store. What must follow from that it works out by the letter of the promises, and with nothing of the gate.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_gate::{Denied, WallMillis};
use tokio::time::Instant;

use super::plan::{DAY, MINUTE, ORIGINS, Path, SECOND, Setting};

/// A process, of which there is a new one after each restart.
pub(crate) type Who = u32;

/// What an attempt to get a robots.txt came to, by what the server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Rules of this phase; `None`: a text without any.
    Rules(Option<u64>),
    /// The copy is good.
    NotModified,
    Gone,
    /// Allow for now.
    Momentary,
    Unreachable,
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) promise: &'static str,
    pub(crate) at: Duration,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}: {}", self.promise, self.at, self.text)
    }
}

/// What was learnt once.
#[derive(Clone, Debug)]
struct Attempt {
    said: Said,
    at: Duration,
    /// The versions that a last good copy may have, nothing if there is none.
    copies: Vec<Option<u64>>,
    /// There is one, unless a store has lost it.
    has_copy: bool,
    /// Since when nothing could be learnt, at the earliest.
    failing: Option<Duration>,
}

#[derive(Debug, Default)]
struct Host {
    in_flight: u32,
    last_end: Option<Duration>,
    held_until: Duration,
}

/// What happened in numbers, so that a run in which nothing happens is seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pages: u64,
    pub(crate) robots: u64,
    pub(crate) disallowed: u64,
    pub(crate) unreachable: u64,
    pub(crate) deferred: u64,
    pub(crate) interrupted: u64,
    pub(crate) last_good: u64,
    pub(crate) long_outages: u64,
}

#[derive(Debug, Default)]
struct State {
    attempts: Vec<Attempt>,
    /// What a process may judge by: what it learnt last, and what it has read in its store since.
    known: HashMap<(Who, usize), Vec<usize>>,
    pending: HashMap<(Who, usize), Said>,
    stored: HashMap<(usize, WallMillis), usize>,
    crawl_delays: HashMap<(usize, u64), Duration>,
    hosts: HashMap<(Who, usize), Host>,
    fetching: HashMap<(Who, usize), u32>,
    not_asked_before: HashMap<(Who, usize), Duration>,
    lost: HashMap<(Who, usize), Duration>,
    /// How far back the wall clock lies. What is read in a store is as young then as the clock has it.
    lies_back: Duration,
    violations: Vec<Violation>,
    counts: Counts,
}

#[derive(Debug)]
pub(crate) struct Judge {
    began: Instant,
    setting: Setting,
    is_replay: bool,
    state: Mutex<State>,
}

impl Judge {
    pub(crate) fn new(setting: Setting) -> Self {
        let is_replay = std::env::var_os("ABIDE_REPLAY").is_some();
        Self { began: Instant::now(), setting, is_replay, state: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A replay tells its story.
    fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_replay {
            println!("{:>14?} {}", self.now(), what());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts
    }

    pub(crate) fn first_violation(&self) -> Option<Violation> {
        self.state().violations.first().cloned()
    }

    pub(crate) fn violated(&self, promise: &'static str, text: String) {
        let at = self.now();
        self.state().violations.push(Violation { promise, at, text });
    }

    /// The promise of pacing is made by all processes that share a store that works, else by each.
    fn group(&self, who: Who) -> Who {
        if self.setting.pace_store && !self.setting.pace_faults { 0 } else { who }
    }

    /// A request for robots.txt, or for where it was redirected to.
    pub(crate) fn robots_arrives(&self, who: Who, origin: usize, host: usize, is_first: bool) {
        let now = self.now();
        let mut state = self.state();
        state.counts.robots += 1;
        self.tell(|| format!("robots.txt of {} at host {host}", ORIGINS[origin].0));
        let fetching = state.fetching.entry((who, origin)).or_default();
        *fetching += 1;
        if *fetching > 1 {
            let text = format!("{fetching} fetches of the robots.txt of {}", ORIGINS[origin].0);
            state.violations.push(Violation { promise: "G3", at: now, text });
        }
        let before = state.not_asked_before.get(&(who, origin)).copied().unwrap_or_default();
        if is_first && now < before && !self.setting.jumps {
            let text = format!("robots.txt of {} asked for again before {before:?}", ORIGINS[origin].0);
            state.violations.push(Violation { promise: "G12", at: now, text });
        }
        self.arrives(&mut state, who, host, SECOND);
    }

    /// A request for a page: the rules must allow it now, and it must be the host's turn.
    pub(crate) fn page_arrives(&self, who: Who, origin: usize, path: Path, host: usize) {
        let now = self.now();
        let mut state = self.state();
        state.counts.pages += 1;
        let known = self.known(&state, who, origin);
        if path != Path::RobotsTxt
            && !known.iter().any(|attempt| self.permits(attempt, path, now, state.lies_back))
        {
            let text = format!("{} was asked for {path:?} by what is known: {known:?}", ORIGINS[origin].0);
            state.violations.push(Violation { promise: "G1", at: now, text });
        }
        let by_copy =
            known.iter().any(|attempt| attempt.said == Said::Unreachable && !attempt.copies.is_empty());
        let by_age = known.iter().all(|attempt| self.is_long_outage(attempt, now)) && !known.is_empty();
        let delays = known.iter().map(|attempt| {
            // While a site says "not now", or is given up, nothing of it is known, its Crawl-delay neither.
            let by_copy = attempt.said != Said::Momentary && !self.is_long_outage(attempt, now);
            let versions = attempt.copies.iter().filter(|_| by_copy);
            let delay = |version: u64| state.crawl_delays.get(&(origin, version)).copied();
            versions.map(|version| version.and_then(delay).unwrap_or_default()).min()
        });
        let gap = delays.map(Option::unwrap_or_default).min().unwrap_or_default().max(SECOND);
        self.tell(|| format!("page {path:?} of {}, gap {gap:?}, known {known:?}", ORIGINS[origin].0));
        state.counts.last_good += u64::from(by_copy);
        state.counts.long_outages += u64::from(by_age);
        self.arrives(&mut state, who, host, if path == Path::RobotsTxt { SECOND } else { gap });
    }

    fn arrives(&self, state: &mut State, who: Who, host: usize, gap: Duration) {
        let now = self.now();
        let at_host = state.hosts.entry((self.group(who), host)).or_default();
        let why = if at_host.in_flight > 0 {
            Some(format!("{} in flight at host {host} already", at_host.in_flight))
        } else if now < at_host.held_until {
            Some(format!("host {host} is held until {:?}", at_host.held_until))
        } else {
            let end = at_host.last_end.filter(|end| now < *end + gap);
            end.map(|end| format!("{:?} after the last end at host {host}, not {gap:?}", now - end))
        };
        at_host.in_flight += 1;
        state.violations.extend(why.map(|text| Violation { promise: "G4", at: now, text }));
    }

    /// The response has ended, or was dropped.
    pub(crate) fn leaves(&self, who: Who, host: usize, robots_of: Option<usize>) {
        let now = self.now();
        self.tell(|| format!("the end of a response of host {host}"));
        let mut state = self.state();
        if let Some(origin) = robots_of {
            *state.fetching.entry((who, origin)).or_default() -= 1;
        }
        let host = state.hosts.entry((self.group(who), host)).or_default();
        host.in_flight -= 1;
        host.last_end = Some(now);
    }

    /// The server asks to be left alone.
    pub(crate) fn complains(&self, who: Who, host: usize, hold: Duration) {
        let until = self.now() + hold;
        let mut state = self.state();
        let host = state.hosts.entry((self.group(who), host)).or_default();
        host.held_until = host.held_until.max(until);
    }

    pub(crate) fn says(&self, who: Who, origin: usize, said: Said) {
        self.tell(|| format!("{} says {said:?}", ORIGINS[origin].0));
        self.state().pending.insert((who, origin), said);
    }

    pub(crate) fn delays(&self, origin: usize, version: u64, delay: Duration) {
        self.state().crawl_delays.insert((origin, version), delay);
    }

    /// A process is about to write down what it has learnt.
    pub(crate) fn saves(&self, who: Who, origin: usize, asked_at: WallMillis) {
        self.tell(|| format!("process {who} saves {}, asked at {asked_at:?}", ORIGINS[origin].0));
        let now = self.now();
        let mut state = self.state();
        // What is known already is saved again when it is to be forgotten, also while an answer is on its way.
        let is_new = !state.stored.contains_key(&(origin, asked_at));
        if let Some(said) = is_new.then(|| state.pending.remove(&(who, origin))).flatten() {
            let attempt = attempt(said, now, &self.known(&state, who, origin));
            let number = state.attempts.len();
            state.attempts.push(attempt);
            state.stored.insert((origin, asked_at), number);
        }
        let number = state.stored.get(&(origin, asked_at)).copied();
        state.known.entry((who, origin)).or_default().extend(number);
    }

    /// A process has read a record.
    pub(crate) fn loads(&self, who: Who, origin: usize, asked_at: WallMillis) {
        self.tell(|| format!("process {who} loads {}, asked at {asked_at:?}", ORIGINS[origin].0));
        let mut state = self.state();
        let number = state.stored.get(&(origin, asked_at)).copied();
        state.known.entry((who, origin)).or_default().extend(number);
    }

    /// A process judges by what it has learnt now, and by nothing older.
    pub(crate) fn learns(&self, who: Who, origin: usize, asked_at: WallMillis) {
        let now = self.now();
        let mut state = self.state();
        // Not the last it has saved: it may have been told to forget what was known before, meanwhile.
        let Some(&last) = state.stored.get(&(origin, asked_at)) else { return };
        state.known.insert((who, origin), vec![last]);
        // One minute, less a tenth. After a 429 it is the end of the hold that counts.
        let failed = state.attempts[last].said == Said::Unreachable;
        let before = if failed { now + SECOND * 54 } else { Duration::ZERO };
        state.not_asked_before.insert((who, origin), before);
    }

    /// The wall clock is set back by so much, or put right again.
    pub(crate) fn clock_lies_back(&self, by: Duration, begins: bool) {
        let mut state = self.state();
        let lies = state.lies_back;
        state.lies_back = if begins { lies + by } else { lies.saturating_sub(by) };
    }

    /// Somebody has told a process to ask again.
    pub(crate) fn forgets(&self, who: Who, origin: usize) {
        self.state().not_asked_before.remove(&(who, origin));
    }

    /// The fetch of a robots.txt will panic.
    pub(crate) fn loses(&self, who: Who, origin: usize) {
        let now = self.now();
        self.state().lost.insert((who, origin), now);
    }

    /// A caller was refused: for that there must be a reason.
    pub(crate) fn refused(&self, who: Who, origin: usize, path: Path, denied: &Denied, wall: WallMillis) {
        let now = self.now();
        let mut state = self.state();
        let known = self.known(&state, who, origin);
        let wrong = match denied {
            Denied::Disallowed { .. } => {
                state.counts.disallowed += 1;
                let forbids =
                    |attempt: &Attempt| attempt.copies.iter().any(|version| !allows(*version, path));
                (!known.iter().any(forbids)).then_some("no rule disallows it")
            }
            Denied::Unreachable { .. } => {
                state.counts.unreachable += 1;
                self.wrongly_unreachable(&state, &known, now)
            }
            Denied::Deferred { not_before, .. } => {
                state.counts.deferred += 1;
                let wait = WallMillis::from(*not_before).since(wall);
                (!self.setting.jumps && wait > 27 * 60 * MINUTE).then_some("deferred for more than 27 hours")
            }
            Denied::Interrupted => {
                state.counts.interrupted += 1;
                let lost = state.lost.get(&(who, origin)).copied();
                lost.is_none_or(|at| now > at + 10 * MINUTE).then_some("interrupted though nothing was lost")
            }
            _ => Some("a refusal that nothing can lead to"),
        };
        if let Some(wrong) = wrong {
            let text = format!("{path:?} of {}: {wrong}: {denied}; known: {known:?}", ORIGINS[origin].0);
            state.violations.push(Violation { promise: "G10", at: now, text });
        }
    }

    fn wrongly_unreachable(&self, state: &State, known: &[Attempt], now: Duration) -> Option<&'static str> {
        if !known.iter().any(|attempt| matches!(attempt.said, Said::Unreachable | Said::Momentary)) {
            return Some("it could be reached");
        }
        let last = known.iter().max_by_key(|attempt| attempt.at);
        if !self.setting.access_faults && last.is_some_and(|last| last.has_copy) {
            return Some("there is a copy");
        }
        // Whoever held the host: a process that was killed has left its records.
        let is_held = state.hosts.values().any(|host| host.held_until + 67 * MINUTE > now);
        let last = last.map(|last| last.at).unwrap_or_default();
        (!self.setting.jumps && !is_held && now > last + 67 * MINUTE)
            .then_some("it was not asked again in time")
    }

    /// How long a call took, and how long of that it waited for its turns, those of robots.txt included.
    pub(crate) fn took(&self, took: Duration, waited: Duration, budget: Duration) {
        // The store may take a second, a timer a millisecond.
        if waited > budget + SECOND + Duration::from_millis(5) {
            self.violated("G5", format!("waited {waited:?} with a budget of {budget:?}"));
        }
        // The budget; and a robots.txt that belongs to all who wait: its seven turns, its deadline, the store.
        if took > budget + (7 * 30 + 30 + 20) * SECOND {
            self.violated("G5", format!("a call took {took:?} with a budget of {budget:?}"));
        }
    }

    fn known(&self, state: &State, who: Who, origin: usize) -> Vec<Attempt> {
        let numbers = state.known.get(&(who, origin));
        numbers.into_iter().flatten().map(|number| state.attempts[*number].clone()).collect()
    }

    /// Whether a page may be asked for by what this attempt came to.
    fn permits(&self, attempt: &Attempt, path: Path, now: Duration, lies_back: Duration) -> bool {
        // RFC 9309 §2.4. A clock that was set back once and put right again can double it, but not more.
        let longest = if self.setting.jumps { 3 * DAY + lies_back } else { DAY + SECOND };
        let is_fresh = now <= attempt.at + longest;
        let by_copy = attempt.copies.iter().any(|version| allows(*version, path));
        match attempt.said {
            Said::Rules(_) | Said::NotModified => is_fresh && by_copy,
            Said::Gone => is_fresh,
            Said::Momentary => is_fresh || by_copy || self.is_long_outage(attempt, now),
            Said::Unreachable => by_copy || self.is_long_outage(attempt, now),
        }
    }

    /// 30 days, in which 20 attempts at 20 hours must fit; a clock that jumps can add one of them each time it does.
    fn is_long_outage(&self, attempt: &Attempt, now: Duration) -> bool {
        let long = if self.setting.jumps { 10 * DAY } else { 30 * DAY };
        // A store that fails can lose the copy.
        let no_copy = attempt.copies.is_empty() || self.setting.access_faults;
        no_copy && attempt.failing.is_some_and(|since| now >= since + long)
    }
}

/// What follows from an answer, and from what was known before.
fn attempt(said: Said, at: Duration, before: &[Attempt]) -> Attempt {
    let mut kept: Vec<_> = before.iter().flat_map(|attempt| attempt.copies.iter().copied()).collect();
    kept.sort_unstable();
    kept.dedup();
    let failing = before.iter().filter_map(|attempt| attempt.failing).min();
    let had_copy = before.iter().max_by_key(|attempt| attempt.at).is_some_and(|last| last.has_copy);
    let (copies, has_copy, failing) = match said {
        Said::Rules(version) => (vec![version], true, None),
        Said::NotModified => (kept, true, None),
        Said::Gone => (Vec::new(), false, None),
        Said::Momentary => (kept, had_copy, failing),
        Said::Unreachable => (kept, had_copy, Some(failing.unwrap_or(at))),
    };
    Attempt { said, at, copies, has_copy, failing }
}

/// What the rules of a version say; `None` has none.
fn allows(version: Option<u64>, path: Path) -> bool {
    match (version, path) {
        (None, _) | (_, Path::Open | Path::RobotsTxt) => true,
        (Some(_), Path::Closed) => false,
        (Some(version), Path::Version(asked)) => version != asked,
    }
}
