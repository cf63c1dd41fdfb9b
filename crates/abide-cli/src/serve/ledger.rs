//! The permits that clients hold: each ends when it is finished, or at its ttl.
//!
//! A client may die with a permit, so no permit is held for longer than its ttl. Its end is then "outcome
//! unknown": nothing is reported of the host, and the delay counts from there.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide::Gate;
use abide::pacing::Permit;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use url::Url;

/// What clients hold. Cheap to clone; clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    held: Arc<Mutex<HashMap<String, Held>>>,
    numbers: Arc<AtomicU64>,
    /// Differs in every process, so that no name of one means a permit of the next.
    names: RandomState,
}

/// A permit, and for what it was granted.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) permit: Permit,
    pub(crate) url: Url,
    pub(crate) gate: Gate,
    expires: Instant,
    timer: AbortHandle,
}

/// A host has one at a time, so this is as many hosts. Each takes some 2 KB.
pub(crate) const PERMITS_MAX: usize = 100_000;

impl Ledger {
    /// Keeps a permit for `ttl`, and returns its name. Gives it back where there are too many.
    pub(crate) fn enter(&self, permit: Permit, url: Url, gate: Gate, ttl: Duration) -> Option<String> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let name = format!("{number:x}-{:016x}", self.names.hash_one(number));
        let expires = Instant::now() + ttl;
        let mut held = self.lock();
        if held.len() >= PERMITS_MAX {
            drop(held);
            permit.give_back();
            return None;
        }
        let timer = tokio::spawn(self.clone().expire(name.clone())).abort_handle();
        held.insert(name.clone(), Held { permit, url, gate, expires, timer });
        Some(name)
    }

    /// Ends what is kept of a permit: its response has ended.
    pub(crate) fn take(&self, name: &str) -> Option<Held> {
        let held = self.lock().remove(name)?;
        held.timer.abort();
        Some(held)
    }

    /// Gives a permit `ttl` from now, or leaves it the time that it has if that is longer. Returns how long
    /// it has now.
    pub(crate) fn extend(&self, name: &str, ttl: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut held = self.lock();
        let held = held.get_mut(name)?;
        // Its timer wakes at the time before, and looks again.
        held.expires = held.expires.max(now + ttl);
        Some(held.expires - now)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    async fn expire(self, name: String) {
        loop {
            let expires = match self.lock().get(&name) {
                Some(held) => held.expires,
                None => return,
            };
            if expires > Instant::now() {
                sleep_until(expires).await;
                continue;
            }
            // Out of the lock: its end wakes the next in the queue.
            let expired = self.lock().remove(&name);
            if expired.is_some() {
                metrics::counter!("abide_serve_permits_total", "end" => "expired").increment(1);
            }
            return;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        // Nothing panics under it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
