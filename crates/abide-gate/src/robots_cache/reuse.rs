//! What a record means now: whether it may be used, and for what.
//!
//! A record is checked by its times when it is used, not by a timer: a host that no request asks for costs nothing, and a clock that jumps
//! costs a fetch and opens nothing.

use std::time::Duration;

use crate::WallMillis;
use crate::robots_cache::policy::{LIFETIME_MAX, LongOutage};
use crate::robots_cache::record::LastResult;
use crate::robots_cache::{RobotsPolicy, RobotsRecord};

/// What to do with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Use,
    /// Use it, and start a fetch that no caller waits for.
    UseAndRefresh,
    Fetch,
}

/// What applies, if the record is used. The record has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serving {
    /// The copy: as the server last sent or confirmed it, or the last good one.
    Copy,
    /// There is none.
    Unavailable,
    /// It can't be fetched for so long that it counts as unavailable.
    LongOutage,
    /// It can't be fetched.
    Unreachable,
}

/// A record from further in the future than this was written by a wrong clock.
const FUTURE_MAX: Duration = Duration::from_secs(5 * 60);
/// No schedule reaches further: a backoff of 24 hours and its jitter.
pub(crate) const NEXT_TRY_MAX: Duration = Duration::from_secs(27 * 60 * 60);
/// An outage that was last seen this long ago says nothing about now: every schedule has tried again by then.
const UNASKED_MAX: Duration = NEXT_TRY_MAX;

impl RobotsRecord {
    /// Whether the last answer still counts: never for more than 24 hours (§2.4), and not if the clock was set back.
    pub(crate) fn is_fresh(&self, now: WallMillis) -> bool {
        now < self.fresh_until && now.since(self.asked_at) < LIFETIME_MAX && !self.is_from_the_future(now)
    }

    pub(crate) fn reuse(&self, now: WallMillis) -> Reuse {
        let is_failing = self.outage().since.is_some();
        match (self.is_fresh(now), self.is_due(now)) {
            (true, false) => Reuse::Use,
            (true, true) => Reuse::UseAndRefresh,
            // §2.4: not more than 24 hours, unless the robots.txt is unreachable.
            (false, _) if !is_failing => Reuse::Fetch,
            // Whether it is still unreachable is unknown: the last attempt was long ago, or was dated by a wrong clock.
            (false, _) if now.since(self.asked_at) >= UNASKED_MAX => Reuse::Fetch,
            (false, _) if self.is_from_the_future(now) => Reuse::Fetch,
            (false, false) => Reuse::Use,
            (false, true) if self.copy.is_some() => Reuse::UseAndRefresh,
            (false, true) => Reuse::Fetch,
        }
    }

    fn is_due(&self, now: WallMillis) -> bool {
        // Further ahead than any schedule reaches: the clock was set back since.
        now >= self.next_try || self.next_try > now.plus(NEXT_TRY_MAX) || self.is_from_the_future(now)
    }

    pub(crate) fn is_from_the_future(&self, now: WallMillis) -> bool {
        let latest = now.plus(FUTURE_MAX);
        self.asked_at > latest
            || self.copy.as_ref().is_some_and(|copy| copy.fetched_at.max(copy.validated_at) > latest)
    }

