//! The lease of one host, as this process sees it: plain decisions of what is known and `now`.
//!
//! A process that has the lease paces the host alone, and only renews it every half life: a lease per request
//! cost three commands a page, and the requests that were open when Redis paused for 5 s left their hosts
//! unusable for up to a minute. It hands the lease over when another process wants it and this one has had
//! its quantum, and gives it up when it has not needed it for a while. `keeper.rs` awaits and sleeps as
//! [`Plan`] says. The lease is one of the reasons for which [a host](super::host::PacedHost::step) has a
//! request wait: if the store does not reply, hosts whose lease this process has go on as before, and others
//! wait for it, unless the policy says otherwise.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::host::{Due, Grant, Request, WaitReason};
use super::policy::{OnStoreOutage, Sharing};
use super::store::HostState;
use crate::clock::Moment;

/// The lease of a host, with what wakes those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct HostLease {
    pub(crate) lease: Lease,
    pub(crate) signals: Arc<LeaseSignals>,
}

/// How the keeper of a lease and the requests that need it wake each other. It also says which lease a
/// request needs: when its runtime ends, a lease is forgotten, and the host gets another.
#[derive(Debug, Default)]
pub(crate) struct LeaseSignals {
    /// The keeper should look.
    pub(crate) news: Notify,
    /// The requests that wait for the store to know of a backoff should look.
    pub(crate) saved: watch::Sender<()>,
}

/// The shared store, as a host sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreView<'a> {
    pub(crate) options: &'a Sharing,
    pub(crate) outage: StoreOutage,
    /// From 0 to 1, for this process and this host.
    pub(crate) unit: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Lease {
    phase: LeasePhase,
    /// Requests that need it: those that wait for it, and those in flight.
    users: u32,
    pub(crate) in_flight: u32,
    /// So many of them are for files beside the site's long delay. Other processes do not learn of these, or
    /// the pages of the site would have to wait for another such delay: two processes that take turns may
    /// request two files of it within our own delay.
    beside: u32,
    /// When another request of this process was last on its way.
    last: Moment,
    /// When one of another process was, as far as the store knew.
    others: Moment,
    delay: Duration,
    /// When the store last said that another process has it.
    refused: Moment,
    /// How many changes of the state the store must know of, and how many of them it knows.
    pub(crate) changes: u64,
    pub(crate) saved: u64,
    /// The process is about to end: what is not needed is given up as soon as possible.
    pub(crate) leaves: bool,
    /// Whether it is being renewed together with those of other hosts.
    pub(crate) renewal: RenewalPhase,
    /// By how much the backoff may have grown between the store and here. Zero: this process has set it.
    pub(crate) round_trip: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RenewalPhase {
    #[default]
    None,
    /// For others that are due soon.
    Waiting,
    /// The call is under way, and nothing else is said of the host meanwhile.
    Sent,
}

#[derive(Clone, Copy, Debug)]
enum LeasePhase {
    /// Not ours. To be asked for at `again`.
    NotHeld {
        again: Moment,
        /// Another process has it, or had it when the store last replied. Without a request, that holds
        /// until then.
        elsewhere: Option<Moment>,
        is_next: bool,
    },
    Held(Held),
}

impl Default for LeasePhase {
    fn default() -> Self {
        Self::NotHeld { again: Moment::NEVER, elsewhere: None, is_next: false }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    since: Moment,
    asked: Moment,
    /// Its end, counted from then.
    until: Moment,
    renew: Moment,
    /// Requests since `since`.
    served: u32,
    is_wanted: bool,
}

/// What the task of a host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing needs the lease, and the store knows all that matters.
    End,
    Sleep(Moment),
    /// Renew the lease, together with those of other hosts that are due soon.
    Renew,
    /// Take or renew the lease at once.
    Ask {
        is_held: bool,
    },
    /// Give it up, or only save the state.
    Release,
    /// Find out whether the store is back.
    Probe,
}

/// Whether a request may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Now,
    /// Not before then, because another process has sent a request.
    At(Moment),
    /// When this process has the lease.
    Leased,
    /// The store is away, and this process does not have the lease: not at all, unless the policy says
    /// otherwise.
    Alone,
}

/// The last time that the store did not reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreOutage {
    /// Never: there was none.
    pub(crate) began: Moment,
    /// The last attempt that failed.
    pub(crate) confirmed: Moment,
    /// Never: it goes on.
    pub(crate) back: Moment,
    /// While it goes on: when one task asks whether the store is back.
    pub(crate) probe: Moment,
}

