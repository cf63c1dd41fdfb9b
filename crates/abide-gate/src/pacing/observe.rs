//! What responses and failures do to a host: backoffs, the circuit breaker, the adaptive delay.
//!
//! `wait_request` says what a response asks for, `backoff` and `breaker` what comes of it, as plain
//! functions. Here the result is written into the host that the request had a permit of, waiters whose
//! permit cannot come in time any more are refused at once, and observers and the shared store are notified.
//! A backoff that comes from outside, from the operator or from another process, goes the same way.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::backoff::{BackoffCause, HostBackoff, credible};
use super::breaker::Breaker;
use super::host::{PacedHost, whole_millis};
use super::lease::SLACK;
use super::pacer::{Pacer, Permit};
use super::policy::DELAY_MAX;
use super::queue::Wakers;
use super::rate_limit::{has_rate_limit, rate_limit};
use super::store::Backoff;
use super::wait_request::{WaitRequest, wait_request};
use crate::clock::Moment;
use crate::event::Event;
use crate::{Failure, Origin, WallMillis};

/// What the responses of a host have brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Feedback {
    pub(crate) backoff: HostBackoff,
    pub(crate) breaker: Breaker,
    /// When the next request is due by the server's RateLimit fields. May have passed.
    pub(crate) quota: Moment,
    /// The delay by the time that its responses take. Zero: not adaptive.
    pub(crate) adaptive_millis: u32,
}

impl Feedback {
    /// Five times what the head of the response took, at most 30 s. A response that is no success never lowers it.
    pub(crate) fn adapt(&mut self, took: Duration, success: bool) {
        let delay = whole_millis((took * 5).min(Duration::from_secs(30)));
        if success || delay > self.adaptive_millis {
            self.adaptive_millis = delay.max(1);
        }
    }

    /// Nothing is sent earlier or later for it.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.owes_nothing(now) && self.breaker.is_over(now) && self.adaptive_millis == 0
    }

    /// What it asks for has passed, its throttles are forgiven, and its breaker is closed.
    pub(crate) fn owes_nothing(&self, now: Moment) -> bool {
        let is_closed = self.breaker.is_closed() || self.breaker.is_over(now);
        self.quota <= now && self.backoff.is_forgiven(now) && is_closed
    }
}

impl Permit {
    /// Reports the head of the response. Returns the end of the host's backoff, if it is backed off now.
    ///
    /// 429, 503 and their kin back the host off (as long as their Retry-After says, up to 24 h; else for 60
    /// s, doubling), and so does any other error with a Retry-After ([`WaitRequest`]). Five server errors in
    /// a row open the circuit breaker, and any other response closes it. Call this once per request, and not
    /// for informational responses (1xx).
    pub fn observe(&self, status: StatusCode, headers: &HeaderMap) -> Option<WallMillis> {
        let (pacer, started) = (&self.pacer, self.started);
        if status.is_informational() {
            return None;
        }
        let is_adaptive = pacer.policy.adaptive;
        let asked = pacer.asked(status, headers);
        // Nearly all responses end here: nothing changes, and no waiter need be woken.
        let is_news = asked.backs_off() || asked == WaitRequest::ServerError || has_rate_limit(headers);
        if !is_news && !is_adaptive && !pacer.has_feedback(&self.key) {
            return None;
        }
        let (now, status_code) = (pacer.now_or_system(), status.as_u16());
        let cause = |retry_after| BackoffCause::Answer { status: status_code, retry_after };
        let quota = match asked {
            // The draft, "Client Behavior": "the Retry-After field MUST take precedence".
            WaitRequest::Throttle { retry_after: Some(_) } | WaitRequest::Backoff { .. } => None,
            _ => rate_limit(headers, pacer.wall()).unwrap_or_else(|field| {
                pacer.observers.notify(&Event::RateLimitIgnored { key: &self.key, field });
                None
            }),
        };
        let jitter = if asked.backs_off() { pacer.jitter.draw() } else { 0.0 };
        pacer.feed_back(&self.key, now, |feedback| {
            feedback.breaker = match asked {
                WaitRequest::ServerError => {
                    feedback.breaker.after(Failure::Status(status_code), started, now)
                }
                _ => Breaker::default(),
            };
            if is_adaptive {
                feedback.adapt(now.since(started), status.is_success());
            }
            let backoff = feedback.backoff;
            feedback.backoff = match asked {
                WaitRequest::Throttle { retry_after } => {
                    backoff.after(cause(retry_after), started, now, jitter)
                }
                WaitRequest::Backoff { retry_after } => {
                    backoff.asked(cause(Some(retry_after)), retry_after, now, jitter)
                }
                _ => backoff,
            };
            if let Some(wait) = quota {
                feedback.quota = feedback.quota.max(now.plus(wait));
            }
        })
    }

