//! A cluster of three nodes: the suites, what is asked of whom, slots that move, a node that dies, a node that is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use abide_gate::access::AccessStore;
use abide_gate::pacing::{Busy, Ended, LeaseAsk, LeaseId, PaceStore, Reply, ScopeAsk};
use abide_gate::testing::access::sample_record;
use abide_gate::{Origin, WallMillis, testing};
use abide_redis::Store;
use tokio::time::sleep;

use crate::conformance::{Alternating, used};
use crate::support::judge::{
    assert_one_robots_txt_each, assert_spaced, assert_spaced_together, by_host, by_worker, show_gaps,
    until_all_came, until_shared, website, within,
};
use crate::support::workers::{Crew, run_time, stop};
use crate::support::{Cluster, PATIENCE, ms};

const HOUR: Duration = Duration::from_secs(3_600);

fn host(name: &str, gap: Duration) -> [ScopeAsk; 1] {
    [ScopeAsk::new(name.into(), gap, 1)]
}

fn ask() -> LeaseAsk {
    LeaseAsk { lease: LeaseId::random(), max_wait: HOUR, ttl: ms(60_000) }
}

async fn granted(store: &Store, scopes: &[ScopeAsk], ask: LeaseAsk) -> Duration {
    match store.reserve(scopes, ask).await.unwrap() {
        Reply::Granted { wait, .. } => wait,
        refused @ Reply::Refused { .. } => panic!("{refused:?}"),
    }
}

/// `h0.example`, `h1.example`, ...: the first one that lies on this node, from this number on.
fn host_on(cluster: &Cluster, node: usize, from: u32) -> String {
    let names = (from..).map(|n| format!("h{n}.example"));
    let mut on_it = names.filter(|name| cluster.owner(&format!("{{{name}}}")).1 == node);
    on_it.next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suites_of_every_store_pass_on_three_nodes_with_scripts_and_without() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let builder = cluster.aged("abide").await;
    let with = builder.clone().connect().await.unwrap();
    let both = Alternating::new(with.clone(), builder.without_scripts().connect().await.unwrap());
    let mut suites = tokio::task::JoinSet::new();
    suites.spawn(testing::pacing::pace_store(Arc::new(with)));
    suites.spawn(testing::pacing::pace_store(Arc::new(both)));
    let runs = AtomicUsize::new(0);
    let open = |prefix: String| async {
        Store::builder(&cluster.url())
            .key_prefix(&{ prefix })
            .command_timeout(PATIENCE)
            .connect()
            .await
            .unwrap()
    };
    testing::access::conformance(|| open(format!("run{}", runs.fetch_add(1, Ordering::Relaxed)))).await;
    testing::access::survives_reopening(|| open("again".to_owned())).await;
    while let Some(suite) = suites.join_next().await {
        suite.unwrap();
    }
    for node in &cluster.nodes {
        let (scripts, watches) = (used(node, "evalsha"), used(node, "watch"));
        assert!(scripts > 20 && watches > 10, "each has its share: {scripts}, {watches}");
    }
}

#[tokio::test]
async fn one_node_alone_is_refused_with_the_url_that_is_right() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    for node in &cluster.nodes {
        let error = Store::connect(&node.url()).await.unwrap_err();
        let right = format!("expected a URL such as redis+cluster://127.0.0.1:{}", node.port());
        assert!(error.to_string().ends_with(&right), "{error}");
        // And from any one node the others are found.
        let url = format!("redis+cluster://127.0.0.1:{}", node.port());
        let store = Store::connect(&url).await.unwrap();
        for n in 0..6 {
            store.peek(&format!("h{n}.example").as_str().into()).await.unwrap();
        }
    }
    let elsewhere = Store::connect("redis+cluster://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    assert!(elsewhere.is_unreachable(), "{elsewhere}");
}

#[tokio::test]
async fn a_server_that_is_no_cluster_says_so() {
    let Some(redis) = crate::support::Redis::start() else { return };
    let url = redis.url().replace("redis://", "redis+cluster://");
    let error = Store::connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("it is not a cluster"), "{error}");
}

