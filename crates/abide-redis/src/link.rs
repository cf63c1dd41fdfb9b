//! The connection to the server or servers: made by the first command, shared by all, and made again after a
//! failure.
//!
//! The library's connections match replies to commands in a task of their own, so a command that is cancelled
//! never takes another's reply. What they do not notice is a peer that has gone silent; so a connection that
//! leaves a command without a reply is replaced. The library's `ConnectionManager` would do the same for a
//! single server, and neither for sentinels nor for a cluster.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisResult, ToRedisArgs, Value, cmd,
    from_redis_value,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::key::Keys;
use crate::script::Script;
use crate::target::{RedisTarget, Way};

pub(crate) struct Link {
    way: Way,
    /// The servers as they may be shown: hosts and ports.
    pub(crate) server: String,
    pub(crate) keys: Keys,
    /// For one command, connecting included.
    limit: Duration,
    /// The last connection, or when and why there was none. One task connects, the others wait for it.
    current: Mutex<Option<Result<SharedConnection, (Instant, Error)>>>,
    is_warned: AtomicBool,
}

/// A connection, and how it does.
type SharedConnection = (Connection, Arc<LinkHealth>);

#[derive(Default)]
struct LinkHealth {
    /// It is to be replaced.
    is_lost: AtomicBool,
    /// When the first command began that was given up since the last reply.
    silent_since: std::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

struct PendingReply {
    /// After so much silence the connection is to be replaced.
    patience: Duration,
    since: Option<Instant>,
    health: Arc<LinkHealth>,
}

static TOUCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/seal.lua"),
        include_str!("lua/marker.lua"),
        include_str!("lua/touch.lua")
    ))
});

/// After a failure to connect, the next attempt is made after this. Until then all commands fail with the
/// same error.
const AGAIN: Duration = Duration::from_millis(250);

