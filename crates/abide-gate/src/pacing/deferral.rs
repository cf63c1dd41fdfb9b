//! Deferrals: why a request may not go out now, and when to come back.
//!
//! Deferred callers of one host get times a delay apart, or they would all come back at once and most in
//! vain. The gate makes a [`Denied`](crate::Denied) of a refusal, whose text users read.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, SystemTime};

use super::backoff::BackoffCause;
use super::host::{Due, PacedHost, Request, WaitReason};
use super::pacer::Pacer;
use super::refusals::RefusalRow;
use crate::clock::Moment;
use crate::denied::DenialCause;
use crate::event::Event;
use crate::text::Escaped;
use crate::{DeniedKind, Failure, WallMillis};

/// What a deferred request would have had to wait for.
///
/// ```
/// use abide_gate::pacing::DeferReason;
///
/// fn is_the_servers_wish(reason: &DeferReason) -> bool {
///     matches!(reason, DeferReason::Backoff { .. } | DeferReason::RateLimit)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeferReason {
    /// The host is backed off, by its responses or by the operator.
    Backoff {
        /// The status, if an answer was the cause: 429, 503 or one of their kin; or another error, with a
        /// Retry-After.
        status: Option<u16>,
        /// What its Retry-After asked for, if it was usable.
        retry_after: Option<Duration>,
    },
    /// The delay between requests, with the requests that wait before this one.
    Delay {
        /// The delay between two requests.
        delay: Duration,
    },
    /// The limit of requests in flight is reached. A request is in flight until its body was read to the end,
    /// or dropped.
    InFlight {
        /// When the oldest of them started.
        since: SystemTime,
        /// How long that is ago.
        open: Duration,
    },
    /// The host could not be reached, or answered with server errors, several times in a row.
    Breaker {
        /// The last fault.
        cause: Failure,
    },
    /// The server's `RateLimit` fields: the few requests that are left are spread over the time until there
    /// are more.
    RateLimit,
    /// The redirect that leads to the URL, or a redirect of its robots.txt, has a Retry-After (RFC 9110
    /// §10.2.3).
    Redirect {
        /// The status of the redirect.
        status: u16,
        /// What its Retry-After asked for.
        retry_after: Duration,
    },
    /// The request for the site's robots.txt was deferred.
    Robots,
    /// Another process that shares the store is sending to the host.
    OtherProcess,
    /// The shared store does not respond, and this process has not leased the host, so another one may be
    /// sending to it.
    Store {
        /// What failed.
        reason: String,
    },
}

impl DeferReason {
    /// `None`: the host refuses us, which is a refusal of its own kind.
    fn of(why: WaitReason, host: &PacedHost, pacer: &Pacer, now: Moment, wall: WallMillis) -> Option<Self> {
        Some(match why {
            WaitReason::Refusing => return None,
            WaitReason::Store => {
                let reason = pacer.keeper.as_ref().map(|keeper| keeper.reason()).unwrap_or_default();
                Self::Store { reason }
            }
            WaitReason::Delay(delay) => Self::Delay { delay },
            WaitReason::OtherProcess => Self::OtherProcess,
            WaitReason::RateLimit => Self::RateLimit,
            WaitReason::Breaker => Self::Breaker { cause: host.feedback().breaker.cause },
            WaitReason::InFlight(since) => {
                let open = now.since(since);
                Self::InFlight { since: wall.minus(open).to_system_time(), open }
            }
            WaitReason::Backoff => match host.feedback().backoff.cause {
                BackoffCause::Answer { status, retry_after } => {
                    Self::Backoff { status: Some(status), retry_after }
                }
                _ => Self::Backoff { status: None, retry_after: None },
            },
        })
    }

    pub(crate) fn sentence(&self, key: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = Escaped(key.as_bytes());
        match self {
            Self::Backoff { status: Some(status), retry_after: Some(asked) } => {
                write!(f, "{key} returned {status} with a Retry-After of {}", Span(*asked))
            }
            Self::Backoff { status: Some(status), retry_after: None } => {
                write!(f, "{key} returned {status}")
            }
            Self::Backoff { status: None, .. } => write!(f, "{key} is backed off"),
            Self::Delay { delay } => write!(f, "requests to {key} are {} apart", Span(*delay)),
            Self::InFlight { open, .. } => write!(
                f,
                "a response of {key} has been open for {}: read its body to the end, or drop it",
                Span(*open)
            ),
            Self::Breaker { cause } => write!(f, "no requests are sent to {key} for now, because {cause}"),
            Self::RateLimit => write!(f, "{key} has few requests left, by its RateLimit fields"),
            Self::Redirect { status, retry_after } => {
                write!(f, "a {status} redirect has a Retry-After of {}", Span(*retry_after))
            }
            Self::Robots => write!(f, "the robots.txt of {key} has to wait"),
            Self::OtherProcess => write!(f, "another process is sending requests to {key}"),
            Self::Store { reason } => write!(f, "the shared store does not respond ({reason})"),
        }
    }
}

