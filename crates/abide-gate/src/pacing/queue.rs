//! Who waits: first come, first served, per scope.
//!
//! Only the first of a line has something to wait for, and he takes his turn himself, in his own task, when its time has
//! come. So a turn is never on its way to somebody who has gone: whoever leaves is simply not in the line any more. The
//! others sleep until they are first, until their patience ends, or until it becomes certain that their turn cannot come
//! in time, which is looked at whenever something changes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::moment::Moment;
use super::schedule::{Start, Why};
use crate::Origin;

/// Longest line of a scope, where the gap is so small that the waiters' patience is no bound.
pub(crate) const LINE_MAX: usize = 10_000;

/// Somebody whose turn would have come, and whose patience ended this long ago, is not being polled: the line goes on
/// without him. It is more than any scheduler's delay.
const ASLEEP: Duration = Duration::from_secs(1);

/// Not in time: the earliest start, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) start: Start,
    /// Which of the request's scopes.
    pub(crate) scope: u8,
}

impl Late {
    /// Nobody is told to come back this instant.
    pub(crate) fn not_at_once(self, now: Moment) -> Self {
        let at = self.start.at.max(now.plus(Duration::from_millis(1)));
        Self { start: Start { at, ..self.start }, ..self }
    }
}

/// Where a waiter is woken, and told if his turn cannot come in time.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) bell: Notify,
    pub(crate) late: OnceLock<Late>,
}

impl Seat {
    fn dismiss(&self, late: Late) {
        // Whoever was told before keeps the first reason.
        let _ = self.late.set(late);
    }
}

/// Somebody in a line.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Ascending along the line. The same in all lines that the request stands in.
    pub(crate) ticket: u64,
    pub(crate) patience: Moment,
    pub(crate) gap: Duration,
    pub(crate) scope: u8,
    pub(crate) origin: Option<Origin>,
    pub(crate) seat: Arc<Seat>,
}

/// The waiters of one scope.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiters: VecDeque<Waiter>,
    /// The sum of their gaps.
    gaps: Duration,
    /// Nobody is less patient than this.
    least_patience: Moment,
}

/// Those to be woken once all locks are released.
pub(crate) type Bells = Vec<Arc<Seat>>;

