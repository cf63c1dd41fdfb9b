//! What the tests share.

use std::time::Duration;

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, Want};
use abide_gate::{HolderId, StoreError};
use abide_postgres::Store;
use abide_tests::Postgres;

pub(crate) use crate::crew::{PATIENCE, Proxy, ms, wait_for};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) const LEASED: LeaseStatus = LeaseStatus::Leased { is_wanted: false };

pub(crate) async fn connect(url: &str) -> Store {
    Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap()
}

/// Why a store cannot be connected.
pub(crate) async fn refusal(url: &str) -> String {
    Store::builder(url).command_timeout(PATIENCE).connect().await.unwrap_err().to_string()
}

/// Nothing was lost for two days, as the server sees it.
pub(crate) fn age(server: &Postgres) {
    server.ask("SELECT abide.since(); UPDATE abide.run SET since = since - 2 * 86400000000");
}

/// What one process asks, that reports nothing.
pub(crate) fn asking(holder: u128, want: Want) -> LeaseAsk {
    LeaseAsk { holder: HolderId(holder), number: 0, want, state: HostState::default() }
}

pub(crate) fn lease(ttl: Duration) -> Want {
    Want::Lease { ttl, again_in: MINUTE, is_held: false }
}

pub(crate) fn held(ttl: Duration) -> Want {
    Want::Lease { ttl, again_in: MINUTE, is_held: true }
}

pub(crate) async fn exchange(store: &Store, holder: u128, want: Want) -> (LeaseStatus, HostState) {
    store.exchange("a.example", asking(holder, want)).await.unwrap()
}

pub(crate) async fn status(store: &Store, holder: u128, want: Want) -> LeaseStatus {
    exchange(store, holder, want).await.0
}

pub(crate) fn is_busy(status: LeaseStatus, within: Duration) -> bool {
    matches!(status, LeaseStatus::Busy { wait, .. } if wait > Duration::ZERO && wait <= within)
}

pub(crate) async fn probe(store: &Store, host: &str) -> Result<HostState, StoreError> {
    store.exchange(host, asking(1, Want::Release)).await.map(|(_, state)| state)
}

/// Ends the connections of all processes, and says how many they were.
pub(crate) const CUT: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'abide'";
