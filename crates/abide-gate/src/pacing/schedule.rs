//! The schedule of one host: what was sent, what is in flight, and when the next request may start.
//!
//! ```text
//! anchor = the end of the last response (or the start of the last request, while it is open)
//! start  = max(now, anchor + delay, end of the backoff, end of the breaker's pause, next by RateLimit)     granted only if in_flight < limit
//! ```
//!
//! The rule of pacing stands here and nowhere else, as plain functions of what is known, what is asked, and `now`: `acquire` applies it
//! under the locks of the table, to one host or to several that a request waits for at once. The delay counts from the *end* of a response:
//! counted from start to start, the varying delays of network and scheduler made a server see less than promised for every second request.
//!
//! A million schedules are kept, so one takes 72 bytes, most names included, while nothing special is going on; the rest is in a box.

use std::time::Duration;

use super::observe::Feedback;
use super::queue::{QUEUE_MAX, Queue, Wakers};
use crate::clock::Moment;
use crate::origin::Short;

/// What one request asks of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) delay: Duration,
    /// Most requests in flight.
    pub(crate) limit: u16,
}

impl Terms {
    pub(crate) fn at_least(self, delay: Duration) -> Self {
        Self { delay: self.delay.max(delay), ..self }
    }
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
    /// The shared store does not respond, and this process does not have the lease.
    Store,
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

/// A host, or a group of hosts.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) key: Short<30>,
    /// The latest of all starts and ends.
    pub(crate) anchor: Moment,
    /// What most hosts never have.
    extra: Option<Box<Extra>>,
    pub(crate) counts: Counts,
    /// The delay that was last asked for, in milliseconds, rounded up: 24 h fit.
    delay_millis: u32,
    pub(crate) in_flight: u16,
    /// How often it was backed off. Beside the other counts, so that nothing is left empty.
    pub(crate) backoffs: u16,
}

/// What happened so far. Counters stop at their largest value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u32,
    pub(crate) deferrals: u32,
    pub(crate) waited_millis: u32,
    pub(crate) longest_millis: u32,
}

/// What a host has that is backed off, waited for, or cannot be reached.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    feedback: Feedback,
    queue: Option<Box<Queue>>,
    /// When the callers that were deferred may come back, each with the hash of its URL, the last one at the end.
    deferred: Vec<(Moment, u64)>,
    /// The starts of what is in flight, where more than one request may be, or one that the anchor leaves
    /// out.
    open: Vec<Moment>,
    /// Until then the delay behind a response that the anchor leaves out lasts.
    after_file: Moment,
}

/// So far behind the first, a deferred caller gets no later time: one that asks for ever more URLs would drive those of others away.
const LEAD_MAX: Duration = Duration::from_secs(3_600);

impl Schedule {
    pub(crate) fn new(key: &str) -> Self {
        Self {
            key: key.into(),
            anchor: Moment::NEVER,
            extra: None,
            counts: Counts::default(),
            delay_millis: 0,
            in_flight: 0,
            backoffs: 0,
        }
    }

    pub(crate) fn is_full(&self, terms: Terms) -> bool {
        self.in_flight >= terms.limit
    }

    /// The start of the request that is first in the queue, as if nothing else were in flight. It may have passed.
    pub(crate) fn start(&self, terms: Terms) -> Start {
        self.start_from(self.anchor, terms)
    }

    /// No request waits, and one could start this instant.
    pub(crate) fn is_free(&self, terms: Terms, now: Moment) -> bool {
        self.waiting() == 0 && !self.is_full(terms) && self.start(terms).at <= now
    }

    /// The earliest conceivable start of a request that arrives at `now`, behind waiters whose delays add up to `queued`: what is in flight
    /// would have to end this instant, and every other response be instantaneous.
    pub(crate) fn arrival(&self, terms: Terms, queued: Duration, now: Moment) -> Start {
        let full = self.is_full(terms);
        // What the anchor leaves out started after it.
        let counts_from_its_end = full && self.open_since() <= self.anchor;
        let mut start = self.start_from(if counts_from_its_end { now } else { self.anchor }, terms);
        if full && queued.is_zero() && matches!(start.why, WaitReason::Delay(_)) {
            start.why = WaitReason::InFlight(self.open_since());
        }
        Start { at: start.at.max(now).plus(queued), why: start.why }
    }

