//! The checker. It stands where the servers stand: it sees what arrives and when, what was answered, and what
//! each process read in its store. What must follow from that it works out by the letter of the promises, and
//! with nothing of the gate.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_gate::{Denied, DeniedKind, WallMillis};
use tokio::time::Instant;

use super::plan::{CDN, DAY, HOUR, MINUTE, ORIGINS, Path, SECOND, Setting};

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
    /// The copy if there is one, else allow for now: 408 or 429.
    NotNow(u16),
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

/// What one attempt to fetch a robots.txt came to.
#[derive(Clone, Debug)]
struct Attempt {
    who: Who,
    said: Said,
    at: Duration,
    /// The versions that a last good copy may have, nothing if there is none.
    copies: Vec<Option<u64>>,
    /// There is one, unless a store has lost it.
    has_copy: bool,
    /// Since when no attempt has succeeded, at the earliest.
    failing: Option<Duration>,
    /// By how many milliseconds the wall clock was ahead then.
    ahead: i64,
}

#[derive(Debug, Default)]
struct Host {
    in_flight: u32,
    last_end: Option<Duration>,
    backoffs: Vec<Backoff>,
}

/// A host is backed off.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    by: Who,
    since: Duration,
    /// By other processes.
    known_from: Duration,
    until: Duration,
}

impl Backoff {
    fn forbids(&self, who: Who, now: Duration) -> bool {
        let known_from = if who == self.by { self.since } else { self.known_from };
        (known_from..self.until).contains(&now)
    }
}

/// Why a host is to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// The server has said for how long.
    Asks(Duration),
    /// It has not.
    Silent,
    /// The operator says so.
    Operator(Duration),
}

/// The most that may follow from what happened at a host: until then a refusal has a reason.
#[derive(Clone, Copy, Debug, Default)]
struct Excuse {
    backed_off_until: Duration,
    throttles: u32,
    /// It has refused so often that it may be held until then.
    refused_until: Duration,
    /// A lease may be taken in the shared store by a process that does not know.
    unsure_until: Duration,
}

/// Requests of one process in a row that no answer came to, and the pause that may follow.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    count: u32,
    pause_until: Duration,
}

/// Refusals of one process in a row, and the hold that must follow.
#[derive(Clone, Copy, Debug, Default)]
struct RefusalRow {
    count: u32,
    recognised: u32,
    held_until: Duration,
    holds: u32,
}

/// Callers that may be waiting for a permit.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    calling: u32,
    /// When the last one left. Others may have been deferred when it was still there.
    left: Option<Duration>,
}

/// The longest delay that a site of the simulation asks for.
const DELAY_MAX: Duration = Duration::from_millis(2_500);
/// What a server without a usable Retry-After is left alone for, the first time.
pub(crate) const BACKOFF: Duration = Duration::from_secs(60);
/// So many refusals in a row, or so many that are recognised, and a host is held.
const REFUSALS_MAX: u32 = 25;
const RECOGNISED_MAX: u32 = 5;
const THROTTLES_KEPT: Duration = Duration::from_secs(30 * 60);
/// So many faults in a row, and a host is given a pause, of an hour at most.
const FAULTS_MAX: u32 = 5;
/// An attempt that failed longer ago says nothing about now.
const UNASKED_MAX: Duration = Duration::from_secs(27 * 60 * 60);
/// The longest back-off of a robots.txt, its jitter, and the fetch.
const BACK_OFF_MAX: Duration = Duration::from_secs(67 * 60);
/// A fetch that waits for the permits of all its hops.
const FETCH_MAX: Duration = Duration::from_secs(7 * 60 + 30 + 20);
/// The life of a lease that no process has given back. Its holder hears of what other processes have saved
/// when it renews it, every half.
const LEASE: Duration = Duration::from_secs(7);
/// As long as a time that a wrong clock has written down is believed, once it has come near.
const JUMP_REMEMBERED: Duration = Duration::from_secs(28 * 60 * 60);

