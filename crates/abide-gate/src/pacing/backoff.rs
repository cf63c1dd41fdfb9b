//! The backoff of a host: how long nothing is sent to it after it has asked for that.
//!
//! Plain functions of the response, the backoff so far, `now`, and jitter. A Retry-After is taken at its word
//! up to a day, because sites count down to a window, and a crawler that comes back earlier is refused again
//! and keeps the window open. Without one, the time doubles with the throttle count: how often in a row the
//! host has asked us to slow down.

use std::time::Duration;

use super::retry_after::RETRY_AFTER_MAX;
use super::store::Backoff;
use crate::clock::Moment;
use crate::text::digits;
use crate::{Refusal, WallMillis};

/// Why a host is backed off.
///
/// ```
/// use abide_gate::pacing::BackoffCause;
///
/// let reason = |cause| match cause {
///     BackoffCause::Answer { status, .. } => format!("the server returned {status}"),
///     _ => format!("{cause:?}"),
/// };
/// assert_eq!(reason(BackoffCause::Answer { status: 429, retry_after: None }), "the server returned 429");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackoffCause {
    /// The server answered so.
    Answer {
        /// 429, 503 or one of their kin; or another error, with a Retry-After.
        status: u16,
        /// What its Retry-After asked for, if that was usable, at most 24 h.
        retry_after: Option<Duration>,
    },
    /// HTTP/2 `ENHANCE_YOUR_CALM` (RFC 9113 §7): the 429 of a connection.
    EnhanceYourCalm,
    /// The crawler's operator asked for it ([`Gate::back_off`](crate::Gate::back_off)).
    Operator,
    /// Another process set it.
    Shared,
    /// The server refuses us, so the host is held. Processes that share the store learn of it as of a
    /// backoff.
    Refusing {
        /// Who refuses, if that was recognised.
        by: Option<Refusal>,
        /// When the first refusal of the row came.
        since: WallMillis,
        /// How many there were.
        responses: u32,
        /// The last status.
        status: u16,
        /// How often the host was held in a row: each time for twice as long.
        holds: u8,
    },
}

impl BackoffCause {
    /// The cause as a word of letters, digits and colons, for stores: `429:60000`, `503`, `calm`, `operator`,
    /// `shared`, `refusing:403:25:1:1700000000000:cloudflare`.
    pub fn encode(self) -> String {
        match self {
            Self::Answer { status, retry_after: None } => status.to_string(),
            Self::Answer { status, retry_after: Some(asked) } => format!("{status}:{}", asked.as_millis()),
            Self::EnhanceYourCalm => "calm".to_owned(),
            Self::Operator => "operator".to_owned(),
            Self::Shared => "shared".to_owned(),
            Self::Refusing { by, since, responses, status, holds } => {
                let (since, by) = (since.as_millis(), by.map_or("none", |by| by.id()));
                format!("refusing:{status}:{responses}:{holds}:{since}:{by}")
            }
        }
    }

    /// The cause that [`encode`](Self::encode) has written. Another word is [`Shared`](Self::Shared), because
    /// a later version may know more causes, and theirs are backoffs all the same.
    pub fn decode(word: &str) -> Self {
        let (first, asked) = word.split_once(':').unwrap_or((word, ""));
        match (first, first.parse()) {
            (_, Ok(status)) => {
                Self::Answer { status, retry_after: asked.parse().ok().map(Duration::from_millis) }
            }
            ("calm", _) => Self::EnhanceYourCalm,
            ("operator", _) => Self::Operator,
            ("refusing", _) => Self::decode_refusing(asked).unwrap_or(Self::Shared),
            _ => Self::Shared,
        }
    }
}

impl BackoffCause {
    /// Who refuses may be one that only a later version knows.
    fn decode_refusing(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let mut number = || digits(words.next()?.as_bytes());
        let status = number()?.try_into().ok()?;
        let responses = number()?.try_into().ok()?;
        let holds = number()?.try_into().ok()?;
        let since = WallMillis::from_millis(number()?);
        Some(Self::Refusing { by: words.next().and_then(Refusal::of_id), since, responses, status, holds })
    }
}

/// The backoff of one host. It may have passed; throttles outlive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostBackoff {
    pub(crate) began: Moment,
    pub(crate) until: Moment,
    /// How many windows in a row the server throttled in.
    pub(crate) throttles: u8,
    pub(crate) cause: BackoffCause,
}

/// The first backoff without a usable Retry-After; each further throttle doubles it.
const FIRST: Duration = Duration::from_secs(60);

/// After this long without a throttle, counted from the end of the backoff, throttles are forgiven: 30 min.
pub const THROTTLES_KEPT: Duration = Duration::from_secs(30 * 60);

/// 60 s doubled eleven times is more than 24 h.
const THROTTLES_MAX: u8 = 12;

