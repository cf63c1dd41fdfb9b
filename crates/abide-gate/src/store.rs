//! What the traits of both stores share.
//!
//! One error, and one name for a process, so that one store can implement both traits.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::BoxFuture;
use crate::text::Escaped;

/// What a call of a store returns. For our own stores: the traits spell it out.
pub(crate) type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// An operation of a store failed. The text says why; it is logged, so it must not contain secrets.
///
/// It never changes a decision of robots.txt: what cannot be loaded is fetched, and what cannot be saved
/// stays in memory.
///
/// ```
/// use abide_gate::StoreError;
///
/// let error = StoreError::new("robots.db is on a disk that is full");
/// assert_eq!(error.to_string(), "robots.db is on a disk that is full");
/// ```
#[derive(Clone)]
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
        write!(f, "{}", Escaped(self.text.as_bytes()))
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({self})")
    }
}

impl std::error::Error for StoreError {}

/// The name of a process at a store: 128 bits, drawn at random when a gate is built.
///
/// ```
/// use abide_gate::HolderId;
///
/// assert_ne!(HolderId::random(), HolderId::random());
/// assert_eq!(HolderId(0xab).to_string(), "000000000000000000000000000000ab");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderId(pub u128);

impl HolderId {
    /// A random name, from the random keys of the standard library's hash maps.
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
}
