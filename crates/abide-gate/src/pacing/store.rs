//! The trait of a store that processes share, or that outlives one: leases of hosts, and what is known of
//! each host.
//!
//! A process *leases* a host, and paces it alone while it has the lease. So the rule of pacing stands in one
//! place, in this crate, and a store keeps only two things for a host: who has its lease until when, and the
//! state that the next holder goes on from. [`HostEntry`](super::HostEntry) is that step as a plain function:
//! the store in memory (`testing`) and the durable store of `abide-redb` call it, and `abide-redis` does the
//! same in Lua, `abide-postgres` in SQL.

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::backoff::BackoffCause;
use crate::{BoxFuture, HolderId, StoreError};

/// Leases of hosts, shared by processes or kept over restarts.
///
/// [`HostEntry`](super::HostEntry) is the whole rule as a plain function: a store locks the host's entry,
/// calls [`HostEntry::exchange`](super::HostEntry::exchange) with its own clock, keeps the entry, and
/// replies. `docs/stores.md` shows how to write one. Every implementation passes the suite
/// `testing::hosts::conformance` (feature `testing`), which checks what a store promises here:
///
/// * **Keys.** A key is any text: empty, long, with spaces, quotation marks, braces or a NUL in it. No two
///   keys are the same host.
/// * **Time.** All times are relative, so the clocks of the processes need not agree: only the store's own
///   clock counts. If that is set back, no time has passed, and no lease, delay or backoff gets longer.
/// * **Rounding.** What ends at a time (a lease, a place in queue, a backoff) may end up to 1 ms later, and
///   no earlier. So a [`wait`](LeaseStatus::Busy::wait) is at most what is left of the `ttl` of another
///   process, and 1 ms.
/// * **Late replies.** A process counts its lease from when it *asked*, and the store from when it *decides*,
///   which is later: so a reply may be late by any time without harm. One that comes after the `ttl` grants
///   nothing, and one after the time limit (see *Cancellation*) is not heard.
/// * **Leases.** One process at most has the lease of a host: the one that asked first, until it gives it up
///   or its `ttl` has passed since it asked last. A lease that ended by itself was never given up:
///   [`quiet`](HostState::quiet) counts from its end at the earliest, because its holder may have sent a
///   request until then.
/// * **Queue.** Processes that got [`Busy`](LeaseStatus::Busy) get the lease in the order in which they first
///   asked. Each keeps its place for its `again_in`, and gives it up with [`Want::Release`]. A lease that is
///   free waits for the process that is next. A store may bound the queue (`HostEntry`: 64 processes); others
///   wait without a place.
/// * **State** only grows, whichever process has the lease: the latest request, the longest delay, the latest
///   end of a backoff and the highest throttle count win. A throttle count is kept for
///   [`THROTTLES_KEPT`](super::THROTTLES_KEPT) after the end of its backoff, and then both are forgotten; a
///   backoff with a count of zero is forgotten at its end.
/// * **Backoffs** that end more than 27 hours ahead (24 hours and a tenth for jitter, and some more) are the
///   mistake of a clock, and last for 24 hours from now. So does one that is read again after a restart.
/// * **Atomicity.** One exchange is one step, also between processes.
/// * **Cancellation.** The pacer waits
///   [`PacePolicy::with_store_timeout`](super::PacePolicy::with_store_timeout) for a call, then drops its
///   future and asks again. Asking twice is harmless, because a lease belongs to a process and not to a
///   command. A dropped call is done or not done, and leaves no lock behind.
/// * **Late calls.** A call that was dropped may take effect after later ones of its process, as on a
///   connection that was given up. A late report does no harm, because states only grow. A late release would
///   free a lease that is in use, and after a release, a late request would lease a host that no process
///   uses. So the store keeps the [`number`](LeaseAsk::number) of the call that last took, renewed or gave up a lease,
///   and who made it, until another process asks for the lease. A release with a lower one gives up no lease;
///   after a release, a request with a lower one gets [`Released`](LeaseStatus::Released), and no place in
///   queue. A request that is late in any other way costs time alone, because a lease ends by itself.
/// * **Durability.** A store that promises to survive a restart has a backoff on disk before it replies.
///   Which requests were on their way is not known after a restart: every host was quiet since then at the
///   most.
/// * **Loss.** A store that can lose its data while processes run leases no host for one `ttl` after such a
///   loss, except to a process that says [`is_held`](Want::Lease::is_held). Lost is whatever stood in a reply
///   and the store no longer knows: after a flush, a restart without a log that is on disk at each reply, a
///   restored backup, or a failover to a replica that may lack the last writes. A store that cannot exclude it
///   assumes it, so it keeps, next to its data, the name of the server (or of its run) that has written them:
///   under another name the data are those of a loss. A lease from before a loss is not believed; states and
///   backoffs are, because they only lengthen.
/// * **Capacity.** An entry may be removed when [`HostEntry::is_in_use`](super::HostEntry::is_in_use) is
///   false, and not before.
pub trait HostStore: fmt::Debug + Send + Sync + 'static {
    /// Merges what a process knows of a host into the stored state, takes, renews or gives up the host's
    /// lease, and returns who has the lease now and the state of all processes together.
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> BoxFuture<'a, LeaseReply>;

    /// Exchanges about several hosts, whose leases one process renews together; at most 64, no host twice.
    /// Each is a step of its own and may fail alone, and the replies are in the order of what was asked. A
    /// store with a round trip makes them in one; by default they are made at the same time.
    fn exchange_all<'a>(&'a self, asks: &'a [(Arc<str>, LeaseAsk)]) -> BoxFuture<'a, Vec<LeaseReply>> {
        Box::pin(exchange_each(self, asks))
    }

    /// Waits until this process, which got [`Busy`](LeaseStatus::Busy) and is next, may get the lease of the
    /// host because its holder has given it up. A hint: the process then asks at once, and it asks again by
    /// itself if this never comes, which is the default. Dropped when it is no longer waited for.
    fn given_up<'a>(&'a self, host: &'a str, holder: HolderId) -> BoxFuture<'a, ()> {
        let _ = (host, holder);
        Box::pin(pending())
    }

    /// Whether other processes may use it at the same time. Of a store of one process, as a file that is
    /// locked, a failure stops no requests: none but this process can be sending.
    fn is_shared(&self) -> bool {
        true
    }
}

