//! The suites that every store passes: with scripts, without, and on a server that is a cluster, which refuses commands whose
//! keys lie in different slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_gate::testing;
use abide_redis::Store;

use crate::support::{Redis, WITHOUT_EVAL};

#[tokio::test]
async fn turns_with_scripts() {
    let Some(redis) = Redis::start() else { return };
    let store = redis.aged().connect().await.unwrap();
    testing::pacing::pace_store(Arc::new(store)).await;
    assert!(used(&redis, "evalsha") > 1_000);
    assert_eq!(used(&redis, "watch"), 0);
}

#[tokio::test]
async fn turns_without_scripts() {
    let Some(redis) = Redis::start_with(WITHOUT_EVAL) else { return };
    let store = redis.aged().connect().await.unwrap();
    testing::pacing::pace_store(Arc::new(store)).await;
    assert!(used(&redis, "watch") > 1_000);
}

#[tokio::test]
async fn turns_by_processes_of_both_kinds_and_records_on_a_cluster() {
    let Some(redis) = cluster() else { return };
    let with = redis.aged().connect().await.unwrap();
    let without = redis.aged().without_scripts().connect().await.unwrap();
    testing::pacing::pace_store(Arc::new(Alternating::new(with, without))).await;
    assert!(used(&redis, "watch") > 500 && used(&redis, "evalsha") > 500);
    records(&redis).await;
}

#[tokio::test]
async fn records_with_and_without_scripts() {
    let Some(redis) = Redis::start() else { return };
    records(&redis).await;
    let Some(redis) = Redis::start_with(WITHOUT_EVAL) else { return };
    records(&redis).await;
}

async fn records(redis: &Redis) {
    let runs = AtomicUsize::new(0);
    let open = |prefix: String| async move {
        Store::builder(&redis.url()).key_prefix(&prefix).connect().await.unwrap()
    };
    testing::access::conformance(|| open(format!("run{}", runs.fetch_add(1, Ordering::Relaxed)))).await;
    testing::access::survives_reopening(|| open("again".to_owned())).await;
}

/// One node that has all slots.
fn cluster() -> Option<Redis> {
    let redis = Redis::start_with(&["--cluster-enabled", "yes"])?;
    redis.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !redis.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Some(redis)
}

/// How often a command was run.
fn used(redis: &Redis, command: &str) -> u64 {
    let stats: String = redis.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

use alternating::Alternating;

mod alternating {
    //! Two stores, asked in turn.

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use abide_gate::WallMillis;
    use abide_gate::pacing::{
        Cause, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk, ScopeKey, ScopeState, StoreFuture,
    };
    use abide_redis::Store;

    #[derive(Debug)]
    pub(super) struct Alternating {
        stores: [Store; 2],
        asked: AtomicUsize,
    }

    impl Alternating {
        pub(super) fn new(one: Store, other: Store) -> Self {
            Self { stores: [one, other], asked: AtomicUsize::new(0) }
        }

        fn next(&self) -> &Store {
            &self.stores[self.asked.fetch_add(1, Ordering::Relaxed) % 2]
        }
    }

    impl PaceStore for Alternating {
        fn reserve<'a>(&'a self, scopes: &'a [ScopeAsk], ask: LeaseAsk) -> StoreFuture<'a, Reply> {
            self.next().reserve(scopes, ask)
        }

        fn renew<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId, ttl: Duration) -> StoreFuture<'a, ()> {
            self.next().renew(scopes, lease, ttl)
        }

        fn release<'a>(
            &'a self,
            scopes: &'a [ScopeAsk],
            lease: LeaseId,
            ended: Ended,
        ) -> StoreFuture<'a, ()> {
            self.next().release(scopes, lease, ended)
        }

        fn confirm<'a>(&'a self, scopes: &'a [ScopeAsk], lease: LeaseId) -> StoreFuture<'a, bool> {
            self.next().confirm(scopes, lease)
        }

        fn hold<'a>(
            &'a self,
            scope: &'a ScopeKey,
            until: WallMillis,
            cause: Cause,
        ) -> StoreFuture<'a, WallMillis> {
            self.next().hold(scope, until, cause)
        }

        fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
            self.next().peek(scope)
        }
    }
}
