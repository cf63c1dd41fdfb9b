//! A [`HostStore`] in memory: for several pacers of one process, and the model for other stores.
//!
//! It is the smallest store that keeps the contract: one lock, a map, and [`HostEntry`] for the rule.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::host_state::HostEntry;
use super::store::{HostState, HostStore, LeaseAsk, LeaseStatus};
use crate::{Clock, StoreFuture, SystemClock, caught_clock};

/// Leases of hosts in memory, for several pacers in one process. A pacer alone needs none. After a restart it knows nothing; use a
/// durable store where that matters.
///
/// ```
/// # use std::sync::Arc;
/// # use abide_gate::{Gate, pacing::MemoryHostStore};
/// let store = Arc::new(MemoryHostStore::default());
/// let one = Gate::builder().host_store(store.clone());
/// let other = Gate::builder().host_store(store);
/// ```
#[derive(Debug)]
pub struct MemoryHostStore {
    clock: Arc<dyn Clock>,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    hosts: HashMap<Arc<str>, HostEntry>,
    exchanges: u32,
}

/// Hosts that nothing is owed to are forgotten after so many exchanges: rarely enough to cost nothing, often enough that the hosts of
/// the last few minutes are most of what is kept.
const CLEAN_EVERY: u32 = 1_024;

impl Default for MemoryHostStore {
    fn default() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }
}

impl MemoryHostStore {
    /// With another clock. Where it panics, the machine's clock stands in.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let clock = caught_clock(clock);
        Self { began: clock.now(), clock, state: Mutex::default() }
    }
}

impl HostStore for MemoryHostStore {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock: an exchange with an earlier time than the last one would be a clock that was set back.
            let now = self.clock.now().saturating_duration_since(self.began);
            state.exchanges = state.exchanges.wrapping_add(1);
            if state.exchanges.is_multiple_of(CLEAN_EVERY) {
                state.hosts.retain(|_, entry| entry.is_owed(now));
            }
            Ok(state.hosts.entry(host.into()).or_default().exchange(&ask, now, Duration::ZERO))
        })
    }
}
