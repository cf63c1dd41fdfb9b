//! What responses and failures do to a host: backoffs, the circuit breaker, holds, the adaptive delay.
//!
//! `wait_request` says what a response asks for, `backoff`, `breaker` and `refusals` what comes of it, as
//! plain functions. Here the result is written into the host that the request had a permit of, waiters whose
//! permit cannot come in time any more are refused at once, and observers and the shared store are notified.
//! A backoff that comes from outside, from the operator or from another process, goes the same way.

use std::sync::Arc;
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
use super::refusals::{ReceivedAt, Reception, RefusalRow};
use super::store::Backoff;
use super::wait_request::{WaitRequest, wait_request};
use crate::clock::Moment;
use crate::event::{Event, Observers};
use crate::{Failure, Origin, Refusal, WallMillis};

/// What the responses of a host have brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Feedback {
    pub(crate) backoff: HostBackoff,
    pub(crate) breaker: Breaker,
    pub(crate) refusals: RefusalRow,
    /// When the next request is due by the server's RateLimit fields. May have passed.
    pub(crate) quota: Moment,
    /// The delay by the time that its responses take. Zero: not adaptive.
    pub(crate) adaptive_millis: u32,
}

impl Feedback {
    /// Five times what the head of the response took, at most 30 s. A response that is no success never
    /// lowers it.
    pub(crate) fn adapt(&mut self, took: Duration, success: bool) {
        let delay = whole_millis((took * 5).min(Duration::from_secs(30)));
        if success || delay > self.adaptive_millis {
            self.adaptive_millis = delay.max(1);
        }
    }

    /// Nothing is sent earlier or later for it.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        let is_over = self.breaker.is_over(now) && self.refusals.is_over(now);
        self.owes_nothing(now) && is_over && self.adaptive_millis == 0
    }

    /// What it asks for has passed, its throttles are forgiven, its breaker is closed, and its hold is over.
    pub(crate) fn owes_nothing(&self, now: Moment) -> bool {
        let is_closed = self.breaker.is_closed() || self.breaker.is_over(now);
        let is_let_in = !self.refusals.was_held() || self.refusals.is_over(now);
        self.quota <= now && self.backoff.is_forgiven(now) && is_closed && is_let_in
    }
}

impl Permit {
    /// Reports the head of the response. Returns the end of the host's backoff or hold, if there is one now.
    ///
    /// Refusals in a row hold the host
    /// ([`PacePolicy::with_refusals_max`](super::PacePolicy::with_refusals_max)): those that the head shows.
    /// If you look at bodies as well, see [`Refusal`].
    pub fn observe(&self, status: StatusCode, headers: &HeaderMap) -> Option<WallMillis> {
        let backed_off = self.observe_waits(status, headers);
        let refusal = if self.pacer.policy.trusts_status { None } else { Refusal::in_head(status, headers) };
        backed_off.max(self.refusals().report(status, refusal))
    }

    /// For what follows when the body has shown whether the response is a refusal: the permit may have ended
    /// by then.
    #[doc(hidden)]
    pub fn refusals(&self) -> RefusalReporter {
        RefusalReporter { pacer: Arc::clone(&self.pacer), key: Arc::clone(&self.key), granted: self.started }
    }

    /// [`observe`](Self::observe) without a look at whether it is a refusal: for files, which no page depends
    /// on, and for adapters that [report](Self::refusals) that later.
    ///
    /// 429, 503 and their kin back the host off (as long as their Retry-After says, up to 24 h; else for 60
    /// s, doubling), and so does any other error with a Retry-After ([`WaitRequest`]). Five server errors in
    /// a row open the circuit breaker, and any other response closes it. Call this once per request, and not
    /// for informational responses (1xx).
    #[doc(hidden)]
    pub fn observe_waits(&self, status: StatusCode, headers: &HeaderMap) -> Option<WallMillis> {
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

    /// Reports that the request failed without a response. Returns the end of the host's backoff or of the
    /// breaker's pause, if there is one. Await [`saved`](Self::saved) before you return the error.
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

    /// The Crawl-delay of an origin has become this. It also counts for those who already wait for it, and
    /// for those who ask with the delay that was last asked for.
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

    /// Whether there is a backoff or a count of faults that a response has something to do with: most hosts
    /// have none.
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
        let is_held = before.refusals.until < after.refusals.until;
        notify_of(&self.observers, key, &before, &after, now);
        if was.until < is.until || was.throttles < is.throttles || is_held {
            self.share(key);
        }
        let until = is.until.max(after.breaker.until).max(after.refusals.until);
        (until > now).then(|| self.wall_at(now, until))
    }

    /// Saves the backoff in the shared store, so that other processes back off as well.
    fn share(&self, key: &str) {
        if self.keeper.is_some() {
            let now = self.now_or_system();
            self.act(|effects| self.hosts.with(key, now, effects, |host, effects| host.share(effects)));
        }
    }

