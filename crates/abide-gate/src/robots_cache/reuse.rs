//! What a record means now: whether it may be used, and for what.

use std::time::Duration;

use crate::WallMillis;
use crate::robots_cache::policy::{LIFETIME_MAX, LongOutage};
use crate::robots_cache::record::LastResult;
use crate::robots_cache::{RobotsPolicy, RobotsRecord, Unavailable};

/// What to do with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Use it.
    Use,
    /// Use it, and start a fetch that no caller waits for.
    UseAndRefresh,
    /// Fetch, and wait for it.
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

/// The times of a record that decide about its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    written: WallMillis,
    asked_at: WallMillis,
    fresh_until: WallMillis,
    next_try: WallMillis,
    failing: bool,
    has_copy: bool,
}

impl Times {
    pub(crate) fn of(record: &RobotsRecord) -> Self {
        let copied = record
            .copy()
            .map_or(WallMillis::from_millis(0), |copy| copy.fetched_at().max(copy.validated_at()));
        Self {
            written: record.asked_at.max(copied),
            asked_at: record.asked_at,
            fresh_until: record.fresh_until,
            next_try: record.next_try,
            failing: record.outage().since.is_some(),
            has_copy: record.copy.is_some(),
        }
    }

    /// Whether the last answer still counts: never for more than 24 hours (§2.4), and not if the clock was set back.
    pub(crate) fn is_fresh(&self, now: WallMillis) -> bool {
        now < self.fresh_until && now.since(self.asked_at) < LIFETIME_MAX && !self.is_from_the_future(now)
    }

    /// What to do with the record at `now`.
    pub(crate) fn next(&self, now: WallMillis) -> Reuse {
        match (self.is_fresh(now), self.is_due(now)) {
            (true, false) => Reuse::Use,
            (true, true) => Reuse::UseAndRefresh,
            // §2.4: not more than 24 hours, unless the robots.txt is unreachable.
            (false, _) if !self.failing => Reuse::Fetch,
            // Whether it is still unreachable is unknown: the last attempt was long ago, or was dated by a wrong clock.
            (false, _) if now.since(self.asked_at) >= UNASKED_MAX || self.is_from_the_future(now) => {
                Reuse::Fetch
            }
            (false, false) => Reuse::Use,
            (false, true) if self.has_copy => Reuse::UseAndRefresh,
            (false, true) => Reuse::Fetch,
        }
    }

    fn is_due(&self, now: WallMillis) -> bool {
        now >= self.next_try || self.next_try > now.plus(NEXT_TRY_MAX) || self.is_from_the_future(now)
    }

    fn is_from_the_future(&self, now: WallMillis) -> bool {
        self.written > now.plus(FUTURE_MAX)
    }
}

/// What the record says at `now`, if it is used.
pub(crate) fn serving(record: &RobotsRecord, now: WallMillis, policy: &RobotsPolicy) -> Serving {
    match record.last() {
        // Stricter: after 408, 421, 425 and 429, which alone leave a copy, the file has not been taken away.
        LastResult::Rules | LastResult::Unavailable(Unavailable::Status(_)) if record.copy.is_some() => {
            Serving::Copy
        }
        LastResult::Unavailable(_) if Times::of(record).is_fresh(now) => Serving::Unavailable,
        // §2.3.1.4: an undefined robots.txt means complete disallow. After a reasonably long period of time crawlers MAY assume that it is
        // unavailable, or continue to use a cached copy.
        _ if record.copy.is_some() => Serving::Copy,
        _ => match policy.long_outage {
            LongOutage::Unavailable if record.outage().is_long(now) => Serving::LongOutage,
            LongOutage::AllowAtOnce => Serving::LongOutage,
            LongOutage::Unavailable | LongOutage::Disallow => Serving::Unreachable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMillis = WallMillis::from_millis(1_800_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Minutes from now: asked at, fresh until, next try.
    fn times(asked: i64, fresh: i64, next: i64, failing: bool, has_copy: bool) -> Times {
        let at = |minutes: i64| {
            WallMillis::from_millis(NOW.as_millis().saturating_add_signed(minutes.saturating_mul(60_000)))
        };
        Times {
            written: at(asked),
            asked_at: at(asked),
            fresh_until: at(fresh),
            next_try: at(next),
            failing,
            has_copy,
        }
    }

    #[test]
    fn a_record_is_read_by_its_times() {
        const DAY: i64 = 24 * 60;
        let table = [
            ("fresh", times(-10, 50, 40, false, true), Reuse::Use),
            ("fresh, unavailable", times(-10, 50, 40, false, false), Reuse::Use),
            ("past the refresh-ahead point", times(-10, 50, -1, false, true), Reuse::UseAndRefresh),
            ("expired", times(-100, 0, -10, false, true), Reuse::Fetch),
            ("expired, not to be asked yet", times(-100, -1, 10, false, true), Reuse::Fetch),
            ("failing, with a copy", times(-1, 5, 5, true, true), Reuse::Use),
            ("failing, without", times(-1, 5, 5, true, false), Reuse::Use),
            ("failing, not fresh, not due, with a copy", times(-10, -1, 5, true, true), Reuse::Use),
            ("failing, not fresh, not due, without", times(-10, -1, 5, true, false), Reuse::Use),
            ("failing and due, with a copy", times(-10, 0, 0, true, true), Reuse::UseAndRefresh),
            ("failing and due, without", times(-10, 0, 0, true, false), Reuse::Fetch),
            (
                "failing, asked 27 h ago less a minute",
                times(1 - 27 * 60, -DAY, -DAY, true, true),
                Reuse::UseAndRefresh,
            ),
            ("failing, asked 27 h ago, with a copy", times(-27 * 60, -DAY, -DAY, true, true), Reuse::Fetch),
            ("failing, asked 27 h ago, without", times(-27 * 60, -DAY, -DAY, true, false), Reuse::Fetch),
            ("failing, asked 40 days ago, not due", times(-40 * DAY, -1, 5, true, true), Reuse::Fetch),
            ("from a little ahead", times(4, 60, 50, false, true), Reuse::Use),
            ("from as far ahead as a clock may be", times(5, 60, 50, false, true), Reuse::Use),
            ("from the future", times(6, 60, 50, false, true), Reuse::Fetch),
            ("from the future, failing, with a copy", times(6, 60, 50, true, true), Reuse::Fetch),
            ("from the future, failing, without", times(6, 60, 50, true, false), Reuse::Fetch),
            (
                "next try too far ahead, with a copy",
                times(-9, -1, 27 * 60 + 1, true, true),
                Reuse::UseAndRefresh,
            ),
            ("next try too far ahead, without", times(-9, -1, 27 * 60 + 1, true, false), Reuse::Fetch),
            ("next try just near enough", times(-9, -1, 27 * 60, true, false), Reuse::Use),
            ("fresh for more than a day", times(-DAY, 100, 90, false, true), Reuse::Fetch),
            ("fresh for a day less a minute", times(1 - DAY, 100, 90, false, true), Reuse::Use),
            ("never asked", times(i64::MIN, i64::MIN, i64::MIN, false, false), Reuse::Fetch),
            ("the end of time", times(-1, i64::MAX, i64::MAX, false, true), Reuse::UseAndRefresh),
        ];
        for (name, times, next) in table {
            assert_eq!(times.next(NOW), next, "{name}");
        }
    }

    #[test]
    fn freshness_ends_with_its_last_millisecond() {
        let times = times(0, 1, 1, false, true);
        assert!(times.is_fresh(NOW.plus(MINUTE).minus(Duration::from_millis(1))));
        assert!(!times.is_fresh(NOW.plus(MINUTE)));
    }
}
