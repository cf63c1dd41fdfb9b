//! The suites that every store passes: with scripts, without, and on a server that is a cluster, which refuses commands whose
//! keys lie in different slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_gate::pacing::PaceStore;
use abide_gate::testing;
use abide_redis::Store;

use crate::support::{PATIENCE, Redis, WITHOUT_EVAL};

/// At the same time, since the suite mostly waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_with_scripts_without_and_by_processes_of_both_kinds_on_a_cluster() {
    let Some(with) = Redis::start() else { return };
    let (Some(without), Some(cluster)) = (Redis::start_with(WITHOUT_EVAL), cluster()) else { return };
    let both = Alternating::new(
        cluster.aged().connect().await.unwrap(),
        cluster.aged().without_scripts().connect().await.unwrap(),
    );
    let stores: [Arc<dyn PaceStore>; 3] = [
        Arc::new(with.aged().connect().await.unwrap()),
        Arc::new(without.aged().connect().await.unwrap()),
        Arc::new(both),
    ];
    let mut suites = tokio::task::JoinSet::new();
    for store in stores {
        suites.spawn(testing::pacing::pace_store(store));
    }
    suites.join_all().await;
    assert!(used(&with, "evalsha") > 1_000 && used(&with, "watch") == 0);
    assert!(used(&without, "watch") > 1_000);
    assert!(used(&cluster, "watch") > 500 && used(&cluster, "evalsha") > 500);
}

#[tokio::test]
async fn records_with_scripts_without_and_on_a_cluster() {
    let Some(redis) = Redis::start() else { return };
    records(&redis).await;
    let Some(redis) = Redis::start_with(WITHOUT_EVAL) else { return };
    records(&redis).await;
    let Some(redis) = cluster() else { return };
    records(&redis).await;
}

async fn records(redis: &Redis) {
    let runs = AtomicUsize::new(0);
    let open = |prefix: String| async move {
        Store::builder(&redis.url()).key_prefix(&prefix).command_timeout(PATIENCE).connect().await.unwrap()
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
pub(crate) fn used(redis: &Redis, command: &str) -> u64 {
    let stats: String = redis.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

pub(crate) use alternating::Alternating;

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
    pub(crate) struct Alternating {
        stores: [Store; 2],
        asked: AtomicUsize,
    }

    impl Alternating {
        pub(crate) fn new(one: Store, other: Store) -> Self {
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

        fn confirm<'a>(
            &'a self,
            scopes: &'a [ScopeAsk],
            lease: LeaseId,
            wait: Duration,
        ) -> StoreFuture<'a, bool> {
            self.next().confirm(scopes, lease, wait)
        }

        fn hold<'a>(
            &'a self,
            scope: &'a ScopeKey,
            until: WallMillis,
            strikes: u8,
            cause: Cause,
        ) -> StoreFuture<'a, WallMillis> {
            self.next().hold(scope, until, strikes, cause)
        }

        fn peek<'a>(&'a self, scope: &'a ScopeKey) -> StoreFuture<'a, ScopeState> {
            self.next().peek(scope)
        }
    }
}
