//! The suites that every store passes.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::testing::{access, hosts};
use abide_redb::Store;
use redb::backends::InMemoryBackend;

fn in_memory() -> Store {
    Store::with_backend(InMemoryBackend::new()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_an_access_store() {
    access::conformance(async || in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_an_access_store_on_a_file_that_is_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let n = std::cell::Cell::new(0);
    access::conformance(async || {
        n.set(n.get() + 1);
        let path = directory.path().join(format!("{}.redb", n.get()));
        Store::builder().write_behind(Duration::ZERO).open(path).unwrap()
    })
    .await;
}

#[tokio::test]
async fn records_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    access::survives_reopening(async || Store::open(directory.path().join("a.redb")).unwrap()).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn it_is_a_host_store() {
    hosts::conformance(Arc::new(in_memory()), tokio::time::sleep).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn it_forgives_throttle_counts() {
    hosts::throttle_counts_are_forgiven(Arc::new(in_memory()), tokio::time::sleep).await;
}

#[tokio::test]
async fn backoffs_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.redb");
    let store = Arc::new(Store::open(&path).unwrap());
    hosts::backoffs_survive_reload(store, async |store| {
        drop(store);
        Arc::new(Store::open(&path).unwrap()) as Arc<_>
    })
    .await;
}
