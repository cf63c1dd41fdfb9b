//! What is known of one origin's robots.txt, and how an attempt changes it.
//!
//! For a million hosts: a record is one block of memory. What most don't have is behind a pointer, and equal
//! texts are one (`interner.rs`).

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::pacing::{WaitRequest, wait_request};
use crate::robots_cache::freshness::back_off;
use crate::robots_cache::interner::RobotsText;
use crate::robots_cache::outcome::FetchOutcome;
use crate::robots_cache::policy::LIFETIME_MAX;
use crate::robots_cache::{RobotsPolicy, Validators, body};
use crate::{Failure, Origin, WallMillis};

/// What is stored of one origin's robots.txt: what the server sent, and when.
///
/// It is changed by one pure function per attempt, so a failed attempt never loses the last good copy.
/// [`RobotsRecord::encode`] and [`RobotsRecord::decode`] give its stored form.
///
/// ```
/// use abide_gate::{Origin, robots_cache::RobotsRecord};
///
/// fn save(rows: &mut std::collections::HashMap<Origin, Vec<u8>>, record: &RobotsRecord) {
///     rows.insert(record.origin().clone(), record.encode());
/// }
/// assert_eq!(RobotsRecord::decode(b"of another version"), None, "absent, so it is fetched again");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RobotsRecord {
    pub(super) origin: Origin,
    pub(super) asked_at: WallMillis,
    pub(super) fresh_until: WallMillis,
    pub(super) next_try: WallMillis,
    pub(super) copy: Option<GoodCopy>,
    /// `None` for most: rules were read at the last attempt.
    pub(super) attempt: Option<Box<LastAttempt>>,
}

/// How the last attempt ended, of a record whose last attempt brought no rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastAttempt {
    pub(super) last: LastResult,
    pub(super) outage: Outage,
}

/// How the last attempt ended. Stored by the number of the variant: another order is another version in
/// `codec.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LastResult {
    /// A copy was read or confirmed.
    Rules,
    /// The server says by this 4xx status that there is none (RFC 9309 §2.3.1.3).
    Unavailable(u16),
    /// More redirects than are followed, or a circle of them (§2.3.1.2): unavailable as well.
    TooManyRedirects,
    /// It could not be fetched (§2.3.1.4).
    Unreachable(Failure),
}

/// For how long an origin has been unreachable.
///
/// An attempt *counts* when it is 20 hours or more after the last that counted: a clock that jumps a year
/// ahead adds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Outage {
    pub(super) since: Option<WallMillis>,
    pub(super) attempts: u32,
    pub(super) counted: u32,
    pub(super) last_counted: Option<WallMillis>,
}

/// When §2.3.1.4's "reasonably long period of time" has passed.
const OUTAGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many attempts must have counted by then.
const OUTAGE_ATTEMPTS: u32 = 20;
/// How far apart attempts must be to count. Less than a day, so that all attempts of a crawl that runs daily
/// count, though not at the same minute.
const COUNTED_APART: Duration = Duration::from_secs(20 * 60 * 60);

/// Seven days, without the one for which a copy may be used after the last 304.
const CONFIRMED_MAX: Duration = Duration::from_secs(6 * 24 * 60 * 60);

impl Outage {
    fn again(self, now: WallMillis) -> Self {
        let mut next = self.attempted();
        // A time in the future is a clock that was wrong then, or is now: count from here.
        next.since = Some(self.since.map_or(now, |since| since.min(now)));
        match self.last_counted {
            // Those before, too: by two clocks that are apart, each attempt would count.
            Some(last) if last > now => (next.counted, next.last_counted) = (1, Some(now)),
            Some(last) if now.since(last) < COUNTED_APART => {}
            _ => (next.counted, next.last_counted) = (self.counted.saturating_add(1), Some(now)),
        }
        next
    }

    /// One more attempt that is neither a failure nor a success.
    fn attempted(self) -> Self {
        Self { attempts: self.attempts.saturating_add(1), ..self }
    }