/// With all their keys, as `redis-cli --cluster reshard` moves them: the new owner knows the turn.
#[tokio::test]
async fn turns_of_a_slot_that_moves_are_kept() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let builder = cluster.aged("abide").await;
    let with = builder.clone().connect().await.unwrap();
    let without = builder.without_scripts().connect().await.unwrap();
    for (store, from) in [(with, 0), (without, 100)] {
        let name = host_on(&cluster, 0, from);
        let (scopes, first) = (host(&name, ms(60_000)), ask());
        granted(&store, &scopes, first).await;
        let origin: Origin = format!("https://{name}").parse().unwrap();
        store.save(&origin, &sample_record(&origin, WallMillis(0), "kept")).await.unwrap();
        let (slot, _) = cluster.owner(&format!("{{{name}}}"));
        begin_move(&cluster, slot, (0, 1));
        migrate_one(&cluster, slot, (0, 1));
        let asking = {
            let (store, name) = (store.clone(), name.clone());
            // Half of it is there: this one waits until all is.
            tokio::spawn(async move { store.confirm(&host(&name, ms(60_000)), first.lease, ms(0)).await })
        };
        sleep(ms(200)).await;
        end_move(&cluster, slot, (0, 1));
        assert!(asking.await.unwrap().unwrap(), "the lease has moved too");
        PaceStore::release(&store, &scopes, first.lease, Ended::Response).await.unwrap();
        let wait = granted(&store, &scopes, ask()).await;
        assert!(wait > ms(40_000) && wait <= ms(60_000), "{wait:?}");
    }
}

/// As a reshard that was broken off leaves it.
#[tokio::test]
async fn a_slot_that_stays_on_its_way_keeps_only_its_own_hosts_waiting() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let builder = cluster.aged("abide").await;
    let with = builder.clone().connect().await.unwrap();
    for (store, from) in [(with, 0), (builder.without_scripts().connect().await.unwrap(), 100)] {
        let name = host_on(&cluster, 0, from);
        let (slot, _) = cluster.owner(&format!("{{{name}}}"));
        begin_move(&cluster, slot, (0, 1));
        for _ in 0..2 {
            let refused = store.reserve(&host(&name, ms(100)), ask()).await.unwrap();
            assert!(
                matches!(refused, Reply::Refused { scope: 0, wait: Duration::ZERO, reason: Busy::InFlight }),
                "{refused:?}"
            );
            for other in 0..3 {
                let others = host(&host_on(&cluster, other, from + 50), ms(0));
                let other = ask();
                assert_eq!(granted(&store, &others, other).await, ms(0));
                PaceStore::release(&store, &others, other.lease, Ended::Unsent).await.unwrap();
            }
        }
        end_move(&cluster, slot, (0, 1));
        granted(&store, &host(&name, ms(100)), ask()).await;
    }
}

/// Each of their hosts goes from node to node all the time, and stays for long enough that a process which is slow finds it: to one that
/// comes too late again and again the store looks as if it were away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moving_slots_shorten_no_gap() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew::new(cluster.url(), website.address());
    let (workers, began) = (crew.start(), Instant::now());
    let hosts = crew.hosts;
    let moving = tokio::task::spawn_blocking(move || {
        let mut places: Vec<_> = (0..hosts).map(|n| cluster.owner(&format!("{{h{n}.example}}"))).collect();
        let mut moves = 0;
        while began.elapsed() < run_time() || moves <= 20 {
            for (slot, owner) in &mut places {
                let way = (*owner, (*owner + 1) % 3);
                begin_move(&cluster, *slot, way);
                end_move(&cluster, *slot, way);
                *owner = way.1;
                moves += 1;
                std::thread::sleep(ms(200));
            }
        }
        cluster
    });
    until_all_came(&website, &crew, began).await;
    let _cluster = moving.await.unwrap();
    stop(workers).await;
    let log = website.log();
    show_gaps("moving", &by_host(&log));
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

/// A slot whose node was lost for good is given to another one, which has been there for long and knows nothing of its hosts.
#[tokio::test]
async fn hosts_of_a_slot_that_was_lost_wait_one_gap() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let store = cluster.aged("abide").await.connect().await.unwrap();
    let name = host_on(&cluster, 0, 0);
    let (scopes, first) = (host(&name, ms(60_000)), ask());
    assert_eq!(granted(&store, &scopes, first).await, ms(0));
    PaceStore::release(&store, &scopes, first.lease, Ended::Response).await.unwrap();
    let (slot, _) = cluster.owner(&format!("{{{name}}}"));
    cluster.nodes[0].ask::<()>(&["DEL", &format!("abide:{{{name}}}:slot")]);
    give(&cluster, slot, 1);
    let wait = granted(&store, &scopes, ask()).await;
    assert!(wait > ms(40_000) && wait <= ms(60_000), "{wait:?}");
    // Others on the same node have not lost anything.
    assert_eq!(granted(&store, &host(&host_on(&cluster, 1, 0), ms(60_000)), ask()).await, ms(0));
}

