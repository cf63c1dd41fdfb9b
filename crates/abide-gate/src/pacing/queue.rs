//! The queue of one scope: first come, first served.
//!
//! Only the head of a queue has a time to wait for, and it acquires the permit itself, in its own task, when that time has come. So a permit
//! is never on its way to a waiter that was cancelled, which is simply not in the queue any more. The others sleep until they are first,
//! until their deadline, or until it is certain that their permit cannot come before it: then they are refused at once, because a caller
//! that knows can ask another host meanwhile. That is looked at whenever something changes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::schedule::{Start, WaitReason};
use crate::Origin;
use crate::clock::Moment;

/// Longest queue of a scope, where the delay is so small that the waiters' deadline is no bound.
pub(crate) const QUEUE_MAX: usize = 10_000;

/// A queue head that is not polled is dropped this long after its deadline: otherwise a future that its owner keeps and does not poll would
/// stop the host. It is more than any scheduler's delay.
const UNPOLLED_MAX: Duration = Duration::from_secs(1);

/// Not in time: the earliest start, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadlineExceeded {
    pub(crate) start: Start,
    /// Which of the request's scopes.
    pub(crate) scope: u8,
}

/// How a waiter is woken, and why if its permit cannot come in time.
#[derive(Debug, Default)]
pub(crate) struct WaiterNotify {
    pub(crate) wake: Notify,
    pub(crate) exceeded: OnceLock<DeadlineExceeded>,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    /// Ascending along the queue. The same in all queues that the request stands in.
    pub(crate) ticket: u64,
    pub(crate) deadline: Moment,
    pub(crate) delay: Duration,
    pub(crate) scope: u8,
    pub(crate) origin: Option<Origin>,
    pub(crate) notify: Arc<WaiterNotify>,
}

impl Waiter {
    fn dismiss(&self, start: Start, wakers: &mut Wakers) {
        // Of several reasons the first counts.
        let _ = self.notify.exceeded.set(DeadlineExceeded { start, scope: self.scope });
        wakers.push(Arc::clone(&self.notify));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Most in flight, as the last that joined has asked.
    pub(crate) limit: u16,
    waiters: VecDeque<Waiter>,
    /// The sum of their delays.
    pub(crate) delays: Duration,
    /// No waiter's deadline is earlier.
    earliest_deadline: Moment,
}

/// Those to be woken once all locks are released.
pub(crate) type Wakers = Vec<Arc<WaiterNotify>>;

/// Wakes them. Not to be called under a lock: a waker is foreign code.
pub(crate) fn wake(wakers: Wakers) {
    wakers.iter().for_each(|notify| notify.wake.notify_one());
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_first(&self, ticket: u64) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.ticket == ticket)
    }

    pub(crate) fn first(&self) -> Option<&Arc<WaiterNotify>> {
        self.waiters.front().map(|waiter| &waiter.notify)
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        // Not raised when a waiter leaves: a deadline that is too early only costs a look.
        let is_less = self.waiters.is_empty() || waiter.deadline < self.earliest_deadline;
        self.earliest_deadline = if is_less { waiter.deadline } else { self.earliest_deadline };
        self.delays += waiter.delay;
        self.waiters.push_back(waiter);
    }

    pub(crate) fn remove(&mut self, ticket: u64) {
        let waiter = self.place_of(ticket).and_then(|place| self.waiters.remove(place));
        self.delays = self.delays.saturating_sub(waiter.map_or(Duration::ZERO, |waiter| waiter.delay));
    }

    /// A waiter goes away. The one that becomes first by that is woken.
    pub(crate) fn leave(&mut self, ticket: u64, wakers: &mut Wakers) {
        let was_first = self.is_first(ticket);
        self.remove(ticket);
        if was_first {
            wakers.extend(self.first().cloned());
        }
    }

    pub(crate) fn delay_of(&self, ticket: u64) -> Option<Duration> {
        self.waiters.get(self.place_of(ticket)?).map(|waiter| waiter.delay)
    }

    fn place_of(&self, ticket: u64) -> Option<usize> {
        // Tickets ascend along the queue, and thousands can be cancelled at once.
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    pub(crate) fn delays_before(&self, ticket: u64) -> Duration {
        self.waiters.iter().take_while(|waiter| waiter.ticket < ticket).map(|waiter| waiter.delay).sum()
    }

    /// The origin's Crawl-delay has changed, and so has the delay of those that wait for it. `delay` is the larger of that and ours.
    pub(crate) fn change_delay(&mut self, origin: &Origin, delay: Duration) {
        for waiter in &mut self.waiters {
            if waiter.origin.as_ref() == Some(origin) {
                self.delays = self.delays.saturating_sub(waiter.delay) + delay;
                waiter.delay = delay;
            }
        }
    }

    /// Drops all waiters whose permit cannot come before their deadline any more. `first` is the earliest start of a head with this delay.
    pub(crate) fn drop_exceeded(
        &mut self,
        now: Moment,
        first: impl Fn(Duration) -> Start,
        wakers: &mut Wakers,
    ) {
        // All come in time: none need be looked at, and a long queue costs no more than a short one.
        let Some(front) = self.waiters.front() else { return };
        if first(front.delay).at.max(now).plus(self.delays) <= self.earliest_deadline {
            return;
        }
        let mut last: Option<Start> = None;
        let (delays, least) = (&mut self.delays, &mut self.earliest_deadline);
        *least = self.waiters.back().map_or(now, |waiter| waiter.deadline);
        self.waiters.retain(|waiter| {
            let start = match last {
                None => first(waiter.delay),
                Some(before) => Start { at: before.at.plus(waiter.delay), why: before.why },
            };
            let start = Start { at: start.at.max(now), ..start };
            if start.at <= waiter.deadline || waiter.deadline <= now {
                // One whose deadline has passed leaves by itself, with a better reason than there is here.
                last = Some(start);
                *least = waiter.deadline.min(*least);
                return true;
            }
            *delays = delays.saturating_sub(waiter.delay);
            waiter.dismiss(start, wakers);
            false
        });
    }

    /// Drops the head as long as it is not polled, and wakes the one that becomes first by that.
    pub(crate) fn drop_unpolled(&mut self, now: Moment, wakers: &mut Wakers) {
        while let Some(first) = self.waiters.front()
            && first.deadline.plus(UNPOLLED_MAX) < now
        {
            let start = Start { at: now, why: WaitReason::Delay(first.delay) };
            first.dismiss(start, wakers);
            self.leave(first.ticket, wakers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second as at;

    #[test]
    fn the_delays_before_a_waiter_are_those_of_lower_tickets() {
        let mut queue = Queue::default();
        for (ticket, delay) in [(3, 1), (5, 2), (8, 4)] {
            let (delay, notify) = (Duration::from_secs(delay), Arc::default());
            queue.push(Waiter { ticket, deadline: at(90), delay, scope: 0, origin: None, notify });
        }
        for (ticket, seconds) in [(3, 0), (5, 1), (8, 3), (9, 7)] {
            assert_eq!(queue.delays_before(ticket), Duration::from_secs(seconds), "{ticket}");
        }
    }
}