/// A lease that another process waits for is handed over after so many requests and so much time, whichever
/// is later; or if nothing was sent for so long.
const QUANTUM: (u32, Duration) = (3, Duration::from_secs(3));

/// A caller that has come without the time to wait for a lease is deferred for so long at least.
const LEASE_WAIT_MIN: Duration = Duration::from_millis(250);

/// A caller that is deferred because the store is away may come back so much later: often enough to be there
/// soon after the store.
const OUTAGE_WAIT: Duration = Duration::from_secs(2);

/// While the store is away it is asked again this often, by one task.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// After an outage the processes that have leases renew them before the others ask: by then each has noticed
/// that the store is back.
const SETTLE: Duration = Duration::from_secs(3);

/// A lease may be asked for again this often: the process that is next in the queue more often than the
/// others, and none faster than a delay that must pass in any case, or than twice a second, whatever the
/// delay.
const POLL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(4));

/// Bounds of the time after which an idle lease is given up. Longer, and others wait for a host that no
/// process needs; shorter, and a crawler that pauses between two pages asks for the lease again for each.
const IDLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

/// What a command and its reply add to a time that goes to the store and back. A difference below this is no
/// change.
pub(crate) const SLACK: Duration = Duration::from_millis(100);

impl StoreOutage {
    pub(crate) fn is_over(&self) -> bool {
        self.began == Moment::NEVER || self.back != Moment::NEVER
    }

    fn plan(&self, now: Moment) -> Plan {
        if self.probe > now { Plan::Sleep(self.probe) } else { Plan::Probe }
    }

    /// A process that was paused does not know whether the store is still away.
    fn is_certain(&self, shared: &Sharing, now: Moment) -> bool {
        !self.is_over() && now < self.confirmed.plus(RETRY + RETRY + shared.timeout)
    }
}

impl Lease {
    /// A request needs it. The first one has its process ask at once, so that it gets its place in queue; but
    /// not more often than it may.
    pub(crate) fn enter(&mut self, delay: Duration) {
        if self.users == 0
            && let LeasePhase::NotHeld { again, .. } = &mut self.phase
        {
            *again = self.refused.plus(POLL.0);
        }
        self.users += 1;
        self.delay = self.delay.max(delay);
        self.leaves = false;
    }

    pub(crate) fn leave(&mut self) {
        self.users = self.users.saturating_sub(1);
    }

    /// When a request may start whose turn has come in this process, if that is not now.
    pub(crate) fn due(
        &self,
        request: &Request<'_>,
        grant: Grant,
        store: &StoreView<'_>,
        now: Moment,
    ) -> Option<Due> {
        // What ends nobody knows when is waited for as long as the caller can.
        let wait_for = |why, wait| {
            let is_patient = now < request.deadline;
            Due { at: if is_patient { request.deadline } else { now.plus(wait) }, why }
        };
        let due = match self.readiness(grant.delay, store.options, store.outage, now) {
            Readiness::Now => return None,
            Readiness::At(at) => Due { at, why: WaitReason::Delay(grant.delay) },
            Readiness::Leased => wait_for(WaitReason::OtherProcess, request.terms.delay.max(LEASE_WAIT_MIN)),
            Readiness::Alone => match store.options.on_outage {
                OnStoreOutage::Continue { workers } => {
                    let delay = grant.delay.saturating_mul(workers.max(1));
                    // At a time of its own within the first of these delays: all processes notice the
                    // outage at once.
                    let first = store.outage.began.plus(delay.mul_f64(store.unit));
                    Due { at: grant.before.plus(delay).max(first), why: WaitReason::Delay(grant.delay) }
                }
                OnStoreOutage::Defer | OnStoreOutage::FailClosed => wait_for(WaitReason::Store, OUTAGE_WAIT),
            },
        };
        (due.at > now).then_some(due)
    }

    pub(crate) fn readiness(
        &self,
        delay: Duration,
        shared: &Sharing,
        outage: StoreOutage,
        now: Moment,
    ) -> Readiness {
        match self.phase {
            LeasePhase::Held(held) if self.is_valid(held, shared, outage, now) => {
                let start = self.others.plus(delay);
                match self.hands_over(held, now) {
                    true => Readiness::Leased,
                    false if start > now => Readiness::At(start),
                    false => Readiness::Now,
                }
            }
            // The lease had ended before the store went away, as when this process was stopped: another may
            // have it.
            LeasePhase::Held(_) if shared.on_outage != OnStoreOutage::FailClosed => Readiness::Leased,
            // Its holder goes on while the store is away.
            LeasePhase::NotHeld { elsewhere: Some(_), .. } => Readiness::Leased,
            _ if outage.is_certain(shared, now) => Readiness::Alone,
            _ => Readiness::Leased,
        }
    }

