//! Refusals: why a request may not go out now, and when to come back.
//!
//! A refusal is an answer and no accident: it names what is waited for, says what to do about it, and has a time. Deferred callers of one
//! host get times a delay apart, or they would all come back at once and most in vain.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::acquire::Request;
use super::backoff::BackoffCause;
use super::pacer::Core;
use super::queue::DeadlineExceeded;
use super::schedule::{OPEN_MAX, Schedule, WaitReason};
use crate::clock::{Moment, NO_TIMERS};
use crate::event::Event;
use crate::text::Escaped;
use crate::{Failure, UnsupportedUrl, WallMillis};

/// Why the pacer refused a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Refusal {
    /// The next free slot is further away than this call may wait.
    Deferred {
        /// The host, or the key of the group of hosts, that is not free.
        scope: Box<str>,
        /// The earliest sensible time to come back: the end of the backoff, or when the queue as it stands has drained, and a delay
        /// behind those that were deferred before. Nothing is reserved: the first to come is the first to go.
        not_before: WallMillis,
        /// The same, counted from when the request was deferred.
        wait: Duration,
        /// What is waited for.
        reason: DeferReason,
    },
    /// The site asks for more than 24 h between requests. It is never clamped; such a site is not crawled.
    CrawlDelayTooLong {
        /// What it asks for.
        asked: Duration,
    },
    /// Not an http or https URL.
    UnsupportedUrl(UnsupportedUrl),
    /// The shared store does not answer, and the policy says to fail closed.
    Store {
        /// What it said.
        reason: String,
    },
    /// A callback of the user (clock, scope) panicked. The URL is denied; nothing is backed off.
    Panicked {
        /// Which callback.
        callback: &'static str,
    },
    /// The permit is not there yet, and there is nothing to wait with.
    NoTimers,
    /// The task that fetched robots.txt was lost: it panicked, or its runtime went down. Asking again starts another one.
    Interrupted,
}

impl Refusal {
    /// When to come back, if that is known.
    pub(crate) fn not_before(&self) -> Option<WallMillis> {
        match self {
            Self::Deferred { not_before, .. } => Some(*not_before),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deferred { scope, not_before, wait, reason } => {
                reason.sentence(scope, f)?;
                let date = httpdate::fmt_http_date(not_before.to_system_time().min(year_9999()));
                write!(f, "; not before {date}, in {}", Span(*wait))
            }
            Self::CrawlDelayTooLong { asked } => {
                write!(f, "the site asks for {} s between two requests, more than a day", asked.as_secs())
            }
            Self::UnsupportedUrl(error) => error.fmt(f),
            Self::Store { reason } => {
                write!(
                    f,
                    "the shared store does not respond, and nothing is sent without it (fail_closed): {reason}"
                )
            }
            Self::Panicked { callback } => write!(f, "the {callback} panicked, so the request was not sent"),
            Self::NoTimers => f.write_str(NO_TIMERS),
            Self::Interrupted => f.write_str("the task that fetched robots.txt was lost; try again"),
        }
    }
}

impl Error for Refusal {}

impl From<UnsupportedUrl> for Refusal {
    fn from(error: UnsupportedUrl) -> Self {
        Self::UnsupportedUrl(error)
    }
}

/// The last time an HTTP date can express.
fn year_9999() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(253_402_300_799)
}

/// What a deferred request would have waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeferReason {
    /// The host is backed off: it asked us to stay away, or the operator did.
    Backoff {
        /// 429 or 503, if an answer was the cause.
        status: Option<u16>,
        /// What its Retry-After asked for, if it was usable.
        retry_after: Option<Duration>,
    },
    /// The delay between requests, with the requests that wait before this one.
    Delay {
        /// The delay between two requests.
        delay: Duration,
    },
    /// As many requests are in flight as may be. A request is in flight until its body was read to the end, or dropped.
    InFlight {
        /// When the oldest of them started.
        since: WallMillis,
        /// How long that is ago.
        open: Duration,
    },
    /// The host could not be reached several times in a row.
    Breaker {
        /// The last fault.
        cause: Failure,
    },
    /// The server's `RateLimit` fields: so few requests are left that they are spread over the time until there are more.
    RateLimit,
    /// The request for the site's robots.txt was deferred.
    Robots,
    /// Another process that shares the store is sending to the host.
    OtherProcess,
}

impl DeferReason {
    fn of(why: WaitReason, host: &Schedule, now: Moment, wall: WallMillis) -> Self {
        match why {
            WaitReason::Delay(delay) => Self::Delay { delay },
            WaitReason::OtherProcess => Self::OtherProcess,
            WaitReason::RateLimit => Self::RateLimit,
            WaitReason::Breaker => Self::Breaker { cause: host.breaker().cause },
            WaitReason::InFlight(since) => {
                let open = now.since(since);
                Self::InFlight { since: wall.minus(open), open }
            }
            WaitReason::Backoff => match host.backoff().cause {
                BackoffCause::Answer { status, retry_after } => {
                    Self::Backoff { status: Some(status), retry_after }
                }
                _ => Self::Backoff { status: None, retry_after: None },
            },
        }
    }

