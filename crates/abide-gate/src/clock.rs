//! The only reader of the clock.
//!
//! Two clocks, for two jobs. Delays and backoffs of a running process use the *monotonic* clock (tokio's, so
//! that a paused runtime moves it): a jump of the wall clock changes nothing. What is stored uses
//! *wall-clock* milliseconds, because it must survive a restart.

#![allow(clippy::disallowed_methods, reason = "the others read the clock through this file")]
#![allow(clippy::arithmetic_side_effects, reason = "what is added to an instant is at most `LONGEST`")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::caught;

/// A wall-clock time as stores keep it: milliseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use std::time::Duration;
///
/// use abide_gate::WallMillis;
///
/// let at = WallMillis::from_millis(1_000).plus(Duration::from_secs(2));
/// assert_eq!(at.as_millis(), 3_000);
/// assert_eq!(WallMillis::from_millis(0).since(at), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WallMillis(u64);

impl WallMillis {
    /// So many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Later by `by`, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Earlier by `by`, saturating at 1970.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`, zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// As a system time, for people.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.0)).unwrap_or(UNIX_EPOCH)
    }
}

impl From<SystemTime> for WallMillis {
    /// Times before 1970 become 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        // Every check reads the clock: without the wide numbers of `as_millis`.
        Self(since.as_secs().saturating_mul(1000).saturating_add(since.subsec_millis().into()))
    }
}

impl fmt::Debug for WallMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// Whether this is called in a runtime without timers, where nothing could wait for a permit. For builders;
/// outside of a runtime it is not known.
pub fn lacks_timers() -> bool {
    tokio::runtime::Handle::try_current().is_ok() && !has_timers()
}

/// Whether tokio's timers work here: in a runtime, with its time driver enabled. tokio tells it by a panic
/// only, which is caught; its message appears on standard error.
pub(crate) fn has_timers() -> bool {
    let timer = || drop(tokio::time::sleep(Duration::ZERO));
    tokio::runtime::Handle::try_current().is_ok() && caught(timer).is_some()
}

/// The clock that decisions use.
///
/// Sleeping is left to `tokio::time`.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The monotonic time.
    fn now(&self) -> Instant;

    /// The wall-clock time.
    fn wall(&self) -> WallMillis;
}

/// The system's clocks. The default.
///
/// ```
/// use abide_gate::{Clock, SystemClock};
///
/// let started = SystemClock.now(); // before a `Fetch` sends its request
/// assert!(SystemClock.now() >= started);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall(&self) -> WallMillis {
        SystemTime::now().into()
    }
}

/// Wraps a clock: if it panics, the system clock is used instead, and the panic goes no further. For caches
/// and stores.
pub fn caught_clock(clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
    Arc::new(CaughtClock(clock))
}

#[derive(Debug)]
struct CaughtClock(Arc<dyn Clock>);

impl Clock for CaughtClock {
    fn now(&self) -> Instant {
        asked(|| self.0.now()).unwrap_or_else(|| SystemClock.now())
    }

    fn wall(&self) -> WallMillis {
        asked(|| self.0.wall()).unwrap_or_else(|| SystemClock.wall())
    }
}

fn asked<T>(asking: impl FnOnce() -> T) -> Option<T> {
    let time = caught(asking);
    #[cfg(feature = "tracing")]
    if time.is_none() {
        tracing::error!(name: "abide.clock_panicked", target: "abide", "the clock panicked; the system clock is used instead");
    }
    time
}

/// A wall clock for tests that follows tokio's (paused) clock and can be made to jump.
///
/// Within `#[tokio::test(start_paused = true)]` both clocks move when the test sleeps or calls
/// `tokio::time::advance`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use abide_gate::{Clock, ManualClock, WallMillis};
///
/// let clock = ManualClock::starting_at(WallMillis::from_millis(1_000));
/// clock.jump_to(WallMillis::from_millis(9_000));
/// assert!(clock.wall() >= WallMillis::from_millis(9_000));
/// # }
/// ```
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct ManualClock {
    started: tokio::time::Instant,
    wall: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "testing")]
impl ManualClock {
    /// A clock whose wall time is `wall` now. Needs a tokio runtime.
    pub fn starting_at(wall: WallMillis) -> Self {
        Self { started: tokio::time::Instant::now(), wall: wall.0.into() }
    }

