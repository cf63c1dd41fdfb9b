//! What responses and failures do to a host: backoffs, the circuit breaker, the adaptive delay.
//!
//! `backoff` and `breaker` decide what a status or a failure means, as plain functions. Here the result is written into the schedules that
//! the request had a permit of, waiters whose permit cannot come in time any more are refused at once, and observers and the shared store
//! are notified. A backoff that comes from outside, from the operator or from another process, goes the same way.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::acquire::{self, Claim, Claims};
use super::backoff::{BackoffCause, HostBackoff, credible, is_throttle};
use super::breaker::Breaker;
use super::lease::SLACK;
use super::pacer::Pacer;
use super::policy::DELAY_MAX;
use super::rate_limit::{has_rate_limit, rate_limit};
use super::retry_after::retry_after;
use super::schedule::Schedule;
use super::store::Backoff;
use super::table::Effects;
use crate::clock::Moment;
use crate::event::Event;
use crate::{Failure, Origin, WallMillis};

impl Pacer {
    /// Backs off a host, or a group of hosts by its key, until then, unless it is backed off for longer. Returns the end of the backoff
    /// that is in force.
    ///
    /// More than 27 h ahead is taken for a mistake and cut to 24 h.
    pub(crate) fn back_off(&self, scope: &str, until: WallMillis, cause: BackoffCause) -> WallMillis {
        let pacer = self;
        let now = pacer.now_or_system();
        let until = now.plus(credible(until.since(pacer.wall())));
        let (backoff, is_extended) = pacer.extend_backoff(scope, until, 0, cause, now);
        if is_extended {
            pacer.report_backoff(scope, backoff, now);
        }
        pacer.wall_at(now, backoff.until)
    }

    /// The Crawl-delay of an origin has become this. It also counts for those who already wait for it in the queue of its host, and for
    /// those who ask with the delay that was last asked for.
    pub(crate) fn change_crawl_delay(&self, origin: &Origin, delay: Duration) {
        let (now, host) = (self.now_or_system(), origin.host());
        let delay = self.policy.pace_of(host.as_str()).delay.max(delay.min(DELAY_MAX));
        self.act(|effects| {
            self.with_schedule(host.as_str(), |schedule| {
                if let Some(queue) = schedule.queue_mut() {
                    queue.change_delay(origin, delay);
                }
                schedule.will_ask(delay);
                schedule.changed(now, &mut effects.wakers);
            })
        });
    }
}

