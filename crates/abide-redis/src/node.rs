//! One server, and the connection to it: one for all, made anew when it is lost.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::greeting::{Greeting, greet, identity};
use crate::key::Keys;
use crate::latest::{Ends, Latest, lock};
use crate::place;
use crate::sentinel::Sentinels;

/// A server that keeps all keys, or those of some slots.
pub(crate) struct Node {
    target: Target,
    settings: Settings,
    /// In a cluster: the slot of this node in which its epoch lies.
    epoch_slot: Mutex<Option<u16>>,
    session: Latest<Session>,
    /// Connections for `WATCH`, which cannot be shared while they are in use.
    spare: Mutex<Vec<Spare>>,
    /// When data was lost, the last few times.
    losses: Mutex<VecDeque<Instant>>,
    /// What its epoch was when it was last greeted; nothing that any server has, for one that takes another's place.
    epoch: Mutex<Option<String>>,
}

/// Where the server is.
pub(crate) enum Target {
    Address(Client),
    /// Wherever the sentinels say that the primary is.
    Primary(Sentinels),
}

/// What all servers of a store have in common.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) keys: Keys,
    /// For one command.
    pub(crate) limit: Duration,
    /// Whether EVAL may be used if it is there.
    pub(crate) may_eval: bool,
    /// The server as it may be shown: host and port.
    pub(crate) server: Arc<str>,
    pub(crate) is_warned: Arc<AtomicBool>,
    /// How often a server was greeted that had lost what it knew.
    pub(crate) losses: Arc<AtomicU64>,
}

/// A connection that has been greeted.
pub(crate) struct Session {
    connection: MultiplexedConnection,
    greeting: Greeting,
    /// Who it is: where the primary is may change.
    client: Client,
    is_over: AtomicBool,
}

/// A server, and a connection to it that is thought to be alive.
#[derive(Clone)]
pub(crate) struct Reached {
    node: Arc<Node>,
    session: Arc<Session>,
}

/// A connection that only one has.
pub(crate) struct Spare {
    pub(crate) connection: MultiplexedConnection,
    session: Arc<Session>,
}

/// Connecting is several questions and answers.
const GREETING_LIMITS: u32 = 4;

/// A server that loses its data so often in so long (since it evicts what is in use) can keep no promise, and waiting for it anew each
/// time would be waiting for ever.
const LOSSES_MAX: (usize, Duration) = (8, Duration::from_secs(4));

/// Idle connections for `WATCH`. More are made when they are needed, and closed afterwards.
const SPARE_MAX: usize = 4;

impl Node {
    pub(crate) fn new(target: Target, settings: Settings) -> Self {
        let (epoch_slot, session, spare, losses, epoch) = Default::default();
        Self { target, settings, epoch_slot, session, spare, losses, epoch }
    }

    /// It has joined later, perhaps in the place of another, whose last moments it does not know.
    pub(crate) fn late(self) -> Self {
        Self { epoch: Mutex::new(Some(String::new())), ..self }
    }

    /// The connection, made now if there is none.
    pub(crate) async fn reach(self: &Arc<Self>) -> Result<Reached, Error> {
        let session = self.session.one(|| Arc::clone(self).connect()).await?;
        Ok(Reached { node: Arc::clone(self), session })
    }

    /// Begins to connect, if there is no connection.
    pub(crate) fn begin(self: &Arc<Self>) {
        drop(self.session.attempt(|| Arc::clone(self).connect()));
    }

    pub(crate) fn server(&self) -> &Arc<str> {
        &self.settings.server
    }

    pub(crate) fn epoch_slot(&self) -> Option<u16> {
        *lock(&self.epoch_slot)
    }

    /// Its epoch lies in this slot from now on, so it is greeted again.
    pub(crate) fn put_epoch(&self, slot: u16) {
        *lock(&self.epoch_slot) = Some(slot);
        if let Some(session) = self.session.last() {
            session.end();
        }
    }

    async fn connect(self: Arc<Self>) -> Result<Session, Error> {
        let limit = self.settings.limit.saturating_mul(GREETING_LIMITS);
        match timeout(limit, self.greeted()).await {
            Ok(greeted) => greeted,
            Err(_) => Err(Error::slow(self.server(), limit)),
        }
    }

