//! The way to the server, or servers: who has a key is asked.
//!
//! Every command runs in a task of its own. A caller who goes leaves no answer unread on the connection: another's command would
//! be given it.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::pacing::LeaseId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::Error;
use crate::cluster::Cluster;
use crate::error::Elsewhere;
use crate::key::{Keys, slot};
use crate::latest::lock;
use crate::node::{Node, Reached, Settings, Target};
use crate::place::Place;

/// How the servers are reached.
pub(crate) struct Link {
    way: Way,
    /// The servers as they may be shown: hosts and ports.
    pub(crate) server: Arc<str>,
    pub(crate) keys: Keys,
    /// For one command.
    pub(crate) limit: Duration,
    /// Leases that were asked for here and not yet given back: one for each request in flight.
    out: Mutex<HashSet<LeaseId>>,
    given_back: Notify,
    losses: Arc<AtomicU64>,
}

enum Way {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

/// A key that lies elsewhere is followed so often.
const MOVES_MAX: u32 = 12;

/// A slot on its way from one node to another is there in some milliseconds for each of its keys.
const MOVES_IN: Duration = Duration::from_millis(50);

impl Link {
    pub(crate) fn new(place: Place, settings: Settings) -> Self {
        let Settings { keys, limit, server, losses, .. } = settings.clone();
        let way = match place {
            Place::Server(client) => Way::One(Arc::new(Node::new(Target::Address(client), settings))),
            Place::Primary(sentinels) => Way::One(Arc::new(Node::new(Target::Primary(sentinels), settings))),
            Place::Cluster(seeds) => Way::Cluster(Arc::new(Cluster::new(seeds, settings))),
        };
        Self { way, server, keys, limit, losses, out: Mutex::default(), given_back: Notify::new() }
    }

    /// Runs a command in a task of its own, for as long as a command may take.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        command: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (server, limit) = (Arc::clone(&self.server), self.limit);
        let task = tokio::spawn(async move {
            timeout(limit, command).await.unwrap_or_else(|_| Err(Error::slow(&server, limit)))
        });
        task.await.unwrap_or_else(|_| Err(Error::interrupted()))
    }

    /// Asks the server that has this key. In a cluster it may turn out to be another one.
    pub(crate) async fn at<T, F>(&self, key: &str, ask: impl Fn(Reached) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let cluster = match &self.way {
            Way::One(node) => return ask(node.reach().await?).await,
            Way::Cluster(cluster) => cluster,
        };
        // Before the command as a whole is given up as slow.
        let (began, patience) = (Instant::now(), self.limit.checked_div(2).unwrap_or_default());
        let mut moves = 0;
        loop {
            let reached = cluster.reach(slot(key)).await;
            let asked = match &reached {
                Ok(reached) => ask(reached.clone()).await,
                Err(error) => Err(error.clone()),
            };
            let error = match asked {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.elsewhere() {
                Some(Elsewhere::Moved { slot, to }) if moves < MOVES_MAX => {
                    moves = moves.saturating_add(1);
                    cluster.moved(*slot, to.clone(), reached.ok().as_ref());
                }
                Some(Elsewhere::Moved { .. }) => {
                    cluster.outdated();
                    return Err(Error::not_whole(&self.server));
                }
                Some(Elsewhere::Moving) if began.elapsed() < patience => sleep(MOVES_IN).await,
                Some(Elsewhere::Moving) => return Err(Error::moving(&self.server)),
                None => {
                    cluster.outdated();
                    return Err(error);
                }
            }
        }
    }

    /// Every server, for what concerns all keys.
    pub(crate) async fn servers(&self) -> Result<Vec<Arc<Node>>, Error> {
        match &self.way {
            Way::One(node) => Ok(vec![Arc::clone(node)]),
            Way::Cluster(cluster) => cluster.nodes().await,
        }
    }

    /// Connects to every server.
    pub(crate) async fn connect(&self) -> Result<(), Error> {
        for server in self.servers().await? {
            server.reach().await?;
        }
        Ok(())
    }

    /// Whether what the server does not know of this key may have been lost with another server that had it.
    pub(crate) fn is_taken_over(&self, key: &str) -> bool {
        match &self.way {
            Way::One(_) => false,
            Way::Cluster(cluster) => cluster.is_taken_over(slot(key)),
        }
    }

    /// How often a server was found to have lost what it knew: flushed, restarted, failed over, or another one.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    pub(crate) fn granted(&self, lease: LeaseId) {
        lock(&self.out).insert(lease);
    }

    /// Whether it could be told or not: if not, it ends by itself.
    pub(crate) fn given_back(&self, lease: LeaseId) {
        lock(&self.out).remove(&lease);
        self.given_back.notify_waiters();
    }

    /// Waits until nothing is out, and says whether it came to that.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        let settling = async {
            loop {
                let given_back = self.given_back.notified();
                if lock(&self.out).is_empty() {
                    return;
                }
                given_back.await;
            }
        };
        timeout(limit, settling).await.is_ok()
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The clients have the password in them.
        f.debug_struct("Link").field("server", &self.server).field("keys", &self.keys).finish_non_exhaustive()
    }
}