/// What a store returns of an exchange.
pub type LeaseReply = Result<(LeaseStatus, HostState), StoreError>;

/// Makes each exchange by a call of its own, all at the same time: [`HostStore::exchange_all`] where a store
/// has no better way.
pub async fn exchange_each<S: HostStore + ?Sized>(
    store: &S,
    asks: &[(Arc<str>, LeaseAsk)],
) -> Vec<LeaseReply> {
    let mut calls: Vec<_> = asks.iter().map(|(host, ask)| (store.exchange(host, *ask), None)).collect();
    poll_fn(|context| {
        for (call, reply) in calls.iter_mut().filter(|(_, reply)| reply.is_none()) {
            if let Poll::Ready(done) = call.as_mut().poll(context) {
                *reply = Some(done);
            }
        }
        if calls.iter().all(|(_, reply)| reply.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    calls.into_iter().filter_map(|(_, reply)| reply).collect()
}

/// What a process asks of a store, and what it knows of the host.
///
/// ```
/// use std::time::Duration;
/// use abide_gate::{HolderId, pacing::{HostEntry, HostState, LeaseAsk, Want}};
///
/// let state = HostState { delay: Duration::from_secs(5), ..HostState::default() };
/// let ask = LeaseAsk { holder: HolderId::random(), number: 1, want: Want::Release, state };
/// assert_eq!(HostEntry::default().exchange(&ask, Duration::ZERO, Duration::ZERO).1, state, "for the next process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The process.
    pub holder: HolderId,
    /// Higher than in each call of this process before, so that a call that comes late can be recognised.
    pub number: u64,
    /// What it wants.
    pub want: Want,
    /// What it knows.
    pub state: HostState,
}

/// What a process wants of a host's lease.
///
/// ```
/// use abide_gate::pacing::Want;
///
/// let lasts = |want| match want {
///     Want::Lease { ttl, .. } => Some(ttl),
///     Want::Release => None,
/// };
/// assert_eq!(lasts(Want::Release), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Take the lease, or renew it.
    Lease {
        /// How long it lasts from now.
        ttl: Duration,
        /// If another process has it: this one asks again within this time, for which it keeps its place in
        /// queue.
        again_in: Duration,
        /// This process has the lease by its own clock, whatever the store has.
        is_held: bool,
    },
    /// Give up the lease and the place in queue, if this process has one of them. The state is saved in any
    /// case.
    Release,
}

/// Who has a host's lease after an [exchange](HostStore::exchange).
///
/// ```
/// use abide_gate::pacing::LeaseStatus;
///
/// let next = |status| match status {
///     LeaseStatus::Leased { .. } => "send requests".to_owned(),
///     LeaseStatus::Busy { wait, .. } => format!("ask again in {wait:?}"),
///     LeaseStatus::Released => "ask before the next request".to_owned(),
/// };
/// assert_eq!(next(LeaseStatus::Leased { is_wanted: false }), "send requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// The process that asked, from now on for the `ttl` that it named.
    Leased {
        /// Another process waits for it.
        is_wanted: bool,
    },
    /// Not the process that asked.
    Busy {
        /// It may be free after this time, or earlier.
        wait: Duration,
        /// The process that asked is next in queue.
        is_next: bool,
    },
    /// It was given up, or never taken.
    Released,
}

/// What the next process to send to a host has to know.
///
/// ```
/// use std::time::Duration;
/// use abide_gate::pacing::HostState;
///
/// let state = HostState { quiet: Some(Duration::from_secs(3)), delay: Duration::from_secs(10), backoff: None };
/// assert_eq!(state.quiet.map(|quiet| state.delay.saturating_sub(quiet)), Some(Duration::from_secs(7)), "left of the delay");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// Since a request was last on its way, as far as is known: zero while one is. `None`: nothing was sent.
    pub quiet: Option<Duration>,
    /// The delay that is kept between requests: [`quiet`](Self::quiet) matters for so long.
    pub delay: Duration,
    /// The last backoff, if its throttle count still matters.
    pub backoff: Option<Backoff>,
}

/// A backoff, as it goes from process to process.
///
/// ```
/// use std::time::Duration;
/// use abide_gate::pacing::{Backoff, BackoffCause, THROTTLES_KEPT};
///
/// let (end, now) = (Duration::from_secs(100), Duration::from_secs(160)); // on the clock of a store
/// let (left, over) = (end.saturating_sub(now), now.saturating_sub(end));
/// let backoff = Backoff { left, over, throttles: 1, cause: BackoffCause::Shared };
/// assert!(backoff.left.is_zero() && backoff.over < THROTTLES_KEPT, "it is over, and its throttle still counts");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// What is left of it. Zero: it is over.
    pub left: Duration,
    /// Since its end. Zero: it is not over.
    pub over: Duration,
    /// How often in a row the server answered 429 or 503. Zero: the operator set the backoff.
    pub throttles: u8,
    /// Why the host is backed off.
    pub cause: BackoffCause,
}
