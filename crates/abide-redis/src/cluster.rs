//! A cluster: which node has which slots, learnt from the nodes, and corrected by what they say of single slots (MOVED).
//!
//! The cluster is asked as a whole or not at all: while one node does not answer, the store counts as away, as it does by the
//! cluster's own default (`cluster-require-full-coverage yes`). Otherwise it would be away for some hosts and back for others, many
//! times a second.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use redis::{
    Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, from_redis_value,
    pipe,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::latest::{AGAIN, Ends, Latest, lock};
use crate::node::{Node, Reached, Settings, Target, open};
use crate::place::{self, Address};

/// Slots of a cluster, as the specification has them.
pub(crate) const SLOTS: u16 = 16_384;

pub(crate) struct Cluster {
    /// Nodes that the user has named.
    seeds: Vec<Client>,
    like: ConnectionInfo,
    settings: Settings,
    look: Latest<Look>,
    map: Mutex<Map>,
}

/// The map was asked for, then.
struct Look {
    at: Instant,
    is_over: AtomicBool,
}

/// Who has which slot.
#[derive(Default)]
struct Map {
    nodes: HashMap<Arc<Address>, Arc<Node>>,
    of: Vec<Option<Arc<Address>>>,
    /// Slots that have had another owner since we know: what this one does not know of may have been lost.
    taken_over: HashSet<u16>,
}

/// The specification recommends no more. Each has a connection.
const NODES_MAX: usize = 1_000;

/// So many are asked for the map at a time.
const ASKED_MAX: usize = 16;

impl Cluster {
    #[expect(clippy::indexing_slicing, reason = "a URL names one node at least")]
    pub(crate) fn new(seeds: Vec<Client>, settings: Settings) -> Self {
        let like = seeds[0].get_connection_info().clone();
        Self { seeds, like, settings, look: Latest::default(), map: Mutex::default() }
    }

    /// The node that has this slot, and all others are there too.
    pub(crate) async fn reach(self: &Arc<Self>, slot: u16) -> Result<Reached, Error> {
        let nodes = self.nodes().await?;
        // At the same time.
        nodes.iter().for_each(Node::begin);
        for node in &nodes {
            self.checked(node.reach().await)?;
        }
        let owner = lock(&self.map).owner(slot).ok_or_else(|| Error::not_whole(&self.settings.server))?;
        self.checked(owner.reach().await)
    }

    pub(crate) async fn nodes(self: &Arc<Self>) -> Result<Vec<Arc<Node>>, Error> {
        self.look.one(|| Arc::clone(self).look()).await?;
        Ok(lock(&self.map).nodes.values().cloned().collect())
    }

    pub(crate) fn is_taken_over(&self, slot: u16) -> bool {
        lock(&self.map).taken_over.contains(&slot)
    }

    /// A node says that another one has this slot.
    pub(crate) fn moved(&self, slot: u16, mut to: Address, said_by: Option<&Reached>) {
        if to.host.is_empty() || to.host == "?" {
            let Some(host) = said_by.and_then(Reached::host) else { return self.outdated() };
            to.host = host;
        }
        lock(&self.map).give(slot, to, |address, is_first| self.node(address, is_first));
        // Slots seldom move alone.
        self.outdated();
    }

