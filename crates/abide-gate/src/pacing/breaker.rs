//! The circuit breaker: a host that cannot be reached is left alone for a while.
//!
//! Without it, every URL of a dead host costs a timeout. Any HTTP answer, of whatever status, closes it.

use std::fmt;
use std::time::Duration;

use super::moment::Moment;

/// What went wrong before an HTTP answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportFault {
    /// The connection was refused.
    Refused,
    /// Nothing came in time.
    Timeout,
    /// The connection was reset or closed in the middle.
    Reset,
    /// HTTP/2, or HTTP/1 that cannot be parsed.
    Protocol,
    /// HTTP/2 `ENHANCE_YOUR_CALM`, in GOAWAY or RST_STREAM. It holds the host like a 429 without Retry-After, and is no
    /// fault of the transport: the breaker does not count it.
    EnhanceYourCalm,
    /// The name does not exist (NXDOMAIN).
    NameNotFound,
    /// No route to the host or the network.
    NoRoute,
    /// The certificate is not valid.
    Certificate,
    /// Anything else that kept the answer away.
    Other,
}

impl TransportFault {
    /// It will not go away by trying again soon.
    fn is_lasting(self) -> bool {
        matches!(self, Self::NameNotFound | Self::NoRoute | Self::Certificate)
    }
}

impl fmt::Display for TransportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "the connection was refused",
            Self::Timeout => "no answer came in time",
            Self::Reset => "the connection was reset",
            Self::Protocol => "the answer broke the protocol",
            Self::EnhanceYourCalm => "the server asked for calm",
            Self::NameNotFound => "the name does not exist",
            Self::NoRoute => "there is no route to it",
            Self::Certificate => "its certificate is not valid",
            Self::Other => "it could not be reached",
        })
    }
}

/// Faults in a row, and the pause they led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breaker {
    /// When it opened. Never: it is closed.
    pub(crate) opened: Moment,
    /// End of the pause. When that has passed the breaker is half open: one request is let through as the probe.
    pub(crate) until: Moment,
    /// Length of the pause, seconds.
    pause: u32,
    faults: u8,
    lasting: u8,
    pub(crate) cause: TransportFault,
}

const FAULTS_MAX: u8 = 5;
const LASTING_MAX: u8 = 2;
const FIRST_PAUSE: u32 = 60;
const LONGEST_PAUSE: u32 = 3_600;

/// How long a pause that has ended is remembered.
const REMEMBERED: Duration = Duration::from_secs(3_600);

impl Breaker {
    pub(crate) const CLOSED: Self = Self {
        opened: Moment::NEVER,
        until: Moment::NEVER,
        pause: 0,
        faults: 0,
        lasting: 0,
        cause: TransportFault::Other,
    };

    pub(crate) fn is_closed(&self) -> bool {
        self.opened == Moment::NEVER
    }

    /// Nothing is remembered in it, or nobody has asked since long after its pause: a dead host is not remembered for ever. Two or
    /// five faults would open it again.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        *self == Self::CLOSED || (!self.is_closed() && self.until.plus(REMEMBERED) <= now)
    }

    /// After a fault of a request that was granted at `granted`.
    pub(crate) fn after(&self, fault: TransportFault, granted: Moment, now: Moment) -> Self {
        // It was on its way when the breaker opened: the same event.
        if granted < self.opened {
            return *self;
        }
        let faults = self.faults.saturating_add(1);
        let lasting = if fault.is_lasting() { self.lasting.saturating_add(1) } else { 0 };
        let counted = Self { faults, lasting, cause: fault, ..*self };
        if lasting >= LASTING_MAX || (fault.is_lasting() && !self.is_closed()) {
            return counted.open(LONGEST_PAUSE, now);
        }
        if faults >= FAULTS_MAX || !self.is_closed() {
            return counted.open((self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE), now);
        }
        counted
    }

    fn open(self, pause: u32, now: Moment) -> Self {
        Self { opened: now, until: now.plus(Duration::from_secs(pause.into())), pause, ..self }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::moment::Timeline;
    use super::TransportFault::{Certificate, NameNotFound, NoRoute, Refused, Timeout};
    use super::*;

    fn second(n: u64) -> Moment {
        let began = Instant::now();
        Timeline::starting(began).moment(began + Duration::from_secs(n))
    }

    /// The pause, in seconds, after each fault; each request is granted when the pause has passed.
    fn pauses(faults: &[TransportFault]) -> Vec<u64> {
        let (mut breaker, mut now) = (Breaker::CLOSED, second(1));
        let mut pauses = Vec::new();
        for fault in faults {
            breaker = breaker.after(*fault, now, now);
            pauses.push(breaker.until.since(now).as_secs());
            now = now.max(breaker.until).plus(Duration::from_secs(1));
        }
        pauses
    }

    #[test]
    fn breaker_table() {
        let table: &[(&[TransportFault], &[u64])] = &[
            (&[Refused; 5], &[0, 0, 0, 0, 60]),
            (&[Refused, Timeout, Refused, Timeout, Refused], &[0, 0, 0, 0, 60]),
            (&[Refused; 12], &[0, 0, 0, 0, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
            (&[NameNotFound, NameNotFound], &[0, 3600]),
            (&[Certificate, NoRoute], &[0, 3600]),
            (&[NameNotFound, Refused, NameNotFound], &[0, 0, 0]),
            (&[NameNotFound, NameNotFound, Refused, Refused], &[0, 3600, 3600, 3600]),
            (&[Refused, Refused, Refused, Refused, Refused, Certificate], &[0, 0, 0, 0, 60, 3600]),
        ];
        for (faults, expected) in table {
            assert_eq!(pauses(faults), *expected, "{faults:?}");
        }
    }

    #[test]
    fn requests_that_were_on_their_way_are_the_same_event() {
        let mut breaker = Breaker::CLOSED;
        for n in 0..50 {
            breaker = breaker.after(Refused, second(1), second(10 + n));
        }
        assert_eq!(breaker.until, second(14 + 60));
    }

    #[test]
    fn a_request_that_went_when_the_breaker_opened_is_another_event() {
        let open = (0..5).fold(Breaker::CLOSED, |breaker, _| breaker.after(Refused, second(1), second(2)));
        assert_eq!(open.until, second(62));
        assert_eq!(open.after(Refused, second(2), second(70)).until, second(70 + 120));
    }
}