    /// What the record says at `now`, if it is used.
    pub(crate) fn serving(&self, now: WallMillis, policy: &RobotsPolicy) -> Serving {
        match self.last() {
            // Stricter: after 408, 421, 425 and 429, which alone leave a copy, the file has not been taken away.
            LastResult::Rules | LastResult::Unavailable(_) if self.copy.is_some() => Serving::Copy,
            LastResult::Unavailable(_) | LastResult::TooManyRedirects if self.is_fresh(now) => {
                Serving::Unavailable
            }
            // §2.3.1.4: an undefined robots.txt means complete disallow. After a reasonably long period of time crawlers MAY assume that
            // it is unavailable, or continue to use a cached copy.
            _ if self.copy.is_some() => Serving::Copy,
            _ => match policy.long_outage {
                LongOutage::Unavailable if self.outage().is_long(now) => Serving::LongOutage,
                LongOutage::AllowAtOnce => Serving::LongOutage,
                LongOutage::Unavailable | LongOutage::Disallow => Serving::Unreachable,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robots_cache::record::{Exception, Outage};

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Minutes from now: asked at, fresh until, next try.
    fn record(asked: i64, fresh: i64, next: i64, is_failing: bool, has_copy: bool) -> RobotsRecord {
        let at = |minutes: i64| {
            WallMillis::from_millis(NOW.as_millis().saturating_add_signed(minutes.saturating_mul(60_000)))
        };
        let since = is_failing.then_some(NOW);
        let sample = RobotsRecord::sample(&"https://a.example".parse().unwrap(), at(asked), "".into());
        RobotsRecord {
            asked_at: at(asked),
            fresh_until: at(fresh),
            next_try: at(next),
            exception: Exception::boxed(LastResult::Rules, Outage { since, ..Outage::NONE }),
            copy: sample.copy.clone().filter(|_| has_copy),
            ..sample
        }
    }

    #[test]
    fn a_record_is_read_by_its_times() {
        const DAY: i64 = 24 * 60;
        let table = [
            ("fresh", record(-10, 50, 40, false, true), Reuse::Use),
            ("fresh, unavailable", record(-10, 50, 40, false, false), Reuse::Use),
            ("past the refresh-ahead point", record(-10, 50, -1, false, true), Reuse::UseAndRefresh),
            ("expired", record(-100, 0, -10, false, true), Reuse::Fetch),
            ("expired, not to be asked yet", record(-100, -1, 10, false, true), Reuse::Fetch),
            ("failing, with a copy", record(-1, 5, 5, true, true), Reuse::Use),
            ("failing, without", record(-1, 5, 5, true, false), Reuse::Use),
            ("failing, not fresh, not due, with a copy", record(-10, -1, 5, true, true), Reuse::Use),
            ("failing, not fresh, not due, without", record(-10, -1, 5, true, false), Reuse::Use),
            ("failing and due, with a copy", record(-10, 0, 0, true, true), Reuse::UseAndRefresh),
            ("failing and due, without", record(-10, 0, 0, true, false), Reuse::Fetch),
            (
                "failing, asked 27 h ago less a minute",
                record(1 - 27 * 60, -DAY, -DAY, true, true),
                Reuse::UseAndRefresh,
            ),
            ("failing, asked 27 h ago, with a copy", record(-27 * 60, -DAY, -DAY, true, true), Reuse::Fetch),
            ("failing, asked 27 h ago, without", record(-27 * 60, -DAY, -DAY, true, false), Reuse::Fetch),
            ("failing, asked 40 days ago, not due", record(-40 * DAY, -1, 5, true, true), Reuse::Fetch),
            ("from a little ahead", record(4, 60, 50, false, true), Reuse::Use),
            ("from as far ahead as a clock may be", record(5, 60, 50, false, true), Reuse::Use),
            ("from the future", record(6, 60, 50, false, true), Reuse::Fetch),
            ("from the future, failing, with a copy", record(6, 60, 50, true, true), Reuse::Fetch),
            ("from the future, failing, without", record(6, 60, 50, true, false), Reuse::Fetch),
            (
                "next try too far ahead, with a copy",
                record(-9, -1, 27 * 60 + 1, true, true),
                Reuse::UseAndRefresh,
            ),
            ("next try too far ahead, without", record(-9, -1, 27 * 60 + 1, true, false), Reuse::Fetch),
            ("next try just near enough", record(-9, -1, 27 * 60, true, false), Reuse::Use),
            ("fresh for more than a day", record(-DAY, 100, 90, false, true), Reuse::Fetch),
            ("fresh for a day less a minute", record(1 - DAY, 100, 90, false, true), Reuse::Use),
            ("never asked", record(i64::MIN, i64::MIN, i64::MIN, false, false), Reuse::Fetch),
            ("the end of time", record(-1, i64::MAX, i64::MAX, false, true), Reuse::UseAndRefresh),
        ];
        for (name, record, next) in table {
            assert_eq!(record.reuse(NOW), next, "{name}");
        }
    }

    #[test]
    fn freshness_ends_with_its_last_millisecond() {
        let record = record(0, 1, 1, false, true);
        assert!(record.is_fresh(NOW.plus(MINUTE).minus(Duration::from_millis(1))));
        assert!(!record.is_fresh(NOW.plus(MINUTE)));
    }
}
