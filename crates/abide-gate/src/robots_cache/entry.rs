//! An entry of the cache: a record, whether it may still be used, and what it says now.
//!
//! Compiled once and shared by all requests to the origin, so that a check neither parses nor allocates.
//!
//! Its times are checked when it is used, not by a timer: an unused host costs nothing, and a clock that
//! jumps costs a fetch and opens nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use abide_robots::{ParseOptions, ProductToken, Remark, Robots, Rules, Target};
use url::Url;

use crate::robots_cache::interner::Interner;
use crate::robots_cache::policy::{BODY_LIMIT_MAX, LIFETIME_MAX, LongOutage};
use crate::robots_cache::record::LastResult;
use crate::robots_cache::{GoodCopy, RobotsPolicy, RobotsRecord};
use crate::{Failure, Origin, Verdict, WallMillis};

/// Where the rules of an origin came from.
///
/// ```
/// # use abide_gate::robots_cache::Source;
/// fn is_by_rules(source: Source) -> bool {
///     matches!(source, Source::Fresh | Source::Revalidated | Source::LastGood)
/// }
/// assert!(!is_by_rules(Source::Unavailable(404)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server sent it within its lifetime.
    Fresh,
    /// The server confirmed the copy (304).
    Revalidated,
    /// The last good copy, because robots.txt can't be fetched now.
    LastGood,
    /// There is no robots.txt (4xx): everything is allowed.
    Unavailable(u16),
    /// More redirects than are followed, or a circle of them: everything is allowed (RFC 9309 §2.3.1.2).
    TooManyRedirects,
    /// robots.txt can't be fetched, and there is no copy: everything is disallowed.
    Unreachable(Failure),
    /// robots.txt has been unreachable for so long that it counts as unavailable: everything is allowed.
    LongOutage,
}

/// The rules of one origin, with all that explains them.
///
/// Made once per fetch and shared. It never makes a request, and [`is_allowed`](Self::is_allowed) does not
/// allocate.
///
/// ```
/// use abide_gate::robots_cache::RobotsEntry;
///
/// fn retain_allowed(paths: &mut Vec<String>, entry: &RobotsEntry) {
///     paths.retain(|path| entry.is_allowed(&abide_robots::Target::new(path)));
/// }
/// ```
pub struct RobotsEntry {
    record: RobotsRecord,
    /// Those of the copy's text, if it applies. Here too, because a check reads them: by way of the text it
    /// would wait for memory once more.
    pub(crate) rules: Option<Rules>,
    was_fresh: bool,
    /// Without a copy, an outage allows everything.
    outage_allows: bool,
}

impl RobotsEntry {
    /// What `record` says at `now`, with its text from `texts` if that is in use already.
    pub(super) fn new(
        mut record: RobotsRecord,
        now: WallMillis,
        policy: &RobotsPolicy,
        tokens: &[ProductToken],
        texts: &Interner,
    ) -> Self {
        let was_fresh = record.is_fresh(now);
        let outage_allows = match policy.long_outage {
            LongOutage::Unavailable => record.outage().is_long(now),
            LongOutage::Disallow => false,
            LongOutage::AllowAtOnce => true,
        };
        let source = record.source(was_fresh, outage_allows);
        let rules = record.copy.as_mut().and_then(|copy| {
            // The body was cut at the policy's limit, so the reader must not cut it at a lower one.
            let options = ParseOptions::new().with_limit(policy.body_limit);
            // The record's own text is dropped here: all hosts that send it keep one.
            copy.text = texts.get(&copy.text.body, |body| Rules::parse_with(body, tokens, options));
            let applies = matches!(source, Source::Fresh | Source::Revalidated | Source::LastGood);
            copy.text.rules.clone().filter(|_| applies)
        });
        Self { record, rules, was_fresh, outage_allows }
    }

    /// What to do with this entry at `now`; `None` if it must be compiled again, because it has become stale.
    pub(super) fn next(&self, now: WallMillis) -> Option<Reuse> {
        match self.record.reuse(now) {
            // Too many redirects allow everything while they are fresh; in an outage the last good copy
            // applies after that.
            Reuse::Use | Reuse::UseAndRefresh if self.record.is_fresh(now) != self.was_fresh => None,
            next => Some(next),
        }
    }