/// Jitter adds at most a tenth: hosts that were backed off on one schedule must not all be asked again at
/// once.
const JITTER: f64 = 0.1;

/// The longest backoff of our own is 24 h and a tenth; some more for clocks that differ.
const BACKOFF_CREDIBLE: Duration = Duration::from_secs(27 * 3_600);

impl Default for HostBackoff {
    fn default() -> Self {
        Self { began: Moment::NEVER, until: Moment::NEVER, throttles: 0, cause: BackoffCause::Operator }
    }
}

impl HostBackoff {
    /// It is over, and so is the time for which its throttles are kept: there are none after a backoff by the
    /// operator.
    pub(crate) fn is_forgiven(&self, now: Moment) -> bool {
        let kept = if self.throttles > 0 { THROTTLES_KEPT } else { Duration::ZERO };
        self.until.plus(kept) <= now
    }

    pub(crate) fn throttles_at(&self, now: Moment) -> u8 {
        if self.is_forgiven(now) { 0 } else { self.throttles }
    }

    /// The backoff after a throttle about a request that was granted at `granted`. `jitter` is from 0 to 1.
    pub(crate) fn after(&self, cause: BackoffCause, granted: Moment, now: Moment, jitter: f64) -> Self {
        // A request that was on its way before the backoff began belongs to the same event: eight in flight
        // that all answer 429 are one throttle. A backoff by the operator says nothing about the server.
        let same_event = granted < self.began && self.cause != BackoffCause::Operator;
        let throttles = match same_event {
            true => self.throttles,
            false => self.throttles_at(now).saturating_add(1).min(THROTTLES_MAX),
        };
        let asked = match cause {
            BackoffCause::Answer { retry_after: Some(asked), .. } => asked,
            // The event has already been given its time.
            _ if same_event && self.until > now => return *self,
            _ => FIRST.saturating_mul(1 << throttles.saturating_sub(1).min(THROTTLES_MAX)),
        };
        let next = self.extended(cause, after_jitter(asked, now, jitter), throttles, now);
        // Now the server has said it as well, and what else was on its way then belongs to that.
        if self.cause == BackoffCause::Operator { Self { cause, ..next } } else { next }
    }

    /// The backoff after another response that asks for a time, which says nothing of our requests: the
    /// throttle count stays.
    pub(crate) fn asked(&self, cause: BackoffCause, retry_after: Duration, now: Moment, jitter: f64) -> Self {
        self.extended(cause, after_jitter(retry_after, now, jitter), self.throttles_at(now), now)
    }

    /// The backoff that lasts until `until` at least, with this throttle count at least. Backoffs are only
    /// extended, never shortened. One that is over matters for its throttles.
    pub(crate) fn extended(&self, cause: BackoffCause, until: Moment, throttles: u8, now: Moment) -> Self {
        let other = Self { began: now.min(until), until, throttles, cause };
        if other.is_forgiven(now) {
            return *self;
        }
        if self.is_forgiven(now) {
            return other;
        }
        let throttles = throttles.max(self.throttles);
        // The longer one stays in force, with its own cause.
        if until <= self.until {
            return Self { throttles, ..*self };
        }
        let began = if self.until > now { self.began } else { other.began };
        Self { began, throttles, ..other }
    }

    /// With what another process knows, or knew. What lies further ahead than any backoff is the mistake of a
    /// clock.
    pub(crate) fn merged(&self, shared: Backoff, now: Moment) -> Self {
        let until = now.minus(shared.over).plus(credible(shared.left));
        self.extended(shared.cause, until, shared.throttles, now)
    }

    /// As it is reported to other processes, unless it does not count any more.
    pub(crate) fn shared(&self, now: Moment) -> Option<Backoff> {
        let (left, over) = (self.until.since(now), now.since(self.until));
        let (throttles, cause) = (self.throttles, self.cause);
        (!self.is_forgiven(now)).then_some(Backoff { left, over, throttles, cause })
    }
}

/// The end of a backoff for which so much was asked: longer by up to a tenth. Never shorter: the server asked
/// for at least this.
fn after_jitter(asked: Duration, now: Moment, jitter: f64) -> Moment {
    let asked = asked.min(RETRY_AFTER_MAX);
    now.plus(asked + asked.mul_f64(JITTER * jitter))
}

