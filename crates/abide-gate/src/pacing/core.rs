//! What all handles of a pacer share, and what it does without waiting.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use url::Url;

use super::acquire::{self, Admission, Claims, Request, Wanted};
use super::ask::Ask;
use super::backoff::{BackoffCause, HostBackoff, credible, is_throttle};
use super::breaker::Breaker;
use super::jitter::Jitter;
use super::lease::SLACK;
use super::leases::SharedStore;
use super::log::trace;
use super::moment::{Moment, Timeline};
use super::open_bodies::OpenBodies;
use super::policy::{DELAY_MAX, PacePolicy};
use super::queue::{DeadlineExceeded, Wakers, wake};
use super::refusal::{DeferReason, Refusal};
use super::retry_after::retry_after;
use super::schedule::WaitReason;
use super::slot::Schedule;
use super::store::Backoff;
use super::table::{Findings, Table, Upkeep};
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
    pub(crate) jitter: Jitter,
    /// Drawn once: what differs between processes and stays the same in one.
    pub(crate) seed: u64,
    pub(crate) store: Option<Arc<SharedStore>>,
    is_overgrown: AtomicBool,
    pub(crate) watch: OpenBodies,
}

impl Core {
    pub(crate) fn new(
        policy: PacePolicy,
        clock: Arc<dyn Clock>,
        observers: Observers,
        jitter: Jitter,
        store: Option<Arc<SharedStore>>,
    ) -> Self {
        let began = catch(|| clock.now()).unwrap_or_else(|| SystemClock.now());
        let core = Self {
            table: Table::new(policy.max_hosts),
            timeline: Timeline::starting(began),
            is_overgrown: AtomicBool::new(false),
            watch: OpenBodies::default(),
            policy,
            clock,
            observers,
            seed: jitter.bits(),
            jitter,
            store,
        };
        for (scope, pace) in core.policy.exceptions() {
            let (delay, max_in_flight) = (pace.delay, pace.max_in_flight);
            core.report(&Event::Exception { scope, delay, max_in_flight });
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
    pub(crate) fn report(&self, event: &Event<'_>) {
        trace(event);
        self.observers.tell(event);
    }

    /// The scopes and terms of a request.
    pub(crate) fn request<'u>(&self, url: &'u Url, ask: &Ask, now: Moment) -> Result<Request<'u>, Refusal> {
        let host = host_of(url)?;
        if ask.crawl_delay > DELAY_MAX {
            return Err(Refusal::CrawlDelayTooLong { asked: ask.crawl_delay });
        }
        let pace = self.policy.pace_of(&host);
        let host = Wanted {
            hash: self.table.hash(&host),
            key: host,
            delay: pace.delay.max(ask.crawl_delay),
            limit: pace.max_in_flight,
            feedback: true,
        };
        let budget = ask.budget.unwrap_or(self.policy.max_wait);
        Ok(Request { host, others: self.groups(url, ask)?, deadline: now.plus(budget) })
    }

    /// The scopes beside the host. Two scopes that make the same key are one.
    fn groups(&self, url: &Url, ask: &Ask) -> Result<Vec<Wanted<String>>, Refusal> {
        let mut groups: Vec<Wanted<String>> = Vec::new();
        for scope in self.policy.scopes() {
            let key = catch(|| scope.key(url)).ok_or(Refusal::Panicked { callback: "scope" })?;
            let Some(key) = key else { continue };
            if groups.iter().any(|group| group.key == key) {
                continue;
            }
            let (delay, limit, feedback) = scope.limits();
            let delay = if feedback { delay.max(ask.crawl_delay) } else { delay };
            groups.push(Wanted { hash: self.table.hash(&key), key, delay, limit, feedback });
        }
        Ok(groups)
    }

    /// Says that a body was open for too long, if nobody has said so while it was.
    pub(crate) fn report_open(&self, claims: &Claims, started: Moment, now: Moment) {
        if now.since(started) < OPEN_MAX {
            return;
        }
        let mut open = None;
        acquire::each(&self.table, claims, |slot, claim| {
            if claim.slot == claims.host.slot {
                open = slot.open_too_long(OPEN_MAX, now).map(|open| (slot.key.clone(), open));
            }
        });
        if let Some((scope, open)) = open {
            self.report(&Event::BodyOpen { scope: &scope, open });
        }
    }

    fn upkeep(&self, now: Moment) -> Upkeep {
        Upkeep { now, delay: self.policy.min_delay(), open_max: OPEN_MAX }
    }

    /// The turn, a place in the queue, or neither.
    pub(crate) fn enter(&self, request: &Request<'_>, url: &Url, now: Moment) -> Admission {
        let (mut findings, mut wakers) = (Findings::default(), Wakers::new());
        let origin = || Origin::of(url).ok();
        let entry =
            acquire::enter(&self.table, request, origin, self.upkeep(now), &mut findings, &mut wakers);
        wake(wakers);
        self.report_findings(findings);
        entry
    }

