//! What the tests share.

mod cluster;
mod proxy;
mod sentinel;
pub(crate) mod website;
pub(crate) mod workers;

use std::time::{Duration, Instant};

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::{HolderId, StoreError};
use abide_redis::Store;
use abide_tests::Redis;

pub(crate) use cluster::Cluster;
pub(crate) use proxy::Proxy;
pub(crate) use sentinel::{Watched, start_sentinel};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For one command. The machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than anything takes on a machine that does other things as well.
const LONG: Duration = Duration::from_secs(120);

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

pub(crate) async fn connect(url: &str) -> Store {
    Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap()
}

/// Why a store cannot be connected.
pub(crate) async fn refusal(url: &str) -> String {
    Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap_err().to_string()
}

/// What one process asks, that reports nothing.
pub(crate) fn asking(holder: u128, want: Want) -> LeaseAsk {
    LeaseAsk { holder: HolderId(holder), number: 0, want, state: HostState::default() }
}

pub(crate) async fn probe(store: &Store, host: &str) -> Result<HostState, StoreError> {
    store.exchange(host, asking(1, Want::Release)).await.map(|(_, state)| state)
}

pub(crate) const LEASED: LeaseStatus = LeaseStatus::Leased { is_wanted: false };

/// Makes it a replica, and waits until it has what its primary has.
pub(crate) fn follow(replica: &Redis, primary: &Redis) {
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    follow_up(replica);
}

/// Waits until a replica has what its primary has.
pub(crate) fn follow_up(replica: &Redis) {
    wait_until("the replica has what its primary has", || {
        replica.info("replication", "master_link_status") == "up"
    });
}