#[tokio::test]
async fn a_node_that_forgets_costs_its_own_hosts_one_gap() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let store = cluster.aged("abide").await.connect().await.unwrap();
    assert_eq!(store.losses(), 0);
    cluster.nodes[2].ask::<()>(&["FLUSHALL"]);
    let wait = granted(&store, &host(&host_on(&cluster, 2, 0), ms(60_000)), ask()).await;
    assert!(wait > ms(40_000), "{wait:?}");
    assert_eq!(store.losses(), 1, "so that it is told again of holds");
    assert_eq!(granted(&store, &host(&host_on(&cluster, 1, 0), ms(60_000)), ask()).await, ms(0));
    let [one] = host(&host_on(&cluster, 1, 100), ms(60_000));
    let [two] = host(&host_on(&cluster, 2, 100), ms(60_000));
    let mut scopes = [one, two];
    scopes.sort_by(|a, b| a.key.cmp(&b.key));
    let wait = granted(&store, &scopes, ask()).await;
    assert!(wait > ms(35_000), "a request of two hosts waits for both: {wait:?}");
    let mut busy = store.reserve(&scopes[..1], ask()).await.unwrap();
    assert!(matches!(busy, Reply::Refused { reason: Busy::InFlight, .. }), "{busy:?}");
    busy = store.reserve(&scopes[1..], ask()).await.unwrap();
    assert!(matches!(busy, Reply::Refused { reason: Busy::InFlight, .. }), "{busy:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_node_is_away_each_process_keeps_its_own_and_a_longer_gap() {
    // The other nodes would go on, but a store that is there for some hosts and away for others is no use.
    let Some(mut cluster) = Cluster::start(&["--cluster-require-full-coverage", "no"]) else { return };
    let website = website(ms(5)).await;
    let crew = Crew { workers: 3, ..Crew::new(cluster.url(), website.address()) };
    let (workers, began) = (crew.start(), Instant::now());
    until_all_came(&website, &crew, began).await;
    sleep(ms(500)).await;
    let (down, (_, node)) = (Instant::now(), cluster.owner("{h0.example}"));
    cluster.nodes[node].kill();
    // Nobody stops.
    until_all_came(&website, &crew, down + ms(1_000)).await;
    let back = Instant::now();
    cluster.nodes[node].start_again();
    until_shared(&website, &crew, back).await;
    stop(workers).await;
    let log = website.log();
    let before = within(&log, log[0].at, down);
    show_gaps("three nodes", &by_host(&before));
    assert_spaced(&by_host(&before), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
    assert_spaced(&by_worker(&log), crew.gap);
    // Who has noticed slows down, with its first question to that node.
    let alone = within(&log, down + ms(1_000), back);
    assert_spaced(&by_worker(&alone), crew.gap * crew.workers);
    assert_spaced_together(&within(&log, back, Instant::now()), crew.gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_a_node_shortens_no_gap() {
    let Some(mut cluster) = Cluster::start_with_replica() else { return };
    let website = website(ms(5)).await;
    let crew = Crew {
        gap: ms(300),
        is_fail_closed: true,
        lease: ms(3_000),
        ..Crew::new(cluster.url(), website.address())
    };
    let (workers, began) = (crew.start(), Instant::now());
    let store = Store::connect(&cluster.url()).await.unwrap();
    until_all_came(&website, &crew, began).await;
    let name = host_on(&cluster, 0, 0);
    assert!((0..crew.hosts).any(|n| name == format!("h{n}.example")), "it has a host of theirs");
    let failing_over = tokio::task::spawn_blocking(move || {
        cluster.fail_over();
        cluster
    });
    let _cluster = failing_over.await.unwrap();
    until_all_came(&website, &crew, Instant::now()).await;
    stop(workers).await;
    // Its first command may find the old connection dead.
    while store.peek(&name.as_str().into()).await.is_err() {
        sleep(ms(100)).await;
    }
    assert!(store.losses() > 0, "the replica may not know of the last holds");
    let log = website.log();
    assert_spaced(&by_host(&log), crew.gap);
    assert_one_robots_txt_each(&log, crew.hosts);
}

/// From one node to another.
type Way = (usize, usize);

fn begin_move(cluster: &Cluster, slot: u16, (from, to): Way) {
    let (slot, ids) = (slot.to_string(), (cluster.id(from), cluster.id(to)));
    cluster.nodes[to].ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0]);
    cluster.nodes[from].ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1]);
}

/// Whether there was one.
fn migrate_one(cluster: &Cluster, slot: u16, (from, to): Way) -> bool {
    let (from, port) = (&cluster.nodes[from], cluster.nodes[to].port().to_string());
    let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1"]);
    let Some(key) = keys.first() else { return false };
    // It may have expired just now: NOKEY.
    from.ask::<String>(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    true
}

fn end_move(cluster: &Cluster, slot: u16, way: Way) {
    while migrate_one(cluster, slot, way) {}
    give(cluster, slot, way.1);
}

/// All are told that the slot is this node's now.
fn give(cluster: &Cluster, slot: u16, to: usize) {
    let (id, slot) = (cluster.id(to), slot.to_string());
    for node in [to, 0, 1, 2] {
        cluster.nodes[node].ask::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
    }
}