    /// Why everything is disallowed for now: robots.txt can't be fetched, and there is no copy.
    pub(crate) fn unreachable(&self) -> Option<Failure> {
        match self.source() {
            Source::Unreachable(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether the target may be fetched. Allocates nothing.
    ///
    /// `/robots.txt` itself always may (RFC 9309 §2.2.2).
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {
        match &self.rules {
            Some(rules) => rules.is_allowed(target),
            // Only these allow everything. A copy without rules would be a mistake here, and disallows.
            None => match self.source() {
                Source::Unavailable(_) | Source::TooManyRedirects | Source::LongOutage => true,
                _ => target.as_str() == "/robots.txt",
            },
        }
    }

    /// The verdict for one target, with its reasons.
    pub fn explain(self: &Arc<Self>, target: &Target<'_>) -> Verdict {
        Verdict::robots(Arc::clone(self), target)
    }

    /// The `Crawl-delay` of the group that applies, as written.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.rules.as_ref()?.crawl_delay()
    }

    /// The origin that it belongs to.
    pub fn origin(&self) -> &Origin {
        self.record.origin()
    }

    /// Where it came from.
    pub fn source(&self) -> Source {
        self.record.source(self.was_fresh, self.outage_allows)
    }

    /// The robots.txt that decides, as received. `None` if none does.
    pub fn copy(&self) -> Option<&GoodCopy> {
        self.record.copy().filter(|_| self.rules.is_some())
    }

    /// Where the robots.txt came from after its redirects.
    pub fn final_url(&self) -> Option<Url> {
        let redirected_to = self.copy()?.redirected_to.as_deref();
        Some(redirected_to.cloned().unwrap_or_else(|| self.origin().robots_url()))
    }

    /// The status of the response that decided.
    pub fn status(&self) -> Option<u16> {
        match self.source() {
            Source::Fresh | Source::Revalidated | Source::LastGood => self.copy().map(GoodCopy::status),
            Source::Unavailable(status) | Source::Unreachable(Failure::Status(status)) => Some(status),
            Source::TooManyRedirects | Source::Unreachable(_) | Source::LongOutage => None,
        }
    }

    /// Why the last attempt failed, also if the last good copy applies.
    pub fn failure(&self) -> Option<Failure> {
        match self.record.last() {
            LastResult::Unreachable(cause) => Some(cause),
            // A 408 or 429 and their kin, for which the copy stands in: other 4xx leave no copy.
            LastResult::Unavailable(status) if self.copy().is_some() => Some(Failure::Status(status)),
            _ => None,
        }
    }

    /// When the body was received.
    pub fn fetched_at(&self) -> Option<WallMillis> {
        self.copy().map(GoodCopy::fetched_at)
    }

    /// How long ago the server last sent or confirmed the copy.
    pub fn age(&self, now: WallMillis) -> Option<Duration> {
        self.copy().map(|copy| now.since(copy.validated_at()))
    }

    /// When the last attempt ended.
    pub fn asked_at(&self) -> WallMillis {
        self.record.asked_at
    }

    /// Until when these rules are fresh.
    pub fn fresh_until(&self) -> WallMillis {
        self.record.fresh_until
    }

    /// Since when it has been unreachable.
    pub fn failing_since(&self) -> Option<WallMillis> {
        self.record.outage().since
    }

    /// How many attempts have failed in a row.
    pub fn attempts(&self) -> u32 {
        self.record.outage().attempts
    }

    /// When robots.txt is fetched again, if it is used then.
    pub fn retry_at(&self) -> WallMillis {
        self.record.next_try
    }

    /// Whether the file was cut at the parsing limit (RFC 9309 §2.5).
    pub fn is_truncated(&self) -> bool {
        self.copy().is_some_and(GoodCopy::is_truncated)
    }

    /// Whether the document is HTML without a rule line, such as an error page or a challenge. It allows
    /// everything.
    pub fn is_not_text(&self) -> bool {
        self.copy().is_some_and(|copy| copy.html)
    }

    /// Mistakes in the text: unreadable lines, encodings, rules that never match. Parses the text again.
    pub fn remarks(&self) -> Vec<Remark> {
        // The copy was cut when it was read, by a limit that the entry does not know.
        let options = ParseOptions::new().with_limit(BODY_LIMIT_MAX);
        self.copy().map(|copy| Robots::parse_with(copy.body(), options).remarks()).unwrap_or_default()
    }

    /// The stored form.
    pub fn record(&self) -> &RobotsRecord {
        &self.record
    }

    /// How many bytes it takes in the cache at most: with its text, which other hosts may have as well. If
    /// that counted for one of them only, it would not be counted any more when this one is forgotten.
    pub(super) fn weight(&self) -> usize {
        let text = self.record.copy().map_or(0, |copy| copy.text.weight());
        self.record.weight_without_body().saturating_add(ENTRY_WEIGHT).saturating_add(text)
    }
}

/// What an entry takes besides its record: the head of its block, its place in the cache, and what an
/// allocator adds.
const ENTRY_WEIGHT: usize = 360;

impl fmt::Debug for RobotsEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsEntry")
            .field("origin", self.origin())
            .field("source", &self.source())
            .field("asked_at", &self.asked_at())
            .field("retry_at", &self.retry_at())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Use,
    /// Use it, and start a fetch that no caller waits for.
    UseAndRefresh,
    Fetch,
}

/// A record from further in the future than this was written by a wrong clock.
const FUTURE_MAX: Duration = Duration::from_secs(5 * 60);
/// No schedule reaches further: a backoff of 24 hours and its jitter.
pub(crate) const NEXT_TRY_MAX: Duration = Duration::from_secs(27 * 60 * 60);

impl RobotsRecord {
    /// Whether the last answer still counts: never for more than 24 hours (§2.4), and not if the clock was
    /// set back.
    pub(crate) fn is_fresh(&self, now: WallMillis) -> bool {
        now < self.fresh_until && now.since(self.asked_at) < LIFETIME_MAX && !self.is_from_the_future(now)
    }