    /// No other process can have the lease: it has not ended, or the store has been away since before its end
    /// and can lease it to none.
    fn is_valid(&self, held: Held, shared: &Sharing, outage: StoreOutage, now: Moment) -> bool {
        let goes_on = shared.on_outage != OnStoreOutage::FailClosed;
        let survives = goes_on && outage.is_certain(shared, now) && outage.began < held.until;
        // What may pass between this look and the request on the wire.
        let margin = (shared.lease / 8).min(Duration::from_millis(500));
        survives || now.plus(margin) < held.until
    }

    /// A request goes on the wire.
    pub(crate) fn begin(&mut self, is_beside: bool, now: Moment) {
        self.in_flight += 1;
        match is_beside {
            true => self.beside += 1,
            false => self.last = self.last.max(now),
        }
        match &mut self.phase {
            LeasePhase::Held(held) => held.served = held.served.saturating_add(1),
            // Sent without a lease: the store is notified when it is back.
            LeasePhase::NotHeld { .. } => self.changes += 1,
        }
    }

    /// Its response has ended, or it was not sent after all.
    pub(crate) fn end(&mut self, is_beside: bool, now: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match is_beside {
            true => self.beside = self.beside.saturating_sub(1),
            false => self.last = self.last.max(now),
        }
        // The response outlived the lease: the process that has it now must know.
        if matches!(self.phase, LeasePhase::NotHeld { .. }) {
            self.changes += 1;
        }
    }

