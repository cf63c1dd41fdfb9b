//! The state of one host in a store: its lease, what the next holder must know, and the step that changes both.
//!
//! A plain function of the entry, what is asked, and the store's clock. The stores lock, keep and write; they hold no rule, so that there are
//! not as many rules of pacing as stores. The Lua of `abide-redis` is the one copy, and a test compares it with this, step by step.

use std::time::Duration;

use super::backoff::{BackoffCause, THROTTLES_KEPT, credible};
use super::store::{Backoff, HostState, LeaseAsk, LeaseStatus, Want};
use crate::HolderId;

/// A host in a [`HostStore`](super::HostStore). All times are counted on the store's own clock, from wherever it began. If that clock is
/// set back, the next exchange goes on as if no time had passed since the last one.
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::HolderId;
/// # use abide_gate::pacing::{HostEntry, HostState, LeaseAsk, LeaseStatus, Want};
/// let seconds = Duration::from_secs;
/// let want = Want::Lease { ttl: seconds(8), again_in: seconds(2), is_held: false };
/// let ask = |holder| LeaseAsk { holder: HolderId(holder), want, state: HostState::default() };
///
/// let mut entry = HostEntry::default();
/// let (first, _) = entry.exchange(&ask(1), seconds(100), Duration::ZERO);
/// assert_eq!(first, LeaseStatus::Leased { is_wanted: false });
/// let (second, _) = entry.exchange(&ask(2), seconds(103), Duration::ZERO);
/// assert_eq!(second, LeaseStatus::Busy { wait: seconds(5), is_next: true });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEntry {
    /// When a request was last on its way.
    last: Option<Duration>,
    delay: Duration,
    backoff: Option<Held>,
    holder: Option<(HolderId, Duration)>,
    /// The processes that wait for the lease, in the order in which they came, each until it is no longer expected to ask.
    waiting: Vec<(HolderId, Duration)>,
    /// The time of the last exchange.
    seen: Duration,
}

/// So many processes keep their place in queue. More than crawl one host together; others wait without a place.
const WAITING_MAX: usize = 64;

/// A backoff with its end on the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    until: Duration,
    throttles: u8,
    cause: BackoffCause,
}

impl HostEntry {
    /// What [`HostStore::exchange`](super::HostStore::exchange) does, at `now` on the store's clock. Read the clock while the entry is
    /// locked: a `now` before that of the last exchange is a clock that was set back.
    ///
    /// Before `grace_until` a lease is only given to a process that has one by its own clock: a store that has lost its data names
    /// one `ttl` after the loss, others zero.
    pub fn exchange(
        &mut self,
        ask: &LeaseAsk,
        now: Duration,
        grace_until: Duration,
    ) -> (LeaseStatus, HostState) {
        self.follow(now);
        self.merge(&ask.state, now);
        let lease = match ask.want {
            Want::Release => {
                self.holder = self.holder.filter(|(holder, _)| *holder != ask.holder);
                self.waiting.retain(|(waiting, _)| *waiting != ask.holder);
                LeaseStatus::Released
            }
            Want::Lease { ttl, again_in, is_held } => {
                self.end_lease(ask.holder, now);
                self.waiting.retain(|(_, until)| now < *until);
                let free = self.free_at(ask.holder, is_held, now, grace_until);
                if free <= now {
                    // Until the grace was over a process may have sent a request under a lease that was lost.
                    if !is_held && !grace_until.is_zero() {
                        self.last = self.last.max(Some(grace_until.min(now)));
                    }
                    self.holder = Some((ask.holder, now.saturating_add(ttl)));
                    self.waiting.retain(|(waiting, _)| *waiting != ask.holder);
                    LeaseStatus::Leased { is_wanted: !self.waiting.is_empty() }
                } else {
                    self.wait(ask.holder, now.saturating_add(again_in));
                    let is_next = self.waiting.first().is_some_and(|(next, _)| *next == ask.holder);
                    LeaseStatus::Busy { wait: free - now, is_next }
                }
            }
        };
        (lease, self.state(now))
    }

    /// Whether something is still owed to the host, or leased: if not, the entry may be forgotten.
    pub fn is_owed(&self, now: Duration) -> bool {
        let delay_ends = self.last.map(|last| last.saturating_add(self.delay));
        let forgiven = self.backoff.map(|held| held.until.saturating_add(THROTTLES_KEPT));
        // A lease that ends by itself counts as a request then.
        let lease = self.holder.map(|(_, until)| until.saturating_add(self.delay));
        let waiting = self.waiting.iter().map(|(_, until)| *until);
        waiting.chain(lease).chain(delay_ends).chain(forgiven).any(|until| now < until)
    }

    /// The host's state at `now`.
    pub fn state(&self, now: Duration) -> HostState {
        let backoff = self.backoff_at(now).map(|held| Backoff {
            left: held.until.saturating_sub(now),
            over: now.saturating_sub(held.until),
            throttles: held.throttles,
            cause: held.cause,
        });
        HostState { quiet: self.last.map(|last| now.saturating_sub(last)), delay: self.delay, backoff }
    }

