//! The state of one host in a store: its lease, what the next holder must know, and the step that changes
//! both.
//!
//! A plain function of the entry, what is asked, and the store's clock. The stores lock, keep and write; they
//! hold no rule, so that there are not as many rules of pacing as stores. The Lua of `abide-redis` and the
//! SQL of `abide-postgres` are the two copies, and a test compares each with this, step by step.

use std::time::Duration;

use super::backoff::HostBackoff;
use super::store::{HostState, LeaseAsk, LeaseStatus, Want};
use crate::HolderId;
use crate::clock::Moment;

/// A host in a [`HostStore`](super::HostStore). All times are counted on the store's own clock, from wherever
/// it began. If that clock is set back, the next exchange goes on as if no time had passed since the last
/// one.
///
/// ```
/// # use std::time::Duration;
/// # use abide_gate::HolderId;
/// # use abide_gate::pacing::{HostEntry, HostState, LeaseAsk, LeaseStatus, Want};
/// let seconds = Duration::from_secs;
/// let want = Want::Lease { ttl: seconds(8), again_in: seconds(2), is_held: false };
/// let ask = |holder| LeaseAsk { holder: HolderId(holder), number: 1, want, state: HostState::default() };
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
    pub(super) last: Moment,
    pub(super) delay: Duration,
    pub(super) backoff: HostBackoff,
    pub(super) lease: Option<GivenLease>,
    /// The processes that wait for the lease, in the order in which they came, each until it is no longer
    /// expected to ask.
    pub(super) waiting: Vec<(HolderId, Moment)>,
    /// The time of the last exchange.
    pub(super) seen: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenLease {
    pub(super) holder: HolderId,
    /// `NEVER`: it was given up.
    pub(super) until: Moment,
    /// The latest call of the holder that took it, renewed it or gave it up.
    pub(super) number: u64,
}

/// So many processes keep their place in queue. More than crawl one host together; others wait without a
/// place.
pub(super) const WAITING_MAX: usize = 64;

impl HostEntry {
    /// What [`HostStore::exchange`](super::HostStore::exchange) does, at `now` on the store's clock. Read the
    /// clock while the entry is locked: a `now` before that of the last exchange is a clock that was set
    /// back.
    ///
    /// Before `grace_until` a lease is only given to a process that has one by its own clock: a store that
    /// has lost its data names one `ttl` after the loss, others zero.
    pub fn exchange(
        &mut self,
        ask: &LeaseAsk,
        now: Duration,
        grace_until: Duration,
    ) -> (LeaseStatus, HostState) {
        let was_lost = !grace_until.is_zero();
        let [at, grace_until] = [now, grace_until].map(Moment::after);
        self.follow(at);
        self.merge(&ask.state, now);
        let lease = match ask.want {
            Want::Release => {
                // Unless it was taken again while this call was on its way. The number stays, for calls that
                // come later than this one.
                if let Some(lease) = &mut self.lease
                    && lease.holder == ask.holder
                    && lease.number <= ask.number
                {
                    (lease.until, lease.number) = (Moment::NEVER, ask.number);
                }
                self.waiting.retain(|(waiting, _)| *waiting != ask.holder);
                LeaseStatus::Released
            }
            Want::Lease { .. } if self.was_given_up_since(ask) => LeaseStatus::Released,
            Want::Lease { ttl, again_in, is_held } => {
                // A lease that has ended by itself was never given up: its holder may have sent a request
                // until then.
                if let Some(ended) = self.lease.take_if(|lease| lease.until <= at)
                    && ended.holder != ask.holder
                {
                    self.last = self.last.max(ended.until);
                }
                self.waiting.retain(|(_, until)| at < *until);
                // When the process that asks can have the lease.
                let free = match (self.lease, self.waiting.first()) {
                    (Some(lease), _) if lease.holder != ask.holder => lease.until,
                    (None, _) if !is_held && at < grace_until => grace_until,
                    (None, Some((next, until))) if !is_held && *next != ask.holder => *until,
                    _ => at,
                };
                if free <= at {
                    // Until the grace was over a process may have sent a request under a lease that was lost.
                    if !is_held && was_lost {
                        self.last = self.last.max(grace_until.min(at));
                    }
                    let number = self.lease.map_or(ask.number, |lease| lease.number.max(ask.number));
                    self.lease = Some(GivenLease { holder: ask.holder, until: at.plus(ttl), number });
                    self.waiting.retain(|(waiting, _)| *waiting != ask.holder);
                    LeaseStatus::Leased { is_wanted: !self.waiting.is_empty() }
                } else {
                    self.wait(ask.holder, at.plus(again_in));
                    let is_next = self.waiting.first().is_some_and(|(next, _)| *next == ask.holder);
                    LeaseStatus::Busy { wait: free.since(at), is_next }
                }
            }
        };
        (lease, self.state(now))
    }

    /// Whether the same process has given up the lease while this call was on its way.
    fn was_given_up_since(&self, ask: &LeaseAsk) -> bool {
        let is_later = |it: GivenLease| it.holder == ask.holder && it.number > ask.number;
        self.lease.is_some_and(|it| it.until == Moment::NEVER && is_later(it))
    }

