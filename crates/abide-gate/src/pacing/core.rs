//! What all handles of a pacer share, and what it does without waiting.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use url::Url;

use super::ask::Ask;
use super::breaker::Breaker;
use super::chance::Chance;
use super::feedback::{BackoffCause, Hold, credible, is_complaint};
use super::lease::SLACK;
use super::log::trace;
use super::moment::{Moment, Timeline};
use super::policy::{GAP_MAX, PacePolicy};
use super::queue::{Bells, Late, ring};
use super::refusal::{DeferReason, Refusal};
use super::retry_after::retry_after;
use super::schedule::Why;
use super::shared::SharedStore;
use super::slot::Slot;
use super::store::Backoff;
use super::table::{Findings, Table, Upkeep};
use super::turn::{self, Claims, Entry, Request, Wanted};
use super::watch::Watch;
use crate::event::{Event, Observers};
use crate::origin::pacing_key;
use crate::{Clock, Failure, Host, Origin, SystemClock, UnsupportedUrl, WallMillis};

/// A body that has been open for longer is worth a warning.
const OPEN_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) policy: PacePolicy,
    table: Table,
    clock: Arc<dyn Clock>,
    pub(crate) timeline: Timeline,
    observers: Observers,
    pub(crate) chance: Chance,
    /// Drawn once: what differs between processes and stays the same in one.
    pub(crate) seed: u64,
    pub(crate) store: Option<Arc<SharedStore>>,
    is_overgrown: AtomicBool,
    pub(crate) watch: Watch,
}

impl Core {
    pub(crate) fn new(
        policy: PacePolicy,
        clock: Arc<dyn Clock>,
        observers: Observers,
        chance: Chance,
        store: Option<Arc<SharedStore>>,
    ) -> Self {
        let began = catch(|| clock.now()).unwrap_or_else(|| SystemClock.now());
        let core = Self {
            table: Table::new(policy.max_hosts),
            timeline: Timeline::starting(began),
            is_overgrown: AtomicBool::new(false),
            watch: Watch::default(),
            policy,
            clock,
            observers,
            seed: chance.bits(),
            chance,
            store,
        };
        for (scope, pace) in core.policy.exceptions() {
            let (gap, max_in_flight) = (pace.gap, pace.max_in_flight);
            core.tell(&Event::Exception { scope, gap, max_in_flight });
        }
        core
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The user's clock, which may panic.
    pub(crate) fn now(&self) -> Result<Moment, Refusal> {
        let now = catch(|| self.clock.now()).ok_or(Refusal::Panicked { callback: "clock" })?;
        Ok(self.timeline.moment(now))
    }

    /// The time where nobody could be told that the clock has panicked.
    pub(crate) fn now_or_system(&self) -> Moment {
        self.timeline.moment(catch(|| self.clock.now()).unwrap_or_else(|| SystemClock.now()))
    }

    pub(crate) fn wall(&self) -> WallMillis {
        catch(|| self.clock.wall()).unwrap_or_else(|| SystemClock.wall())
    }

    /// Tells what happened. Never under a lock.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        trace(event);
        self.observers.tell(event);
    }

