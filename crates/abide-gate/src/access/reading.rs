//! What a record means now: whether it may be used, and for what.

use std::time::Duration;

use crate::WallMillis;
use crate::access::policy::{LIFETIME_MAX, LongOutage};
use crate::access::record::LastAnswer;
use crate::access::{AccessPolicy, Cause, Record, Unavailable};

/// What to do with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Use it.
    Use,
    /// Use it, and start a fetch that nobody waits for.
    UseAndRefresh,
    /// Fetch, and wait for it.
    Fetch,
}

/// What the record says, if it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serving {
    /// The copy, as the server last sent or confirmed it.
    Current,
    /// The copy, since nothing newer could be learnt.
    LastGood,
    /// There is none.
    Unavailable(Unavailable),
    /// It could not be learnt.
    Unreachable(Cause),
}

/// A record from further in the future than this was written by a wrong clock.
const FUTURE_MAX: Duration = Duration::from_secs(5 * 60);
/// No schedule reaches further: 24 hours of hold and its jitter.
pub(crate) const NEXT_TRY_MAX: Duration = Duration::from_secs(27 * 60 * 60);

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
    pub(crate) fn of(record: &Record) -> Self {
        let copied = record.copy().map_or(WallMillis(0), |copy| copy.fetched_at().max(copy.validated_at()));
        Self {
            written: record.asked_at.max(copied),
            asked_at: record.asked_at,
            fresh_until: record.fresh_until,
            next_try: record.next_try,
            failing: record.failing.since.is_some(),
            has_copy: record.copy.is_some(),
        }
    }

    /// Whether the last answer still counts: never for more than 24 hours (§2.4), and not if the clock was set back.
    pub(crate) fn is_fresh(&self, now: WallMillis) -> bool {
        now < self.fresh_until && now.since(self.asked_at) < LIFETIME_MAX && !self.is_from_the_future(now)
    }

    /// What to do with the record at `now`.
    pub(crate) fn next(&self, now: WallMillis) -> Next {
        match (self.is_fresh(now), self.is_due(now)) {
            (true, false) => Next::Use,
            (true, true) => Next::UseAndRefresh,
            // §2.4: not more than 24 hours, unless the robots.txt is unreachable.
            (false, _) if !self.failing => Next::Fetch,
            (false, false) => Next::Use,
            (false, true) if self.has_copy => Next::UseAndRefresh,
            (false, true) => Next::Fetch,
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
pub(crate) fn serving(record: &Record, now: WallMillis, policy: &AccessPolicy) -> Serving {
    match record.last {
        LastAnswer::Rules => Serving::Current,
        LastAnswer::Unavailable(why) if Times::of(record).is_fresh(now) => Serving::Unavailable(why),
        LastAnswer::Unavailable(why) => undefined(record, status_cause(why), now, policy),
        LastAnswer::Unreachable(cause) => undefined(record, cause, now, policy),
    }
}

/// §2.3.1.4: an undefined robots.txt means complete disallow. After a reasonably long period of time crawlers MAY assume
/// that it is unavailable, or continue to use a cached copy.
fn undefined(record: &Record, cause: Cause, now: WallMillis, policy: &AccessPolicy) -> Serving {
    if record.copy.is_some() {
        return Serving::LastGood;
    }
    match policy.long_outage {
        LongOutage::Unavailable if record.failing.is_long(now) => {
            Serving::Unavailable(Unavailable::LongOutage)
        }
        LongOutage::AllowAtOnce => Serving::Unavailable(Unavailable::LongOutage),
        LongOutage::Unavailable | LongOutage::Disallow => Serving::Unreachable(cause),
    }
}

fn status_cause(why: Unavailable) -> Cause {
    match why {
        Unavailable::Status(status) => Cause::Status(status),
        Unavailable::TooManyRedirects | Unavailable::LongOutage => Cause::Other,
    }
}
