//! What a shared or durable store of turns must do. [`MemoryPaceStore`](super::MemoryPaceStore) is the model;
//! `abide_gate::testing::pacing` is the suite that each store passes.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::feedback::Cause;
use super::scope::ScopeKey;
use crate::WallMillis;

/// What a store answers with, some time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Turns, shared by processes or kept over restarts.
///
/// Each process paces itself as well, whatever the store says or fails to say; the store is asked once the turn of the process has
/// come. So it sees at most as many requests at once as there are processes, and needs no lines.
///
/// Times are relative where they can be, so that the clocks of the processes need not agree.
pub trait PaceStore: fmt::Debug + Send + Sync + 'static {
    /// Takes a turn in all scopes, or in none. The scopes come sorted by key and are distinct.
    ///
    /// With `start = max(now, last start + gap, last end + gap, end of the hold)` over all scopes: granted if in each scope fewer
    /// leases than `max_in_flight` are alive and `start` is at most `max_wait` away. A grant records `start` and the lease
    /// `ask.lease`, which lives until `start + ttl` unless it is renewed. A refusal changes nothing.
    ///
    /// Both answers tell the strikes as far as they are not forgiven: the next hold is longer by them, whoever heard the last complaint.
    fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply>;

    /// Lets a lease live for `ttl` from now, if it is still alive.
    fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()>;

    /// Ends a lease. After [`Ended::Response`] the gap counts from now, also if the lease has expired or is not known; after
    /// [`Ended::Unsent`] nothing else changes. Other leases are never touched.
    fn release<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ended: Ended) -> StoreFuture<'a, ()>;

    /// Whether a lease that was granted for later still counts: asked shortly before it starts, which is `wait` from now, before anything
    /// is sent. No, if a scope has come to be held for longer; a store that can lose what it knew while it runs also says no when it
    /// has. Another one is asked for then. The default looks at the holds.
    fn confirm<'a>(
        &'a self,
        scopes: &'a [ScopeAsk],
        lease: LeaseId,
        wait: Duration,
    ) -> StoreFuture<'a, bool> {
        let _ = lease;
        Box::pin(async move {
            for wanted in scopes {
                if self.peek(&wanted.key).await?.held > wait {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Holds a scope until then, unless it is held for longer. Returns the end of the hold that is in force, or now.
    ///
    /// `strikes` are the complaints that led to it (0: the operator's hold). Unless more are known, they are kept beside the end of the hold,
    /// until [`STRIKES_KEPT`](super::STRIKES_KEPT) after it. A time that has passed holds nothing, and tells the strikes only, unless they are
    /// forgiven by then.
    fn hold<'a>(
        &'a self,
        scope: &'a ScopeKey,
        until: WallMillis,
        strikes: u8,
        cause: Cause,
    ) -> StoreFuture<'a, WallMillis>;

    /// How often the store has lost what it knew, as far as it has noticed. When the number changes, the pacer tells it of all holds
    /// and strikes again that its process knows. The default is a store that loses nothing.
    fn losses(&self) -> u64 {
        0
    }

    /// The state of a scope. Changes nothing.
    fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState>;
}

/// One scope of a request to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeAsk {
    /// Whose turn.
    pub key: ScopeKey,
    /// From the end of a response to the next request, at most 24 h.
    pub gap: Duration,
    /// Most leases at a time, at least 1.
    pub max_in_flight: u16,
}

impl ScopeAsk {
    /// One scope of a request.
    pub fn new(key: ScopeKey, gap: Duration, max_in_flight: u16) -> Self {
        Self { key, gap, max_in_flight }
    }
}

/// What a request asks of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The asking side's name for the lease, so that it can be released also when the answer got lost.
    pub lease: LeaseId,
    /// Longest wait.
    pub max_wait: Duration,
    /// How long the lease lives from its start, unless renewed.
    pub ttl: Duration,
}

/// The name of a lease: 128 bits, drawn at random by whoever asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u128);

impl LeaseId {
    /// A name that no other lease has, in no process: drawn from the random keys of the standard library's hash maps.
    pub fn random() -> Self {
        let half = || u128::from(RandomState::new().hash_one(0_u64));
        Self(half() << 64 | half())
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({self})")
    }
}

/// The answer to [`PaceStore::reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The turn is ours in this time.
    Granted {
        /// From now, at most `max_wait`.
        wait: Duration,
        /// Complaints in a row that are not forgiven, the most that any of the scopes has.
        strikes: u8,
    },
    /// Not within `max_wait`.
    Refused {
        /// Which scope is not free: its place among the scopes of the request.
        scope: usize,
        /// When it could be, from now.
        wait: Duration,
        /// What is waited for.
        reason: Busy,
    },
}

/// Why a store refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// As many leases are alive as may be. The wait is until the one that is in flight starts, if only one may be and it has been granted
    /// for later: nobody gets the turn before that. Else it is zero: nobody knows when it ends.
    InFlight,
    /// The gap.
    Gap,
    /// The hold.
    Hold {
        /// Why it is held.
        cause: Cause,
        /// Complaints in a row.
        strikes: u8,
    },
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The response has ended, or it is not known what became of it: the gap counts from now.
    Response,
    /// Nothing was sent.
    Unsent,
}

/// What a store knows of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeState {
    /// Leases that are alive.
    pub in_flight: u32,
    /// Since the last start or end. Nothing: nothing is known.
    pub quiet: Option<Duration>,
    /// What is left of the hold. Zero: it is not held.
    pub held: Duration,
    /// Complaints in a row that are not forgiven.
    pub strikes: u8,
}

impl ScopeState {
    /// The state of a scope.
    pub fn new(in_flight: u32, quiet: Option<Duration>, held: Duration, strikes: u8) -> Self {
        Self { in_flight, quiet, held, strikes }
    }
}

/// The store did not do it. Its text says why, without anything secret: it is logged.
#[derive(Clone, Debug)]
pub struct StoreError {
    text: Arc<str>,
}

impl StoreError {
    /// With a reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { text: reason.to_string().into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for StoreError {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lease_names_differ_in_both_halves() {
        let halves = |id: LeaseId| [(id.0 >> 64) as u64, id.0 as u64];
        let all: HashSet<u64> = (0..10_000).flat_map(|_| halves(LeaseId::random())).collect();
        assert_eq!(all.len(), 20_000);
    }

    #[test]
    fn a_lease_is_shown_by_all_its_digits() {
        let id = LeaseId(0xab);
        assert_eq!(id.to_string(), format!("{}ab", "0".repeat(30)));
        assert_eq!(format!("{id:?}"), format!("LeaseId({id})"));
    }
}