    fn start_from(&self, anchor: Moment, terms: Terms) -> Start {
        let delay = Start { at: anchor.plus(terms.delay), why: WaitReason::Delay(terms.delay) };
        // Most hosts have neither a backoff nor a breaker, and then there is nothing to compare.
        let Some(extra) = self.extra.as_deref() else { return delay };
        let backoff = Start { at: extra.feedback.backoff.until, why: WaitReason::Backoff };
        let pause = Start { at: extra.feedback.breaker.until, why: WaitReason::Breaker };
        let quota = Start { at: extra.feedback.quota, why: WaitReason::RateLimit };
        let file = Start { at: extra.after_file, why: WaitReason::Delay(terms.delay) };
        delay.later(backoff).later(pause).later(quota).later(file)
    }

    /// Since when the oldest request is in flight. Never: none is.
    pub(crate) fn open_since(&self) -> Moment {
        if self.in_flight == 0 {
            return Moment::NEVER;
        }
        // With one in flight the anchor is its start, unless it is in the list: nothing else can have moved
        // it.
        self.extra.as_deref().and_then(|extra| extra.open.iter().copied().min()).unwrap_or(self.anchor)
    }

    /// The terms as they are now: a slow site's delay is longer, and a host that could not be reached is probed by one request.
    pub(crate) fn terms(&self, asked: Terms) -> Terms {
        let Some(extra) = self.extra.as_deref() else { return asked };
        let limit = if extra.feedback.breaker.is_closed() { asked.limit } else { 1 };
        Terms { limit, ..asked }.at_least(millis(extra.feedback.adaptive_millis))
    }

    /// A request starts, on terms that were made here.
    pub(crate) fn grant(&mut self, terms: Terms, now: Moment) {
        self.anchor = self.anchor.max(now);
        self.in_flight = self.in_flight.saturating_add(1);
        self.delay_millis = whole_millis(terms.delay);
        self.counts.requests = self.counts.requests.saturating_add(1);
        // Once the list is in use it is kept until nothing is in flight, so that it is complete.
        if terms.limit > 1 || self.in_flight > 1 {
            self.extra_mut().open.push(now);
        }
    }

