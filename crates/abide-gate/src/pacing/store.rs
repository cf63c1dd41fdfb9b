//! The trait of a store that processes share, or that outlives one: leases of hosts, and what is known of each host.
//!
//! A process *leases* a host, and paces it alone while it has the lease. So the rule of pacing stands in one place, in this crate,
//! and a store keeps only two things for a host: who has its lease until when, and the state that the next holder goes on from.
//! [`HostEntry`] is that step as a plain function: [`MemoryHostStore`](super::MemoryHostStore) and the durable store of `abide-redb`
//! call it, and the script of `abide-redis` says the same in Lua. `abide_gate::testing::hosts` is the suite that each store passes.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::feedback::BackoffCause;
use super::scope::ScopeKey;
use crate::{BoxFuture, StoreError};

/// Leases of hosts, shared by processes or kept over restarts.
///
/// All times are relative, so the clocks of the processes need not agree: only the store's own clock counts.
pub trait HostStore: fmt::Debug + Send + Sync + 'static {
    /// Merges what a process knows of a host into the stored state, and takes, renews or gives up the host's lease. One atomic step.
    ///
    /// What is owed to the site only grows: the later end of a response, the later end of a backoff and the higher throttle count
    /// win, whoever has the lease. Asking twice is harmless, because a lease belongs to a process and not to a command: a reply that
    /// was lost is simply asked for again.
    ///
    /// A store that can lose its data while processes run leases no host for one `ttl` after such a loss, except to a process that
    /// says [`is_held`](Want::Lease::is_held).
    fn exchange<'a>(
        &'a self,
        host: &'a ScopeKey,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<LeaseReply, StoreError>>;
}

/// The name of a process at a store: 128 bits, drawn at random when a pacer is built.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderId(pub u128);

impl HolderId {
    /// A name that no other process has, drawn from the random keys of the standard library's hash maps.
    pub fn random() -> Self {
        let half = || u128::from(RandomState::new().hash_one(0_u64));
        Self(half() << 64 | half())
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HolderId({self})")
    }
}

/// What a process asks of a store, and what it knows of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The process.
    pub holder: HolderId,
    /// What it wants.
    pub want: Want,
    /// What it knows.
    pub state: HostState,
}

/// What a process wants of a host's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Take the lease, or renew it.
    Lease {
        /// How long it lasts from now.
        ttl: Duration,
        /// If another process has it: this one asks again within this time, for which it keeps its place in line.
        again_in: Duration,
        /// This process has the lease by its own clock, whatever the store remembers.
        is_held: bool,
    },
    /// Give up the lease and the place in line, if this process has one of them. The state is saved in any case.
    Release,
}

/// What a store replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReply {
    /// Who has the lease now.
    pub lease: LeaseStatus,
    /// What is known of the host, by all processes together.
    pub state: HostState,
}

/// Who has a host's lease after an [exchange](HostStore::exchange).
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
        /// The process that asked is next in line.
        is_next: bool,
    },
    /// It was given up, or never taken.
    Released,
}

/// What the next process to send to a host has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// Since a request was last on its way, as far as is known: zero while one is. `None`: nothing was sent.
    pub quiet: Option<Duration>,
    /// The delay that is kept between requests: [`quiet`](Self::quiet) matters for so long.
    pub delay: Duration,
    /// The last backoff, if its throttle count still matters.
    pub backoff: Option<Backoff>,
}

/// A backoff, as processes tell each other of it.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_of_processes_differ_in_both_halves() {
        let halves = |id: HolderId| [(id.0 >> 64) as u64, id.0 as u64];
        let all: HashSet<u64> = (0..10_000).flat_map(|_| halves(HolderId::random())).collect();
        assert_eq!(all.len(), 20_000);
    }

    #[test]
    fn a_name_is_shown_by_all_its_digits() {
        let id = HolderId(0xab);
        assert_eq!(id.to_string(), format!("{}ab", "0".repeat(30)));
        assert_eq!(format!("{id:?}"), format!("HolderId({id})"));
    }
}