    /// The scopes and terms of a request.
    pub(crate) fn request<'u>(&self, url: &'u Url, ask: &Ask, now: Moment) -> Result<Request<'u>, Refusal> {
        let host = host_of(url)?;
        if ask.crawl_delay > GAP_MAX {
            return Err(Refusal::CrawlDelayTooLong { asked: ask.crawl_delay });
        }
        let pace = self.policy.pace_of(&host);
        let host = Wanted {
            hash: self.table.hash(&host),
            key: host,
            gap: pace.gap.max(ask.crawl_delay),
            limit: pace.max_in_flight,
            feedback: true,
        };
        let budget = ask.budget.unwrap_or(self.policy.max_wait);
        Ok(Request { host, others: self.groups(url, ask)?, patience: now.plus(budget) })
    }

    /// The scopes beside the host. Two scopes that make the same key are one.
    fn groups(&self, url: &Url, ask: &Ask) -> Result<Vec<Wanted<String>>, Refusal> {
        let mut groups: Vec<Wanted<String>> = Vec::new();
        for scope in self.policy.scopes() {
            let key = catch(|| scope.key(url, ask.address)).ok_or(Refusal::Panicked { callback: "scope" })?;
            let Some(key) = key else { continue };
            if groups.iter().any(|group| group.key == key) {
                continue;
            }
            let (gap, limit, feedback) = scope.limits();
            let gap = if feedback { gap.max(ask.crawl_delay) } else { gap };
            groups.push(Wanted { hash: self.table.hash(&key), key, gap, limit, feedback });
        }
        Ok(groups)
    }

    /// Says that a body was open for too long, if nobody has said so while it was.
    pub(crate) fn tell_open(&self, claims: &Claims, started: Moment, now: Moment) {
        if now.since(started) < OPEN_MAX {
            return;
        }
        let mut open = None;
        turn::each(&self.table, claims, |slot, claim| {
            if claim.slot == claims.host.slot {
                open = slot.open_too_long(OPEN_MAX, now).map(|open| (slot.key.clone(), open));
            }
        });
        if let Some((scope, open)) = open {
            self.tell(&Event::BodyOpen { scope: &scope, open });
        }
    }

    fn upkeep(&self, now: Moment) -> Upkeep {
        Upkeep { now, gap: self.policy.min_gap(), open_max: OPEN_MAX }
    }

    /// The turn, a place in the line, or neither.
    pub(crate) fn enter(&self, request: &Request<'_>, url: &Url, now: Moment) -> Entry {
        let (mut findings, mut bells) = (Findings::default(), Bells::new());
        let origin = || Origin::of(url).ok();
        let entry = turn::enter(&self.table, request, origin, self.upkeep(now), &mut findings, &mut bells);
        ring(bells);
        self.tell_findings(findings);
        entry
    }

    /// The turn of a request with one scope, if it is known and free.
    pub(crate) fn enter_idle(&self, request: &Request<'_>, now: Moment) -> Option<Claims> {
        let mut findings = Findings::default();
        let claims = turn::enter_idle(&self.table, request, self.upkeep(now), &mut findings);
        self.tell_findings(findings);
        claims
    }

    fn tell_findings(&self, findings: Findings) {
        for (scope, open) in findings.open {
            self.tell(&Event::BodyOpen { scope: &scope, open });
        }
        if findings.overgrown && !self.is_overgrown.swap(true, Ordering::Relaxed) {
            self.tell(&Event::Overgrown { hosts: self.table.len() });
        }
    }

    /// Says no, and why.
    pub(crate) fn defer(&self, request: &Request<'_>, late: Late, now: Moment) -> Refusal {
        let scope = request.key(late.scope);
        let (reason, open) = self.reason(scope, late.start.why, now);
        let gap = request.gap(late.scope);
        let told = self.with_slot(scope, |slot| slot.come_back(late.start.at, gap));
        let at = told.unwrap_or(late.start.at);
        let wait = at.since(now);
        if let Some(open) = open {
            self.tell(&Event::BodyOpen { scope, open });
        }
        self.tell(&Event::Deferred { scope, wait, reason: &reason });
        Refusal::Deferred { scope: scope.into(), not_before: self.wall_at(now, at), wait, reason }
    }

    fn reason(&self, scope: &str, why: Why, now: Moment) -> (DeferReason, Option<Duration>) {
        let hash = self.table.hash(scope);
        let mut locked = self.table.lock(hash, &[]);
        let found = locked.find(hash, scope);
        let mut slot = found.and_then(|slot| locked.slot(slot));
        if let Some(slot) = &mut slot {
            slot.counts.deferrals = slot.counts.deferrals.saturating_add(1);
        }
        let open = slot.as_mut().and_then(|slot| slot.open_too_long(OPEN_MAX, now));
        let slot = slot.as_deref();
        let reason = match why {
            Why::Gap(delay) => DeferReason::Gap { delay },
            Why::Elsewhere => DeferReason::OtherProcess,
            Why::Hold => hold_reason(slot.map_or(BackoffCause::Operator, |slot| slot.hold().cause.unpack())),
            Why::Pause => {
                DeferReason::Breaker { cause: slot.map_or(Failure::Other, |slot| slot.breaker().cause) }
            }
            Why::InFlight(since) => {
                let open = now.since(since);
                drop(locked);
                DeferReason::InFlight { since: self.wall().minus(open), open }
            }
        };
        (reason, open)
    }

    /// The wall-clock time of a moment, rounded up.
    pub(crate) fn wall_at(&self, now: Moment, at: Moment) -> WallMillis {
        wall_after(self.wall(), at.since(now))
    }

    /// An answer: it closes the breaker, may hold the host, and tells how fast the host is.
    pub(crate) fn answered(
        &self,
        claims: &Claims,
        started: Moment,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<WallMillis> {
        if status.is_informational() {
            return None;
        }
        let adaptive = self.policy.adaptive;
        let is_complaint = is_complaint(status, self.policy.hold_on_forbidden);
        if !is_complaint && !adaptive && !self.has_trouble(claims) {
            return None;
        }
        let now = self.now_or_system();
        let cause = is_complaint.then(|| BackoffCause::Answer {
            status: status.as_u16(),
            retry_after: retry_after(headers, self.wall()),
        });
        self.feed_back(claims, now, cause, |slot, chance| {
            let mut changed = slot.set_breaker(Breaker::CLOSED);
            if adaptive {
                slot.adapt(now.since(started), status.is_success());
                changed = true;
            }
            if let Some(cause) = cause {
                changed |= slot.set_hold(slot.hold().after(cause, started, now, chance), now);
            }
            changed
        })
    }

    /// Whether there is a hold or a count of faults that an answer has something to do with: most hosts have none.
    fn has_trouble(&self, claims: &Claims) -> bool {
        let mut found = false;
        turn::each(&self.table, claims, |slot, claim| found |= claim.feedback && slot.has_trouble());
        found
    }

    /// No answer: the breaker counts it.
    pub(crate) fn failed(&self, claims: &Claims, started: Moment, fault: Failure) -> Option<WallMillis> {
        // The host has no part in what we refuse.
        if fault.is_refused() {
            return None;
        }
        let now = self.now_or_system();
        if fault == Failure::EnhanceYourCalm {
            let cause = BackoffCause::EnhanceYourCalm;
            return self.feed_back(claims, now, Some(cause), |slot, chance| {
                slot.set_hold(slot.hold().after(cause, started, now, chance), now)
            });
        }
        self.feed_back(claims, now, None, |slot, _| {
            slot.set_breaker(slot.breaker().after(fault, started, now))
        })
    }

    /// Changes the slots that feedback belongs to, wakes who is concerned, tells what came of it. Returns the end of the host's hold
    /// or of the breaker's pause.
    fn feed_back(
        &self,
        claims: &Claims,
        now: Moment,
        cause: Option<BackoffCause>,
        mut change: impl FnMut(&mut Slot, f64) -> bool,
    ) -> Option<WallMillis> {
        let chance = if cause.is_some() { self.chance.unit() } else { 0.0 };
        let (mut bells, mut news, mut until) = (Bells::new(), Vec::new(), Moment::NEVER);
        turn::each(&self.table, claims, |slot, claim| {
            if !claim.feedback {
                return;
            }
            let before = (slot.hold(), slot.breaker());
            if change(slot, chance) {
                slot.changed(now, &mut bells);
            }
            let after = (slot.hold(), slot.breaker());
            let is_more = before.0.until < after.0.until || before.0.strikes < after.0.strikes;
            if is_more || before.1.until < after.1.until {
                news.push((slot.key.clone(), before, after));
            }
            if claim.slot == claims.host.slot {
                until = after.0.until.max(after.1.until);
            }
        });
        ring(bells);
        for (scope, before, after) in &news {
            if before.0.until < after.0.until {
                self.tell_held(scope, after.0, now);
            } else if before.0.strikes < after.0.strikes {
                self.share(scope, now);
            }
            if before.1.until < after.1.until {
                let (lasts, failure) = (after.1.until.since(now), after.1.cause);
                self.tell(&Event::BreakerOpened { scope, lasts, failure });
            }
        }
        (until > now).then(|| self.wall_at(now, until))
    }

    fn tell_held(&self, scope: &str, hold: Hold, now: Moment) {
        self.tell(&Event::BackedOff { scope, lasts: hold.until.since(now), cause: hold.cause.unpack() });
        self.share(scope, now);
    }

    fn share(&self, scope: &str, now: Moment) {
        if let Some(store) = &self.store {
            store.save(scope, now);
        }
    }

    /// Holds a scope from outside. Returns the end of the hold that is in force.
    pub(crate) fn hold(&self, scope: &str, until: WallMillis, cause: BackoffCause) -> WallMillis {
        let (now, wall) = (self.now_or_system(), self.wall());
        let ahead = credible(until.since(wall));
        let (hold, extended) = self.extend_hold(scope, now.plus(ahead), 0, cause, now);
        if extended {
            self.tell_held(scope, hold, now);
        }
        self.wall_at(now, hold.until)
    }

    /// The backoff of a host as other processes are told of it, unless it is over and its count forgiven.
    pub(crate) fn backoff(&self, key: &str, now: Moment) -> Option<Backoff> {
        let hold = self.with_slot(key, |slot| slot.hold())?;
        let (left, over) = (hold.until.since(now), now.since(hold.until));
        let throttles = hold.strikes_at(now);
        let counts = hold != Hold::NONE && (!left.is_zero() || throttles > 0);
        counts.then(|| Backoff { left, over, throttles, cause: hold.cause.unpack() })
    }

    /// A backoff that the shared store knows of already. It may be over.
    pub(crate) fn learn(&self, key: &str, backoff: Backoff, now: Moment) {
        let Backoff { left, over, throttles, cause } = backoff;
        let until = if left.is_zero() { now.minus(over) } else { now.plus(left) };
        // What was told back and forth has become longer by that.
        let known = self.with_slot(key, |slot| slot.hold()).unwrap_or(Hold::NONE);
        if until <= known.until.plus(SLACK) && throttles <= known.strikes_at(now) {
            return;
        }
        if let (hold, true) = self.extend_hold(key, until, throttles, cause, now) {
            self.tell(&Event::BackedOff { scope: key, lasts: hold.until.since(now), cause });
        }
    }

    /// Returns the hold that is in force, and whether it was extended.
    fn extend_hold(
        &self,
        key: &str,
        until: Moment,
        strikes: u8,
        cause: BackoffCause,
        now: Moment,
    ) -> (Hold, bool) {
        let (mut findings, mut bells) = (Findings::default(), Bells::new());
        let hash = self.table.hash(key);
        let mut locked = self.table.lock(hash, &[]);
        locked.make_room(hash, key, self.upkeep(now), &mut findings);
        let id = locked.find_or_insert(hash, key);
        let mut result = (Hold::NONE, false);
        if let Some(slot) = locked.slot(id) {
            let extended = slot.set_hold(slot.hold().extended(cause, until, strikes, now), now);
            slot.changed(now, &mut bells);
            result = (slot.hold(), extended);
        }
        drop(locked);
        ring(bells);
        self.tell_findings(findings);
        result
    }

    /// The delay of an origin has changed.
    pub(crate) fn change_gap(&self, origin: &Origin, crawl_delay: Duration) {
        let (now, host) = (self.now_or_system(), origin.host());
        let pace = self.policy.pace_of(host.as_str());
        let gap = pace.gap.max(crawl_delay.min(GAP_MAX));
        let (hash, mut bells) = (self.table.hash(host.as_str()), Bells::new());
        let mut locked = self.table.lock(hash, &[]);
        if let Some(id) = locked.find(hash, host.as_str())
            && let Some(slot) = locked.slot(id)
        {
            if let Some(line) = slot.line_mut() {
                line.change_gap(origin, gap);
            }
            slot.changed(now, &mut bells);
        }
        drop(locked);
        ring(bells);
    }

    /// Looks at the slot of a host, if it is known.
    pub(crate) fn with_slot<T>(&self, host: &str, look: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let hash = self.table.hash(host);
        let mut locked = self.table.lock(hash, &[]);
        let id = locked.find(hash, host)?;
        locked.slot(id).map(look)
    }
}

/// Rounded up.
fn wall_after(wall: WallMillis, ahead: Duration) -> WallMillis {
    let millis = ahead.as_nanos().div_ceil(1_000_000);
    wall.plus(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

fn hold_reason(cause: BackoffCause) -> DeferReason {
    match cause {
        BackoffCause::Answer { status, retry_after } => {
            DeferReason::Hold { status: Some(status), retry_after }
        }
        _ => DeferReason::Hold { status: None, retry_after: None },
    }
}

/// The pacing key of a URL, as [`Host::of`] makes it, without allocating for names.
fn host_of(url: &Url) -> Result<Cow<'_, str>, UnsupportedUrl> {
    if !matches!(url.scheme(), "http" | "https") {
        Host::of(url)?;
    }
    Ok(pacing_key(url.host_str().unwrap_or_default()))
}

/// Runs what the user gave us. Whatever it panics with stays there.
pub(crate) fn catch<T>(callback: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(callback)).ok()
}