    /// The turn of a request with one scope, if it is known and free.
    pub(crate) fn enter_idle(&self, request: &Request<'_>, now: Moment) -> Option<Claims> {
        let mut findings = Findings::default();
        let claims = acquire::enter_idle(&self.table, request, self.upkeep(now), &mut findings);
        self.report_findings(findings);
        claims
    }

    fn report_findings(&self, findings: Findings) {
        for (scope, open) in findings.open {
            self.report(&Event::BodyOpen { scope: &scope, open });
        }
        if findings.overgrown && !self.is_overgrown.swap(true, Ordering::Relaxed) {
            self.report(&Event::Overgrown { hosts: self.table.len() });
        }
    }

    /// Says no, and why.
    pub(crate) fn defer(&self, request: &Request<'_>, exceeded: DeadlineExceeded, now: Moment) -> Refusal {
        let scope = request.key(exceeded.scope);
        let (reason, open) = self.reason(scope, exceeded.start.why, now);
        let delay = request.delay(exceeded.scope);
        let told = self.with_slot(scope, |slot| slot.come_back(exceeded.start.at, delay));
        let at = told.unwrap_or(exceeded.start.at);
        let wait = at.since(now);
        if let Some(open) = open {
            self.report(&Event::BodyOpen { scope, open });
        }
        self.report(&Event::Deferred { scope, wait, reason: &reason });
        Refusal::Deferred { scope: scope.into(), not_before: self.wall_at(now, at), wait, reason }
    }

    fn reason(&self, scope: &str, why: WaitReason, now: Moment) -> (DeferReason, Option<Duration>) {
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
            WaitReason::Delay(delay) => DeferReason::Delay { delay },
            WaitReason::OtherProcess => DeferReason::OtherProcess,
            WaitReason::Backoff => {
                backoff_reason(slot.map_or(BackoffCause::Operator, |slot| slot.backoff().cause.unpack()))
            }
            WaitReason::Breaker => {
                DeferReason::Breaker { cause: slot.map_or(Failure::Other, |slot| slot.breaker().cause) }
            }
            WaitReason::InFlight(since) => {
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

    /// An answer: it closes the breaker, may backoff the host, and tells how fast the host is.
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
        let is_throttle = is_throttle(status, self.policy.backoff_on_forbidden);
        if !is_throttle && !adaptive && !self.has_trouble(claims) {
            return None;
        }
        let now = self.now_or_system();
        let cause = is_throttle.then(|| BackoffCause::Answer {
            status: status.as_u16(),
            retry_after: retry_after(headers, self.wall()),
        });
        self.feed_back(claims, now, cause, |slot, jitter| {
            let mut changed = slot.set_breaker(Breaker::CLOSED);
            if adaptive {
                slot.adapt(now.since(started), status.is_success());
                changed = true;
            }
            if let Some(cause) = cause {
                changed |= slot.set_backoff(slot.backoff().after(cause, started, now, jitter), now);
            }
            changed
        })
    }

    /// Whether there is a backoff or a count of faults that an answer has something to do with: most hosts have none.
    fn has_trouble(&self, claims: &Claims) -> bool {
        let mut found = false;
        acquire::each(&self.table, claims, |slot, claim| found |= claim.feedback && slot.has_trouble());
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
            return self.feed_back(claims, now, Some(cause), |slot, jitter| {
                slot.set_backoff(slot.backoff().after(cause, started, now, jitter), now)
            });
        }
        self.feed_back(claims, now, None, |slot, _| {
            slot.set_breaker(slot.breaker().after(fault, started, now))
        })
    }

    /// Changes the slots that feedback belongs to, wakes who is concerned, tells what came of it. Returns the end of the host's backoff
    /// or of the breaker's pause.
    fn feed_back(
        &self,
        claims: &Claims,
        now: Moment,
        cause: Option<BackoffCause>,
        mut change: impl FnMut(&mut Schedule, f64) -> bool,
    ) -> Option<WallMillis> {
        let jitter = if cause.is_some() { self.jitter.unit() } else { 0.0 };
        let (mut wakers, mut news, mut until) = (Wakers::new(), Vec::new(), Moment::NEVER);
        acquire::each(&self.table, claims, |slot, claim| {
            if !claim.feedback {
                return;
            }
            let before = (slot.backoff(), slot.breaker());
            if change(slot, jitter) {
                slot.changed(now, &mut wakers);
            }
            let after = (slot.backoff(), slot.breaker());
            let is_more = before.0.until < after.0.until || before.0.throttles < after.0.throttles;
            if is_more || before.1.until < after.1.until {
                news.push((slot.key.clone(), before, after));
            }
            if claim.slot == claims.host.slot {
                until = after.0.until.max(after.1.until);
            }
        });
        wake(wakers);
        for (scope, before, after) in &news {
            if before.0.until < after.0.until {
                self.report_backoff(scope, after.0, now);
            } else if before.0.throttles < after.0.throttles {
                self.share(scope, now);
            }
            if before.1.until < after.1.until {
                let (lasts, failure) = (after.1.until.since(now), after.1.cause);
                self.report(&Event::BreakerOpened { scope, lasts, failure });
            }
        }
        (until > now).then(|| self.wall_at(now, until))
    }

