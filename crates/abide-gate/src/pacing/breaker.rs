//! The circuit breaker: a host that cannot be reached is left alone for a while.
//!
//! Without it, every URL of a dead host costs a timeout, and a frontier with a thousand of them costs hours.
//! The server errors of a site that is down behind its front are counted with the failures; any other
//! response closes it. Failures that will be the same in a minute (no such name, a wrong certificate) open it
//! sooner and for longer. It has its own pause beside the backoff, because a response ends the one and not
//! the other.

use std::time::Duration;

use crate::Failure;
use crate::clock::Moment;

/// Faults in a row, and the pause they led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breaker {
    /// Never: it is closed.
    pub(crate) opened: Moment,
    /// End of the pause. Then the breaker is half open: one request is let through as the probe.
    pub(crate) until: Moment,
    faults: u8,
    lasting: u8,
    pub(crate) cause: Failure,
}

/// So many failures in a row open it. A server that restarts fails a few times, and then responds.
const FAULTS_MAX: u8 = 5;

/// So many that will not go away by themselves. One of them can be the resolver's own trouble.
const LASTING_MAX: u8 = 2;

/// The first pause; each failed probe doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest: an hour after it is back, a host is crawled again at the latest.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// How long the breaker is kept after its pause has ended.
const KEPT_AFTER_PAUSE: Duration = Duration::from_secs(3_600);

impl Default for Breaker {
    /// Closed.
    fn default() -> Self {
        let (opened, until) = (Moment::NEVER, Moment::NEVER);
        Self { opened, until, faults: 0, lasting: 0, cause: Failure::Other }
    }
}

impl Breaker {
    pub(crate) fn is_closed(&self) -> bool {
        self.opened == Moment::NEVER
    }

    /// It holds nothing, or its pause is long over: a dead host is not kept for ever. Two or five faults
    /// would open it again.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        *self == Self::default() || (!self.is_closed() && self.until.plus(KEPT_AFTER_PAUSE) <= now)
    }

    /// After a fault of a request that was granted at `granted`.
    pub(crate) fn after(&self, fault: Failure, granted: Moment, now: Moment) -> Self {
        // It was on its way when the breaker opened: the same event.
        if granted < self.opened {
            return *self;
        }
        let faults = self.faults.saturating_add(1);
        let lasting = if is_lasting(fault) { self.lasting.saturating_add(1) } else { 0 };
        let counted = Self { faults, lasting, cause: fault, ..*self };
        let pause = if lasting >= LASTING_MAX || (is_lasting(fault) && !self.is_closed()) {
            LONGEST_PAUSE
        } else if faults >= FAULTS_MAX || !self.is_closed() {
            (self.until.since(self.opened) * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
        } else {
            return counted;
        };
        Self { opened: now, until: now.plus(pause), ..counted }
    }
}

/// It will not go away by trying again soon. An alert of an overloaded server will.
fn is_lasting(fault: Failure) -> bool {
    use Failure::{CertificateExpired, CertificateName, CertificateUntrusted, Dns, NoRoute};
    matches!(fault, CertificateExpired | CertificateUntrusted | CertificateName | Dns | NoRoute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure::{CertificateExpired, Dns, NoRoute, Refused, Status, Timeout};
    use crate::clock::second;

    /// The pause, in seconds, after each fault; each request is granted when the pause has passed.
    fn pauses(faults: &[Failure]) -> Vec<u64> {
        let (mut breaker, mut now) = (Breaker::default(), second(1));
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
        let table: &[(&[Failure], &[u64])] = &[
            (&[Refused; 5], &[0, 0, 0, 0, 60]),
            (&[Refused, Timeout, Refused, Timeout, Refused], &[0, 0, 0, 0, 60]),
            (&[Status(502), Refused, Status(500), Timeout, Status(520)], &[0, 0, 0, 0, 60]),
            (&[Status(500); 7], &[0, 0, 0, 0, 60, 120, 240]),
            (&[Refused; 12], &[0, 0, 0, 0, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
            (&[Dns, Dns], &[0, 3600]),
            (&[CertificateExpired, NoRoute], &[0, 3600]),
            (&[Dns, Refused, Dns], &[0, 0, 0]),
            (&[Dns, Dns, Refused, Refused], &[0, 3600, 3600, 3600]),
            (&[Refused, Refused, Refused, Refused, Refused, CertificateExpired], &[0, 0, 0, 0, 60, 3600]),
        ];
        for (faults, expected) in table {
            assert_eq!(pauses(faults), *expected, "{faults:?}");
        }
    }

    #[test]
    fn requests_that_were_on_their_way_are_the_same_event() {
        let mut breaker = Breaker::default();
        for n in 0..50 {
            breaker = breaker.after(Refused, second(1), second(10 + n));
        }
        assert_eq!(breaker.until, second(14 + 60));
        // Granted in the instant in which it opened: another event.
        assert_eq!(breaker.after(Refused, second(14), second(80)).until, second(80 + 120));
    }
}