    /// The state has changed in a way that others must know of.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
        self.round_trip = Duration::ZERO;
    }

    /// What this process has to say of the host, but for its backoff.
    pub(crate) fn state(&self, now: Moment) -> HostState {
        let last = if self.in_flight > self.beside { now } else { self.last };
        let quiet = (last != Moment::NEVER).then(|| now.since(last));
        HostState { quiet, delay: self.delay, backoff: None }
    }

    fn hands_over(&self, held: Held, now: Moment) -> bool {
        let (requests, span) = QUANTUM;
        let is_used = held.served < requests && self.last.max(held.since).plus(span) > now;
        held.is_wanted && held.since.plus(span) <= now && !is_used
    }

    /// What the task of the host does next. `backs_off`: its backoff, as known here, is not over, or its
    /// throttle count not forgiven.
    pub(crate) fn plan(&self, backs_off: bool, outage: StoreOutage, now: Moment) -> Plan {
        match self.phase {
            _ if self.renewal == RenewalPhase::Sent => Plan::Sleep(now.plus(RETRY)),
            LeasePhase::Held(held) if !outage.is_over() => {
                // Its lease ends by itself, and the host is not in use.
                if self.users == 0 && held.until <= now && !self.is_in_use(backs_off, now) {
                    Plan::End
                } else if held.renew <= now && outage.began < held.until {
                    // Only the servers of other hosts may be away.
                    Plan::Ask { is_held: true }
                } else {
                    match outage.plan(now) {
                        Plan::Sleep(until) => Plan::Sleep(until.min(held.renew.max(now.plus(RETRY)))),
                        plan => plan,
                    }
                }
            }
            LeasePhase::Held(held) => {
                let idle = self.last.max(held.since).plus(self.idle());
                let is_idle = self.users == 0 && (self.leaves || idle <= now);
                if self.in_flight == 0 && (is_idle || self.hands_over(held, now)) {
                    Plan::Release
                } else if self.changes > self.saved || held.until <= now || held.asked < outage.back {
                    let survived = outage.began < held.until && held.until <= outage.back;
                    Plan::Ask { is_held: now < held.until || survived }
                } else if held.renew <= now && self.renewal == RenewalPhase::None {
                    Plan::Renew
                } else {
                    let looks = [idle, held.since.plus(QUANTUM.1)].into_iter().filter(|look| *look > now);
                    let renew = if held.renew <= now { held.until } else { held.renew };
                    Plan::Sleep(looks.fold(renew, Moment::min))
                }
            }
            LeasePhase::NotHeld { again, is_next, elsewhere } => {
                let is_saved = self.changes == self.saved || !self.is_in_use(backs_off, now);
                let settled = outage.back.plus(SETTLE);
                let is_idle = self.users == 0 && is_saved && !is_next;
                // A request that comes while the store is away must not take the host for one that no process
                // has.
                let known_until =
                    elsewhere.filter(|until| !self.leaves && (*until > now || !outage.is_over()));
                match known_until {
                    None if is_idle => Plan::End,
                    _ if !outage.is_over() => outage.plan(now),
                    Some(until) if is_idle => Plan::Sleep(until),
                    _ if self.users == 0 => Plan::Release,
                    _ if settled > now && is_saved => Plan::Sleep(again.max(settled)),
                    // What the process has sent or observed meanwhile is saved at once.
                    _ if settled > now => Plan::Release,
                    _ if again > now && is_saved => Plan::Sleep(again),
                    _ => Plan::Ask { is_held: false },
                }
            }
        }
    }

    /// Something that this process has sent or observed still matters.
    fn is_in_use(&self, backs_off: bool, now: Moment) -> bool {
        backs_off || self.in_flight > 0 || now < self.last.plus(self.delay)
    }

    /// A lease that nothing was sent under for so long is given up: somewhat longer than the next request in
    /// queue takes to come.
    fn idle(&self) -> Duration {
        self.delay.saturating_mul(2).clamp(IDLE.0, IDLE.1)
    }

    /// How often a process asks that waits for another, without jitter.
    pub(crate) fn poll(&self, is_next: bool) -> Duration {
        let poll = if is_next { self.delay } else { self.delay.saturating_mul(4) };
        poll.clamp(POLL.0, POLL.1)
    }

    /// The store has leased the host, as it was asked at `asked`.
    pub(crate) fn leased(&mut self, is_wanted: bool, shared: &Sharing, asked: Moment, now: Moment) {
        let (until, renew) = (asked.plus(shared.lease), asked.plus(shared.lease / 2));
        self.phase = LeasePhase::Held(match self.phase {
            LeasePhase::Held(held) => Held { asked, until, renew, is_wanted, ..held },
            LeasePhase::NotHeld { .. } => Held { since: now, asked, until, renew, served: 0, is_wanted },
        });
    }

    /// Its renewal goes to the store, unless something else was said of the host meanwhile, or the lease has
    /// ended: as when the process was stopped.
    pub(crate) fn is_sent(&mut self, now: Moment) -> bool {
        let is_held = matches!(self.phase, LeasePhase::Held(held) if now < held.until);
        let is_sent = is_held && self.renewal == RenewalPhase::Waiting;
        if is_sent {
            self.renewal = RenewalPhase::Sent;
        }
        is_sent
    }

    /// The store did not reply: half a life later is soon enough, because the store is away or its lease is
    /// not renewed in time anyway.
    pub(crate) fn unanswered(&mut self, shared: &Sharing, now: Moment) {
        if let LeasePhase::Held(held) = &mut self.phase {
            held.renew = now.plus(shared.lease / 2);
        }
    }

    /// Another process has it.
    pub(crate) fn refused(&mut self, is_next: bool, again: Moment, known_until: Moment, now: Moment) {
        self.refused = now;
        self.phase = LeasePhase::NotHeld { again, elsewhere: Some(known_until), is_next };
    }

    /// Another process has it, and this one comes next.
    pub(crate) fn is_next(&self) -> bool {
        matches!(self.phase, LeasePhase::NotHeld { is_next: true, .. })
    }

    /// The store says that it was given up for this process.
    pub(crate) fn ask_again(&mut self, now: Moment) {
        if let LeasePhase::NotHeld { again, .. } = &mut self.phase {
            *again = now;
        }
    }

    /// It is about to be given up: from now on nothing starts.
    pub(crate) fn give_up(&mut self, again: Moment, known_until: Moment) {
        let elsewhere = match self.phase {
            LeasePhase::Held(held) => held.is_wanted.then_some(known_until),
            LeasePhase::NotHeld { elsewhere, .. } => elsewhere,
        };
        self.phase = LeasePhase::NotHeld { again, elsewhere, is_next: false };
        self.renewal = RenewalPhase::None;
    }

    /// The store has replied: it knows the first `changes` changes, and a request was last on its way at
    /// `last`, as far as it knows.
    pub(crate) fn replied(&mut self, changes: u64, last: Moment) {
        self.saved = self.saved.max(changes);
        let is_held = matches!(self.phase, LeasePhase::Held(_));
        if !is_held || last > self.last.plus(SLACK) || self.last == Moment::NEVER {
            self.others = self.others.max(last);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/parts/pacing/lease.rs"]
mod tests;