    pub(crate) fn reuse(&self, now: WallMillis) -> Reuse {
        let is_failing = self.outage().since.is_some();
        // Further ahead than any schedule reaches: the clock was set back since.
        let is_due = now >= self.next_try || self.next_try > now.plus(NEXT_TRY_MAX);
        match (self.is_fresh(now), is_due) {
            (true, false) => Reuse::Use,
            (true, true) => Reuse::UseAndRefresh,
            // §2.4: not more than 24 hours, unless the robots.txt is unreachable.
            (false, _) if !is_failing => Reuse::Fetch,
            // Whether it still fails is unknown: every schedule would have tried again by now, or a wrong
            // clock has dated the last attempt.
            (false, _) if now.since(self.asked_at) >= NEXT_TRY_MAX => Reuse::Fetch,
            (false, _) if self.is_from_the_future(now) => Reuse::Fetch,
            (false, false) => Reuse::Use,
            (false, true) if self.copy.is_some() => Reuse::UseAndRefresh,
            (false, true) => Reuse::Fetch,
        }
    }

    pub(crate) fn is_from_the_future(&self, now: WallMillis) -> bool {
        let latest = now.plus(FUTURE_MAX);
        self.asked_at > latest
            || self.copy.as_ref().is_some_and(|copy| copy.fetched_at.max(copy.validated_at) > latest)
    }