    async fn greeted(&self) -> Result<Session, Error> {
        let Settings { keys, limit, may_eval, server, is_warned, .. } = &self.settings;
        let client = match &self.target {
            Target::Address(client) => client.clone(),
            Target::Primary(sentinels) => sentinels.primary(*limit, server).await?,
        };
        let failed = |error: RedisError| Error::of(server, &error);
        let mut connection = open(&client, *limit).await.map_err(failed)?;
        let greeting = greet(&mut connection, keys, self.epoch_slot(), *may_eval).await.map_err(failed)?;
        if greeting.is_nameless()
            && (self.epoch_slot().is_some() || matches!(self.target, Target::Primary(_)))
        {
            return Err(Error::nameless(server));
        }
        if greeting.is_evicting && !is_warned.swap(true, Ordering::Relaxed) {
            let policy = &greeting.policy;
            tracing::warn!(
                %server, %policy,
                "the store may evict turns and holds when its memory is full: set maxmemory-policy to noeviction"
            );
        }
        lock(&self.spare).clear();
        let last = lock(&self.epoch).replace(greeting.epoch.value.clone());
        if last.is_some_and(|last| last != greeting.epoch.value) {
            self.settings.losses.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Session { connection, greeting, client, is_over: AtomicBool::new(false) })
    }
}

pub(crate) async fn open(client: &Client, limit: Duration) -> Result<MultiplexedConnection, RedisError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(Some(limit));
    client.get_multiplexed_async_connection_with_config(&config).await
}

impl Reached {
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.session.connection.clone()
    }

    pub(crate) fn greeting(&self) -> &Greeting {
        &self.session.greeting
    }

    pub(crate) fn server(&self) -> &Arc<str> {
        self.node.server()
    }

    /// The host of the server, if it has one.
    pub(crate) fn host(&self) -> Option<String> {
        Some(place::address(&self.session.client)?.host)
    }

    pub(crate) fn is_forgetful(&self) -> bool {
        let losses = lock(&self.node.losses);
        losses.len() == LOSSES_MAX.0 && losses.back().is_some_and(|first| first.elapsed() < LOSSES_MAX.1)
    }

    /// A connection of one's own, to the same server. It comes back with [`Reached::put_back`], unless something went wrong on it.
    pub(crate) async fn spare(&self) -> Result<Spare, Error> {
        let idle = lock(&self.node.spare).pop();
        if let Some(spare) = idle
            && Arc::ptr_eq(&spare.session, &self.session)
        {
            return Ok(spare);
        }
        let connection = self.open_another().await.map_err(|error| self.failed(&error))?;
        Ok(Spare { connection, session: Arc::clone(&self.session) })
    }

    /// The name may lead to another server by now, which has a copy of the epoch and not of all that came after it.
    async fn open_another(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut connection = open(&self.session.client, self.node.settings.limit).await?;
        match identity(&mut connection).await? == self.session.greeting.identity {
            true => Ok(connection),
            false => Err((redis::ErrorKind::Io, "another server has its address now").into()),
        }
    }

    pub(crate) fn put_back(&self, spare: Spare) {
        let mut idle = lock(&self.node.spare);
        if idle.len() < SPARE_MAX {
            idle.push(spare);
        }
    }

    /// The server has lost the data that it had when this connection was greeted.
    pub(crate) fn lost(&self) {
        if !self.session.end() {
            let mut losses = lock(&self.node.losses);
            losses.truncate(LOSSES_MAX.0.saturating_sub(1));
            losses.push_front(Instant::now());
        }
    }

    /// What this connection was told when it was greeted is not so any more. Nothing was lost.
    pub(crate) fn outdated(&self) {
        self.session.end();
    }

    /// A command has failed. The connection is made anew, and the server greeted again: it may be another one, or may have lost what
    /// it knew. Memory that is full is no reason for that, nor is a key that lies elsewhere.
    pub(crate) fn failed(&self, error: &RedisError) -> Error {
        let failed = Error::of(self.server(), error);
        if error.code() != Some("OOM") && failed.elsewhere().is_none() {
            self.session.end();
        }
        failed
    }
}

impl Session {
    /// The next command gets another connection. Returns whether that was so already.
    fn end(&self) -> bool {
        self.is_over.swap(true, Ordering::Relaxed)
    }
}

impl Ends for Session {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
