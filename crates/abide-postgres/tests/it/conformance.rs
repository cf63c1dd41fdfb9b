//! The suites that every store passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_gate::testing;
use abide_postgres::{Builder, Store};
use abide_tests::Postgres;
use tokio::join;

/// For one statement. The machine may be busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// At the same time, because the suites mostly wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suites_of_every_store_pass() {
    let Some(server) = Postgres::start(&[]) else { return };
    let builder = Store::builder(&server.url()).command_timeout(PATIENCE);
    let store = Arc::new(builder.clone().connect().await.unwrap());
    let hosts = testing::hosts::conformance(store, tokio::time::sleep);
    join!(hosts, records(builder));
}

async fn records(builder: Builder) {
    let runs = AtomicUsize::new(0);
    let open = |schema: String| async { builder.clone().schema(&{ schema }).connect().await.unwrap() };
    let make = || open(format!("run{}", runs.fetch_add(1, Ordering::Relaxed)));
    testing::robots_cache::conformance(make).await;
    testing::robots_cache::survives_reopening(|| open("again".to_owned())).await;
    #[cfg(feature = "permissions")]
    {
        abide_permissions::testing::conformance(make).await;
        abide_permissions::testing::survives_reopening(|| open("again".to_owned())).await;
    }
}

/// Settings that cost no disk access must not cost backoffs.
#[tokio::test]
async fn a_backoff_survives_a_crash_of_the_server() {
    let Some(server) = Postgres::start(&[]) else { return };
    let (url, server) = (server.url(), std::sync::Mutex::new(server));
    let store = Store::builder(&url).command_timeout(PATIENCE);
    let first = store.clone().connect().await.unwrap();
    testing::hosts::backoffs_survive_reload(Arc::new(first), |_| async {
        {
            let mut server = server.lock().unwrap();
            server.kill();
            server.start_again();
        }
        Arc::new(store.connect().await.unwrap()) as Arc<_>
    })
    .await;
}
