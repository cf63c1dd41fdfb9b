//! A cluster of one's own: three nodes with a third of the slots each, and a replica of the first if it is
//! wanted.

use std::ops::RangeInclusive;

use abide_redis::Store;
use abide_tests::{Redis, free_port};

use super::{connect, follow_up, wait_until};

pub(crate) struct Cluster {
    /// Those with slots.
    pub(crate) nodes: Vec<Redis>,
    replica: Option<Redis>,
}

/// In milliseconds. A node that has started is in service after as long as it waits for others.
const HURRIED: &str = "1000";
/// The machine may be busy with other things: no replica takes over before a test wants it.
const PATIENT: &str = "30000";

const SLOTS: [RangeInclusive<u16>; 3] = [0..=5_460, 5_461..=10_922, 10_923..=16_383];

impl Cluster {
    /// One that seems to have been in use for two days, so that no process waits for its grace.
    pub(crate) fn start() -> Option<Self> {
        let mut cluster = Self { nodes: Vec::new(), replica: None };
        for (n, slots) in (1..).zip(SLOTS) {
            let node = start_node()?;
            node.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &n.to_string()]);
            let (first, last) = (slots.start().to_string(), slots.end().to_string());
            node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            cluster.nodes.push(node);
        }
        cluster.nodes[1..].iter().for_each(|node| cluster.meet(node));
        cluster.wait_until_in_order(3);
        cluster.nodes.iter().for_each(Redis::age);
        Some(cluster)
    }

    /// The first node has a replica.
    pub(crate) fn start_with_replica() -> Option<Self> {
        let (mut cluster, replica) = (Self::start()?, start_node()?);
        cluster.meet(&replica);
        let primary = cluster.id(0);
        wait_until("the replica knows its primary", || {
            replica.ask::<String>(&["CLUSTER", "NODES"]).contains(&primary)
        });
        replica.ask::<()>(&["CLUSTER", "REPLICATE", &primary]);
        follow_up(&replica);
        cluster.replica = Some(replica);
        cluster.wait_until_in_order(4);
        // Again, because the first replica gives it another name.
        cluster.nodes[0].age();
        Some(cluster)
    }

    /// The first node dies, and its replica takes its place.
    pub(crate) fn fail_over(&mut self) {
        self.notices_within(HURRIED);
        self.nodes[0].kill();
        let replica = self.replica.as_ref().unwrap();
        wait_until("the replica takes over", || replica.info("replication", "role") == "master");
    }

    /// How long a node may say nothing before the others take it for dead.
    fn notices_within(&self, millis: &str) {
        for node in self.nodes.iter().chain(&self.replica) {
            node.ask::<()>(&["CONFIG", "SET", "cluster-node-timeout", millis]);
        }
    }

    /// By two of its nodes.
    pub(crate) fn url(&self) -> String {
        let ports = (self.nodes[2].port(), self.nodes[1].port());
        format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", ports.0, ports.1)
    }

    pub(crate) async fn connect(&self) -> Store {
        connect(&self.url()).await
    }

    pub(crate) fn id(&self, node: usize) -> String {
        self.nodes[node].ask(&["CLUSTER", "MYID"])
    }

    /// Which node has a key, as it was in the beginning.
    pub(crate) fn owner(&self, key: &str) -> (u16, usize) {
        let slot: u16 = self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]);
        (slot, SLOTS.iter().position(|slots| slots.contains(&slot)).unwrap())
    }

    fn meet(&self, node: &Redis) {
        // Of a server before version 7 only the port for clients is known, and the other one is 10,000
        // higher.
        let bus: Vec<String> = self.nodes[0].ask(&["CONFIG", "GET", "cluster-port"]);
        let port = self.nodes[0].port().to_string();
        node.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus[1]]);
    }

    fn wait_until_in_order(&self, known: usize) {
        let known = format!("cluster_known_nodes:{known}\r");
        let all = || self.nodes.iter().chain(&self.replica);
        wait_until("the cluster is in order", || {
            let in_order = |info: String| info.contains("cluster_state:ok") && info.contains(&known);
            all().all(|node| in_order(node.ask(&["CLUSTER", "INFO"])))
                && all().all(|node| !node.ask::<String>(&["CLUSTER", "NODES"]).contains("handshake"))
        });
        self.notices_within(PATIENT);
    }
}

fn start_node() -> Option<Redis> {
    let bus = free_port().to_string();
    Redis::start_new(&["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", HURRIED])
}
