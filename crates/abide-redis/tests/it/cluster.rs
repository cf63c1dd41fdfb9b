//! A cluster of three nodes: slots that move or are lost, a node that dies.

use std::time::{Duration, Instant};

use abide_gate::pacing::{HostStore, LeaseStatus, Want};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::robots_cache::sample_record;
use abide_gate::{Origin, WallMillis};
use abide_redis::Store;
use abide_tests::Redis;
use tokio::join;
use tokio::task::spawn_blocking;

use crate::crew::website::{start, stop_and_check, until_all_came, until_served, website};
use crate::crew::workers::Crew;
use crate::support::{Cluster, LEASED, asking, ms, wait_for};

const HOUR: Duration = Duration::from_secs(3_600);

/// Of `h3.example`.
const BUCKET: &str = "{b150}";

async fn status(store: &Store, holder: u128, is_held: bool) -> LeaseStatus {
    let want = Want::Lease { ttl: HOUR, again_in: HOUR, is_held };
    store.exchange("h3.example", asking(holder, want)).await.unwrap().0
}

/// With all their keys, as `redis-cli --cluster reshard` moves them: records are kept, and so is the lease of
/// the process that has it. To others it is as after a loss, because the new node cannot know what was last
/// reported to the old one.
#[tokio::test]
async fn a_slot_that_moves_takes_its_leases_and_records_along() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.connect().await;
    assert_eq!(status(&store, 1, false).await, LEASED);
    let origin: Origin = "https://h3.example".parse().unwrap();
    store.save(&origin, &sample_record(&origin, WallMillis::from_millis(0), "kept")).await.unwrap();
    let key =
        cluster.nodes.iter().find_map(|node| node.ask::<Vec<String>>(&["KEYS", "abide:*:robots:*"]).pop());
    let (host, record) = (format!("abide:{BUCKET}:host:h3.example"), key.unwrap());
    for key in [&host, &record] {
        let (slot, from) = cluster.owner(key);
        let way = (from, (from + 1) % 3);
        begin_move(&cluster, slot, way);
        migrate_one(&cluster, slot, way);
        let asking = {
            let store = store.clone();
            // Half of it is there: this one waits until all is.
            tokio::spawn(async move { status(&store, 1, true).await })
        };
        let has_refused = |node: &Redis| node.ask::<String>(&["INFO", "errorstats"]).contains("TRYAGAIN");
        wait_for("a node says TRYAGAIN", async || cluster.nodes.iter().any(has_refused)).await;
        while migrate_one(&cluster, slot, way) {}
        give(&cluster, slot, way.1);
        assert_eq!(asking.await.unwrap(), LEASED);
    }
    assert!(matches!(status(&store, 2, false).await, LeaseStatus::Busy { .. }));
    assert!(store.load(&origin).await.unwrap().is_some());
    assert_eq!(store.sweep(WallMillis::from_millis(1)).await.unwrap(), 1);
    let (_, moved_from) = cluster.owner(&record);
    cluster.nodes[(moved_from + 1) % 3].ask::<()>(&["HSET", &record, "a", "b"]);
    assert_eq!(store.load(&origin).await.unwrap(), None, "another type is no record here, either");
}

/// A slot whose node was lost for good is given to another one, which has been there for long and knows
/// nothing of its hosts.
#[tokio::test]
async fn hosts_of_a_slot_that_was_lost_are_leased_only_to_their_holder() {
    let Some(cluster) = Cluster::start() else { return };
    let store = cluster.connect().await;
    assert_eq!(status(&store, 1, false).await, LEASED);
    let (slot, from) = cluster.owner(BUCKET);
    for key in cluster.nodes[from].ask::<Vec<String>>(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"])
    {
        cluster.nodes[from].ask::<()>(&["DEL", &key]);
    }
    give(&cluster, slot, (from + 1) % 3);
    assert!(matches!(status(&store, 2, false).await, LeaseStatus::Busy { .. }));
    assert_eq!(status(&store, 1, true).await, LeaseStatus::Leased { is_wanted: true });
}

/// A node is killed: its replica takes its place, or it comes back by itself.
async fn a_node_dies(has_replica: bool) {
    let cluster = if has_replica { Cluster::start_with_replica() } else { Cluster::start() };
    let Some(mut cluster) = cluster else { return };
    let website = website(ms(5)).await;
    let crew =
        Crew { hosts: 8, delay: ms(300), patience: ms(1_000), ..Crew::new(cluster.url(), website.address()) };
    let workers = start(&crew, &website).await;
    let failing = spawn_blocking(move || {
        match has_replica {
            true => cluster.fail_over(),
            false => {
                cluster.nodes[0].kill();
                std::thread::sleep(ms(4_000));
                cluster.nodes[0].start_again();
            }
        }
        (cluster, Instant::now())
    });
    let (_cluster, back) = failing.await.unwrap();
    let took = until_served(&website, crew.hosts as usize, back).await;
    println!("a node died, replica: {has_replica}: every host was served again within {took:?}");
    until_all_came(&website, &crew, Instant::now()).await;
    stop_and_check(workers, &website, &crew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dying_nodes_shorten_no_delay() {
    join!(a_node_dies(true), a_node_dies(false));
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

/// Reports to all nodes that the slot is this node's now.
fn give(cluster: &Cluster, slot: u16, to: usize) {
    let (id, slot) = (cluster.id(to), slot.to_string());
    for node in [to, 0, 1, 2] {
        cluster.nodes[node].ask::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
    }
}