/// Wakes them. Not to be called under a lock: a waker is foreign code.
pub(crate) fn ring(bells: Bells) {
    bells.iter().for_each(|seat| seat.bell.notify_one());
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The gaps of all who wait.
    pub(crate) fn gaps(&self) -> Duration {
        self.gaps
    }

    pub(crate) fn is_first(&self, ticket: u64) -> bool {
        self.waiters.front().is_some_and(|waiter| waiter.ticket == ticket)
    }

    pub(crate) fn first(&self) -> Option<&Arc<Seat>> {
        self.waiters.front().map(|waiter| &waiter.seat)
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        let is_less = self.waiters.is_empty() || waiter.patience < self.least_patience;
        self.least_patience = if is_less { waiter.patience } else { self.least_patience };
        self.gaps += waiter.gap;
        self.waiters.push_back(waiter);
    }

    /// Takes somebody out, if he is there.
    pub(crate) fn remove(&mut self, ticket: u64) -> Option<Waiter> {
        let place = self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        let waiter = self.waiters.remove(place)?;
        self.gaps = self.gaps.saturating_sub(waiter.gap);
        Some(waiter)
    }

    /// The gap of the waiter with this ticket.
    pub(crate) fn gap_of(&self, ticket: u64) -> Option<Duration> {
        let place = self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        Some(self.waiters[place].gap)
    }

    /// The gaps of all who stand before the waiter with this ticket.
    pub(crate) fn gaps_before(&self, ticket: u64) -> Duration {
        self.waiters.iter().take_while(|waiter| waiter.ticket < ticket).map(|waiter| waiter.gap).sum()
    }

    /// The origin's delay has changed: so has the gap of those who wait for it. `gap` is the larger of the delay and ours.
    pub(crate) fn change_gap(&mut self, origin: &Origin, gap: Duration) {
        for waiter in &mut self.waiters {
            if waiter.origin.as_ref() == Some(origin) {
                self.gaps = self.gaps.saturating_sub(waiter.gap) + gap;
                waiter.gap = gap;
            }
        }
    }

    /// Dismisses all whose turn cannot come in time any more. `first` tells the earliest start of somebody with this gap if he
    /// were first in line.
    pub(crate) fn dismiss_late(&mut self, now: Moment, first: impl Fn(Duration) -> Start, bells: &mut Bells) {
        // Everybody's turn comes in time: nobody need be asked, and a long line costs no more than a short one.
        let Some(front) = self.waiters.front() else { return };
        if first(front.gap).at.max(now).plus(self.gaps) <= self.least_patience {
            return;
        }
        let mut last: Option<Start> = None;
        let (gaps, least) = (&mut self.gaps, &mut self.least_patience);
        *least = self.waiters.back().map_or(now, |waiter| waiter.patience);
        self.waiters.retain(|waiter| {
            let start = match last {
                None => first(waiter.gap),
                Some(before) => Start { at: before.at.plus(waiter.gap), why: before.why },
            };
            let start = Start { at: start.at.max(now), ..start };
            if start.at <= waiter.patience || waiter.patience <= now {
                // Whoever is out of patience by now goes by himself, with a better reason than we have.
                last = Some(start);
                *least = waiter.patience.min(*least);
                return true;
            }
            *gaps = gaps.saturating_sub(waiter.gap);
            waiter.seat.dismiss(Late { start, scope: waiter.scope });
            bells.push(Arc::clone(&waiter.seat));
            false
        });
    }

    /// Dismisses the first in line as long as nobody polls him.
    pub(crate) fn dismiss_sleepers(&mut self, now: Moment, bells: &mut Bells) {
        while let Some(first) = self.waiters.front()
            && first.patience.plus(ASLEEP) < now
        {
            let start = Start { at: now, why: Why::Gap(first.gap) };
            first.seat.dismiss(Late { start, scope: first.scope });
            bells.push(Arc::clone(&first.seat));
            self.gaps = self.gaps.saturating_sub(first.gap);
            self.waiters.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::moment::Timeline;
    use super::*;

    fn at(seconds: u64) -> Moment {
        let began = Instant::now();
        Timeline::starting(began).moment(began + Duration::from_secs(seconds))
    }

    fn line(waiters: &[(u64, u64, u64)]) -> Line {
        let mut line = Line::default();
        for &(ticket, patience, gap) in waiters {
            line.push(Waiter {
                ticket,
                patience: at(patience),
                gap: Duration::from_secs(gap),
                scope: 0,
                origin: None,
                seat: Arc::default(),
            });
        }
        line
    }

    fn told(line: &Line) -> Vec<Option<Late>> {
        line.waiters.iter().map(|waiter| waiter.seat.late.get().copied()).collect()
    }

    #[test]
    fn the_gaps_before_somebody_are_those_of_whoever_came_before_him() {
        let line = line(&[(3, 90, 1), (5, 90, 2), (8, 90, 4)]);
        for (ticket, seconds) in [(3, 0), (5, 1), (8, 3), (9, 7)] {
            assert_eq!(line.gaps_before(ticket), Duration::from_secs(seconds), "{ticket}");
        }
    }

    #[test]
    fn nobody_is_told_to_come_back_this_instant() {
        let late = |seconds| Late { start: Start { at: at(seconds), why: Why::Hold }, scope: 2 };
        let soon = at(10).plus(Duration::from_millis(1));
        assert_eq!(late(4).not_at_once(at(10)), Late { start: Start { at: soon, why: Why::Hold }, scope: 2 });
        assert_eq!(late(11).not_at_once(at(10)), late(11));
    }

    #[test]
    fn the_least_patient_is_known_without_looking() {
        assert_eq!(line(&[(1, 50, 1), (2, 40, 1), (3, 60, 1)]).least_patience, at(40));
    }

    #[test]
    fn whose_turn_cannot_come_in_time_is_told_when_it_would_have_come() {
        let mut waiting = line(&[(1, 200, 10), (2, 105, 10), (3, 300, 10)]);
        let seats: Vec<_> = waiting.waiters.iter().map(|waiter| Arc::clone(&waiter.seat)).collect();
        let mut bells = Bells::new();
        let free_since_long = |gap| Start { at: at(5), why: Why::Gap(gap) };
        waiting.dismiss_late(at(100), free_since_long, &mut bells);
        assert_eq!(told(&waiting), [None, None], "the first and the last wait on");
        let late = seats[1].late.get().expect("the second is told");
        assert_eq!(late.start, Start { at: at(110), why: Why::Gap(Duration::from_secs(10)) });
        assert_eq!((bells.len(), waiting.gaps(), waiting.len()), (1, Duration::from_secs(20), 2));
    }

    #[test]
    fn who_is_not_polled_a_second_after_his_patience_has_ended_is_passed_over() {
        let mut bells = Bells::new();
        let mut waiting = line(&[(1, 10, 1), (2, 90, 1)]);
        waiting.dismiss_sleepers(at(11), &mut bells);
        assert!(waiting.is_first(1) && bells.is_empty(), "he may still be on his way");
        waiting.dismiss_sleepers(at(11).plus(Duration::from_nanos(1)), &mut bells);
        assert!(waiting.is_first(2) && bells.len() == 1);
        assert_eq!(waiting.gaps(), Duration::from_secs(1));
    }
}