/// What happened in numbers, by name, so that a run in which nothing happens is seen. `deferred, not
/// checked`: while a clock lied or soon after.
pub(crate) type Occurrences = BTreeMap<&'static str, u64>;

#[derive(Debug, Default)]
struct State {
    attempts: Vec<Attempt>,
    /// What a process may go by: its last attempt, and what it has read in its store since.
    known: HashMap<(Who, usize), Vec<usize>>,
    pending: HashMap<(Who, usize), Said>,
    /// By the time that is written down; two processes may have fetched in the same millisecond.
    stored: HashMap<(usize, WallMillis), Vec<usize>>,
    crawl_delays: HashMap<(usize, u64), Duration>,
    hosts: HashMap<(Who, usize), Host>,
    fetching: HashMap<(Who, usize), u32>,
    not_asked_before: HashMap<(Who, usize), Duration>,
    lost: HashMap<(Who, usize), Duration>,
    excuses: HashMap<(Who, usize), Excuse>,
    /// Until when a process may not trust its shared store.
    store_back: HashMap<Who, Duration>,
    lines: HashMap<(Who, usize), Line>,
    faults: HashMap<(Who, usize), Faults>,
    rows: HashMap<(Who, usize), RefusalRow>,
    robots_fetches: HashMap<(Who, usize), Duration>,
    /// When a robots.txt was last redirected to the host that some of them live on.
    led: HashMap<usize, Duration>,
    /// Clocks that lie now, and when the last one was put right.
    lying: u32,
    lied_until: Option<Duration>,
    /// By how many milliseconds it is ahead now.
    ahead: i64,
    most_ahead: Duration,
    violations: Vec<Violation>,
    counts: Occurrences,
}

#[derive(Debug)]
pub(crate) struct Checker {
    began: Instant,
    setting: Setting,
    is_replay: bool,
    faults_ended: AtomicBool,
    state: Mutex<State>,
}

impl State {
    fn count(&mut self, what: &'static str, by: u64) {
        *self.counts.entry(what).or_default() += by;
    }

    /// The attempts for an origin at this time, of all processes.
    fn stored_at(&self, origin: usize, asked_at: WallMillis) -> Vec<usize> {
        self.stored.get(&(origin, asked_at)).cloned().unwrap_or_default()
    }
}

impl Checker {
    pub(crate) fn new(setting: Setting) -> Self {
        let is_replay = std::env::var_os("ABIDE_REPLAY").is_some();
        let (faults_ended, state) = (AtomicBool::new(false), Mutex::default());
        Self { began: Instant::now(), setting, is_replay, faults_ended, state }
    }

    /// Everything is well from now on.
    pub(crate) fn end_faults(&self) {
        self.faults_ended.store(true, Ordering::SeqCst);
    }

