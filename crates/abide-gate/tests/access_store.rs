//! The memory store passes the suite of stores.

use abide_gate::access::MemoryAccessStore;
use abide_gate::testing::access::conformance;

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance(|| async { MemoryAccessStore::new() }).await;
}
