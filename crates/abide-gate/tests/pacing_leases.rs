//! The pacer with a shared store: what processes keep together, and what each keeps when the store fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use abide_gate::pacing::MemoryHostStore;

#[tokio::test(start_paused = true)]
async fn the_memory_store_passes_the_suite() {
    abide_gate::testing::hosts::host_store(Arc::new(MemoryHostStore::default())).await;
}

#[tokio::test(start_paused = true)]
async fn the_memory_store_forgives_throttle_counts() {
    let store = Arc::new(MemoryHostStore::default());
    abide_gate::testing::hosts::throttle_counts_are_forgiven(store, tokio::time::sleep).await;
}
