//! What the tests share.

mod cluster;
pub(crate) mod judge;
mod proxy;
mod redis;
mod sentinel;
pub(crate) mod workers;

use std::time::{Duration, Instant};

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::{HolderId, StoreError};
use abide_redis::Store;

pub(crate) use cluster::Cluster;
pub(crate) use proxy::Proxy;
pub(crate) use redis::{PATIENCE, Redis};
pub(crate) use sentinel::{Sentinel, Watched};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than anything takes on a machine that does other things as well.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Waits for what servers do on their own. Panics with `what` if it does not come.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(ms(20));
    }
}

/// The same without blocking the thread.
pub(crate) async fn wait_for(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(ms(20)).await;
    }
}

/// A store that has time to connect on a machine that does other things as well.
pub(crate) async fn connect(url: &str) -> Store {
    Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap()
}

/// What one process asks, that reports nothing.
pub(crate) fn asking(holder: u128, want: Want) -> LeaseAsk {
    LeaseAsk { holder: HolderId(holder), want, state: HostState::default() }
}

/// What the store knows of a host. Takes no lease.
pub(crate) async fn probe(store: &Store, host: &str) -> Result<HostState, StoreError> {
    store.exchange(host, asking(1, Want::Release)).await.map(|(_, state)| state)
}

pub(crate) const LEASED: LeaseStatus = LeaseStatus::Leased { is_wanted: false };

impl Redis {
    /// Makes it a replica, and waits until it has what its primary has.
    pub(crate) fn follow(&self, primary: &Self) {
        self.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        self.wait_until_in_step();
    }

    pub(crate) fn wait_until_in_step(&self) {
        wait_until("the replica has what its primary has", || {
            self.info("replication", "master_link_status") == "up"
        });
    }
}