    /// Whether it has lasted for 30 days, with an attempt on 20 of them.
    pub(crate) fn is_long(&self, now: WallMillis) -> bool {
        self.counted >= OUTAGE_ATTEMPTS && self.since.is_some_and(|since| now.since(since) >= OUTAGE)
    }
}

impl LastAttempt {
    pub(super) fn boxed(last: LastResult, outage: Outage) -> Option<Box<Self>> {
        let is_usual = last == LastResult::Rules && outage == Outage::default();
        (!is_usual).then(|| Box::new(Self { last, outage }))
    }
}

/// When an attempt ended, two random numbers in `0.0..1.0`, and how long the next request to the host waits
/// at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptEnd {
    pub(crate) now: WallMillis,
    /// Moves the next try after a failure.
    pub(crate) jitter: f64,
    /// Moves the refresh ahead of the expiry.
    pub(crate) spread: f64,
    pub(crate) gap: Duration,
}

/// A record lasts for three gaps between two requests at least, within 24 hours: a page that waits behind
/// robots.txt, and perhaps behind another file of the site, must still find it fresh, or it would take the
/// place of every page.
fn outlasting(gap: Duration) -> Duration {
    gap.saturating_mul(3).min(LIFETIME_MAX)
}

impl RobotsRecord {
    pub(crate) fn after(
        previous: Option<&Self>,
        origin: &Origin,
        outcome: FetchOutcome,
        at: AttemptEnd,
        policy: &RobotsPolicy,
    ) -> Self {
        let now = at.now;
        // From now if it is from the future: the clock was set back, and a record with times ahead would
        // never be fresh.
        let copy = previous.and_then(|record| record.copy.clone()).map(|copy| GoodCopy {
            fetched_at: copy.fetched_at.min(now),
            validated_at: copy.validated_at.min(now),
            ..copy
        });
        let failing = previous.map(Self::outage).unwrap_or_default();
        let new = |last, copy, failing| Self {
            origin: origin.clone(),
            asked_at: now,
            fresh_until: now,
            next_try: now,
            copy,
            attempt: LastAttempt::boxed(last, failing),
        };
        match outcome {
            FetchOutcome::Rules(fetched) => {
                let lifetime = fetched.lifetime().unwrap_or(policy.lifetime_max);
                new(LastResult::Rules, Some(fetched), Outage::default()).fresh_for(lifetime, at)
            }
            FetchOutcome::NotModified(copy) => {
                // RFC 9111 §4.3.4: it is confirmed now.
                let copy = GoodCopy { fetched_at: copy.fetched_at.min(now), validated_at: now, ..copy };
                // A store may have it from a process with another policy.
                let lifetime = copy.lifetime().unwrap_or(policy.lifetime_max);
                let lifetime = lifetime.clamp(policy.lifetime_min, policy.lifetime_max);
                new(LastResult::Rules, Some(copy), Outage::default()).fresh_for(lifetime, at)
            }
            // The owner has taken the file away, so the copy goes, too.
            FetchOutcome::Unavailable { status, lifetime } => {
                let lifetime = lifetime.max(outlasting(at.gap));
                new(LastResult::Unavailable(status), None, Outage::default()).fresh_for(lifetime, at)
            }
            FetchOutcome::UnavailableForNow { status, hold } => {
                // The number of attempts grows, and so does the pause, but it is no outage: §2.3.1.3, not
                // §2.3.1.4.
                new(LastResult::Unavailable(status), copy, failing.attempted()).retried(hold, at, policy)
            }
            FetchOutcome::Throttled { status, hold } => {
                // Without a pacer's backoff, as long as it would have been.
                let step = previous.and_then(|record| record.next_throttle(at.jitter, policy));
                let until = hold.unwrap_or(now.plus(step.unwrap_or(back_off(1, at.jitter, policy))));
                new(LastResult::Unavailable(status), copy, failing).until(until)
            }
            FetchOutcome::TooManyRedirects => {
                // §2.3.1.2 says MAY: the copy is kept, and applies again when this has expired.
                new(LastResult::TooManyRedirects, copy, failing).until(now.plus(policy.redirects_lifetime))
            }
            FetchOutcome::Unreachable { cause, hold } => {
                new(LastResult::Unreachable(cause), copy, failing.again(now)).retried(hold, at, policy)
            }
        }
    }