impl Pacer {
    /// A response: it closes the breaker, may back the host off, and shows how fast the host is. Returns the end of the host's backoff.
    pub(crate) fn observe(
        &self,
        claims: &Claims,
        started: Moment,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<WallMillis> {
        if status.is_informational() {
            return None;
        }
        let is_adaptive = self.policy.adaptive;
        let is_throttle = is_throttle(status, self.policy.backoff_on_forbidden);
        // Nearly all responses end here: nothing changes, and no waiter need be woken.
        let has_limit = has_rate_limit(headers);
        if !is_throttle && !is_adaptive && !has_limit && !self.has_trouble(claims) {
            return None;
        }
        let now = self.now_or_system();
        let cause = is_throttle.then(|| BackoffCause::Answer {
            status: status.as_u16(),
            retry_after: retry_after(headers, self.wall()),
        });
        let quota = match cause {
            // The draft, "Client Behavior": "the Retry-After field MUST take precedence".
            Some(BackoffCause::Answer { retry_after: Some(_), .. }) => None,
            _ if !has_limit => None,
            _ => rate_limit(headers, self.wall()).unwrap_or_else(|field| {
                self.report_ignored(claims, field);
                None
            }),
        };
        let jitter = if is_throttle { self.jitter.draw() } else { 0.0 };
        self.feed_back(claims, now, |schedule| {
            let mut changed = schedule.set_breaker(Breaker::CLOSED);
            if is_adaptive {
                schedule.adapt(now.since(started), status.is_success());
                changed = true;
            }
            if let Some(cause) = cause {
                changed |= schedule.set_backoff(schedule.backoff().after(cause, started, now, jitter), now);
            }
            changed | quota.is_some_and(|wait| schedule.set_quota(now.plus(wait)))
        })
    }

    fn report_ignored(&self, claims: &Claims, field: &'static str) {
        let mut locked = claims.lock(&self.table);
        let host = locked.schedule(claims.host.schedule).map(|schedule| schedule.key.as_str().to_owned());
        drop(locked);
        if let Some(scope) = &host {
            self.notify(&Event::RateLimitIgnored { scope, field });
        }
    }

    /// Whether there is a backoff or a count of faults that a response has something to do with: most hosts have none.
    fn has_trouble(&self, claims: &Claims) -> bool {
        let mut found = false;
        acquire::each(&self.table, claims, |schedule, claim| {
            found |= claim.feedback && schedule.has_trouble()
        });
        found
    }

    /// No response came: the breaker counts it. Returns the end of the host's backoff or of the breaker's pause.
    pub(crate) fn failed(&self, claims: &Claims, started: Moment, fault: Failure) -> Option<WallMillis> {
        // The host has no part in what we refuse.
        if fault.is_refused() {
            return None;
        }
        let now = self.now_or_system();
        if fault == Failure::EnhanceYourCalm {
            let (cause, jitter) = (BackoffCause::EnhanceYourCalm, self.jitter.draw());
            return self.feed_back(claims, now, |schedule| {
                schedule.set_backoff(schedule.backoff().after(cause, started, now, jitter), now)
            });
        }
        self.feed_back(claims, now, |schedule| {
            schedule.set_breaker(schedule.breaker().after(fault, started, now))
        })
    }

    /// Changes the schedules that feedback belongs to, wakes who is concerned, reports what came of it.
    fn feed_back(
        &self,
        claims: &Claims,
        now: Moment,
        change: impl Fn(&mut Schedule) -> bool,
    ) -> Option<WallMillis> {
        let (mut news, mut until) = (Vec::new(), Moment::NEVER);
        let mut feed_back = |schedule: &mut Schedule, claim: &Claim, effects: &mut Effects| {
            if !claim.feedback {
                return;
            }
            let before = (schedule.backoff(), schedule.breaker());
            if change(schedule) {
                schedule.changed(now, &mut effects.wakers);
            }
            let after = (schedule.backoff(), schedule.breaker());
            if before != after {
                news.push((schedule.key.as_str().to_owned(), before, after));
            }
            if claim.schedule == claims.host.schedule {
                until = after.0.until.max(after.1.until);
            }
        };
        self.act(|effects| {
            acquire::each(&self.table, claims, |schedule, claim| feed_back(schedule, claim, effects));
        });
        for (scope, before, after) in &news {
            if before.0.until < after.0.until {
                self.report_backoff(scope, after.0, now);
            } else if before.0.throttles < after.0.throttles {
                self.share(scope, now);
            }
            if before.1.until < after.1.until {
                let (lasts, failure) = (after.1.until.since(now), after.1.cause);
                self.notify(&Event::BreakerOpened { scope, lasts, failure });
            }
        }
        (until > now).then(|| self.wall_at(now, until))
    }

    fn report_backoff(&self, scope: &str, backoff: HostBackoff, now: Moment) {
        self.notify(&Event::BackedOff { scope, lasts: backoff.until.since(now), cause: backoff.cause });
        self.share(scope, now);
    }

    /// Saves the backoff in the shared store, so that other processes back off as well.
    fn share(&self, scope: &str, now: Moment) {
        if let Some(store) = &self.store {
            store.save(scope, now);
        }
    }

    /// The backoff of a host as it is shared with other processes, unless it is over and its count forgiven.
    pub(crate) fn backoff(&self, key: &str, now: Moment) -> Option<Backoff> {
        let (backoff, quota) = self.with_schedule(key, |schedule| (schedule.backoff(), schedule.quota()))?;
        if quota <= backoff.until.max(now) {
            return backoff.shared(now);
        }
        // To other processes it is the same why they must wait.
        let (throttles, cause) = (backoff.throttles_at(now), BackoffCause::Shared);
        HostBackoff { began: now, until: quota, throttles, cause }.shared(now)
    }

    /// A backoff that the shared store knows of already. It may be over.
    pub(crate) fn merge_backoff(&self, key: &str, shared: Backoff, now: Moment) {
        let known = self.with_schedule(key, |schedule| (schedule.backoff(), schedule.quota()));
        let (known, quota) = known.unwrap_or((HostBackoff::NONE, Moment::NEVER));
        let HostBackoff { until, throttles, cause, .. } = HostBackoff::NONE.merged(shared, now);
        // A time that goes to the store and back has become longer by the way: that is no news.
        if until <= known.until.max(quota).plus(SLACK) && throttles <= known.throttles_at(now) {
            return;
        }
        if let (backoff, true) = self.extend_backoff(key, until, throttles, cause, now) {
            self.notify(&Event::BackedOff { scope: key, lasts: backoff.until.since(now), cause });
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
        let extended = self.with_new_schedule(key, now, |schedule, effects| {
            let is_extended =
                schedule.set_backoff(schedule.backoff().extended(cause, until, throttles, now), now);
            schedule.changed(now, &mut effects.wakers);
            (schedule.backoff(), is_extended)
        });
        extended.unwrap_or((HostBackoff::NONE, false))
    }
}