    /// Reports that the request failed without a response. Returns the end of the host's backoff or of the breaker's pause, if there is
    /// one. Await [`saved`](Self::saved) before you return the error.
    pub fn failed(&self, fault: Failure) -> Option<WallMillis> {
        let (pacer, started) = (&self.pacer, self.started);
        // The host has no part in what we refuse.
        if fault.is_refused() {
            return None;
        }
        let now = pacer.now_or_system();
        let jitter = pacer.jitter.draw();
        pacer.feed_back(&self.key, now, |feedback| {
            if fault == Failure::EnhanceYourCalm {
                feedback.backoff =
                    feedback.backoff.after(BackoffCause::EnhanceYourCalm, started, now, jitter);
            } else {
                feedback.breaker = feedback.breaker.after(fault, started, now);
            }
        })
    }
}

impl Pacer {
    /// [`wait_request`], and the policy's own reading of 403.
    fn asked(&self, status: StatusCode, headers: &HeaderMap) -> WaitRequest {
        if status.is_success() {
            return WaitRequest::Nothing;
        }
        match wait_request(status, headers, self.wall()) {
            WaitRequest::Nothing if self.policy.backoff_on_forbidden && status == StatusCode::FORBIDDEN => {
                WaitRequest::Throttle { retry_after: None }
            }
            asked => asked,
        }
    }

    /// [`Gate::back_off`](crate::Gate::back_off), for any cause.
    pub(crate) fn back_off(&self, key: &str, until: WallMillis, cause: BackoffCause) -> WallMillis {
        let now = self.now_or_system();
        let until = now.plus(credible(until.since(self.wall())));
        let (backoff, is_extended) = self.extend_backoff(key, until, 0, cause, now);
        if is_extended {
            self.share(key);
        }
        self.wall_at(now, backoff.until)
    }

    /// The Crawl-delay of an origin has become this. It also counts for those who already wait for it, and for those who ask with the delay
    /// that was last asked for.
    pub(crate) fn change_crawl_delay(&self, origin: &Origin, delay: Duration) {
        let (now, url) = (self.now_or_system(), origin.robots_url());
        // A key that panics refuses each request as well.
        let Ok((key, terms)) = self.key_and_terms(&url, delay.min(DELAY_MAX)) else { return };
        self.act(|effects| {
            self.hosts.find(&key, |host| {
                host.change_crawl_delay(origin, terms.delay, now, &mut effects.wakers);
            })
        });
    }

    /// Whether there is a backoff or a count of faults that a response has something to do with: most hosts have none.
    fn has_feedback(&self, key: &str) -> bool {
        self.hosts.find(key, |host| host.has_feedback()).unwrap_or_default()
    }