    /// Where the rules come from, if the record is used. `outage_allows`: so does an outage by now, without a
    /// copy.
    fn source(&self, is_fresh: bool, outage_allows: bool) -> Source {
        match (self.last(), &self.copy) {
            (LastResult::Rules, Some(copy)) if copy.validated_at > copy.fetched_at => Source::Revalidated,
            (LastResult::Rules, Some(_)) => Source::Fresh,
            // Stricter: after what is temporary or asks to wait, which alone leaves a copy, the file has not
            // been taken away.
            (LastResult::Unavailable(_), Some(_)) => Source::LastGood,
            (LastResult::Unavailable(status), None) if is_fresh => Source::Unavailable(status),
            (LastResult::TooManyRedirects, _) if is_fresh => Source::TooManyRedirects,
            // §2.3.1.4: an undefined robots.txt means complete disallow. After a reasonably long period of
            // time crawlers MAY assume that it is unavailable, or continue to use a cached copy.
            (_, Some(_)) => Source::LastGood,
            (_, None) if outage_allows => Source::LongOutage,
            (LastResult::Unreachable(cause), None) => Source::Unreachable(cause),
            // In an outage a 408 or 429 allows only while it is fresh; then the outage disallows again.
            (LastResult::Unavailable(status), None) => Source::Unreachable(Failure::Status(status)),
            (LastResult::Rules | LastResult::TooManyRedirects, None) => Source::Unreachable(Failure::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robots_cache::record::{LastAttempt, Outage};

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
    const BODY: usize = 100_000;

    fn record() -> RobotsRecord {
        let origin = "https://a.example".parse().unwrap();
        RobotsRecord::sample(&origin, NOW, vec![b'#'; BODY].into())
    }

    /// With the head of its block 176.
    #[test]
    fn an_entry_takes_160_bytes() {
        assert_eq!(size_of::<RobotsEntry>(), 160);
    }

    fn entry(record: RobotsRecord, texts: &Interner) -> RobotsEntry {
        RobotsEntry::new(record, NOW, &RobotsPolicy::default(), &[], texts)
    }

    #[test]
    fn a_copy_that_is_kept_weighs_though_it_does_not_count() {
        let mut record = record();
        record.attempt = LastAttempt::boxed(LastResult::TooManyRedirects, Outage::default());
        let entry = entry(record, &Interner::default());
        assert!(entry.copy().is_none() && entry.weight() >= BODY);
    }

    /// Minutes from now: asked at, fresh until, next try.
    fn timed(asked: i64, fresh: i64, next: i64, is_failing: bool, has_copy: bool) -> RobotsRecord {
        let at = |minutes: i64| {
            WallMillis::from_millis(NOW.as_millis().saturating_add_signed(minutes.saturating_mul(60_000)))
        };
        let since = is_failing.then_some(NOW);
        let sample = RobotsRecord::sample(&"https://a.example".parse().unwrap(), at(asked), "".into());
        RobotsRecord {
            asked_at: at(asked),
            fresh_until: at(fresh),
            next_try: at(next),
            attempt: LastAttempt::boxed(LastResult::Rules, Outage { since, ..Outage::default() }),
            copy: sample.copy.clone().filter(|_| has_copy),
            ..sample
        }
    }

    #[test]
    fn a_record_is_read_by_its_times() {
        const DAY: i64 = 24 * 60;
        let table = [
            ("fresh", timed(-10, 50, 40, false, true), Reuse::Use),
            ("fresh, unavailable", timed(-10, 50, 40, false, false), Reuse::Use),
            ("past the refresh-ahead point", timed(-10, 50, -1, false, true), Reuse::UseAndRefresh),
            ("expired", timed(-100, 0, -10, false, true), Reuse::Fetch),
            ("expired, not to be asked yet", timed(-100, -1, 10, false, true), Reuse::Fetch),
            ("failing, with a copy", timed(-1, 5, 5, true, true), Reuse::Use),
            ("failing, without", timed(-1, 5, 5, true, false), Reuse::Use),
            ("failing, not fresh, not due, with a copy", timed(-10, -1, 5, true, true), Reuse::Use),
            ("failing, not fresh, not due, without", timed(-10, -1, 5, true, false), Reuse::Use),
            ("failing and due, with a copy", timed(-10, 0, 0, true, true), Reuse::UseAndRefresh),
            ("failing and due, without", timed(-10, 0, 0, true, false), Reuse::Fetch),
            ("failing, asked within 27 h", timed(1 - 27 * 60, -DAY, -DAY, true, true), Reuse::UseAndRefresh),
            ("failing, asked 27 h ago, with a copy", timed(-27 * 60, -DAY, -DAY, true, true), Reuse::Fetch),
            ("failing, asked 27 h ago, without", timed(-27 * 60, -DAY, -DAY, true, false), Reuse::Fetch),
            ("failing, asked 40 days ago, not due", timed(-40 * DAY, -1, 5, true, true), Reuse::Fetch),
            ("from a little ahead", timed(4, 60, 50, false, true), Reuse::Use),
            ("from as far ahead as a clock may be", timed(5, 60, 50, false, true), Reuse::Use),
            ("from the future", timed(6, 60, 50, false, true), Reuse::Fetch),
            ("from the future, failing, with a copy", timed(6, 60, 50, true, true), Reuse::Fetch),
            ("from the future, failing, without", timed(6, 60, 50, true, false), Reuse::Fetch),
            ("next try too far, with a copy", timed(-9, -1, 27 * 60 + 1, true, true), Reuse::UseAndRefresh),
            ("next try too far, without", timed(-9, -1, 27 * 60 + 1, true, false), Reuse::Fetch),
            ("next try just near enough", timed(-9, -1, 27 * 60, true, false), Reuse::Use),
            ("fresh for more than a day", timed(-DAY, 100, 90, false, true), Reuse::Fetch),
            ("fresh for a day less a minute", timed(1 - DAY, 100, 90, false, true), Reuse::Use),
            ("never asked", timed(i64::MIN, i64::MIN, i64::MIN, false, false), Reuse::Fetch),
            ("the end of time", timed(-1, i64::MAX, i64::MAX, false, true), Reuse::UseAndRefresh),
        ];
        for (name, record, next) in table {
            assert_eq!(record.reuse(NOW), next, "{name}");
        }
    }

    #[test]
    fn freshness_ends_with_its_last_millisecond() {
        let record = timed(0, 1, 1, false, true);
        assert!(record.is_fresh(record.fresh_until.minus(Duration::from_millis(1))));
        assert!(!record.is_fresh(record.fresh_until));
    }
}
