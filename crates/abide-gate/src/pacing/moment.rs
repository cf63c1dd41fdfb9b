//! Monotonic time in eight bytes: a million hosts are kept, so it counts.

use std::time::{Duration, Instant};

use crate::{Clock, SystemClock};

/// Nanoseconds on the monotonic clock, counted by a [`Timeline`]. Zero is [`Moment::NEVER`].
///
/// All arithmetic saturates: a difference that would be negative is none, and the end of time (584 years) is not passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// What has not happened. Earlier than every other moment, and so is anything counted from it.
    pub(crate) const NEVER: Self = Self(0);

    /// `by` later. Whatever follows what never happened never happens either.
    pub(crate) fn plus(self, by: Duration) -> Self {
        if self == Self::NEVER { Self::NEVER } else { Self(self.0.saturating_add(nanos(by))) }
    }

    /// `by` earlier, but never [`NEVER`](Self::NEVER).
    pub(crate) fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)).max(1))
    }

    /// The time since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Turns instants into moments and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    began: Instant,
}

impl Timeline {
    pub(crate) fn starting(began: Instant) -> Self {
        Self { began }
    }

    /// An instant before the start counts as the start.
    pub(crate) fn moment(&self, at: Instant) -> Moment {
        Moment(nanos(at.saturating_duration_since(self.began)).saturating_add(1))
    }

    /// Not earlier than `at`: a timer set to it never fires inside a delay.
    pub(crate) fn instant(&self, at: Moment) -> Instant {
        let after = Duration::from_nanos(at.0.saturating_sub(1)).min(LONGEST);
        self.began + after
    }

    /// When a timer looks again whether it is `at`. A clock that lags behind tokio's is asked again after a tick: it must not keep the
    /// processor busy.
    pub(crate) fn timer(&self, at: Moment) -> tokio::time::Instant {
        self.instant(at).max(SystemClock.now() + TICK).into()
    }
}

/// Less than the resolution of tokio's timers, so that it delays nothing.
const TICK: Duration = Duration::from_micros(100);

/// Timers beyond this are not needed and overflow on some platforms: 10 years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_and_its_instant_are_the_same_time() {
        let queue = Timeline::starting(Instant::now());
        for nanos in [0, 1, 999, 1_000_000_007] {
            let at = queue.began + Duration::from_nanos(nanos);
            assert_eq!(queue.instant(queue.moment(at)), at);
        }
    }

    #[test]
    fn never_stays_never_and_the_rest_saturates() {
        let now = Timeline::starting(Instant::now()).moment(Instant::now());
        assert_eq!(Moment::NEVER.plus(Duration::MAX), Moment::NEVER);
        assert!(Moment::NEVER < now);
        assert_eq!(now.plus(Duration::MAX), now.plus(Duration::MAX).plus(Duration::MAX));
        assert_eq!(now.since(now.plus(Duration::from_secs(1))), Duration::ZERO);
    }
}
