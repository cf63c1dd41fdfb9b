//! The queue of one host: first come, first served.
//!
//! Only the head of a queue has a time to wait for, and it acquires the permit itself, in its own task, when
//! that time has come. So a permit is never on its way to a waiter that was cancelled, which is simply not in
//! the queue any more. The others sleep until they are first, until their deadline, or until it is certain
//! that their permit cannot come before it: then they are refused at once, because a caller that knows can
//! ask another host meanwhile. That is looked at whenever something changes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::host::{Due, WaitReason};
use crate::Origin;
use crate::clock::Moment;

/// Longest queue of a host, where the delay is so small that the waiters' deadline is no bound.
pub(crate) const QUEUE_MAX: usize = 10_000;

/// A queue head that is not polled is dropped this long after its deadline: otherwise a future that its owner
/// keeps and does not poll would stop the host. It is more than any scheduler's delay.
const UNPOLLED_MAX: Duration = Duration::from_secs(1);

/// A request's place in the queue: how it is woken, and when it could have gone if it was dropped because
/// that is too late.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    pub(crate) wake: Notify,
    pub(crate) exceeded: OnceLock<Due>,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) deadline: Moment,
    pub(crate) delay: Duration,
    pub(crate) origin: Option<Origin>,
    pub(crate) ticket: Arc<Ticket>,
}

impl Waiter {
    fn is(&self, ticket: &Arc<Ticket>) -> bool {
        Arc::ptr_eq(&self.ticket, ticket)
    }

    fn dismiss(&self, due: Due, wakers: &mut Wakers) {
        // Of several reasons the first counts.
        let _ = self.ticket.exceeded.set(due);
        wakers.push(Arc::clone(&self.ticket));
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
pub(crate) type Wakers = Vec<Arc<Ticket>>;

/// Wakes them. Not to be called under a lock: a waker is foreign code.
pub(crate) fn wake(wakers: Wakers) {
    wakers.iter().for_each(|ticket| ticket.wake.notify_one());
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_first(&self, ticket: &Arc<Ticket>) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.is(ticket))
    }

    pub(crate) fn first(&self) -> Option<&Arc<Ticket>> {
        self.waiters.front().map(|waiter| &waiter.ticket)
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        // Not raised when a waiter leaves: a deadline that is too early only costs a look.
        let is_less = self.waiters.is_empty() || waiter.deadline < self.earliest_deadline;
        self.earliest_deadline = if is_less { waiter.deadline } else { self.earliest_deadline };
        self.delays += waiter.delay;
        self.waiters.push_back(waiter);
    }

    pub(crate) fn remove(&mut self, ticket: &Arc<Ticket>) {
        let position = self.waiters.iter().position(|waiter| waiter.is(ticket));
        if let Some(waiter) = position.and_then(|position| self.waiters.remove(position)) {
            self.delays = self.delays.saturating_sub(waiter.delay);
        }
    }

    /// A waiter goes away. The one that becomes first by that is woken.
    pub(crate) fn leave(&mut self, ticket: &Arc<Ticket>, wakers: &mut Wakers) {
        let was_first = self.is_first(ticket);
        self.remove(ticket);
        if was_first {
            wakers.extend(self.first().cloned());
        }
    }

    pub(crate) fn delay_of(&self, ticket: &Arc<Ticket>) -> Option<Duration> {
        self.waiters.iter().find(|waiter| waiter.is(ticket)).map(|waiter| waiter.delay)
    }

    pub(crate) fn delays_before(&self, ticket: &Arc<Ticket>) -> Duration {
        self.waiters.iter().take_while(|waiter| !waiter.is(ticket)).map(|waiter| waiter.delay).sum()
    }

    /// The origin's Crawl-delay has changed, and so has the delay of those that wait for it. `delay` is the
    /// larger of that and ours.
    pub(crate) fn change_delay(&mut self, origin: &Origin, delay: Duration) {
        for waiter in &mut self.waiters {
            if waiter.origin.as_ref() == Some(origin) {
                self.delays = self.delays.saturating_sub(waiter.delay) + delay;
                waiter.delay = delay;
            }
        }
    }

    /// Drops all waiters whose permit cannot come before their deadline any more. `first` is the earliest
    /// start of a head with this delay.
    pub(crate) fn drop_exceeded(
        &mut self,
        now: Moment,
        first: impl Fn(Duration) -> Due,
        wakers: &mut Wakers,
    ) {
        // All come in time: none need be looked at, and a long queue costs no more than a short one.
        let Some(front) = self.waiters.front() else { return };
        if first(front.delay).at.max(now).plus(self.delays) <= self.earliest_deadline {
            return;
        }
        let mut last: Option<Due> = None;
        let (delays, least) = (&mut self.delays, &mut self.earliest_deadline);
        *least = self.waiters.back().map_or(now, |waiter| waiter.deadline);
        self.waiters.retain(|waiter| {
            let due = match last {
                None => first(waiter.delay),
                Some(before) => Due { at: before.at.plus(waiter.delay), why: before.why },
            };
            let due = Due { at: due.at.max(now), ..due };
            if due.at <= waiter.deadline || waiter.deadline <= now {
                // One whose deadline has passed leaves by itself, with a better reason than there is here.
                last = Some(due);
                *least = waiter.deadline.min(*least);
                return true;
            }
            *delays = delays.saturating_sub(waiter.delay);
            waiter.dismiss(due, wakers);
            false
        });
    }

    /// Drops the head as long as it is not polled, and wakes the one that becomes first by that.
    pub(crate) fn drop_unpolled(&mut self, now: Moment, wakers: &mut Wakers) {
        while let Some(first) = self.waiters.front()
            && first.deadline.plus(UNPOLLED_MAX) < now
        {
            first.dismiss(Due { at: now, why: WaitReason::Delay(first.delay) }, wakers);
            let ticket = Arc::clone(&first.ticket);
            self.leave(&ticket, wakers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::second as at;

    #[test]
    fn the_delays_before_a_waiter_are_those_of_earlier_ones() {
        let (mut queue, mut tickets) = (Queue::default(), Vec::new());
        for delay in [1, 2, 4] {
            let ticket = Arc::<Ticket>::default();
            tickets.push(Arc::clone(&ticket));
            let delay = Duration::from_secs(delay);
            queue.push(Waiter { deadline: at(90), delay, origin: None, ticket });
        }
        for (ticket, seconds) in tickets.iter().zip([0, 1, 3]) {
            assert_eq!(queue.delays_before(ticket), Duration::from_secs(seconds));
        }
        assert_eq!(queue.delays_before(&Arc::default()), Duration::from_secs(7), "one that is not there");
    }
}