    /// Fresh for so long, and renewed ahead at 80 % to 100 % of that, so that the hosts of one crawl don't
    /// expire together.
    fn fresh_for(self, lifetime: Duration, at: AttemptEnd) -> Self {
        let next_try = at.now.plus(lifetime.mul_f64(0.8 + 0.2 * at.spread.clamp(0.0, 1.0)));
        Self { fresh_until: at.now.plus(lifetime), next_try, ..self }
    }

    pub(super) fn outlasting(self, crawl_delay: Option<Duration>, at: AttemptEnd) -> Self {
        let least = outlasting(crawl_delay.unwrap_or_default().max(at.gap));
        let is_short = self.last() == LastResult::Rules && self.fresh_until < at.now.plus(least);
        if is_short { self.fresh_for(least, at) } else { self }
    }

    fn retried(self, hold: Option<WallMillis>, at: AttemptEnd, policy: &RobotsPolicy) -> Self {
        let again = at.now.plus(back_off(self.outage().attempts, at.jitter, policy));
        // The later of the two: nothing is sent during a backoff, robots.txt included.
        self.until(hold.map_or(again, |hold| hold.max(again)))
    }

    /// Is fresh, and is not fetched again, until then; but nothing is fresh for more than 24 hours (§2.4).
    fn until(self, then: WallMillis) -> Self {
        Self { fresh_until: then.min(self.asked_at.plus(LIFETIME_MAX)), next_try: then, ..self }
    }

    /// For how long at least the next 429, or its kin, in a row backs the host off, whatever its Retry-After
    /// says: a server that named a second, and then asks to slow down again, needs longer. Twice as long as
    /// the last did, within the retry schedule, plus up to a tenth; `None` if that did not ask. A 503 is
    /// requested again on schedule, which doubles as well.
    pub(crate) fn next_throttle(&self, jitter: f64, policy: &RobotsPolicy) -> Option<Duration> {
        let (LastResult::Unavailable(status) | LastResult::Unreachable(Failure::Status(status @ 400..=499))) =
            self.last()
        else {
            return None;
        };
        let status = StatusCode::from_u16(status).ok()?;
        let asked = wait_request(status, &HeaderMap::new(), self.asked_at);
        if !matches!(asked, WaitRequest::Throttle { .. }) {
            return None;
        }
        let last = self.next_try.since(self.asked_at);
        let next = last.saturating_mul(2).clamp(policy.retry_first, policy.retry_max);
        Some(next.mul_f64(1.0 + 0.1 * jitter.clamp(0.0, 1.0)))
    }

    /// The record, expired, so that the next use fetches. The copy stays.
    pub(crate) fn expired(self) -> Self {
        Self { fresh_until: WallMillis::default(), next_try: WallMillis::default(), ..self }
    }

    /// A copy that a process with a higher limit has kept is cut at ours, and fetched again.
    pub(super) fn cut(mut self, limit: usize) -> Self {
        let Some(copy) = self.copy.as_mut() else { return self };
        let Some(over) = copy.body().get(..=limit) else { return self };
        let text = RobotsText::new(body::cut(over.to_vec(), limit));
        (copy.text, copy.truncated, copy.validators) = (text, true, Validators::default());
        self.expired()
    }

    /// The origin that it belongs to.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// When the last attempt ended. Of two records of one origin, the later one counts.
    pub fn asked_at(&self) -> WallMillis {
        self.asked_at
    }

    /// The last good copy.
    pub fn copy(&self) -> Option<&GoodCopy> {
        self.copy.as_ref()
    }

    /// Since when it has been unreachable.
    pub fn failing_since(&self) -> Option<WallMillis> {
        self.outage().since
    }

