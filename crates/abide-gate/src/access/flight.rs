//! One fetch for all who wait: the entry of a fetch in the air.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use tokio::sync::watch;

use super::sync::{Arc, Mutex, PoisonError};

/// The flights in the air, at most one for each key. Cheap to clone.
///
/// The lock is held for a look-up, never across an await or somebody else's code.
pub(crate) struct Flights<K, T> {
    air: Arc<Mutex<Air<K, T>>>,
    limit: usize,
}

struct Air<K, T> {
    flights: HashMap<K, (u64, watch::Receiver<Option<T>>)>,
    last_number: u64,
}

/// What happens to somebody who needs a flight.
pub(crate) enum Boarding<K: Eq + Hash, T> {
    /// There was none: it is theirs to fly.
    Pilot(Flight<K, T>, watch::Receiver<Option<T>>),
    /// There is one: its news come here.
    Passenger(watch::Receiver<Option<T>>),
    /// The air is full.
    Full,
}

impl<K: Clone + Eq + Hash, T> Flights<K, T> {
    /// At most `limit` of them.
    pub(crate) fn new(limit: usize) -> Self {
        let air = Air { flights: HashMap::new(), last_number: 0 };
        Self { air: Arc::new(Mutex::new(air)), limit }
    }

    /// Boards the flight for `key`, or opens it.
    pub(crate) fn board(&self, key: &K) -> Boarding<K, T> {
        let mut air = self.air.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, news)) = air.flights.get(key) {
            return Boarding::Passenger(news.clone());
        }
        if air.flights.len() >= self.limit {
            return Boarding::Full;
        }
        air.last_number += 1;
        let number = air.last_number;
        let (sender, news) = watch::channel(None);
        air.flights.insert(key.clone(), (number, news.clone()));
        let flight = Flight { air: Arc::clone(&self.air), key: key.clone(), number, sender };
        Boarding::Pilot(flight, news)
    }

    /// How many are in the air.
    pub(crate) fn len(&self) -> usize {
        self.air.lock().unwrap_or_else(PoisonError::into_inner).flights.len()
    }
}

impl<K, T> fmt::Debug for Flights<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The entry of one flight. Dropped, also by a panic or with its runtime, it leaves the air, and its passengers learn that
/// it was lost; the next one who asks flies again.
pub(crate) struct Flight<K: Eq + Hash, T> {
    air: Arc<Mutex<Air<K, T>>>,
    key: K,
    number: u64,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash, T> Flight<K, T> {
    /// Tells the passengers something while the flight goes on.
    pub(crate) fn announce(&self, news: T) {
        self.sender.send_replace(Some(news));
    }

    /// Ends the flight: it leaves the air first, so that whoever comes now sees what was stored, and then the passengers
    /// are told.
    pub(crate) fn land(self, news: T) {
        self.leave();
        self.sender.send_replace(Some(news));
    }

    fn leave(&self) {
        let mut air = self.air.lock().unwrap_or_else(PoisonError::into_inner);
        if air.flights.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            air.flights.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, T> Drop for Flight<K, T> {
    fn drop(&mut self) {
        self.leave();
    }
}