    /// The later time and the higher count win, from whichever process they come.
    pub fn merge(&mut self, reported: &HostState, now: Duration) {
        if let Some(quiet) = reported.quiet {
            self.last = self.last.max(Some(now.saturating_sub(quiet)));
        }
        self.delay = self.delay.max(reported.delay);
        let known = self.backoff_at(now);
        let reported = reported.backoff.map(|reported| Held {
            until: now.saturating_sub(reported.over).saturating_add(credible(reported.left)),
            throttles: reported.throttles,
            cause: reported.cause,
        });
        self.backoff = match (known, reported.filter(|reported| reported.counts(now))) {
            (Some(known), Some(reported)) => {
                let later = if reported.until > known.until { reported } else { known };
                Some(Held { throttles: known.throttles.max(reported.throttles), ..later })
            }
            (known, reported) => known.or(reported),
        };
    }

    /// The backoff, unless it is over and its throttle count forgiven.
    fn backoff_at(&self, now: Duration) -> Option<Held> {
        self.backoff.filter(|held| held.counts(now))
    }

    /// Where the clock was set back, no time has passed since the last exchange: nothing lasts longer.
    fn follow(&mut self, now: Duration) {
        let ahead = self.seen.saturating_sub(now);
        self.seen = now;
        if ahead.is_zero() {
            return;
        }
        let times = self.last.iter_mut().chain(self.backoff.iter_mut().map(|held| &mut held.until));
        let leases = self.holder.iter_mut().chain(&mut self.waiting).map(|(_, until)| until);
        times.chain(leases).for_each(|time| *time = time.saturating_sub(ahead));
    }

    /// A lease that has ended by itself was never given up: its holder may have sent a request until then.
    fn end_lease(&mut self, asking: HolderId, now: Duration) {
        if let Some((holder, until)) = self.holder
            && until <= now
        {
            self.holder = None;
            if holder != asking {
                self.last = self.last.max(Some(until));
            }
        }
    }

    /// A place in queue, or the one that the process has.
    fn wait(&mut self, asking: HolderId, until: Duration) {
        let has_room = self.waiting.len() < WAITING_MAX;
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == asking) {
            Some(place) => place.1 = until,
            None if has_room => self.waiting.push((asking, until)),
            None => {}
        }
    }

    /// When the process that asks can have the lease.
    fn free_at(&self, asking: HolderId, is_held: bool, now: Duration, grace_until: Duration) -> Duration {
        match (self.holder, self.waiting.first()) {
            (Some((holder, until)), _) if holder != asking => until,
            (None, _) if !is_held && now < grace_until => grace_until,
            (None, Some((next, until))) if !is_held && *next != asking => *until,
            _ => now,
        }
    }
}

impl Held {
    fn counts(&self, now: Duration) -> bool {
        let kept = if self.throttles == 0 { Duration::ZERO } else { THROTTLES_KEPT };
        now < self.until.saturating_add(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(8);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ask(holder: u128, is_held: bool) -> LeaseAsk {
        let want = Want::Lease { ttl: TTL, again_in: s(2), is_held };
        LeaseAsk { holder: HolderId(holder), want, state: HostState::default() }
    }

    #[test]
    fn after_a_loss_only_the_holder_gets_its_lease() {
        let (mut entry, loss) = (HostEntry::default(), s(100));
        let mut lease = |holder, is_held, now| entry.exchange(&ask(holder, is_held), s(now), loss + TTL).0;
        assert_eq!(lease(2, false, 101), LeaseStatus::Busy { wait: s(7), is_next: true });
        assert_eq!(lease(1, true, 102), LeaseStatus::Leased { is_wanted: true }, "it says that it had it");
        assert_eq!(lease(1, false, 104), LeaseStatus::Leased { is_wanted: false }, "and now it is known");
        assert_eq!(
            lease(2, true, 105),
            LeaseStatus::Busy { wait: s(7), is_next: true },
            "one of two that say so"
        );
    }

    #[test]
    fn a_new_host_is_leased_when_the_grace_is_over() {
        let mut entry = HostEntry::default();
        assert_eq!(
            entry.exchange(&ask(1, false), s(108), s(108)).0,
            LeaseStatus::Leased { is_wanted: false }
        );
    }

    #[test]
    fn an_entry_is_owed_its_delay_its_count_and_its_lease() {
        let mut entry = HostEntry::default();
        assert!(!entry.is_owed(s(0)));
        let knows = HostState { quiet: Some(s(0)), delay: s(60), backoff: None };
        entry.exchange(&LeaseAsk { want: Want::Release, state: knows, ..ask(1, false) }, s(10), s(0));
        assert!(entry.is_owed(s(69)) && !entry.is_owed(s(70)), "the delay");
        let backoff = Backoff { left: s(60), over: s(0), throttles: 1, cause: BackoffCause::EnhanceYourCalm };
        entry.merge(&HostState { backoff: Some(backoff), ..HostState::default() }, s(100));
        assert!(entry.is_owed(s(160 + 1_799)) && !entry.is_owed(s(160 + 1_800)), "the throttle count");
        entry.exchange(&ask(1, false), s(5_000), s(0));
        assert!(entry.is_owed(s(5_067)) && !entry.is_owed(s(5_068)), "the lease, and the delay from its end");
    }

    #[test]
    fn the_line_is_bounded() {
        let mut entry = HostEntry::default();
        for holder in 0..1_000 {
            entry.exchange(&ask(holder, false), s(1), s(0));
        }
        assert_eq!(entry.waiting.len(), WAITING_MAX);
    }
}