    /// Returns the backoff that is in force, and whether it was extended, which is reported. A host that is
    /// not known is known from now on.
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

/// Tells the observers what has become of a host.
pub(crate) fn notify_of(observers: &Observers, key: &str, before: &Feedback, after: &Feedback, now: Moment) {
    let (backoff, breaker, row) = (after.backoff, after.breaker, after.refusals);
    if backoff.until > before.backoff.until.max(now) {
        let (lasts, cause) = (backoff.until.since(now), backoff.cause);
        observers.notify(&Event::BackedOff { key, lasts, cause });
    }
    if breaker.until > before.breaker.until {
        let (lasts, failure) = (breaker.until.since(now), breaker.cause);
        observers.notify(&Event::BreakerOpened { key, lasts, failure });
    }
    if row.until > before.refusals.until {
        let (lasts, RefusalRow { by, responses, status, .. }) = (row.until.since(now), row);
        observers.notify(&Event::Refusing { key, lasts, by, responses, status });
    }
}

/// Reports how a host has received a request whose permit may have ended.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct RefusalReporter {
    pacer: Arc<Pacer>,
    key: Arc<str>,
    granted: Moment,
}

impl RefusalReporter {
    /// Counts the response in the row of refusals, or ends that. Returns the end of the hold, if the host is
    /// held now.
    pub fn report(&self, status: StatusCode, refusal: Option<Refusal>) -> Option<WallMillis> {
        let (pacer, reception) = (&self.pacer, Reception::of(status, refusal));
        // Nearly all responses end here.
        let is_news = match reception {
            Reception::Neutral => false,
            Reception::LetIn => pacer.has_feedback(&self.key),
            Reception::Refused(_) | Reception::MaybeRefused => true,
        };
        if status.is_informational() || !is_news {
            return None;
        }
        let jitter = if reception == Reception::LetIn { 0.0 } else { pacer.jitter.draw() };
        let (now, wall) = (pacer.now_or_system(), pacer.wall());
        let (at, max) = (ReceivedAt { granted: self.granted, now, wall, jitter }, pacer.policy.refusals_max);
        pacer.feed_back(&self.key, now, |feedback| {
            feedback.refusals = feedback.refusals.after(reception, status, max, at);
        })
    }

    /// Waits until a hold is in the shared store, as [`Permit::saved`] does.
    pub async fn saved(&self) {
        if let Some(keeper) = self.pacer.keeper.as_ref().filter(|keeper| keeper.is_unsaved(&self.key)) {
            keeper.saved(&self.key).await;
        }
    }
}

impl Feedback {
    /// The backoff as it is shared with other processes, unless it is over and its count forgiven. One that
    /// is theirs has grown by `round_trip`, and would grow each time that it goes from one process to the
    /// next.
    pub(crate) fn shared(&self, round_trip: Duration, now: Moment) -> Option<Backoff> {
        let Self { backoff, quota, refusals, .. } = *self;
        if refusals.until > quota.max(backoff.until).max(now) {
            let left = refusals.until.since(now).saturating_sub(round_trip);
            let throttles = backoff.throttles_at(now);
            return Some(Backoff { left, over: Duration::ZERO, throttles, cause: refusals.cause() });
        }
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
    /// A request of some process was last on its way then.
    pub(crate) fn sent_elsewhere(&mut self, last: Moment, now: Moment) {
        let before = self.feedback();
        if before.refusals.was_held() && last > self.anchor.plus(SLACK) {
            let refusals = before.refusals.probed_elsewhere(last, now);
            self.set_feedback(Feedback { refusals, ..before }, now, &mut Wakers::new());
        }
    }

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

    /// A backoff that the shared store knows of already. It may be over. Returns what was known before, and
    /// what is now, if it is news.
    pub(crate) fn merge_backoff(
        &mut self,
        shared: Backoff,
        now: Moment,
        wakers: &mut Wakers,
    ) -> Option<(Feedback, Feedback)> {
        let before = self.feedback();
        if let BackoffCause::Refusing { .. } = shared.cause
            && !shared.left.is_zero()
        {
            let until = now.plus(credible(shared.left));
            // A time that goes to the store and back has become longer by the round trip: that is no news.
            let is_longer = until > before.refusals.until.plus(SLACK);
            let refusals = before.refusals.merged(shared.cause, until, now).filter(|_| is_longer)?;
            let after = Feedback { refusals, ..before };
            self.set_feedback(after, now, wakers);
            return Some((before, after));
        }
        let Feedback { backoff: known, quota, .. } = before;
        let HostBackoff { until, throttles, cause, .. } = HostBackoff::default().merged(shared, now);
        // A time that goes to the store and back has become longer by the round trip: that is no news.
        if until <= known.until.max(quota).plus(SLACK) && throttles <= known.throttles_at(now) {
            return None;
        }
        let (_, is_extended) = self.extend_backoff(until, throttles, cause, now, wakers);
        is_extended.then(|| (before, self.feedback()))
    }
}