    /// Who has what is asked anew, but not all the time.
    pub(crate) fn outdated(&self) {
        if let Some(look) = self.look.last()
            && look.at.elapsed() >= AGAIN
        {
            look.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn checked(&self, reached: Result<Reached, Error>) -> Result<Reached, Error> {
        if reached.is_err() {
            self.outdated();
        }
        reached
    }

    fn node(&self, address: &Address, is_first: bool) -> RedisResult<Arc<Node>> {
        let client = place::client(&self.like, address)?;
        let settings = Settings { server: place::shown(&client).into(), ..self.settings.clone() };
        let node = Node::new(Target::Address(client), settings);
        Ok(Arc::new(if is_first { node } else { node.late() }))
    }

    /// Of those who answer, the one whose cluster is in order and whose map is the newest is believed.
    async fn look(self: Arc<Self>) -> Result<Look, Error> {
        let (mut asked, limit) = (JoinSet::new(), self.settings.limit);
        for client in self.candidates() {
            asked.spawn(async move { timeout(limit, ask(&client, limit)).await });
        }
        let (mut best, mut failed) = (None::<View>, Error::slow(&self.settings.server, limit));
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Ok(view))) if best.as_ref().is_none_or(|best| view.rank() > best.rank()) => {
                    best = Some(view);
                }
                Ok(Ok(Err(error))) => failed = explain(&self.settings.server, &error),
                _ => {}
            }
        }
        let view = best.ok_or(failed)?;
        if !view.is_ok || view.owners.iter().any(Option::is_none) {
            return Err(Error::not_whole(&self.settings.server));
        }
        let replaced = lock(&self.map).replace(view.owners, |address, is_first| self.node(address, is_first));
        replaced.map_err(|error| Error::of(&self.settings.server, &error))?;
        Ok(Look { at: Instant::now(), is_over: AtomicBool::new(false) })
    }

    /// The nodes that are known, then those that the user has named, each once.
    fn candidates(&self) -> Vec<Client> {
        let mut known: Vec<Arc<Address>> = lock(&self.map).nodes.keys().cloned().collect();
        known.truncate(ASKED_MAX.saturating_sub(self.seeds.len().min(ASKED_MAX / 2)));
        let mut clients: Vec<Client> =
            known.iter().filter_map(|address| place::client(&self.like, address).ok()).collect();
        let unknown = |seed: &&Client| {
            place::address(seed).is_none_or(|address| !known.iter().any(|known| **known == address))
        };
        clients.extend(self.seeds.iter().filter(unknown).cloned());
        clients.truncate(ASKED_MAX);
        clients
    }
}

impl Ends for Look {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Map {
    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let address = self.of.get(usize::from(slot))?.as_ref()?;
        self.nodes.get(address).cloned()
    }

    /// One slot has another owner.
    fn give(&mut self, slot: u16, to: Address, node: impl Fn(&Address, bool) -> RedisResult<Arc<Node>>) {
        if self.of.get(usize::from(slot)).is_some_and(|owner| owner.as_deref() == Some(&to)) {
            return;
        }
        let mut of = self.of.clone();
        if let Some(owner) = of.get_mut(usize::from(slot)) {
            *owner = Some(Arc::new(to));
            // An address that cannot be used leaves the map as it was.
            let _ = self.replace(of, node);
        }
    }

    /// Nodes that stay keep their connections. Those without slots go.
    fn replace(
        &mut self,
        of: Vec<Option<Arc<Address>>>,
        node: impl Fn(&Address, bool) -> RedisResult<Arc<Node>>,
    ) -> RedisResult<()> {
        let is_first = self.nodes.is_empty();
        let mut nodes = HashMap::new();
        let mut last = HashMap::new();
        for (slot, address) in (0..SLOTS).zip(&of) {
            let Some(address) = address else { continue };
            last.insert(address, slot);
            if !nodes.contains_key(address) {
                if nodes.len() == NODES_MAX {
                    return Err((
                        ErrorKind::UnexpectedReturnType,
                        "a cluster of more nodes than there can be",
                    )
                        .into());
                }
                let known = self.nodes.get(address).cloned();
                nodes.insert(Arc::clone(address), known.map_or_else(|| node(address, is_first), Ok)?);
            }
        }
        for (slot, (before, now)) in (0..SLOTS).zip(self.of.iter().zip(&of)) {
            if before != now {
                self.taken_over.insert(slot);
            }
        }
        for (address, node) in &nodes {
            let has =
                |slot: u16| of.get(usize::from(slot)).is_some_and(|owner| owner.as_ref() == Some(address));
            // The last slot, since those who move slots away begin with the first.
            if let Some(slot) = last.get(address)
                && !node.epoch_slot().is_some_and(has)
            {
                node.put_epoch(*slot);
            }
        }
        (self.nodes, self.of) = (nodes, of);
        Ok(())
    }
}

