//! One fetch for all callers that wait for it.
//!
//! The first caller leads: it starts a task, which no dropped caller cancels. Those that come meanwhile
//! follow, to the same progress and result.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::sync::watch;

use super::sync::{Arc, Mutex, PoisonError};

/// The fetches in flight, at most one for each key.
///
/// The lock is held for a look-up, never across an await or a callback.
pub(crate) struct SingleFlight<K, T> {
    in_flight: InFlight<K, T>,
    limit: usize,
}

type InFlight<K, T> = Arc<Mutex<HashMap<K, watch::Receiver<T>>>>;

/// The progress of a fetch; and its leader if there was none: run the fetch.
type Joined<K, T> = (watch::Receiver<T>, Option<Leader<K, T>>);

impl<K: Clone + Eq + Hash, T: Default> SingleFlight<K, T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { in_flight: Arc::new(Mutex::new(HashMap::new())), limit }
    }

    /// Follows the fetch for `key`, or becomes its leader. `None`: there are as many as allowed.
    pub(crate) fn join(&self, key: &K) -> Option<Joined<K, T>> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked up and put in under one lock: of two callers that come at once, one leads.
        if let Some(progress) = in_flight.get(key) {
            return Some((progress.clone(), None));
        }
        if in_flight.len() >= self.limit {
            return None;
        }
        let (sender, progress) = watch::channel(T::default());
        in_flight.insert(key.clone(), progress.clone());
        let leader = Leader { in_flight: Arc::clone(&self.in_flight), key: key.clone(), sender };
        Some((progress, Some(leader)))
    }

    pub(crate) fn len(&self) -> usize {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The place of one fetch. Dropped, also by a panic or with its runtime, it leaves the map: its followers see
/// a loss, the next caller leads.
pub(crate) struct Leader<K: Eq + Hash, T> {
    in_flight: InFlight<K, T>,
    key: K,
    /// The progress, which the followers see.
    pub(super) sender: watch::Sender<T>,
}

impl<K: Eq + Hash, T> Leader<K, T> {
    /// Ends the fetch: it leaves the map first, so that a caller that comes now sees what was stored, and
    /// then the followers are notified.
    pub(crate) fn finish(self, change: impl FnOnce(&mut T)) {
        // A second sender, or the followers would see that the fetch was lost.
        let sender = self.sender.clone();
        drop(self);
        sender.send_modify(change);
    }
}

impl<K: Eq + Hash, T> Drop for Leader<K, T> {
    fn drop(&mut self) {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