    /// A request for a file starts that the anchor leaves out, because the site's delay is too long for the
    /// file: pages count on as before.
    pub(crate) fn grant_beside(&mut self, site_delay: Duration, now: Moment) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.counts.requests = self.counts.requests.saturating_add(1);
        self.will_ask(site_delay);
        self.extra_mut().open.push(now);
    }

    /// Its response has ended: the next request keeps `delay`, which is our own, behind it.
    pub(crate) fn end_beside(&mut self, started: Moment, delay: Duration, now: Moment) {
        self.leave_flight(started);
        let extra = self.extra_mut();
        extra.after_file = extra.after_file.max(now.plus(delay));
    }

    pub(crate) fn end(&mut self, started: Moment, now: Moment) {
        self.leave_flight(started);
        self.anchor = self.anchor.max(now);
    }

    /// The request was not sent: as if it had never been granted.
    pub(crate) fn give_back(&mut self, started: Moment, anchor_before: Moment) {
        self.leave_flight(started);
        // The delay counts from what was really sent before, unless another request has started since, whose start counts.
        if self.anchor == started {
            self.anchor = anchor_before;
        }
        self.counts.requests = self.counts.requests.saturating_sub(1);
    }

    fn leave_flight(&mut self, started: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(extra) = self.extra.as_deref_mut() else { return };
        if let Some(place) = extra.open.iter().position(|open| *open == started) {
            extra.open.swap_remove(place);
        }
        if self.in_flight == 0 {
            extra.open.clear();
        }
    }

    pub(crate) fn waited(&mut self, waited: Duration) {
        let waited = whole_millis(waited);
        self.counts.waited_millis = self.counts.waited_millis.saturating_add(waited);
        self.counts.longest_millis = self.counts.longest_millis.max(waited);
    }

    pub(crate) fn feedback(&self) -> Feedback {
        self.extra.as_deref().map(|extra| extra.feedback).unwrap_or_default()
    }

    /// There has been a backoff or a fault, or responses are timed.
    pub(crate) fn has_feedback(&self) -> bool {
        self.extra.as_deref().is_some_and(|extra| extra.feedback != Feedback::default())
    }

    /// Has those that wait look at it, if it has changed. Returns whether it has.
    pub(crate) fn set_feedback(&mut self, feedback: Feedback, now: Moment, wakers: &mut Wakers) -> bool {
        let before = self.feedback();
        if feedback == before {
            return false;
        }
        if before.backoff.until <= now && now < feedback.backoff.until {
            self.backoffs = self.backoffs.saturating_add(1);
        }
        self.extra_mut().feedback = feedback;
        self.changed(now, wakers);
        true
    }

    /// When a deferred caller had best come back that could go at `earliest` if it were alone: a delay behind those that were deferred before
    /// it. One that asks for its URL again is the same caller, whose time stays, or it would move those of the others.
    pub(crate) fn come_back(&mut self, url: u64, earliest: Moment, delay: Duration) -> Moment {
        let delay = self.terms(Terms { delay, limit: 1 }).delay;
        let deferred = &mut self.extra_mut().deferred;
        let last = deferred.last().map_or(Moment::NEVER, |(at, _)| *at);
        deferred.retain(|(at, _)| *at >= earliest);
        if let Some((at, _)) = deferred.iter().find(|(_, of)| *of == url) {
            return *at;
        }
        let at = last.plus(delay).clamp(earliest, earliest.plus(LEAD_MAX.max(delay)));
        deferred.truncate(QUEUE_MAX);
        deferred.push((at, url));
        at
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.extra.as_deref()?.queue.as_deref()
    }

    pub(crate) fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.extra.as_deref_mut()?.queue.as_deref_mut()
    }

    pub(crate) fn open_queue(&mut self, limit: u16) -> &mut Queue {
        let queue = self.extra_mut().queue.get_or_insert_default();
        queue.limit = limit;
        queue
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue().map_or(0, Queue::len)
    }

    /// Something has changed: refuses those whose permit cannot come in time any more, and wakes the first of the others.
    pub(crate) fn changed(&mut self, now: Moment, wakers: &mut Wakers) {
        // Taken out, so that the rest can be looked at meanwhile.
        let Some(extra) = self.extra.as_deref_mut() else { return };
        let Some(mut queue) = extra.queue.take() else { return };
        let terms = self.terms(Terms { delay: Duration::ZERO, limit: queue.limit });
        let first = |delay| self.arrival(terms.at_least(delay), Duration::ZERO, now);
        queue.drop_unpolled(now, wakers);
        queue.drop_exceeded(now, first, wakers);
        wakers.extend(queue.first().cloned());
        self.extra_mut().queue = Some(queue);
    }

    pub(crate) fn tidy(&mut self, now: Moment) {
        let Some(extra) = self.extra.as_deref_mut() else { return };
        extra.queue.take_if(|queue| queue.len() == 0);
        let is_deferred = extra.deferred.last().is_some_and(|(at, _)| *at > now);
        let plain = extra.queue.is_none() && !is_deferred && self.in_flight == 0;
        if plain && extra.after_file <= now && extra.feedback.is_over(now) {
            self.extra = None;
        }
    }

    /// Nothing is in flight or waited for, its delay and backoff have passed, its throttles are forgiven and its breaker is closed.
    pub(crate) fn owes_nothing(&self, delay: Duration, now: Moment) -> bool {
        let delay = delay.max(self.last_delay());
        self.in_flight == 0
            && self.waiting() == 0
            && self.anchor.plus(delay) <= now
            && self.extra.as_deref().is_none_or(|extra| extra.after_file <= now)
            && self.feedback().owes_nothing(now)
    }

    pub(crate) fn last_delay(&self) -> Duration {
        millis(self.delay_millis)
    }

    pub(crate) fn will_ask(&mut self, delay: Duration) {
        self.delay_millis = self.delay_millis.max(whole_millis(delay));
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

pub(crate) fn whole_millis(span: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second as at;

    #[test]
    fn an_idle_host_takes_72_bytes_with_its_name() {
        assert_eq!(size_of::<Schedule>(), 72);
        assert!(size_of::<Extra>() <= 168, "{}", size_of::<Extra>());
    }

    fn terms(delay: u64, limit: u16) -> Terms {
        Terms { delay: Duration::from_secs(delay), limit }
    }

    #[test]
    fn one_request_at_a_time_needs_no_list() {
        let mut schedule = Schedule::new("a.example");
        schedule.grant(terms(1, 1), at(1));
        assert!(schedule.extra.is_none());
        assert_eq!(schedule.open_since(), at(1));
        schedule.end(at(1), at(3));
        assert_eq!((schedule.open_since(), schedule.anchor), (Moment::NEVER, at(3)), "nothing is open");
    }

    #[test]
    fn deferred_callers_come_back_a_delay_apart_within_a_day() {
        let mut schedule = Schedule::new("a.example");
        let delay = Duration::from_secs(36_000);
        let callers = [(1, 10), (2, 10), (3, 10), (1, 10), (5, 50)];
        let times = callers.map(|(url, earliest)| schedule.come_back(url, at(earliest), delay));
        assert_eq!(times, [10, 36_010, 36_010, 10, 36_050].map(at));
        assert_eq!(schedule.come_back(1, at(200_000), delay), at(200_000), "those before are past");
    }

    #[test]
    fn what_is_not_needed_any_more_is_put_away_and_nothing_else() {
        let mut schedule = Schedule::new("a.example");
        let _ = schedule.open_queue(1);
        schedule.tidy(at(1));
        assert!(schedule.extra.is_none(), "an empty queue");
        let mut feedback = Feedback::default();
        (feedback.backoff.began, feedback.backoff.until) = (at(1), at(60));
        schedule.set_feedback(feedback, at(1), &mut Wakers::new());
        schedule.tidy(at(60 + 30 * 60 - 1));
        assert!(schedule.extra.is_some(), "its throttles are not forgiven yet");
        schedule.tidy(at(60 + 30 * 60));
        assert!(schedule.extra.is_none());
        assert_eq!(schedule.come_back(1, at(5_000), Duration::from_secs(1)), at(5_000));
        schedule.tidy(at(4_999));
        let next = schedule.come_back(2, at(5_000), Duration::from_secs(1));
        assert_eq!(next, at(5_001), "another was deferred before");
        schedule.tidy(at(5_001));
        assert!(schedule.extra.is_none());
        schedule.extra_mut().feedback.adapt(Duration::from_secs(1), true);
        schedule.tidy(at(9_999));
        assert!(schedule.extra.is_some(), "its adaptive delay counts on");
        let mut schedule = Schedule::new("b.example");
        schedule.grant(terms(1, 2), at(1));
        schedule.grant(terms(1, 2), at(2));
        schedule.tidy(at(9_999));
        assert_eq!(schedule.open_since(), at(1), "the list of what is open");
    }

    #[test]
    fn an_arrival_waits_for_all_before_it() {
        let idle = || Schedule { anchor: at(10), ..Schedule::new("a.example") };
        let open = || Schedule { in_flight: 1, ..idle() };
        let troubled = |pause| {
            let mut schedule = idle();
            let feedback = &mut schedule.extra_mut().feedback;
            (feedback.backoff.until, feedback.breaker.until) = (at(100), at(pause));
            schedule
        };
        let delay = WaitReason::Delay(Duration::from_secs(5));
        for (schedule, queued, now, start, why) in [
            (idle(), 20, 11, 35, delay),
            (idle(), 0, 100, 100, delay),
            // An open response could end now at the earliest.
            (open(), 0, 40, 45, WaitReason::InFlight(at(10))),
            (open(), 5, 40, 50, delay),
            // After a backoff the queue goes out one by one.
            (troubled(0), 10, 11, 110, WaitReason::Backoff),
            (troubled(101), 10, 11, 111, WaitReason::Breaker),
        ] {
            let arrival = schedule.arrival(terms(5, 1), Duration::from_secs(queued), at(now));
            assert_eq!(arrival, Start { at: at(start), why }, "{schedule:?}");
        }
    }
}