impl Pacer {
    /// Refuses a request whose permit cannot come before its deadline: reports and counts it, and finds out
    /// why. The earliest sensible time to come back is the end of the backoff, or when the queue as it stands
    /// has drained, and a delay behind those that were deferred before. Nothing is reserved: the first to
    /// come is the first to go.
    pub(crate) fn defer(&self, key: &str, request: &Request<'_>, due: Due, now: Moment) -> DenialCause {
        // The user's clock is read before the lock is taken.
        let wall = self.wall();
        let url = BuildHasherDefault::<DefaultHasher>::default().hash_one(request.url);
        // No caller is asked to come back this instant, which would be a busy loop.
        let earliest = due.at.max(now.plus(Duration::from_millis(1)));
        let deferred = self.hosts.find(key, |host| {
            host.counts.deferrals = host.counts.deferrals.saturating_add(1);
            let at = match request.purpose.is_background() {
                true => earliest,
                false => host.come_back(url, earliest, request.terms.delay),
            };
            let row = host.feedback().refusals;
            (at, DeferReason::of(due.why, host, self, now, wall).ok_or(row))
        });
        let (at, reason) = deferred.unwrap_or((earliest, Ok(DeferReason::OtherProcess)));
        let reason = match reason {
            Ok(reason) => reason,
            Err(row) => return refusing(row, self.wall_at(now, at), key),
        };
        self.observers.notify(&Event::Deferred { key, wait: at.since(now), reason: &reason });
        DenialCause::deferred(reason, self.wall_at(now, at), Some(key))
    }
}

fn refusing(row: RefusalRow, retry_at: WallMillis, key: &str) -> DenialCause {
    let RefusalRow { by, since, responses, status, .. } = row;
    let [since, again] = [since, retry_at].map(WallMillis::to_system_time);
    let kind = DeniedKind::Refusing { by, since, responses, status, retry_at: again };
    DenialCause { retry_at: Some(retry_at), key: Some(key.into()), ..kind.into() }
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
    use crate::Denied;

    #[test]
    fn each_reason_is_one_sentence() {
        let seconds = Duration::from_secs;
        for (reason, sentence) in [
            (
                DeferReason::Backoff { status: Some(429), retry_after: Some(seconds(7_500)) },
                "example.org returned 429 with a Retry-After of 2 h 5 min",
            ),
            (DeferReason::Backoff { status: Some(503), retry_after: None }, "example.org returned 503"),
            (DeferReason::Backoff { status: None, retry_after: None }, "example.org is backed off"),
            (DeferReason::Delay { delay: seconds(45) }, "requests to example.org are 45 s apart"),
            (
                DeferReason::InFlight { since: SystemTime::UNIX_EPOCH, open: seconds(42) },
                "a response of example.org has been open for 42 s: read its body to the end, or drop it",
            ),
            (
                DeferReason::Breaker { cause: Failure::Refused },
                "no requests are sent to example.org for now, because the connection was refused",
            ),
            (DeferReason::RateLimit, "example.org has few requests left, by its RateLimit fields"),
            (
                DeferReason::Redirect { status: 303, retry_after: seconds(600) },
                "a 303 redirect has a Retry-After of 10 min",
            ),
            (DeferReason::Robots, "the robots.txt of example.org has to wait"),
            (DeferReason::OtherProcess, "another process is sending requests to example.org"),
            (
                DeferReason::Store { reason: "connection refused".to_owned() },
                "the shared store does not respond (connection refused)",
            ),
        ] {
            let url = "http://example.org/".parse().unwrap();
            // The end of time can be shown as well.
            let denied = Denied::by(DeniedKind::Deferred { reason }.into(), &url, WallMillis::from_millis(0))
                .with_retry_at(Some(WallMillis::from_millis(u64::MAX)));
            let expected = format!("{url} is deferred: {sentence}; not before Fri, 31 Dec 9999 23:59:59 GMT");
            assert_eq!(denied.to_string(), expected);
        }
    }

    #[test]
    fn spans_are_shown_with_a_tenth_up_to_ten_seconds() {
        for (millis, shown) in [
            (250, "250 ms"),
            (1_500, "1.5 s"),
            (9_990, "9.9 s"),
            (10_500, "10 s"),
            (9_000, "9 s"),
            (120_000, "2 min"),
            (3_600_000, "1 h"),
        ] {
            assert_eq!(Span(Duration::from_millis(millis)).to_string(), shown);
        }
    }
}