    /// Sets the wall clock, as an administrator or a bad time server would. The monotonic clock is not
    /// touched.
    pub fn jump_to(&self, wall: WallMillis) {
        let elapsed = WallMillis(0).plus(self.started.elapsed());
        self.wall.store(wall.0.saturating_sub(elapsed.0), std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "testing")]
impl Clock for ManualClock {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> WallMillis {
        WallMillis(self.wall.load(std::sync::atomic::Ordering::SeqCst)).plus(self.started.elapsed())
    }
}

/// Nanoseconds on the monotonic clock, counted by a [`Timeline`]; zero is [`Moment::NEVER`]. All arithmetic
/// saturates, at zero and 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// What has not happened. Earlier than every other moment, and so is anything counted from it.
    pub(crate) const NEVER: Self = Self(0);

    /// `by` later. Whatever follows what never happened never happens either.
    pub(crate) fn plus(self, by: Duration) -> Self {
        if self == Self::NEVER { Self::NEVER } else { Self(self.0.saturating_add(nanos(by))) }
    }

    /// `by` earlier, at the beginning at most. What never happened never did.
    pub(crate) fn minus(self, by: Duration) -> Self {
        if self == Self::NEVER { Self::NEVER } else { Self(self.0.saturating_sub(nanos(by)).max(1)) }
    }

    /// So long after the beginning.
    pub(crate) fn after(beginning: Duration) -> Self {
        Self(nanos(beginning).saturating_add(1))
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The moment so many seconds after the start of a timeline.
#[cfg(test)]
pub(crate) fn second(n: u64) -> Moment {
    millisecond(n * 1_000)
}

#[cfg(test)]
pub(crate) fn millisecond(n: u64) -> Moment {
    Moment(n * 1_000_000 + 1)
}

/// Turns instants into moments and back. It begins with this instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline(pub(crate) Instant);

impl Timeline {
    /// An instant before the start counts as the start.
    pub(crate) fn moment(&self, at: Instant) -> Moment {
        Moment::after(at.saturating_duration_since(self.0))
    }

    /// The time of the user's clock, or of the system's where that panics.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Moment {
        self.moment(caught(|| clock.now()).unwrap_or_else(|| SystemClock.now()))
    }

    /// When a timer looks again whether it is `at`: never inside a delay, and not before a tick, so that a
    /// clock that lags behind tokio's does not keep the processor busy.
    pub(crate) fn timer(&self, at: Moment) -> tokio::time::Instant {
        let after = Duration::from_nanos(at.0.saturating_sub(1)).min(LONGEST);
        (self.0 + after).max(SystemClock.now() + TICK).into()
    }
}

/// Less than the resolution of tokio's timers, so that it delays nothing.
const TICK: Duration = Duration::from_micros(100);

/// Timers beyond this are not needed and overflow on some platforms: 10 years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;

    #[test]
    fn negative_differences_are_zero() {
        assert_eq!(WallMillis(5).since(WallMillis(9)), Duration::ZERO);
        assert_eq!(WallMillis(5).minus(Duration::from_secs(1)), WallMillis(0));
        assert_eq!(WallMillis(u64::MAX).plus(Duration::MAX), WallMillis(u64::MAX));
    }

    #[test]
    fn system_times_are_kept_to_the_millisecond_from_1970_on() {
        let time = UNIX_EPOCH + Duration::from_micros(1_800_000_000_000_999);
        let wall = WallMillis::from(time);
        assert_eq!(wall, WallMillis(1_800_000_000_000));
        assert_eq!(wall.to_system_time(), time - Duration::from_micros(999));
        assert_eq!(format!("{wall:?}"), "1800000000000ms");
        assert_eq!(WallMillis::from(UNIX_EPOCH - Duration::from_secs(1)), WallMillis(0));
    }

    #[test]
    fn never_stays_never_and_the_rest_saturates() {
        let now = Timeline(Instant::now()).moment(Instant::now());
        assert_eq!(Moment::NEVER.plus(Duration::MAX), Moment::NEVER);
        assert!(Moment::NEVER < now);
        assert_eq!(now.plus(Duration::MAX), now.plus(Duration::MAX).plus(Duration::MAX));
        assert_eq!(now.since(now.plus(Duration::from_secs(1))), Duration::ZERO);
    }
}
