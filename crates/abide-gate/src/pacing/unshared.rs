//! The holds that the shared store is still to be told of, and the task that tells it.
//!
//! New ones first. A store that came back is told again of all that the process knows, a part of the table at a time: of the holds in
//! force first, then of those that only strikes are left of. What has failed is told last.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::core::Core;
use super::feedback::{Cause, STRIKES_KEPT};
use super::scope::ScopeKey;
use super::shared::{ASK_AGAIN, Running, TRIES, lock};
use super::store::PaceStore;
use super::table::SHARDS;
use crate::WallMillis;

/// A hold as the store is told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedHold {
    pub(crate) until: WallMillis,
    pub(crate) strikes: u8,
    pub(crate) cause: Cause,
}

impl SharedHold {
    /// Neither in force, nor are there strikes that are not forgiven.
    fn is_over(&self, wall: WallMillis) -> bool {
        let kept = if self.strikes == 0 { Duration::ZERO } else { STRIKES_KEPT };
        self.until.plus(kept) <= wall
    }
}

/// Holds that the store has not been told of yet.
#[derive(Debug, Default)]
pub(crate) struct Unshared {
    new: Queue,
    /// The part of the table that is being told again.
    again: Queue,
    /// The parts that are to come.
    parts: Range<u16>,
    failed: Queue,
    /// A task is telling it.
    is_sending: bool,
}

/// More are not kept for a store that is away. The process knows them, and tells it of all that it knows in their stead.
const QUEUE_MAX: usize = 10_000;

impl Unshared {
    pub(crate) fn keep(&mut self, scope: ScopeKey, hold: SharedHold) {
        if !self.new.push_bounded(scope, hold) {
            self.tell_again();
        }
    }

    fn keep_failed(&mut self, scope: ScopeKey, hold: SharedHold) {
        if !self.failed.push_bounded(scope, hold) {
            self.tell_again();
        }
    }

    /// All that the process knows is to be told, from the start.
    pub(crate) fn tell_again(&mut self) {
        self.parts = 0..2 * SHARDS;
    }

    /// What has waited for longer than it counts is not told.
    pub(crate) fn forget_past(&mut self, wall: WallMillis) {
        for queue in [&mut self.new, &mut self.again, &mut self.failed] {
            queue.holds.retain(|_, hold| !hold.is_over(wall));
            queue.order.retain(|scope| queue.holds.contains_key(scope));
        }
    }

    /// Whether there is something to be told, and nobody at it.
    pub(crate) fn begin(&mut self) -> bool {
        let begins = !self.is_sending && !self.is_empty();
        self.is_sending |= begins;
        begins
    }

    pub(crate) fn is_empty(&self) -> bool {
        let queues = [&self.new, &self.again, &self.failed];
        self.parts.is_empty() && queues.iter().all(|queue| queue.order.is_empty())
    }

    fn next(&mut self) -> Next {
        if let Some((scope, hold)) = self.new.pop().or_else(|| self.again.pop()) {
            return Next::Tell(scope, hold);
        }
        if let Some(part) = self.parts.next() {
            return Next::LookUp(part);
        }
        self.failed.pop().map_or(Next::Nothing, |(scope, hold)| Next::Tell(scope, hold))
    }
}

enum Next {
    Tell(ScopeKey, SharedHold),
    /// This part of the table.
    LookUp(u16),
    Nothing,
}

/// First come, first told; each scope once.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<ScopeKey>,
    holds: HashMap<ScopeKey, SharedHold>,
}

impl Queue {
    fn push(&mut self, scope: ScopeKey, hold: SharedHold) {
        let Some(kept) = self.holds.get_mut(&scope) else {
            self.order.push_back(scope.clone());
            self.holds.insert(scope, hold);
            return;
        };
        match hold.until > kept.until {
            true => *kept = SharedHold { strikes: hold.strikes.max(kept.strikes), ..hold },
            false => kept.strikes = kept.strikes.max(hold.strikes),
        }
    }

    /// Returns whether there was room.
    fn push_bounded(&mut self, scope: ScopeKey, hold: SharedHold) -> bool {
        let has_room = self.order.len() < QUEUE_MAX || self.holds.contains_key(&scope);
        if has_room {
            self.push(scope, hold);
        }
        has_room
    }

    fn pop(&mut self) -> Option<(ScopeKey, SharedHold)> {
        self.holds.remove_entry(&self.order.pop_front()?)
    }
}

/// The task that tells the store of holds.
pub(crate) struct HoldSender {
    store: Arc<dyn PaceStore>,
    limit: Duration,
    // What it has not told is kept before it counts as ended.
    telling: Telling,
    _running: Running,
}