    /// For how long it has been unreachable; nothing if it is not.
    pub(super) fn outage(&self) -> Outage {
        self.attempt.as_ref().map(|attempt| attempt.outage).unwrap_or_default()
    }

    pub(super) fn last(&self) -> LastResult {
        self.attempt.as_ref().map_or(LastResult::Rules, |attempt| attempt.last)
    }

    /// About how many bytes it takes in memory.
    pub fn weight(&self) -> usize {
        self.weight_without_body().saturating_add(self.copy().map_or(0, |copy| copy.body().len()))
    }

    pub(super) fn weight_without_body(&self) -> usize {
        let url = self.copy().and_then(|copy| copy.redirected_to.as_deref());
        let parts = [
            size_of::<Self>(),
            self.origin.heap_size(),
            self.attempt.as_ref().map_or(0, |_| size_of::<LastAttempt>()),
            url.map_or(0, |url| size_of::<Url>().saturating_add(url.as_str().len())),
            self.copy().map_or(0, |copy| copy.validators.0.heap_size()),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

/// A robots.txt as it was received: decoded bytes and where they came from.
///
/// ```
/// use abide_gate::robots_cache::GoodCopy;
///
/// fn sitemaps(copy: &GoodCopy) -> Vec<String> {
///     abide_robots::Robots::parse(copy.body()).sitemaps().map(str::to_owned).collect()
/// }
/// ```
#[derive(Clone, PartialEq)]
pub struct GoodCopy {
    pub(super) text: Arc<RobotsText>,
    pub(super) truncated: bool,
    /// It is an HTML page without one rule line.
    pub(super) html: bool,
    pub(super) status: u16,
    /// Where the redirects ended, if there were any.
    pub(super) redirected_to: Option<Box<Url>>,
    pub(super) validators: Validators,
    /// What its `Cache-Control` asked for, within bounds, in seconds.
    pub(super) lifetime: Option<NonZeroU32>,
    pub(super) fetched_at: WallMillis,
    pub(super) validated_at: WallMillis,
}

impl GoodCopy {
    /// The text: at most the policy's limit of decoded bytes, and whole lines only.
    pub fn body(&self) -> &[u8] {
        &self.text.body
    }

    /// Whether there was more than the limit (RFC 9309 §2.5).
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The 2xx status it came with.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// When its body was received.
    pub fn fetched_at(&self) -> WallMillis {
        self.fetched_at
    }

    /// When the server last confirmed it, by sending it or by a 304.
    pub fn validated_at(&self) -> WallMillis {
        self.validated_at
    }

    /// Whether a 304 to its validators is believed.
    ///
    /// Stricter: a server whose validators do not change with the file would keep a new rule from us for
    /// ever. So all of it is fetched again before it is seven days old: a copy that is younger than this now
    /// is asked for again within 24 hours.
    pub(super) fn is_confirmable(&self, now: WallMillis) -> bool {
        now.since(self.fetched_at) < CONFIRMED_MAX
            && !self.validators.is_empty()
            && self.validators.can_change()
    }

    pub(super) fn lifetime(&self) -> Option<Duration> {
        self.lifetime.map(|seconds| Duration::from_secs(seconds.get().into()))
    }
}

/// A lifetime as it is kept. Bounds that are no whole seconds are cut to them.
pub(super) fn whole_seconds(lifetime: Duration) -> Option<NonZeroU32> {
    NonZeroU32::new(lifetime.as_secs().try_into().ok()?)
}

impl fmt::Debug for GoodCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoodCopy")
            .field("bytes", &self.body().len())
            .field("truncated", &self.truncated)
            .field("status", &self.status)
            .field("redirected_to", &self.redirected_to.as_ref().map(|url| url.as_str()))
            .field("fetched_at", &self.fetched_at)
            .field("validated_at", &self.validated_at)
            .finish_non_exhaustive()
    }
}

#[cfg(any(test, feature = "testing"))]
impl RobotsRecord {
    /// A record as a fetch at `now` would make it.
    pub(crate) fn sample(origin: &Origin, now: WallMillis, body: bytes::Bytes) -> Self {
        let copy = GoodCopy {
            text: RobotsText::new(&*body),
            truncated: false,
            html: false,
            status: 200,
            redirected_to: None,
            validators: Validators::new(Some(b"\"etag\""), Some(b"Fri, 20 Nov 2026 21:05:37 GMT")),
            lifetime: None,
            fetched_at: now,
            validated_at: now,
        };
        Self::sample_after(None, origin, FetchOutcome::Rules(copy), now)
    }