    pub(crate) fn faults_ended(&self) -> bool {
        self.faults_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A replay prints what happens.
    fn trace(&self, what: impl FnOnce() -> String) {
        if self.is_replay {
            println!("{:>14?} {}", self.now(), what());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> (Duration, MutexGuard<'_, State>) {
        (self.now(), self.state())
    }

    pub(crate) fn counts(&self) -> Occurrences {
        self.state().counts.clone()
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.state().counts.get(what).copied().unwrap_or_default()
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
        if self.setting.host_store && !self.setting.pace_faults { 0 } else { who }
    }

    /// A request for robots.txt, or for where it was redirected to.
    pub(crate) fn robots_arrives(&self, who: Who, origin: usize, host: usize, is_first: bool) {
        let (now, mut state) = self.locked();
        state.count("robots requests", 1);
        self.trace(|| format!("robots.txt of {} at host {host}", ORIGINS[origin].0));
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

    /// A request for a page: the rules must allow it now, and the host must be free.
    pub(crate) fn page_arrives(&self, who: Who, origin: usize, path: Path, host: usize) {
        let (now, mut state) = self.locked();
        state.count("pages", 1);
        let known = self.known(&state, who, origin);
        if path != Path::RobotsTxt
            && !known.iter().any(|attempt| self.permits(attempt, path, now, state.ahead))
        {
            let text = format!("{} was asked for {path:?} by what is known: {known:?}", ORIGINS[origin].0);
            state.violations.push(Violation { promise: "G1", at: now, text });
        }
        let by_copy =
            known.iter().any(|attempt| attempt.said == Said::Unreachable && !attempt.copies.is_empty());
        let by_age = known.iter().all(|attempt| self.is_long_outage(attempt, now)) && !known.is_empty();
        let delays = known.iter().map(|attempt| {
            // While a site says "not now", or is given up, nothing of it is known, its Crawl-delay neither.
            let without = match attempt.said {
                Said::Momentary => true,
                Said::NotNow(_) => self.may_lack_a_copy(attempt),
                _ => false,
            };
            let by_copy = !without && !self.is_long_outage(attempt, now);
            let versions = attempt.copies.iter().filter(|_| by_copy);
            let delay = |version: u64| state.crawl_delays.get(&(origin, version)).copied();
            versions.map(|version| version.and_then(delay).unwrap_or_default()).min()
        });
        let delay = delays.map(Option::unwrap_or_default).min().unwrap_or_default().max(SECOND);
        self.trace(|| format!("page {path:?} of {}, delay {delay:?}, known {known:?}", ORIGINS[origin].0));
        state.count("pages by a last good copy", by_copy.into());
        state.count("pages after a long outage", by_age.into());
        self.arrives(&mut state, who, host, if path == Path::RobotsTxt { SECOND } else { delay });
    }

    /// Processes that share a store also share their holds: another one may have held the host before, and a
    /// response to what was under way then counts for none; or it may have been let in, and the row of this
    /// one begins anew. So there it is not known.
    fn must_be_held(&self, state: &State, who: Who, host: usize, now: Duration) -> bool {
        let is_held = state.rows.get(&(who, host)).is_some_and(|row| now < row.held_until);
        is_held && !self.setting.host_store
    }

    fn arrives(&self, state: &mut State, who: Who, host: usize, delay: Duration) {
        let now = self.now();
        let must_be_held = self.must_be_held(state, who, host, now);
        let at_host = state.hosts.entry((self.group(who), host)).or_default();
        let why = if at_host.in_flight > 0 {
            Some(format!("{} in flight at host {host} already", at_host.in_flight))
        } else if let Some(backoff) = at_host.backoffs.iter().find(|backoff| backoff.forbids(who, now)) {
            Some(format!("host {host} is backed off: {backoff:?}"))
        } else if must_be_held {
            Some(format!("host {host} is held, because it refuses"))
        } else {
            let end = at_host.last_end.filter(|end| now < *end + delay);
            end.map(|end| format!("{:?} after the last end at host {host}, not {delay:?}", now - end))
        };
        at_host.in_flight += 1;
        state.violations.extend(why.map(|text| Violation { promise: "G4", at: now, text }));
    }

    /// The response has ended, or was dropped.
    pub(crate) fn leaves(&self, who: Who, host: usize, robots_of: Option<usize>) {
        let now = self.now();
        self.trace(|| format!("the end of a response of host {host}"));
        let mut state = self.state();
        if let Some(origin) = robots_of {
            *state.fetching.entry((who, origin)).or_default() -= 1;
        }
        let host = state.hosts.entry((self.group(who), host)).or_default();
        host.in_flight -= 1;
        host.last_end = Some(now);
    }

    /// The server asks to be left alone, or the operator wants it to be. `throttled`: it is the robots.txt of
    /// this site that says so.
    pub(crate) fn throttles(&self, who: Who, host: usize, throttle: Throttle, throttled: Option<usize>) {
        let (now, mut state) = self.locked();
        let known = throttled.map(|origin| self.known(&state, who, origin)).unwrap_or_default();
        let mut before = known.iter().map(|attempt| attempt.said == Said::NotNow(429));
        // A store that fails may have lost what was said before, and a clock that jumps for how long.
        let is_certain = !known.is_empty() && !self.setting.access_faults && !self.setting.jumps;
        let (must_back_off, may_back_off) =
            (is_certain && before.clone().all(|said| said), before.any(|said| said));
        let excuse = state.excuses.entry((self.circle(who), host)).or_default();
        if now > excuse.backed_off_until + THROTTLES_KEPT {
            excuse.throttles = 0;
        }
        let (least, most) = match throttle {
            // The clock has milliseconds.
            Throttle::Operator(lasts) => (lasts - Duration::from_millis(1), lasts),
            Throttle::Asks(asked) => (asked.min(DAY), asked.min(DAY)),
            Throttle::Silent => (BACKOFF, (BACKOFF * (1 << excuse.throttles.min(12))).min(DAY)),
        };
        let least = least.max(if must_back_off { MINUTE } else { Duration::ZERO });
        let most = most.max(if may_back_off { HOUR * 11 / 10 } else { Duration::ZERO });
        excuse.throttles += u32::from(!matches!(throttle, Throttle::Operator(_)));
        // A tenth of jitter.
        excuse.backed_off_until = excuse.backed_off_until.max(now + most * 11 / 10 + SECOND);
        let host = state.hosts.entry((self.group(who), host)).or_default();
        host.backoffs.retain(|backoff| now < backoff.until);
        // The holder of the host sees a response itself. The operator may ask another process, whose store
        // takes up to a second.
        let known_from = match throttle {
            Throttle::Operator(_) => now + LEASE / 2 + SECOND,
            Throttle::Asks(_) | Throttle::Silent => now,
        };
        host.backoffs.push(Backoff { by: who, since: now, known_from, until: now + least });
    }

    /// Those that can back a host off for each other, in whatever way.
    fn circle(&self, who: Who) -> Who {
        if self.setting.host_store { 0 } else { who }
    }

    /// No answer came to a request, or one did.
    pub(crate) fn reaches(&self, who: Who, host: usize, is_there: bool) {
        let (now, mut state) = self.locked();
        let faults = state.faults.entry((who, host)).or_default();
        if is_there {
            faults.count = 0;
            return;
        }
        faults.count += 1;
        if faults.count >= FAULTS_MAX {
            faults.pause_until = now + HOUR + SECOND;
        }
    }

    /// A page was answered, perhaps by what stands before the site.
    pub(crate) fn receives(&self, who: Who, host: usize, status: u16, is_challenge: bool) {
        let (now, mut state) = self.locked();
        let row = state.rows.entry((who, host)).or_default();
        if row.holds > 0 && now > row.held_until + DAY {
            // With all its jitter the hold ended later, and then this is still its probe.
            let may_be_probe = now <= row.held_until + DAY + DAY / 10 + 5 * MINUTE;
            *row = RefusalRow::default();
            if may_be_probe {
                self.may_hold(&mut state, who, host, now);
            }
        }
        let row = state.rows.entry((who, host)).or_default();
        match status {
            402 | 420 | 429 | 430 | 451 | 509 | 529 if !is_challenge => return,
            401 | 403 | 405 | 406 | 410 => row.count += 1,
            _ if is_challenge => (row.count, row.recognised) = (row.count + 1, row.recognised + 1),
            _ => {
                *row = RefusalRow::default();
                return;
            }
        }
        let was_held = row.holds > 0;
        if row.count < REFUSALS_MAX && row.recognised < RECOGNISED_MAX && !was_held {
            return;
        }
        row.held_until = now + (HOUR * (1 << row.holds.min(5))).min(DAY);
        let holds = row.holds + 1;
        *row = RefusalRow { count: row.count.min(REFUSALS_MAX), holds, ..*row };
        state.count("holds", 1);
        self.may_hold(&mut state, who, host, now);
    }

    /// For all others a hold is as a backoff: there is a reason to wait.
    fn may_hold(&self, state: &mut State, who: Who, host: usize, now: Duration) {
        let excuse = state.excuses.entry((self.circle(who), host)).or_default();
        excuse.backed_off_until = excuse.backed_off_until.max(now + DAY * 11 / 10 + SECOND);
        excuse.refused_until = excuse.backed_off_until;
    }

    /// The shared store does not answer this process as it should: it is not known who has the lease of this
    /// host.
    pub(crate) fn store_fails(&self, who: Who, host: usize) {
        let until = self.now() + LEASE + DELAY_MAX;
        let mut state = self.state();
        state.excuses.entry((0, host)).or_default().unsure_until = until;
        state.store_back.insert(who, Duration::MAX);
    }

    /// It answers. What the others did meanwhile is not known: after an outage each host is given one delay.
    pub(crate) fn store_answers(&self, who: Who) {
        let now = self.now();
        if let Some(back) = self.state().store_back.get_mut(&who) {
            *back = (*back).min(now + DELAY_MAX);
        }
    }

    /// A caller wants a permit of this host, or has gone.
    pub(crate) fn calls(&self, who: Who, host: usize, comes: bool) {
        self.trace(|| format!("a caller {} host {host}", if comes { "comes to" } else { "leaves" }));
        let (now, mut state) = self.locked();
        let line = state.lines.entry((self.circle(who), host)).or_default();
        line.calling = if comes { line.calling + 1 } else { line.calling - 1 };
        line.left = if comes { line.left } else { Some(now) };
    }

    /// A process may be about to ask for this robots.txt.
    pub(crate) fn fetches_robots(&self, who: Who, origin: usize) {
        let (now, mut state) = self.locked();
        state.robots_fetches.insert((who, origin), now);
    }

    /// A robots.txt is redirected to the host that some of them live on.
    pub(crate) fn leads_to_cdn(&self, origin: usize) {
        let now = self.now();
        self.state().led.insert(origin, now);
    }

    pub(crate) fn says(&self, who: Who, origin: usize, said: Said) {
        self.trace(|| format!("{} says {said:?}", ORIGINS[origin].0));
        self.state().pending.insert((who, origin), said);
    }

    pub(crate) fn delays(&self, origin: usize, version: u64, delay: Duration) {
        self.state().crawl_delays.insert((origin, version), delay);
    }

    /// A process is about to save what it has fetched.
    pub(crate) fn saves(&self, who: Who, origin: usize, asked_at: WallMillis) {
        self.trace(|| format!("process {who} saves {}, asked at {asked_at:?}", ORIGINS[origin].0));
        let (now, mut state) = self.locked();
        // What is known already is saved again when it is to be forgotten, also while an answer is on its
        // way.
        let of_others = |number: usize| state.attempts[number].who != who && state.attempts[number].at == now;
        let is_new = state.stored_at(origin, asked_at).into_iter().all(of_others);
        if let Some(said) = is_new.then(|| state.pending.remove(&(who, origin))).flatten() {
            let last_counts = !self.setting.jumps && !self.setting.access_faults;
            let known = self.known(&state, who, origin);
            let attempt = attempt((who, said), now, state.ahead, &known, last_counts);
            let number = state.attempts.len();
            state.attempts.push(attempt);
            state.stored.entry((origin, asked_at)).or_default().push(number);
        }
        let numbers = state.stored_at(origin, asked_at);
        state.known.entry((who, origin)).or_default().extend(numbers);
    }

    /// A process has read a record.
    pub(crate) fn loads(&self, who: Who, origin: usize, asked_at: WallMillis) {
        self.trace(|| format!("process {who} loads {}, asked at {asked_at:?}", ORIGINS[origin].0));
        let mut state = self.state();
        let numbers = state.stored_at(origin, asked_at);
        state.known.entry((who, origin)).or_default().extend(numbers);
    }

    /// A process decides by this attempt from now on, and by nothing older.
    pub(crate) fn fetched(&self, who: Who, origin: usize, asked_at: WallMillis) {
        let (now, mut state) = self.locked();
        // Not the last it has saved: meanwhile what was known before may have been invalidated.
        let numbers = state.stored_at(origin, asked_at);
        if numbers.is_empty() {
            return;
        }
        // One minute, less a tenth. After a 429 it is the end of the backoff that counts.
        let failed = numbers.iter().all(|number| state.attempts[*number].said == Said::Unreachable);
        let before = if failed { now + SECOND * 54 } else { Duration::ZERO };
        state.known.insert((who, origin), numbers);
        state.not_asked_before.insert((who, origin), before);
    }

    /// The wall clock is set by so many milliseconds, or put right again.
    pub(crate) fn clock_lies(&self, by: i64, begins: bool) {
        let mut state = self.state();
        state.ahead += if begins { by } else { -by };
        let ahead = Duration::from_millis(state.ahead.max(0).unsigned_abs());
        state.most_ahead = state.most_ahead.max(ahead);
        state.lying = if begins { state.lying + 1 } else { state.lying - 1 };
        state.lied_until = Some(self.now());
    }

    /// A process is made to fetch again.
    pub(crate) fn forgets(&self, who: Who, origin: usize) {
        self.state().not_asked_before.remove(&(who, origin));
    }

    /// The fetch of a robots.txt will panic.
    pub(crate) fn loses(&self, who: Who, origin: usize) {
        let now = self.now();
        self.state().lost.insert((who, origin), now);
    }

    /// A caller was refused: for that there must be a reason.
    ///
    /// `left` is what the caller could still have waited.
    pub(crate) fn refused(
        &self,
        who: Who,
        origin: usize,
        path: Path,
        denied: &Denied,
        left: Duration,
        wall: WallMillis,
    ) {
        self.trace(|| {
            format!("process {who} refuses {path:?} of {}, {left:?} left: {denied}", ORIGINS[origin].0)
        });
        let (now, mut state) = self.locked();
        let known = self.known(&state, who, origin);
        let wrong = match denied.kind() {
            DeniedKind::Disallowed { .. } => {
                state.count("disallowed", 1);
                let forbids =
                    |attempt: &Attempt| attempt.copies.iter().any(|version| !allows(*version, path));
                (!known.iter().any(forbids)).then_some("no rule disallows it")
            }
            DeniedKind::Unreachable { .. } => {
                state.count("unreachable", 1);
                // An answer that comes while the clock is set is of no day.
                let is_checked = !self.clock_has_lied(&state, now);
                is_checked.then(|| self.wrongly_unreachable(&state, origin, &known, now)).flatten()
            }
            DeniedKind::Deferred { .. } => {
                state.count("deferred", 1);
                let not_before = denied.retry_at().expect("a deferral says when to come back");
                let wait = WallMillis::from(not_before).since(wall);
                match () {
                    () if self.clock_has_lied(&state, now) => {
                        state.count("deferred, not checked", 1);
                        None
                    }
                    () if wait > 27 * HOUR => Some("deferred for more than 27 hours"),
                    () if self.must_wait(&state, who, origin, left, now) => None,
                    // Another process may have the lease of the host for a while, though it sends nothing.
                    () if self.setting.host_store && wait <= DELAY_MAX => None,
                    () => Some("deferred, and the host was free"),
                }
            }
            DeniedKind::Refusing { .. } => {
                state.count("held", 1);
                let circle = self.circle(who);
                let hosts = hosts_of(&state, origin, now);
                let mut excuses = state
                    .excuses
                    .iter()
                    .filter(|((by, host), _)| *by == circle && hosts.contains(&Some(*host)));
                let is_held = excuses.any(|(_, excuse)| now < excuse.refused_until);
                (!is_held).then_some("held, and it lets us in")
            }
            DeniedKind::Interrupted => {
                state.count("interrupted", 1);
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

    fn wrongly_unreachable(
        &self,
        state: &State,
        origin: usize,
        known: &[Attempt],
        now: Duration,
    ) -> Option<&'static str> {
        if !known
            .iter()
            .any(|attempt| matches!(attempt.said, Said::Unreachable | Said::NotNow(_) | Said::Momentary))
        {
            return Some("it could be reached");
        }
        let last = known.iter().max_by_key(|attempt| attempt.at);
        if !self.setting.access_faults && last.is_some_and(|last| last.has_copy) {
            return Some("there is a copy");
        }
        // By any process: one that was killed has left its records.
        let hosts = hosts_of(state, origin, now);
        let excuses = state.excuses.iter().filter(|((_, host), _)| hosts.contains(&Some(*host)));
        let is_held = excuses.map(|(_, excuse)| excuse.backed_off_until).any(|until| until + MINUTE > now);
        let last = last.map(|last| last.at).unwrap_or_default();
        (!is_held && now > last + BACK_OFF_MAX).then_some("it was not asked again in time")
    }

    /// Whether what was written by a wrong clock may still be believed.
    pub(crate) fn is_misled(&self) -> bool {
        self.clock_has_lied(&self.state(), self.now())
    }

    /// Whether a wrong clock may have left its traces: what was waited for is unknown then.
    fn clock_has_lied(&self, state: &State, now: Duration) -> bool {
        state.lying > 0
            || state.lied_until.is_some_and(|until| now < until + state.most_ahead + JUMP_REMEMBERED)
    }

    /// Whether something is in the way of a request for this site, or of one for its robots.txt, for longer
    /// than is `left`: a backoff, a host that is down, an open response, others who wait, or the delay.
    fn must_wait(&self, state: &State, who: Who, origin: usize, left: Duration, now: Duration) -> bool {
        let circle = self.circle(who);
        hosts_of(state, origin, now).into_iter().flatten().any(|host| {
            let excuse = state.excuses.get(&(circle, host)).copied().unwrap_or_default();
            let mut those = state
                .hosts
                .iter()
                .filter(|((who, at), _)| *at == host && (self.setting.host_store || *who == circle));
            let margin = Duration::from_millis(5);
            let is_busy = those.any(|(_, at)| {
                let is_near = |end: Duration| end + DELAY_MAX + margin > now + left;
                at.in_flight > 0 || at.last_end.is_some_and(is_near)
            });
            let line = state.lines.get(&(circle, host)).copied().unwrap_or_default();
            let others_wait = line.calling > 1 || line.left.is_some_and(|left| left + margin > now);
            let robots_fetches = state.robots_fetches.iter().any(|((other, site), since)| {
                let in_circle = self.circle(*other) == circle;
                in_circle && now < *since + FETCH_MAX && hosts_of(state, *site, now).contains(&Some(host))
            });
            let pause_until = state.faults.get(&(who, host)).copied().unwrap_or_default().pause_until;
            let store_back = state.store_back.get(&who).copied().unwrap_or_default();
            let is_excused = [store_back, excuse.backed_off_until, pause_until, excuse.unsure_until]
                .iter()
                .any(|until| *until > now);
            is_excused || is_busy || others_wait || robots_fetches
        })
    }

    /// How long a call took, and how long of that it waited for its permits, those of robots.txt included.
    pub(crate) fn took(&self, took: Duration, waited: Duration, budget: Duration) {
        // The store may take a second, a timer a millisecond.
        if waited > budget + SECOND + Duration::from_millis(5) {
            self.violated("G5", format!("waited {waited:?} with a budget of {budget:?}"));
        }
        // The budget; and a robots.txt that belongs to all who wait: its seven permits, its deadline, the
        // store.
        if took > budget + (7 * 30 + 30 + 20) * SECOND {
            self.violated("G5", format!("a call took {took:?} with a budget of {budget:?}"));
        }
    }

    fn known(&self, state: &State, who: Who, origin: usize) -> Vec<Attempt> {
        let numbers = state.known.get(&(who, origin));
        numbers.into_iter().flatten().map(|number| state.attempts[*number].clone()).collect()
    }

    /// Whether a page may be asked for by what this attempt came to.
    fn permits(&self, attempt: &Attempt, path: Path, now: Duration, ahead: i64) -> bool {
        // RFC 9309 §2.4. A clock that was set back once and put right again can double it, but not more.
        // Nothing knows better than the clock how old an answer is: one that came while the clock was ahead
        // looks younger, once it is past that.
        let age = (now.saturating_sub(attempt.at).as_millis() as i64)
            .saturating_add(ahead)
            .saturating_sub(attempt.ahead);
        let within = |longest: Duration| {
            let longest = if self.setting.jumps { 3 * longest } else { longest + SECOND };
            now <= attempt.at + longest || (0..=longest.as_millis() as i64).contains(&age)
        };
        let is_fresh = within(DAY);
        // An outage is one as long as a process looks.
        let by_copy = within(UNASKED_MAX) && attempt.copies.iter().any(|version| allows(*version, path));
        match attempt.said {
            Said::Rules(_) | Said::NotModified => is_fresh && by_copy,
            Said::Gone => is_fresh,
            Said::NotNow(_) => {
                by_copy || is_fresh && self.may_lack_a_copy(attempt) || self.is_long_outage(attempt, now)
            }
            Said::Momentary => is_fresh || by_copy || self.is_long_outage(attempt, now),
            Said::Unreachable => by_copy || self.is_long_outage(attempt, now),
        }
    }

    /// There was none before, or a store that fails can have lost it.
    fn may_lack_a_copy(&self, attempt: &Attempt) -> bool {
        !attempt.has_copy || self.setting.access_faults
    }

    /// 30 days, in which 20 attempts at 20 hours must fit; a clock that jumps can add one of them each time
    /// it does.
    fn is_long_outage(&self, attempt: &Attempt, now: Duration) -> bool {
        let long = if self.setting.jumps { 10 * DAY } else { 30 * DAY };
        // A store that fails can lose the copy.
        let no_copy = attempt.copies.is_empty() || self.setting.access_faults;
        no_copy && attempt.failing.is_some_and(|since| now >= since + long)
    }
}

/// The host of a site, and the one that its robots.txt was redirected to of late.
fn hosts_of(state: &State, origin: usize, now: Duration) -> [Option<usize>; 2] {
    let led = state.led.get(&origin);
    [Some(ORIGINS[origin].1), led.is_some_and(|at| now < *at + JUMP_REMEMBERED).then_some(CDN)]
}

/// What follows from an answer, and from what was known before. Where nothing goes wrong but the sites, the
/// last of that counts.
fn attempt(
    (who, said): (Who, Said),
    at: Duration,
    ahead: i64,
    before: &[Attempt],
    last_counts: bool,
) -> Attempt {
    let mut all: Vec<_> = before.iter().flat_map(|attempt| attempt.copies.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let failing = before.iter().filter_map(|attempt| attempt.failing).min();
    // Two processes may have fetched at the same time.
    let last = before.iter().map(|attempt| attempt.at).max();
    let lasts = || before.iter().filter(|attempt| Some(attempt.at) == last);
    let had_copy = last.is_some() && lasts().all(|attempt| attempt.has_copy);
    let may_have_copy = lasts().any(|attempt| attempt.has_copy) || !last_counts;
    let kept = if may_have_copy { all.clone() } else { Vec::new() };
    let (copies, has_copy, failing) = match said {
        Said::Rules(version) => (vec![version], true, None),
        // Only a process that has a copy gets a 304.
        Said::NotModified => (all, true, None),
        Said::Gone => (Vec::new(), false, None),
        Said::NotNow(_) | Said::Momentary => (kept, had_copy, failing),
        Said::Unreachable => (kept, had_copy, Some(failing.unwrap_or(at))),
    };
    Attempt { who, said, at, copies, has_copy, failing, ahead }
}

/// What the rules of a version say; `None` has none.
fn allows(version: Option<u64>, path: Path) -> bool {
    match (version, path) {
        (None, _) | (_, Path::Open | Path::RobotsTxt) => true,
        (Some(_), Path::Closed) => false,
        (Some(version), Path::Version(asked)) => version != asked,
    }
}