/// The map as one node has it.
struct View {
    is_ok: bool,
    epoch: u64,
    owners: Vec<Option<Arc<Address>>>,
}

impl View {
    fn rank(&self) -> (bool, u64) {
        (self.is_ok, self.epoch)
    }
}

async fn ask(client: &Client, limit: std::time::Duration) -> RedisResult<View> {
    let mut connection = open(client, limit).await?;
    let mut questions = pipe();
    questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let (info, ranges): (String, Vec<Value>) = questions.query_async(&mut connection).await?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_end);
    let here = place::address(client);
    let mut owners = vec![None; usize::from(SLOTS)];
    for range in ranges {
        let Some((first, last, owner)) = read(range, here.as_ref()) else { continue };
        if let Some(slots) = owners.get_mut(usize::from(first)..=usize::from(last)) {
            slots.fill(Some(Arc::new(owner)));
        }
    }
    Ok(View {
        is_ok: field("cluster_state:") == Some("ok"),
        epoch: field("cluster_current_epoch:").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
        owners,
    })
}

/// `ERR This instance has cluster support disabled`.
fn explain(server: &Arc<str>, error: &RedisError) -> Error {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ResponseError) => Error::no_cluster(server),
        _ => Error::of(server, error),
    }
}

/// First slot, last slot, primary (address, port, ...), replicas. A node that does not know its own address leaves it away.
fn read(range: Value, here: Option<&Address>) -> Option<(u16, u16, Address)> {
    let Value::Array(range) = range else { return None };
    let mut range = range.into_iter();
    let (first, last) = (from_redis_value(range.next()?).ok()?, from_redis_value(range.next()?).ok()?);
    let Value::Array(primary) = range.next()? else { return None };
    let mut primary = primary.into_iter();
    let host: Option<String> = from_redis_value(primary.next()?).ok()?;
    let port = from_redis_value(primary.next()?).ok()?;
    let host =
        host.filter(|host| !host.is_empty() && host != "?").or_else(|| here.map(|here| here.host.clone()))?;
    (first <= last).then_some((first, last, Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_node(_: &Address, _: bool) -> RedisResult<Arc<Node>> {
        Err((ErrorKind::Client, "no node").into())
    }

    fn one_node(_: &Address, _: bool) -> RedisResult<Arc<Node>> {
        let settings = Settings {
            keys: crate::key::Keys::new("abide").unwrap(),
            limit: std::time::Duration::from_secs(1),
            may_eval: true,
            server: "a.example:1".into(),
            is_warned: Arc::default(),
            losses: Arc::default(),
        };
        Ok(Arc::new(Node::new(Target::Address(Client::open("redis://a.example:1").unwrap()), settings)))
    }

    fn owners(nodes: usize) -> Vec<Option<Arc<Address>>> {
        let port = |slot: u16| u16::try_from(usize::from(slot) % nodes).unwrap();
        (0..SLOTS)
            .map(|slot| Some(Arc::new(Address { host: "a.example".into(), port: port(slot) })))
            .collect()
    }

    #[test]
    fn a_map_of_too_many_nodes_is_refused_and_leaves_the_one_that_was_there() {
        let mut map = Map::default();
        map.replace(owners(NODES_MAX), one_node).unwrap();
        assert!(map.replace(owners(NODES_MAX + 1), one_node).is_err());
        assert_eq!(map.nodes.len(), NODES_MAX);
        assert!(map.taken_over.is_empty());
    }

    #[test]
    fn a_slot_is_taken_over_only_by_another_node() {
        let mut map = Map::default();
        map.replace(owners(2), one_node).unwrap();
        map.give(7, Address { host: "a.example".into(), port: 1 }, no_node);
        assert!(map.taken_over.is_empty());
        map.give(7, Address { host: "a.example".into(), port: 0 }, no_node);
        assert_eq!(map.taken_over, HashSet::from([7]));
    }
}
