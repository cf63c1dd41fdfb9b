//! The memory store passes the suite of stores.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use abide_gate::access::MemoryAccessStore;
use abide_gate::testing::access::conformance;

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance(|| async { MemoryAccessStore::new() }).await;
}