    /// Changes the feedback of a host, wakes who is concerned, reports what came of it.
    fn feed_back(&self, key: &str, now: Moment, change: impl FnOnce(&mut Feedback)) -> Option<WallMillis> {
        let (before, after) = self.act(|effects| {
            self.hosts.find(key, |host| {
                let before = host.feedback();
                let mut after = before;
                change(&mut after);
                host.set_feedback(after, now, &mut effects.wakers);
                (before, after)
            })
        })?;
        let (was, is) = (before.backoff, after.backoff);
        if was.until < is.until {
            let (lasts, cause) = (is.until.since(now), is.cause);
            self.observers.notify(&Event::BackedOff { key, lasts, cause });
        }
        if was.until < is.until || was.throttles < is.throttles {
            self.share(key);
        }
        if before.breaker.until < after.breaker.until {
            let (lasts, failure) = (after.breaker.until.since(now), after.breaker.cause);
            self.observers.notify(&Event::BreakerOpened { key, lasts, failure });
        }
        let until = is.until.max(after.breaker.until);
        (until > now).then(|| self.wall_at(now, until))
    }

    /// Saves the backoff in the shared store, so that other processes back off as well.
    fn share(&self, key: &str) {
        if self.keeper.is_some() {
            let now = self.now_or_system();
            self.act(|effects| self.hosts.with(key, now, effects, |host, effects| host.share(effects)));
        }
    }

    /// Returns the backoff that is in force, and whether it was extended, which is reported. A host that is not known is known from now on.
    fn extend_backoff(
        &self,
        key: &str,
        until: Moment,
        throttles: u8,
        cause: BackoffCause,
        now: Moment,
    ) -> (HostBackoff, bool) {
        let (backoff, is_extended) = self.act(|effects| {
            self.hosts.with(key, now, effects, |host, effects| {
                host.extend_backoff(until, throttles, cause, now, &mut effects.wakers)
            })
        });
        if is_extended {
            self.observers.notify(&Event::BackedOff { key, lasts: backoff.until.since(now), cause });
        }
        (backoff, is_extended)
    }
}

impl Feedback {
    /// The backoff as it is shared with other processes, unless it is over and its count forgiven. One that is theirs has grown by
    /// `round_trip`, and would grow each time that it goes from one process to the next.
    pub(crate) fn shared(&self, round_trip: Duration, now: Moment) -> Option<Backoff> {
        let Self { backoff, quota, .. } = *self;
        if quota <= backoff.until.max(now) {
            let shared = backoff.shared(now)?;
            return Some(Backoff { left: shared.left.saturating_sub(round_trip), ..shared });
        }
        // To other processes it is the same why they must wait.
        let (throttles, cause) = (backoff.throttles_at(now), BackoffCause::Shared);
        HostBackoff { began: now, until: quota, throttles, cause }.shared(now)
    }
}

impl PacedHost {
    /// Returns the backoff that is in force, and whether it was extended.
    fn extend_backoff(
        &mut self,
        until: Moment,
        throttles: u8,
        cause: BackoffCause,
        now: Moment,
        wakers: &mut Wakers,
    ) -> (HostBackoff, bool) {
        let before = self.feedback();
        let backoff = before.backoff.extended(cause, until, throttles, now);
        self.set_feedback(Feedback { backoff, ..before }, now, wakers);
        (backoff, backoff.until > before.backoff.until.max(now))
    }

    /// A backoff that the shared store knows of already. It may be over. Returns the backoff that was extended, if it is news.
    pub(crate) fn merge_backoff(
        &mut self,
        shared: Backoff,
        now: Moment,
        wakers: &mut Wakers,
    ) -> Option<HostBackoff> {
        let Feedback { backoff: known, quota, .. } = self.feedback();
        let HostBackoff { until, throttles, cause, .. } = HostBackoff::default().merged(shared, now);
        // A time that goes to the store and back has become longer by the round trip: that is no news.
        if until <= known.until.max(quota).plus(SLACK) && throttles <= known.throttles_at(now) {
            return None;
        }
        let (backoff, is_extended) = self.extend_backoff(until, throttles, cause, now, wakers);
        is_extended.then_some(backoff)
    }
}