impl Link {
    pub(crate) fn new(target: RedisTarget, keys: Keys, limit: Duration) -> Self {
        Self {
            server: target.shown,
            way: target.way,
            keys,
            limit,
            current: Mutex::default(),
            is_warned: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.way, Way::Cluster(_))
    }

    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: impl ToRedisArgs,
    ) -> Result<T, Error> {
        let args = &args;
        self.ask(|mut at| async move { script.run(&mut at, keys, args).await }).await
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        self.ask(|mut at| async move { at.query(command).await }).await
    }

    /// Asks on the connection that is there, or on a new one; a second time where it was lost, so a command
    /// may come twice.
    pub(crate) async fn ask<T, F>(&self, ask: impl Fn(Connection) -> F) -> Result<T, Error>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let asked = async {
            match self.ask_once(&ask).await {
                // Servers and routers close what is idle, and a connection ends with the runtime that made
                // it: none of that is an outage.
                Err(error) if error.is_unreachable() => self.ask_once(&ask).await,
                asked => asked,
            }
        };
        timeout(self.limit, asked).await.unwrap_or_else(|_| Err(Error::slow(&self.server, self.limit)))
    }

    async fn ask_once<T, F>(&self, ask: &impl Fn(Connection) -> F) -> Result<T, Error>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let (connection, health) = self.connection().await?;
        // Less than the limit, because callers that wait for less must find a silent server, too.
        let patience = self.limit.checked_div(4).unwrap_or_default();
        let mut pending = PendingReply { patience, since: Some(Instant::now()), health };
        let reply = ask(connection).await;
        // There is a reply, so dropping it says nothing of the connection.
        pending.since = None;
        *pending.health.silent_since() = None;
        reply.map_err(|error| {
            // What a server says about a command says nothing against the connection, unless it is no primary
            // any more.
            let is_reply = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
            if !is_reply || error.code() == Some("READONLY") {
                pending.health.is_lost.store(true, Ordering::Relaxed);
            }
            Error::of(&self.server, &error)
        })
    }

    pub(crate) fn unexpected(&self) -> Error {
        Error::refused(&self.server, "something that abide does not understand")
    }

    async fn connection(&self) -> Result<SharedConnection, Error> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(Ok((connection, health))) if !health.is_lost.load(Ordering::Relaxed) => {
                return Ok((connection.clone(), Arc::clone(health)));
            }
            // Thousands of hosts ask a server that is down: all get the error at once, and one of them
            // connects.
            Some(Err((at, error))) if at.elapsed() < AGAIN => return Err(error.clone()),
            _ => {}
        }
        match self.connect().await {
            Ok(connection) => {
                let made = (connection, Arc::default());
                *current = Some(Ok(made.clone()));
                Ok(made)
            }
            Err(error) => {
                *current = Some(Err((Instant::now(), error.clone())));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        #[cfg(feature = "tls")]
        provide_cryptography();
        let of = |error| Error::of(&self.server, &error);
        let mut connection = match &self.way {
            Way::Server(client) => Connection::One(open(client).await.map_err(of)?),
            Way::Primary(sentinels) => {
                let client = sentinels.primary().await.map_err(of)?;
                Connection::One(open(&client).await.map_err(of)?)
            }
            Way::Cluster(client) => Connection::Cluster(client.get_async_connection().await.map_err(of)?),
        };
        // Of all buckets, so that a new server's grace is over once, and not whenever one is used for the
        // first time.
        let (first, others) = match (&connection, self.keys.markers()) {
            (Connection::One(_), markers) => (markers, Vec::new()),
            // In a cluster each is a command of its own, because their slots differ: one is waited for, to
            // see whether scripts run.
            (Connection::Cluster(_), mut markers) => {
                (markers.split_off(markers.len().saturating_sub(1)), markers)
            }
        };
        let touched = TOUCH.run::<Value>(&mut connection, &first, None::<&str>).await;
        touched.map_err(|error| Error::handshake(&self.server, &error))?;
        let mut touching = connection.clone();
        tokio::spawn(async move {
            for marker in others {
                // Not needed to go on: an exchange makes the marker of its own bucket.
                if TOUCH.run::<Value>(&mut touching, &[marker], None::<&str>).await.is_err() {
                    return;
                }
            }
        });
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            self.warn(&mut connection).await;
        }
        Ok(connection)
    }

    /// Once: what an operator should change.
    async fn warn(&self, connection: &mut Connection) {
        let ask = cmd("INFO").arg("memory").to_owned();
        // Without permission for INFO it is not known, and not worth a warning.
        let memory = connection.query_at::<String>(ask, SingleNodeRoutingInfo::RandomPrimary).await;
        let memory = memory.unwrap_or_default();
        let field =
            |name| memory.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        let policy = field("maxmemory_policy").unwrap_or("noeviction");
        if policy != "noeviction" && field("maxmemory").is_some_and(|bytes| bytes != "0") {
            tracing::warn!(
                name: "abide.redis.evicting",
                server = %self.server,
                policy,
                "Redis may evict leases and backoffs: set maxmemory-policy to noeviction"
            );
        }
    }
}

/// Without limits of its own: [`Link::ask`] has one for all.
async fn open(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

impl LinkHealth {
    fn silent_since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingReply {
    /// It was given up, here or by its caller. A caller that goes at once says nothing of the connection, but
    /// many without a reply between them do: each may wait for less than the patience.
    fn drop(&mut self) {
        let Some(since) = self.since else { return };
        let silent_since = *self.health.silent_since().get_or_insert(since);
        if silent_since.elapsed() >= self.patience {
            self.health.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Connection {
    pub(crate) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One(one) => command.query_async(one).await,
            Self::Cluster(cluster) => command.query_async(cluster).await,
        }
    }

    /// At this node, if it is a cluster.
    pub(crate) async fn query_at<T: FromRedisValue>(
        &mut self,
        command: Cmd,
        node: SingleNodeRoutingInfo,
    ) -> RedisResult<T> {
        match self {
            Self::One(one) => command.query_async(one).await,
            Self::Cluster(cluster) => {
                Ok(from_redis_value(cluster.route_command(command, RoutingInfo::SingleNode(node)).await?)?)
            }
        }
    }
}

/// rustls chooses no cryptography in a program that has two, and a connection would panic: there this one
/// counts, unless the program has chosen.
#[cfg(feature = "tls")]
fn provide_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