    pub(crate) fn sample_unreachable(previous: &Self, now: WallMillis) -> Self {
        let outcome = FetchOutcome::Unreachable { cause: Failure::Status(503), hold: None };
        Self::sample_after(Some(previous), &previous.origin, outcome, now)
    }

    fn sample_after(
        previous: Option<&Self>,
        origin: &Origin,
        outcome: FetchOutcome,
        now: WallMillis,
    ) -> Self {
        let at = AttemptEnd { now, jitter: 0.5, spread: 0.5, gap: Duration::ZERO };
        Self::after(previous, origin, outcome, at, &RobotsPolicy::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn origin() -> Origin {
        "https://a.example".parse().unwrap()
    }

    fn after(previous: Option<&RobotsRecord>, outcome: FetchOutcome, now: WallMillis) -> RobotsRecord {
        RobotsRecord::sample_after(previous, &origin(), outcome, now)
    }

    fn good(now: WallMillis) -> FetchOutcome {
        let copy = RobotsRecord::sample(&origin(), now, "User-agent: *".into()).copy.unwrap();
        FetchOutcome::Rules(GoodCopy { lifetime: whole_seconds(HOUR), ..copy })
    }

    #[test]
    fn a_failure_in_the_future_is_counted_from_now() {
        let future = NOW.plus(1000 * 24 * HOUR);
        let failed = RobotsRecord::sample_unreachable(&after(None, good(future), future), future);
        let record = RobotsRecord::sample_unreachable(&failed, NOW);
        assert_eq!(record.outage().since, Some(NOW));
        assert_eq!(record.outage().last_counted, Some(NOW));
        assert_eq!(record.outage().counted, 1, "it is not counted again");
    }

    /// At the fetch, or between it and a 304 that came later.
    #[test]
    fn a_clock_set_back_leaves_no_copy_from_the_future() {
        let first = after(None, good(NOW), NOW);
        let not_modified = FetchOutcome::NotModified(first.copy.clone().unwrap());
        let confirmed = after(Some(&first), not_modified.clone(), NOW.plus(2 * HOUR));
        for (back, fetched_at) in
            [(NOW.minus(300 * 24 * HOUR), NOW.minus(300 * 24 * HOUR)), (NOW.plus(HOUR), NOW)]
        {
            for outcome in [FetchOutcome::UnavailableForNow { status: 408, hold: None }, not_modified.clone()]
            {
                let record = after(Some(&confirmed), outcome, back);
                let copy = record.copy.as_ref().unwrap();
                assert_eq!((copy.fetched_at, copy.validated_at), (fetched_at, back));
                assert!(record.is_fresh(back), "it would be asked for with every page");
            }
        }
    }

    #[test]
    fn a_304_is_used_for_as_long_as_the_policy_has_it() {
        let mut copy = after(None, good(NOW), NOW).copy.unwrap();
        copy.lifetime = whole_seconds(Duration::from_secs(1));
        assert_eq!(after(None, FetchOutcome::NotModified(copy), NOW).fresh_until, NOW.plus(HOUR / 12));
    }

    #[test]
    fn a_record_outweighs_its_text() {
        let record = RobotsRecord::sample_unreachable(&after(None, good(NOW), NOW), NOW.plus(HOUR));
        let others = "User-agent: *".len() + size_of::<LastAttempt>();
        assert_eq!(record.weight(), size_of::<RobotsRecord>() + others);
    }
}
