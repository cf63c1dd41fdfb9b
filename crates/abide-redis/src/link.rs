//! The connection: one for all, made anew when it is lost, and never asked twice at the same time to do so.
//!
//! Every command runs in a task of its own. A caller who goes leaves no answer unread on the connection: another's command would
//! be given it.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_gate::pacing::LeaseId;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Error;
use crate::greeting::{Greeting, greet};
use crate::key::Keys;

/// How the server is reached, and what is there now.
pub(crate) struct Link {
    client: Client,
    /// The server as it may be shown: host and port.
    pub(crate) server: Arc<str>,
    pub(crate) keys: Keys,
    /// For one command.
    pub(crate) limit: Duration,
    /// Whether EVAL may be used if it is there.
    may_eval: bool,
    attempt: Mutex<Option<Attempt>>,
    /// Connections for `WATCH`, which cannot be shared while they are in use.
    spare: Mutex<Vec<Spare>>,
    /// When data was lost, the last few times.
    losses: Mutex<VecDeque<Instant>>,
    is_warned: AtomicBool,
    /// Leases that were asked for here and not yet given back: one for each request in flight.
    out: Mutex<HashSet<LeaseId>>,
    given_back: Notify,
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) greeting: Greeting,
    is_over: AtomicBool,
}

/// A connection that only one has.
pub(crate) struct Spare {
    pub(crate) connection: MultiplexedConnection,
    session: Arc<Session>,
}

type Connected = Result<Arc<Session>, Error>;

struct Attempt {
    began: Instant,
    outcome: watch::Receiver<Option<Connected>>,
}

/// A server that cannot be reached is not tried more often. Until then commands fail at once.
const AGAIN: Duration = Duration::from_millis(250);

/// Connecting is several questions and answers.
const GREETING_LIMITS: u32 = 4;

/// A server that loses its data so often in so long (since it evicts what is in use) can keep no promise, and waiting for it anew each
/// time would be waiting for ever.
const LOSSES_MAX: (usize, Duration) = (8, Duration::from_secs(4));

/// Idle connections for `WATCH`. More are made when they are needed, and closed afterwards.
const SPARE_MAX: usize = 4;

impl Link {
    pub(crate) fn new(client: Client, server: Arc<str>, keys: Keys, limit: Duration, may_eval: bool) -> Self {
        let (attempt, spare, losses, is_warned) = Default::default();
        let (out, given_back) = Default::default();
        Self { client, server, keys, limit, may_eval, attempt, spare, losses, is_warned, out, given_back }
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
        let end = Instant::now() + limit;
        loop {
            let given_back = self.given_back.notified();
            if lock(&self.out).is_empty() {
                return true;
            }
            if timeout_at(end, given_back).await.is_err() {
                return false;
            }
        }
    }

    /// The connection, made now if there is none.
    pub(crate) async fn session(self: &Arc<Self>) -> Connected {
        let mut outcome = self.attempt();
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(Error::interrupted()))
    }

    /// The attempt that counts: the last one, or a new one.
    fn attempt(self: &Arc<Self>) -> watch::Receiver<Option<Connected>> {
        let (mut last, now) = (lock(&self.attempt), Instant::now());
        if let Some(attempt) = &*last
            && attempt.counts(now)
        {
            return attempt.outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        *last = Some(Attempt { began: now, outcome: outcome.clone() });
        drop(last);
        let link = Arc::clone(self);
        // Its own task: who has asked first may go, and the others still get their connection.
        tokio::spawn(async move { tell.send_replace(Some(link.connect().await)) });
        outcome
    }

    async fn connect(&self) -> Connected {
        let limit = self.limit * GREETING_LIMITS;
        let greeted = timeout(limit, async {
            let mut connection = self.open().await?;
            let greeting = greet(&mut connection, &self.keys, self.may_eval).await?;
            Ok::<_, RedisError>((connection, greeting))
        });
        let (connection, greeting) = match greeted.await {
            Ok(greeted) => greeted.map_err(|error| Error::of(&self.server, &error))?,
            Err(_) => return Err(Error::slow(&self.server, limit)),
        };
        if greeting.is_evicting && !self.is_warned.swap(true, Ordering::Relaxed) {
            let policy = &greeting.policy;
            tracing::warn!(
                server = %self.server, %policy,
                "the store may evict turns and holds when its memory is full: set maxmemory-policy to noeviction"
            );
        }
        lock(&self.spare).clear();
        Ok(Arc::new(Session { connection, greeting, is_over: AtomicBool::new(false) }))
    }

    async fn open(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.limit))
            .set_response_timeout(Some(self.limit));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A connection of one's own, of the same server. It comes back with [`Link::put_back`], unless something went wrong on it.
    pub(crate) async fn spare(&self, session: &Arc<Session>) -> Result<Spare, Error> {
        let idle = lock(&self.spare).pop();
        if let Some(spare) = idle
            && Arc::ptr_eq(&spare.session, session)
        {
            return Ok(spare);
        }
        let connection = self.open().await.map_err(|error| self.failed(session, &error))?;
        Ok(Spare { connection, session: Arc::clone(session) })
    }

    pub(crate) fn put_back(&self, spare: Spare) {
        let mut idle = lock(&self.spare);
        if idle.len() < SPARE_MAX {
            idle.push(spare);
        }
    }

    /// The server has lost the data that it had when this connection was greeted.
    pub(crate) fn lost(&self, session: &Session) {
        if !session.end() {
            let mut losses = lock(&self.losses);
            losses.truncate(LOSSES_MAX.0 - 1);
            losses.push_front(Instant::now());
        }
    }

    /// What this connection was told when it was greeted is not so any more. Nothing was lost.
    pub(crate) fn outdated(session: &Session) {
        session.end();
    }

    pub(crate) fn is_forgetful(&self) -> bool {
        let losses = lock(&self.losses);
        losses.len() == LOSSES_MAX.0 && losses.back().is_some_and(|first| first.elapsed() < LOSSES_MAX.1)
    }

    /// A command has failed. The connection is made anew, and the server greeted again: it may be another one, or may have lost what
    /// it knew. Memory that is full is no reason for that.
    pub(crate) fn failed(&self, session: &Session, error: &RedisError) -> Error {
        if error.code() != Some("OOM") {
            session.end();
        }
        Error::of(&self.server, error)
    }
}

impl Session {
    /// The next command gets another connection. Returns whether that was so already.
    fn end(&self) -> bool {
        self.is_over.swap(true, Ordering::Relaxed)
    }
}

impl Attempt {
    fn counts(&self, now: Instant) -> bool {
        let is_waited_for = self.outcome.has_changed().is_ok();
        match &*self.outcome.borrow() {
            None => is_waited_for,
            Some(Ok(session)) if !session.is_over.load(Ordering::Relaxed) => true,
            Some(Ok(_)) => false,
            Some(Err(_)) => now < self.began + AGAIN,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client has the password in it.
        f.debug_struct("Link").field("server", &self.server).field("keys", &self.keys).finish_non_exhaustive()
    }
}