impl HoldSender {
    /// To be made only after [`Unshared::begin`] has said so.
    pub(crate) fn new(
        store: Arc<dyn PaceStore>,
        limit: Duration,
        core: Weak<Core>,
        unshared: Arc<Mutex<Unshared>>,
        running: Running,
    ) -> Self {
        let telling = Telling { core, unshared, hold: None, is_over: false };
        Self { store, limit, telling, _running: running }
    }

    /// Until all are told, or it fails too often in a row.
    pub(crate) async fn run(mut self) {
        let mut failed = 0;
        while failed < TRIES
            && let Some((scope, hold)) = self.telling.next()
        {
            let SharedHold { until, strikes, cause } = hold;
            match timeout(self.limit, self.store.hold(&scope, until, strikes, cause)).await {
                Ok(Ok(_)) => {
                    self.telling.hold = None;
                    failed = 0;
                }
                _ => {
                    self.telling.put_back();
                    failed += 1;
                    sleep(ASK_AGAIN).await;
                }
            }
        }
    }
}

/// What is being told. If the task ends in between, it is kept, and the next task can begin.
struct Telling {
    core: Weak<Core>,
    unshared: Arc<Mutex<Unshared>>,
    hold: Option<(ScopeKey, SharedHold)>,
    is_over: bool,
}

impl Telling {
    fn next(&mut self) -> Option<(ScopeKey, SharedHold)> {
        loop {
            let mut unshared = lock(&self.unshared);
            match unshared.next() {
                Next::Tell(scope, hold) => {
                    self.hold = Some((scope, hold));
                    return self.hold.clone();
                }
                Next::LookUp(part) => {
                    drop(unshared);
                    self.look_up(part);
                }
                Next::Nothing => {
                    // Under the lock: whoever brings the next hold begins anew.
                    self.is_over = true;
                    unshared.is_sending = false;
                    return None;
                }
            }
        }
    }

    fn look_up(&self, part: u16) {
        let Some(core) = self.core.upgrade() else { return };
        let holds = core.holds(part % SHARDS, part < SHARDS);
        let mut unshared = lock(&self.unshared);
        for (scope, hold) in holds {
            unshared.again.push(scope, hold);
        }
    }

    fn put_back(&mut self) {
        if let Some((scope, hold)) = self.hold.take() {
            lock(&self.unshared).keep_failed(scope, hold);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.put_back();
        if !self.is_over {
            lock(&self.unshared).is_sending = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(until: u64, strikes: u8) -> SharedHold {
        SharedHold { until: WallMillis(until), strikes, cause: Cause::Operator }
    }

    #[test]
    fn of_two_holds_that_wait_to_be_told_the_end_is_the_later_and_the_strikes_are_the_more() {
        for (next, until, strikes) in [
            (hold(9, 2), 10, 5),
            (hold(9, 7), 10, 7),
            (hold(10, 2), 10, 5),
            (hold(10, 7), 10, 7),
            (hold(11, 7), 11, 7),
        ] {
            let mut unshared = Unshared::default();
            unshared.keep("a".into(), hold(10, 5));
            unshared.keep("a".into(), next);
            let kept = unshared.new.holds[&"a".into()];
            assert_eq!((kept.until, kept.strikes), (WallMillis(until), strikes), "{next:?}");
        }
    }

    #[test]
    fn ten_thousand_holds_are_kept_to_be_told_and_those_may_still_change() {
        let mut unshared = Unshared::default();
        let name = |n: usize| ScopeKey::from(&*n.to_string());
        (0..QUEUE_MAX).for_each(|n| unshared.keep(name(n), hold(10, 0)));
        assert!(unshared.parts.is_empty());
        unshared.keep(name(QUEUE_MAX), hold(20, 0));
        assert!(!unshared.parts.is_empty(), "all that the process knows is told in its stead");
        unshared.keep(name(0), hold(20, 0));
        assert_eq!(unshared.new.holds.len(), QUEUE_MAX);
        assert_eq!(unshared.new.holds[&name(0)].until, WallMillis(20));
    }

    #[test]
    fn one_task_at_a_time_tells_of_holds() {
        let mut unshared = Unshared::default();
        assert!(!unshared.begin(), "there is nothing to be told");
        unshared.keep("a".into(), hold(10, 0));
        assert_eq!([unshared.begin(), unshared.begin()], [true, false]);
        unshared.is_sending = false;
        assert!(unshared.begin());
    }
}
