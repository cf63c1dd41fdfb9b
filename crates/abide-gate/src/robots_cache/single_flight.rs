//! One fetch for all who wait: the entry of a fetch in the map.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use tokio::sync::watch;

use super::sync::{Arc, Mutex, PoisonError};

/// The in_flight in the map, at most one for each key. Cheap to clone.
///
/// The lock is held for a look-up, never across an await or somebody else's code.
pub(crate) struct SingleFlight<K, T> {
    map: Arc<Mutex<Map<K, T>>>,
    limit: usize,
}

struct Map<K, T> {
    in_flight: HashMap<K, (u64, watch::Receiver<Option<T>>)>,
    last_number: u64,
}

/// What happens to somebody who needs a flight.
pub(crate) enum Join<K: Eq + Hash, T> {
    /// There was none: it is theirs to fly.
    Leader(Leader<K, T>, watch::Receiver<Option<T>>),
    /// There is one: its progress come here.
    Follower(watch::Receiver<Option<T>>),
    /// The map is full.
    Full,
}

impl<K: Clone + Eq + Hash, T> SingleFlight<K, T> {
    /// At most `limit` of them.
    pub(crate) fn new(limit: usize) -> Self {
        let map = Map { in_flight: HashMap::new(), last_number: 0 };
        Self { map: Arc::new(Mutex::new(map)), limit }
    }

    /// Boards the flight for `key`, or opens it.
    pub(crate) fn join(&self, key: &K) -> Join<K, T> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, progress)) = map.in_flight.get(key) {
            return Join::Follower(progress.clone());
        }
        if map.in_flight.len() >= self.limit {
            return Join::Full;
        }
        map.last_number = map.last_number.wrapping_add(1);
        let number = map.last_number;
        let (sender, progress) = watch::channel(None);
        map.in_flight.insert(key.clone(), (number, progress.clone()));
        let flight = Leader { map: Arc::clone(&self.map), key: key.clone(), number, sender };
        Join::Leader(flight, progress)
    }

    /// How many are in the map.
    pub(crate) fn len(&self) -> usize {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).in_flight.len()
    }
}

impl<K, T> fmt::Debug for SingleFlight<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The entry of one flight. Dropped, also by a panic or with its runtime, it leaves the map, and its passengers learn that
/// it was lost; the next one who asks flies again.
pub(crate) struct Leader<K: Eq + Hash, T> {
    map: Arc<Mutex<Map<K, T>>>,
    key: K,
    number: u64,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash, T> Leader<K, T> {
    /// Tells the passengers something while the flight goes on.
    pub(crate) fn announce(&self, progress: T) {
        self.sender.send_replace(Some(progress));
    }

    /// Ends the flight: it leaves the map first, so that whoever comes now sees what was stored, and then the passengers
    /// are told.
    pub(crate) fn finish(self, progress: T) {
        self.leave();
        self.sender.send_replace(Some(progress));
    }

    fn leave(&self) {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if map.in_flight.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            map.in_flight.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, T> Drop for Leader<K, T> {
    fn drop(&mut self) {
        self.leave();
    }
}