    fn report_backoff(&self, scope: &str, backoff: HostBackoff, now: Moment) {
        self.report(&Event::BackedOff {
            scope,
            lasts: backoff.until.since(now),
            cause: backoff.cause.unpack(),
        });
        self.share(scope, now);
    }

    fn share(&self, scope: &str, now: Moment) {
        if let Some(store) = &self.store {
            store.save(scope, now);
        }
    }

    /// Holds a scope from outside. Returns the end of the backoff that is in force.
    pub(crate) fn back_off(&self, scope: &str, until: WallMillis, cause: BackoffCause) -> WallMillis {
        let (now, wall) = (self.now_or_system(), self.wall());
        let ahead = credible(until.since(wall));
        let (backoff, extended) = self.extend_backoff(scope, now.plus(ahead), 0, cause, now);
        if extended {
            self.report_backoff(scope, backoff, now);
        }
        self.wall_at(now, backoff.until)
    }

    /// The backoff of a host as other processes are told of it, unless it is over and its count forgiven.
    pub(crate) fn backoff(&self, key: &str, now: Moment) -> Option<Backoff> {
        let backoff = self.with_slot(key, |slot| slot.backoff())?;
        let (left, over) = (backoff.until.since(now), now.since(backoff.until));
        let throttles = backoff.throttles_at(now);
        let counts = backoff != HostBackoff::NONE && (!left.is_zero() || throttles > 0);
        counts.then(|| Backoff { left, over, throttles, cause: backoff.cause.unpack() })
    }

    /// A backoff that the shared store knows of already. It may be over.
    pub(crate) fn learn(&self, key: &str, backoff: Backoff, now: Moment) {
        let Backoff { left, over, throttles, cause } = backoff;
        let until = if left.is_zero() { now.minus(over) } else { now.plus(left) };
        // What was told back and forth has become longer by that.
        let known = self.with_slot(key, |slot| slot.backoff()).unwrap_or(HostBackoff::NONE);
        if until <= known.until.plus(SLACK) && throttles <= known.throttles_at(now) {
            return;
        }
        if let (backoff, true) = self.extend_backoff(key, until, throttles, cause, now) {
            self.report(&Event::BackedOff { scope: key, lasts: backoff.until.since(now), cause });
        }
    }

    /// Returns the backoff that is in force, and whether it was extended.
    fn extend_backoff(
        &self,
        key: &str,
        until: Moment,
        throttles: u8,
        cause: BackoffCause,
        now: Moment,
    ) -> (HostBackoff, bool) {
        let (mut findings, mut wakers) = (Findings::default(), Wakers::new());
        let hash = self.table.hash(key);
        let mut locked = self.table.lock(hash, &[]);
        locked.make_room(hash, key, self.upkeep(now), &mut findings);
        let id = locked.find_or_insert(hash, key);
        let mut result = (HostBackoff::NONE, false);
        if let Some(slot) = locked.slot(id) {
            let extended = slot.set_backoff(slot.backoff().extended(cause, until, throttles, now), now);
            slot.changed(now, &mut wakers);
            result = (slot.backoff(), extended);
        }
        drop(locked);
        wake(wakers);
        self.report_findings(findings);
        result
    }

    /// The delay of an origin has changed.
    pub(crate) fn change_delay(&self, origin: &Origin, crawl_delay: Duration) {
        let (now, host) = (self.now_or_system(), origin.host());
        let pace = self.policy.pace_of(host.as_str());
        let delay = pace.delay.max(crawl_delay.min(DELAY_MAX));
        let (hash, mut wakers) = (self.table.hash(host.as_str()), Wakers::new());
        let mut locked = self.table.lock(hash, &[]);
        if let Some(id) = locked.find(hash, host.as_str())
            && let Some(slot) = locked.slot(id)
        {
            if let Some(queue) = slot.queue_mut() {
                queue.change_delay(origin, delay);
            }
            slot.changed(now, &mut wakers);
        }
        drop(locked);
        wake(wakers);
    }

    /// Looks at the slot of a host, if it is known.
    pub(crate) fn with_slot<T>(&self, host: &str, look: impl FnOnce(&mut Schedule) -> T) -> Option<T> {
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

fn backoff_reason(cause: BackoffCause) -> DeferReason {
    match cause {
        BackoffCause::Answer { status, retry_after } => {
            DeferReason::Backoff { status: Some(status), retry_after }
        }
        _ => DeferReason::Backoff { status: None, retry_after: None },
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
