//! The suites that every store passes: on one server, on one that is a cluster, and on a cluster of three.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_gate::testing;
use abide_redis::{Builder, Store};
use abide_tests::Redis;
use tokio::task::JoinSet;

use crate::support::{Cluster, PATIENCE, wait_until};

/// At the same time, because the suites mostly wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suites_of_every_store_pass_on_one_server_and_on_clusters() {
    let Some(redis) = Redis::start() else { return };
    let (Some(alone), Some(cluster)) = (cluster_of_one(), Cluster::start()) else { return };
    let alone_at = alone.url().replace("redis://", "redis+cluster://").trim_end_matches('/').to_owned();
    let mut suites = JoinSet::new();
    for url in [redis.url(), alone_at, cluster.url()] {
        let builder = Store::builder(&url).command_timeout(PATIENCE);
        let store = Arc::new(builder.clone().connect().await.unwrap());
        suites.spawn(testing::hosts::conformance(store, tokio::time::sleep));
        suites.spawn(records(builder));
    }
    suites.join_all().await;
    for node in &cluster.nodes {
        assert!(used(node, "evalsha") > 20, "each has its share");
    }
}

async fn records(builder: Builder) {
    let runs = AtomicUsize::new(0);
    let open = |prefix: String| async { builder.clone().key_prefix(&{ prefix }).connect().await.unwrap() };
    let make = || open(format!("run{}", runs.fetch_add(1, Ordering::Relaxed)));
    testing::robots_cache::conformance(make).await;
    testing::robots_cache::survives_reopening(|| open("again".to_owned())).await;
    #[cfg(feature = "permissions")]
    {
        abide_permissions::testing::conformance(make).await;
        abide_permissions::testing::survives_reopening(|| open("again".to_owned())).await;
    }
}

#[tokio::test]
async fn a_backoff_survives_kill_9_of_a_server_that_keeps_a_file() {
    let Some(redis) = Redis::start_new(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let (url, redis) = (redis.url(), std::sync::Mutex::new(redis));
    let store = Store::builder(&url).command_timeout(PATIENCE);
    let first = store.clone().connect().await.unwrap();
    testing::hosts::backoffs_survive_reload(Arc::new(first), |_| async {
        {
            let mut redis = redis.lock().unwrap();
            redis.kill();
            redis.start_again();
        }
        Arc::new(store.connect().await.unwrap()) as Arc<_>
    })
    .await;
}

/// One node that has all slots.
fn cluster_of_one() -> Option<Redis> {
    let redis = Redis::start_new(&["--cluster-enabled", "yes"])?;
    redis.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_until("the cluster is in order", || {
        redis.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    });
    redis.age();
    Some(redis)
}

/// How often a command was run.
pub(crate) fn used(redis: &Redis, command: &str) -> u64 {
    let stats: String = redis.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}
