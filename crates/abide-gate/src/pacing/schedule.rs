//! When the next request may start. Plain functions of what is known, what is asked, and `now`.
//!
//! ```text
//! anchor = the end of the last response (or the start of the last request, while it is open)
//! start  = max(now, anchor + delay, end of the backoff, end of the breaker's pause, next request by RateLimit)     granted only if in_flight < limit
//! ```
//!
//! The delay counts from the *end* of a response, because only that can be seen and kept: counted from start to start, the
//! delays of the network and of the scheduler, which differ from one request to the next, make the server see less.

use std::time::Duration;

use super::moment::Moment;

/// What is known of one scope when somebody asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The latest of all starts and ends. Never: nothing was sent yet.
    pub(crate) anchor: Moment,
    pub(crate) in_flight: u16,
    /// Since when the oldest request is in flight, if one is.
    pub(crate) open_since: Moment,
    /// End of the backoff. May have passed.
    pub(crate) backoff: Moment,
    /// End of the breaker's pause. May have passed.
    pub(crate) pause: Moment,
    /// When the next request is due by the server's RateLimit fields. May have passed.
    pub(crate) quota: Moment,
}

/// What one request asks of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) delay: Duration,
    /// Most requests in flight.
    pub(crate) limit: u16,
}

/// What keeps a request from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// The delay between two requests, or the queue that waits for it.
    Delay(Duration),
    /// A response that is open since then.
    InFlight(Moment),
    Backoff,
    Breaker,
    /// The server's RateLimit fields.
    RateLimit,
    /// Another process has the lease of the host.
    OtherProcess,
}

/// The earliest start, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) at: Moment,
    pub(crate) why: WaitReason,
}

impl Start {
    /// The later of the two: a request waits for all its scopes.
    pub(crate) fn later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

impl View {
    pub(crate) fn is_full(&self, terms: Terms) -> bool {
        self.in_flight >= terms.limit
    }

    /// The start of whoever is first in the queue, as if nothing else were in flight. It may have passed.
    pub(crate) fn start(&self, terms: Terms) -> Start {
        self.start_from(self.anchor, terms)
    }

    /// The earliest conceivable start of somebody who arrives at `now`, behind waiters whose delays add up to `queued`: what
    /// is in flight would have to end this instant, and every other response be instantaneous.
    pub(crate) fn arrival(&self, terms: Terms, queued: Duration, now: Moment) -> Start {
        let full = self.is_full(terms);
        let mut start = self.start_from(if full { now } else { self.anchor }, terms);
        if full && queued.is_zero() && matches!(start.why, WaitReason::Delay(_)) {
            start.why = WaitReason::InFlight(self.open_since);
        }
        Start { at: start.at.max(now).plus(queued), why: start.why }
    }

    fn start_from(&self, anchor: Moment, terms: Terms) -> Start {
        let delay = Start { at: anchor.plus(terms.delay), why: WaitReason::Delay(terms.delay) };
        let backoff = Start { at: self.backoff, why: WaitReason::Backoff };
        let pause = Start { at: self.pause, why: WaitReason::Breaker };
        let quota = Start { at: self.quota, why: WaitReason::RateLimit };
        delay.later(backoff).later(pause).later(quota)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::moment::Timeline;
    use super::*;

    fn second(n: u64) -> Moment {
        let began = Instant::now();
        Timeline::starting(began).moment(began + Duration::from_secs(n))
    }

    fn terms(delay: u64) -> Terms {
        Terms { delay: Duration::from_secs(delay), limit: 1 }
    }

    #[test]
    fn start_table() {
        let (s, no) = (second, Moment::NEVER);
        // anchor, backoff, pause, delay -> start, why
        let table = [
            (no, no, no, 5, no, WaitReason::Delay(Duration::from_secs(5))),
            (s(10), no, no, 5, s(15), WaitReason::Delay(Duration::from_secs(5))),
            (s(10), no, no, 0, s(10), WaitReason::Delay(Duration::ZERO)),
            (s(10), s(12), no, 5, s(15), WaitReason::Delay(Duration::from_secs(5))),
            (s(10), s(60), no, 5, s(60), WaitReason::Backoff),
            (no, s(60), no, 5, s(60), WaitReason::Backoff),
            (s(10), s(60), s(61), 5, s(61), WaitReason::Breaker),
            (s(10), s(60), s(61), 86_400, s(86_410), WaitReason::Delay(Duration::from_secs(86_400))),
        ];
        for (anchor, backoff, pause, delay, at, why) in table {
            let view = View { anchor, backoff, pause, ..View::default() };
            assert_eq!(view.start(terms(delay)), Start { at, why });
        }
    }

    #[test]
    fn who_arrives_waits_for_the_gaps_of_all_before() {
        let idle = View { anchor: second(10), ..View::default() };
        assert_eq!(idle.arrival(terms(5), Duration::from_secs(20), second(11)).at, second(35));
        assert_eq!(idle.arrival(terms(5), Duration::ZERO, second(100)).at, second(100));
    }

    #[test]
    fn an_open_response_could_end_now_at_the_earliest() {
        let open = View { anchor: second(10), in_flight: 1, open_since: second(10), ..View::default() };
        let alone = open.arrival(terms(5), Duration::ZERO, second(40));
        assert_eq!(alone, Start { at: second(45), why: WaitReason::InFlight(second(10)) });
        let behind = open.arrival(terms(5), Duration::from_secs(5), second(40));
        assert_eq!(behind, Start { at: second(50), why: WaitReason::Delay(Duration::from_secs(5)) });
    }

    #[test]
    fn after_a_hold_the_queue_goes_out_one_by_one() {
        let held = View { anchor: second(10), backoff: second(100), ..View::default() };
        let third = held.arrival(terms(5), Duration::from_secs(10), second(11));
        assert_eq!(third, Start { at: second(110), why: WaitReason::Backoff });
    }
}