/// A backoff that comes from outside and lies further ahead than 27 h (24 h and the jitter) is the mistake of
/// a clock: 24 h.
pub(crate) fn credible(ahead: Duration) -> Duration {
    if ahead > BACKOFF_CREDIBLE { RETRY_AFTER_MAX } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second;

    const PLAIN: BackoffCause = BackoffCause::Answer { status: 429, retry_after: None };

    fn refusing(by: Option<Refusal>) -> BackoffCause {
        let since = WallMillis::from_millis(7);
        BackoffCause::Refusing { by, since, responses: 25, status: 403, holds: 1 }
    }

    #[test]
    fn a_cause_survives_as_a_word() {
        let answer = |status, retry_after| BackoffCause::Answer { status, retry_after };
        for (cause, word) in [
            (answer(429, None), "429"),
            (answer(503, Some(FIRST)), "503:60000"),
            (BackoffCause::EnhanceYourCalm, "calm"),
            (BackoffCause::Operator, "operator"),
            (BackoffCause::Shared, "shared"),
            (refusing(Refusal::of_id("cloudflare")), "refusing:403:25:1:7:cloudflare"),
            (refusing(None), "refusing:403:25:1:7:none"),
        ] {
            assert_eq!((cause.encode().as_str(), BackoffCause::decode(word)), (word, cause));
        }
        assert_eq!(BackoffCause::decode("refusing:403:25:1:7:later"), refusing(None));
        for word in ["", "later", "429x:1", "-1", "99999", "refusing", "refusing:403:25:999:7:none"] {
            assert_eq!(BackoffCause::decode(word), BackoffCause::Shared, "{word}");
        }
    }

    #[test]
    fn a_backoff_without_retry_after_doubles_from_60_s_to_24_h() {
        let mut backoff = HostBackoff::default();
        let expected =
            [60, 120, 240, 480, 960, 1920, 3840, 7680, 15_360, 30_720, 61_440, 86_400, 86_400, 86_400];
        for seconds in expected {
            let now = second(1).max(backoff.until.plus(Duration::from_secs(1)));
            backoff = backoff.after(PLAIN, now, now, 0.0);
            assert_eq!(backoff.until.since(backoff.began).as_secs(), seconds);
        }
    }

    #[test]
    fn a_backoff_by_another_status_raises_no_count() {
        let (cause, minute) = (BackoffCause::Answer { status: 500, retry_after: Some(FIRST) }, FIRST);
        let held = HostBackoff::default().asked(cause, minute, second(10), 1.0);
        assert_eq!((held.throttles, held.until), (0, second(76)), "with a tenth");
        let throttled = held.after(PLAIN, second(77), second(77), 0.0);
        assert_eq!((throttled.throttles, throttled.until), (1, second(137)), "the first of its kind");
        let again = throttled.asked(cause, minute, second(138), 0.0);
        assert_eq!((again.throttles, again.until), (1, second(198)), "the count is kept");
        assert_eq!(again.asked(cause, Duration::from_secs(1), second(140), 0.0), again, "never shortened");
        assert_eq!(held.asked(cause, Duration::MAX, second(0), 0.0).until, second(86_400));
    }

    #[test]
    fn a_late_429_backs_off_again_without_counting() {
        let held = HostBackoff::default().after(PLAIN, second(1), second(10), 0.0);
        let exceeded = held.after(PLAIN, second(1), second(70), 0.0);
        assert_eq!((exceeded.throttles, exceeded.began, exceeded.until), (1, second(70), second(130)));
        // Granted in the instant in which it began: it could have known.
        assert_eq!(held.after(PLAIN, second(10), second(11), 0.0).throttles, 2);
    }

    #[test]
    fn an_extended_backoff_keeps_its_beginning() {
        let held = HostBackoff::default().extended(BackoffCause::Operator, second(20), 0, second(10));
        assert_eq!(held.extended(BackoffCause::Operator, second(40), 0, second(19)).began, second(10));
        assert_eq!(held.extended(BackoffCause::Operator, second(40), 0, second(20)).began, second(20));
    }

    #[test]
    fn a_shared_backoff_brings_the_larger_count() {
        let first = HostBackoff { throttles: 1, until: second(1), ..HostBackoff::default() };
        let own = first.after(PLAIN, second(1), second(10), 0.0);
        for (until, known, throttles) in [(20, 1, 2), (20, 5, 5), (400, 1, 2), (400, 5, 5)] {
            let extended = own.extended(BackoffCause::Shared, second(until), known, second(15));
            assert_eq!((extended.until, extended.throttles), (second(until).max(own.until), throttles));
        }
        let over = own.extended(BackoffCause::Shared, second(9), 0, second(15));
        assert_eq!(over, own, "one that is over, without a count, is none");
        let late = second(130 + 31 * 60);
        let again = own.after(PLAIN, late, late, 0.0);
        assert_eq!(
            again.extended(BackoffCause::Shared, second(9), 5, late),
            again,
            "nor one that is forgiven"
        );
        let forgiven = own.extended(BackoffCause::Operator, late.plus(FIRST), 0, late);
        assert_eq!(forgiven.throttles, 0);
    }

    #[test]
    fn requests_in_flight_when_the_operator_backs_off_are_one_event() {
        let operator = HostBackoff::default().extended(BackoffCause::Operator, second(1_000), 0, second(10));
        let after = (11..15).fold(operator, |backoff, at| backoff.after(PLAIN, second(5), second(at), 0.0));
        assert_eq!((after.throttles, after.until), (1, second(1_000)));
    }
}