    /// Whether the host is leased or waited for, or its delay, backoff or throttle count still runs: if not,
    /// the entry may be removed.
    pub fn is_in_use(&self, now: Duration) -> bool {
        let now = Moment::after(now);
        // A lease that ends by itself counts as a request then.
        let lease = self.lease.map(|lease| lease.until.plus(self.delay));
        let waiting = self.waiting.iter().map(|(_, until)| *until);
        let is_awaited = waiting.chain(lease).chain([self.last.plus(self.delay)]).any(|until| now < until);
        is_awaited || !self.backoff.is_forgiven(now)
    }

    /// The host's state at `now`.
    pub fn state(&self, now: Duration) -> HostState {
        let now = Moment::after(now);
        let quiet = (self.last != Moment::NEVER).then(|| now.since(self.last));
        HostState { quiet, delay: self.delay, backoff: self.backoff.shared(now) }
    }

    /// The later time and the higher count win, from whichever process they come.
    pub fn merge(&mut self, reported: &HostState, now: Duration) {
        let now = Moment::after(now);
        if let Some(quiet) = reported.quiet {
            self.last = self.last.max(now.minus(quiet));
        }
        self.delay = self.delay.max(reported.delay);
        if let Some(backoff) = reported.backoff {
            self.backoff = self.backoff.merged(backoff, now);
        }
        if self.backoff.is_forgiven(now) {
            self.backoff = HostBackoff::default();
        }
    }

    /// Where the clock was set back, no time has passed since the last exchange: nothing lasts longer.
    fn follow(&mut self, now: Moment) {
        let ahead = self.seen.since(now);
        self.seen = now;
        if ahead.is_zero() {
            return;
        }
        let times = [&mut self.last, &mut self.backoff.began, &mut self.backoff.until];
        let lease = self.lease.iter_mut().map(|lease| &mut lease.until);
        let waiting = self.waiting.iter_mut().map(|(_, until)| until);
        lease.chain(waiting).chain(times).for_each(|time| *time = time.minus(ahead));
    }

    /// A place in queue, or the one that the process has.
    fn wait(&mut self, asking: HolderId, until: Moment) {
        let has_room = self.waiting.len() < WAITING_MAX;
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == asking) {
            Some(place) => place.1 = until,
            None if has_room => self.waiting.push((asking, until)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backoff, BackoffCause};
    use super::*;
    use crate::parts::support::pacing::s;

    const TTL: Duration = Duration::from_secs(8);

    fn ask(holder: u128, is_held: bool) -> LeaseAsk {
        let want = Want::Lease { ttl: TTL, again_in: s(2), is_held };
        LeaseAsk { holder: HolderId(holder), number: 1, want, state: HostState::default() }
    }

    #[test]
    fn after_a_loss_only_the_holder_gets_its_lease_until_the_grace_is_over() {
        let (mut entry, grace_until) = (HostEntry::default(), s(100) + TTL);
        let leased = |is_wanted| LeaseStatus::Leased { is_wanted };
        let busy = LeaseStatus::Busy { wait: s(7), is_next: true };
        for (holder, is_held, now, expected, why) in [
            (2, false, 101, busy, "it does not say that it had it"),
            (1, true, 102, leased(true), "it says that it had it"),
            (1, false, 104, leased(false), "and now it is known"),
            (2, true, 105, busy, "one of two that say so"),
        ] {
            assert_eq!(entry.exchange(&ask(holder, is_held), s(now), grace_until).0, expected, "{why}");
        }
        let mut new = HostEntry::default();
        assert_eq!(new.exchange(&ask(1, false), grace_until, grace_until).0, leased(false));
    }

    #[test]
    fn an_entry_is_in_use_for_its_delay_its_count_and_its_lease() {
        let mut entry = HostEntry::default();
        assert!(!entry.is_in_use(s(0)));
        let knows = HostState { quiet: Some(s(0)), delay: s(60), backoff: None };
        entry.exchange(&LeaseAsk { want: Want::Release, state: knows, ..ask(1, false) }, s(10), s(0));
        assert!(entry.is_in_use(s(69)) && !entry.is_in_use(s(70)), "the delay");
        let backoff = Backoff { left: s(60), over: s(0), throttles: 1, cause: BackoffCause::EnhanceYourCalm };
        entry.merge(&HostState { backoff: Some(backoff), ..HostState::default() }, s(100));
        assert!(entry.is_in_use(s(160 + 1_799)) && !entry.is_in_use(s(160 + 1_800)), "the throttle count");
        let operator = Backoff { throttles: 0, cause: BackoffCause::Operator, ..backoff };
        entry.merge(&HostState { backoff: Some(operator), ..HostState::default() }, s(4_000));
        assert!(entry.is_in_use(s(4_059)) && !entry.is_in_use(s(4_060)), "a backoff without a count");
        entry.exchange(&ask(1, false), s(5_000), s(0));
        assert!(entry.is_in_use(s(5_067)) && !entry.is_in_use(s(5_068)), "the delay from the lease's end");
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
