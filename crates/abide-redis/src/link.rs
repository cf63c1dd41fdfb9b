//! The connection to the server or servers: made by the first command, shared by all, and made again after a failure.
//!
//! The library's connections match replies to commands in a task of their own, so a command that is cancelled never takes another's reply. What
//! they do not notice is a peer that has gone silent; so a connection that leaves a command without a reply is replaced. The library's
//! `ConnectionManager` would do the same for a single server, and neither for sentinels nor for a cluster.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisFuture, RedisResult,
    ToRedisArgs, Value, cmd,
};
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::key::Keys;
use crate::script::Script;
use crate::target::{Target, Way};

pub(crate) struct Link {
    way: Way,
    /// The servers as they may be shown: hosts and ports.
    server: Arc<str>,
    pub(crate) keys: Keys,
    /// For one command, connecting included.
    limit: Duration,
    current: Mutex<Current>,
    /// One task connects, the others wait for it.
    connecting: tokio::sync::Mutex<()>,
    commands: AtomicU64,
    is_warned: AtomicBool,
}

#[derive(Default)]
struct Current {
    connection: Option<Connection>,
    /// How many there were.
    number: u64,
    failed: Option<(Instant, Error)>,
}

#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A command that waits for its reply.
struct Pending<'a> {
    link: &'a Link,
    connection: u64,
    since: Option<Instant>,
}

static TOUCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/marker.lua"), include_str!("lua/touch.lua"))));

/// After a failure to connect, the next attempt is made after this. Until then all commands fail with the same error.
const AGAIN: Duration = Duration::from_millis(250);

impl Link {
    pub(crate) fn new(target: Target, keys: Keys, limit: Duration) -> Self {
        Self {
            server: target.shown.into(),
            way: target.way,
            keys,
            limit,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            commands: AtomicU64::new(1),
            is_warned: AtomicBool::new(false),
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Higher than that of each command before.
    pub(crate) fn number(&self) -> u64 {
        self.commands.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: impl ToRedisArgs,
    ) -> Result<T, Error> {
        self.ask(|mut at| async move { script.run(&mut at, keys, args).await }).await
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        self.ask(|mut at| async move { command.query_async(&mut at).await }).await
    }

    /// Asks on the connection that is there, or on a new one.
    pub(crate) async fn ask<T, F>(&self, ask: impl FnOnce(Connection) -> F) -> Result<T, Error>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let asked = async {
            let (connection, number) = self.connection().await?;
            let mut pending = Pending { link: self, connection: number, since: Some(Instant::now()) };
            let reply = ask(connection).await;
            pending.since = None;
            reply.map_err(|error| {
                // What a server says about a command says nothing against the connection, unless it is no primary any more.
                let is_reply = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
                if !is_reply || error.code() == Some("READONLY") {
                    self.lose(number);
                }
                Error::of(&self.server, &error)
            })
        };
        timeout(self.limit, asked).await.unwrap_or_else(|_| Err(Error::slow(&self.server, self.limit)))
    }

    pub(crate) fn unexpected(&self) -> Error {
        Error::unexpected(&self.server)
    }

    async fn connection(&self) -> Result<(Connection, u64), Error> {
        if let Some(known) = self.known() {
            return known;
        }
        let _alone = self.connecting.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let made = self.connect().await;
        let mut current = lock(&self.current);
        match made {
            Ok(connection) => {
                let number = current.number.wrapping_add(1);
                *current = Current { connection: Some(connection.clone()), number, failed: None };
                Ok((connection, number))
            }
            Err(error) => {
                current.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// What there is already: a connection, or a failure to make one.
    fn known(&self) -> Option<Result<(Connection, u64), Error>> {
        let current = lock(&self.current);
        if let Some(connection) = &current.connection {
            return Some(Ok((connection.clone(), current.number)));
        }
        let (at, error) = current.failed.as_ref()?;
        (at.elapsed() < AGAIN).then(|| Err(error.clone()))
    }

    fn lose(&self, number: u64) {
        let mut current = lock(&self.current);
        if current.number == number {
            current.connection = None;
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let of = |error| Error::of(&self.server, &error);
        let mut connection = match &self.way {
            Way::Server(client) => Connection::One(open(client).await.map_err(of)?),
            Way::Primary(sentinels) => {
                let client = sentinels.primary().await.map_err(of)?;
                Connection::One(open(&client).await.map_err(of)?)
            }
            Way::Cluster(client) => Connection::Cluster(client.get_async_connection().await.map_err(of)?),
        };
        // Of all buckets, so that a new server's grace is over once, and not whenever one is used for the first time.
        let (first, others) = match (&connection, self.keys.markers()) {
            (Connection::One(_), markers) => (markers, Vec::new()),
            (Connection::Cluster(_), mut markers) => {
                (markers.split_off(markers.len().saturating_sub(1)), markers)
            }
        };
        let touched = TOUCH.run::<Value>(&mut connection, &first, None::<&str>).await;
        touched.map_err(|error| Error::handshake(&self.server, &error))?;
        let mut touching = connection.clone();
        tokio::spawn(async move {
            for marker in others {
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
        let mut ask = cmd("INFO");
        ask.arg("memory");
        let memory = match connection {
            Connection::One(at) => ask.query_async(at).await,
            Connection::Cluster(at) => {
                let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                at.route_command(ask, any).await
            }
        };
        // Without permission for INFO it is not known, and not worth a warning.
        let memory =
            memory.ok().and_then(|text| redis::from_redis_value::<String>(text).ok()).unwrap_or_default();
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

impl Drop for Pending<'_> {
    /// It was given up, here or by its caller. A caller that goes at once says nothing of the connection.
    fn drop(&mut self) {
        let patience = self.link.limit.checked_div(4).unwrap_or_default();
        if self.since.is_some_and(|since| since.elapsed() >= patience) {
            self.link.lose(self.connection);
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(one) => one.req_packed_command(cmd),
            Self::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(one) => one.req_packed_commands(cmd, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(one) => one.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The clients have the password in them.
        f.debug_struct("Link").field("server", &self.server).field("keys", &self.keys).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
