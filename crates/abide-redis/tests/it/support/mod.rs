//! What the tests share.

mod cluster;
mod sentinel;

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::{HolderId, StoreError};
use abide_redis::Store;
use abide_tests::Redis;

pub(crate) use crate::crew::{PATIENCE, Proxy, ms, wait_for, wait_until};
pub(crate) use cluster::Cluster;
pub(crate) use sentinel::{Watched, start_sentinel};

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
