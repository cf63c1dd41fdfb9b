//! The connection to the server: made by the first statement, shared by all, and made again after a failure.
//!
//! The client library matches replies to statements in a task of its own, so a statement that is cancelled
//! never takes another's reply, and statements need not wait for each other. What it does not notice is a
//! peer that has gone silent; so a connection that leaves a statement without a reply is replaced.
//!
//! Nothing is kept in the session but LISTEN, which only makes things faster: statements are sent whole, so
//! that a pooler may give each to another session. The rules are in functions, whose plans the server keeps.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Notification, Row};

use crate::Error;
use crate::schema::{Schema, SchemaError};
use crate::target::Target;

pub(crate) struct Link {
    target: Target,
    /// The servers as they may be shown: hosts and ports.
    pub(crate) server: String,
    pub(crate) schema: Schema,
    /// For one statement, connecting included.
    limit: Duration,
    /// The last connection, or when and why there was none. One task connects, the others wait for it.
    current: Mutex<Option<Result<SharedClient, (Instant, Error)>>>,
    releases: Arc<Releases>,
}

/// A connection, and whether it is to be replaced.
type SharedClient = (Arc<Client>, Arc<AtomicBool>);

/// Arguments, with their types, so that the server need not be asked for them.
pub(crate) type Args<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// Who waits to hear that a lease was given up: by holder and host, as a notification names them.
#[derive(Default)]
pub(crate) struct Releases {
    waiting: std::sync::Mutex<HashMap<String, Arc<Notify>>>,
}

/// Of one that waits, until it no longer does.
struct Place<'a> {
    releases: &'a Releases,
    name: String,
}

struct PendingReply {
    /// After so much silence the connection is to be replaced.
    patience: Duration,
    since: Option<Instant>,
    is_lost: Arc<AtomicBool>,
}

/// After a failure to connect, the next attempt is made after this. Until then all statements fail with the
/// same error.
const AGAIN: Duration = Duration::from_millis(250);

impl Link {
    pub(crate) fn new(target: Target, schema: Schema, limit: Duration) -> Self {
        let server = target.shown.clone();
        Self { target, server, schema, limit, current: Mutex::default(), releases: Arc::default() }
    }

    /// Asks on the connection that is there, or on a new one; a second time where it was lost, so a statement
    /// may come twice.
    pub(crate) async fn query(&self, sql: &str, args: &Args<'_>) -> Result<Vec<Row>, Error> {
        let asked = async {
            match self.query_once(sql, args).await {
                // Servers and poolers close what is idle, and a connection ends with the runtime that made
                // it: none of that is an outage.
                Err(error) if error.is_unreachable() => self.query_once(sql, args).await,
                asked => asked,
            }
        };
        timeout(self.limit, asked).await.unwrap_or_else(|_| Err(Error::slow(&self.server, self.limit)))
    }

    async fn query_once(&self, sql: &str, args: &Args<'_>) -> Result<Vec<Row>, Error> {
        let (client, is_lost) = self.client().await?;
        // Less than the limit, because callers that wait for less must find a silent server, too.
        let patience = self.limit.checked_div(4).unwrap_or_default();
        let mut pending = PendingReply { patience, since: Some(Instant::now()), is_lost };
        let reply = client.query_typed(sql, args).await;
        pending.since = None;
        reply.map_err(|error| {
            let shown = Error::of(&self.server, &error);
            // What a server says about a statement says nothing against the connection, unless it is no
            // primary any more, or closes it.
            let is_about_the_connection =
                |code: &SqlState| code.code() == "25006" || code.code().starts_with("57P");
            if error.code().is_none_or(is_about_the_connection) {
                pending.is_lost.store(true, Ordering::Relaxed);
            }
            shown
        })
    }

    pub(crate) fn unexpected(&self) -> Error {
        Error::refused(&self.server, "something that abide does not understand")
    }

    /// Connects, if nothing has.
    pub(crate) async fn connected_within(&self, limit: Duration) -> Result<(), Error> {
        timeout(limit, self.client())
            .await
            .unwrap_or_else(|_| Err(Error::slow(&self.server, limit)))
            .map(drop)
    }

    async fn client(&self) -> Result<SharedClient, Error> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(Ok((client, is_lost))) if !is_lost.load(Ordering::Relaxed) && !client.is_closed() => {
                return Ok((Arc::clone(client), Arc::clone(is_lost)));
            }
            // Thousands of hosts ask a server that is down: all get the error at once, and one of them
            // connects.
            Some(Err((at, error))) if at.elapsed() < AGAIN => return Err(error.clone()),
            _ => {}
        }
        match self.connect().await {
            Ok(client) => {
                let made = (Arc::new(client), Arc::default());
                *current = Some(Ok(made.clone()));
                Ok(made)
            }
            Err(error) => {
                *current = Some(Err((Instant::now(), error.clone())));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Client, Error> {
        let of = |error| Error::of(&self.server, &error);
        let config = &self.target.config;
        #[cfg(feature = "tls")]
        let encrypted = config.get_ssl_mode() != tokio_postgres::config::SslMode::Disable;
        #[cfg(feature = "tls")]
        if encrypted {
            let (client, connection) = config.connect(self.target.tls.clone()).await.map_err(of)?;
            tokio::spawn(drive(connection, Arc::clone(&self.releases)));
            return self.prepare(client).await;
        }
        let (client, connection) = config.connect(NoTls).await.map_err(of)?;
        tokio::spawn(drive(connection, Arc::clone(&self.releases)));
        self.prepare(client).await
    }

    async fn prepare(&self, mut client: Client) -> Result<Client, Error> {
        let name = &self.schema.name;
        let handshake = |error| Error::handshake(&self.server, name, &error);
        self.schema.ensure(&mut client).await.map_err(|error| match error {
            SchemaError::Newer(version) => Error::newer(&self.server, version),
            SchemaError::Failed(error) => handshake(error),
        })?;
        client.batch_execute(&format!("LISTEN {name}")).await.map_err(handshake)?;
        Ok(client)
    }

    /// Waits until the server says that a lease was given up for this process. It may never do.
    pub(crate) async fn released(&self, holder: &str, host: &str) {
        self.releases.wait_for(format!("{holder} {host}")).await;
    }
}

/// Until the connection ends, or nothing uses it any more.
async fn drive<S, T>(mut connection: Connection<S, T>, releases: Arc<Releases>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            releases.notify(&notification);
        }
    }
}

impl Releases {
    async fn wait_for(&self, name: String) {
        let notify = Arc::new(Notify::new());
        self.lock().insert(name.clone(), Arc::clone(&notify));
        let _place = Place { releases: self, name };
        notify.notified().await;
    }

    fn notify(&self, notification: &Notification) {
        if let Some(notify) = self.lock().get(notification.payload()) {
            notify.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.releases.lock().remove(&self.name);
    }
}

impl Drop for PendingReply {
    /// It was given up, here or by its caller.
    fn drop(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= self.patience) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }
}