    pub(crate) fn sentence(&self, scope: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = Escaped(scope.as_bytes());
        match self {
            Self::Backoff { status: Some(status), retry_after: Some(asked) } => {
                write!(f, "{scope} returned {status} with a Retry-After of {}", Span(*asked))
            }
            Self::Backoff { status: Some(status), retry_after: None } => {
                write!(f, "{scope} returned {status}")
            }
            Self::Backoff { status: None, .. } => write!(f, "{scope} is backed off"),
            Self::Delay { delay } => {
                write!(f, "requests to {scope} are {} apart", Span(*delay))
            }
            Self::InFlight { open, .. } => write!(
                f,
                "a response of {scope} has been open for {}: read its body to the end, or drop it",
                Span(*open)
            ),
            Self::Breaker { cause } => write!(f, "no requests are sent to {scope} for now, because {cause}"),
            Self::RateLimit => write!(f, "{scope} has few requests left, by its RateLimit fields"),
            Self::Robots => write!(f, "the robots.txt of {scope} has to wait"),
            Self::OtherProcess => write!(f, "another process is sending requests to {scope}"),
        }
    }
}

impl Core {
    /// Refuses a request whose permit cannot come before its deadline: reports and counts it, and finds out why.
    pub(crate) fn defer(&self, request: &Request<'_>, exceeded: DeadlineExceeded, now: Moment) -> Refusal {
        // The user's clock is read before the lock is taken.
        let (scope, wall) = (request.key(exceeded.scope), self.wall());
        let (at, reason, open) = self
            .with_schedule(scope, |schedule| {
                schedule.counts.deferrals = schedule.counts.deferrals.saturating_add(1);
                let open = schedule.open_too_long(OPEN_MAX, now);
                let at = schedule.come_back(exceeded.start.at, request.delay(exceeded.scope));
                (at, DeferReason::of(exceeded.start.why, schedule, now, wall), open)
            })
            .unwrap_or((exceeded.start.at, DeferReason::OtherProcess, None));
        if let Some(open) = open {
            self.report(&Event::BodyOpen { scope, open });
        }
        let wait = at.since(now);
        self.report(&Event::Deferred { scope, wait, reason: &reason });
        Refusal::Deferred { scope: scope.into(), not_before: self.wall_at(now, at), wait, reason }
    }
}

/// A duration as people say it: `42 s`, `1.5 s`, `250 ms`, `2 h 5 min`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match (seconds / 3_600, seconds % 3_600 / 60, self.0.subsec_millis()) {
            (0, 0, millis) if seconds == 0 => write!(f, "{millis} ms"),
            (0, _, millis @ 1..) if seconds < 10 => write!(f, "{seconds}.{} s", millis / 100),
            (0, minutes, _) if minutes < 2 => write!(f, "{seconds} s"),
            (0, minutes, _) => write!(f, "{minutes} min"),
            (hours, 0, _) => write!(f, "{hours} h"),
            (hours, minutes, _) => write!(f, "{hours} h {minutes} min"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deferral_is_one_sentence() {
        let seconds = Duration::from_secs;
        let now = WallMillis::from_millis(784_111_777_000);
        for (reason, wait, expected) in [
            (
                DeferReason::Backoff { status: Some(429), retry_after: Some(seconds(7_500)) },
                seconds(7_500),
                "example.org returned 429 with a Retry-After of 2 h 5 min; not before Sun, 06 Nov 1994 10:54:37 GMT, in 2 h 5 min",
            ),
            (
                DeferReason::Backoff { status: Some(503), retry_after: None },
                seconds(60),
                "example.org returned 503; not before Sun, 06 Nov 1994 08:50:37 GMT, in 60 s",
            ),
            (
                DeferReason::Backoff { status: None, retry_after: None },
                seconds(3_600),
                "example.org is backed off; not before Sun, 06 Nov 1994 09:49:37 GMT, in 1 h",
            ),
            (
                DeferReason::Delay { delay: Duration::from_millis(1_500) },
                seconds(45),
                "requests to example.org are 1.5 s apart; \
                 not before Sun, 06 Nov 1994 08:50:22 GMT, in 45 s",
            ),
            (
                DeferReason::InFlight { since: now.minus(seconds(42)), open: seconds(42) },
                seconds(1),
                "a response of example.org has been open for 42 s: read its body to the end, or drop it; \
                 not before Sun, 06 Nov 1994 08:49:38 GMT, in 1 s",
            ),
            (
                DeferReason::Breaker { cause: Failure::Refused },
                seconds(120),
                "no requests are sent to example.org for now, because the connection was refused; \
                 not before Sun, 06 Nov 1994 08:51:37 GMT, in 2 min",
            ),
            (
                DeferReason::Robots,
                Duration::from_millis(250),
                "the robots.txt of example.org has to wait; not before Sun, 06 Nov 1994 08:49:37 GMT, in 250 ms",
            ),
        ] {
            let (scope, not_before) = ("example.org".into(), now.plus(wait));
            assert_eq!(Refusal::Deferred { scope, not_before, wait, reason }.to_string(), expected);
        }
    }

    #[test]
    fn each_refusal_is_one_sentence() {
        for (refusal, expected) in [
            (
                Refusal::CrawlDelayTooLong { asked: Duration::from_secs(86_401) },
                "the site asks for 86401 s between two requests, more than a day",
            ),
            (
                Refusal::Store { reason: "connection refused".into() },
                "the shared store does not respond, and nothing is sent without it (fail_closed): connection refused",
            ),
            (Refusal::Panicked { callback: "clock" }, "the clock panicked, so the request was not sent"),
            (Refusal::Interrupted, "the task that fetched robots.txt was lost; try again"),
        ] {
            assert_eq!(refusal.to_string(), expected);
        }
    }

    #[test]
    fn the_end_of_time_can_be_printed() {
        let (scope, not_before, wait) = ("a".into(), WallMillis::from_millis(u64::MAX), Duration::MAX);
        let never = Refusal::Deferred { scope, not_before, wait, reason: DeferReason::Robots };
        assert!(never.to_string().contains("not before"));
    }
}
