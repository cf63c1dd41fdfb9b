//! Redis Sentinel: which server is the primary now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind, cmd};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Error;
use crate::node::open;
use crate::place::{self, Address};

/// Those who watch a primary, and what it is called by them.
#[derive(Clone)]
pub(crate) struct Sentinels {
    pub(crate) sentinels: Vec<Client>,
    pub(crate) name: String,
    /// How the primary is spoken with, wherever it is.
    pub(crate) like: ConnectionInfo,
}

/// What one of them says: where the primary is, and how new that is.
struct Word {
    epoch: u64,
    address: Address,
}

impl Sentinels {
    /// All are asked, and whoever knows of the last failover is believed: one that is cut off from the others would send us to the
    /// primary of before.
    pub(crate) async fn primary(&self, limit: Duration, server: &Arc<str>) -> Result<Client, Error> {
        let mut asked = JoinSet::new();
        for sentinel in &self.sentinels {
            let (sentinel, name) = (sentinel.clone(), self.name.clone());
            let like = self.like.clone();
            asked.spawn(async move { timeout(limit, ask(&sentinel, &like, &name, limit)).await });
        }
        let (mut newest, mut failed) = (None::<Word>, Error::slow(server, limit));
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Ok(word))) if newest.as_ref().is_none_or(|newest| word.epoch > newest.epoch) => {
                    newest = Some(word);
                }
                Ok(Ok(Err(error))) => failed = explain(server, &error),
                _ => {}
            }
        }
        let Some(Word { address, .. }) = newest else { return Err(failed) };
        place::client(&self.like, &address).map_err(|error| Error::of(server, &error))
    }
}

/// Without a password, and with the one of the primary if a sentinel wants one.
async fn ask(
    sentinel: &Client,
    like: &ConnectionInfo,
    name: &str,
    limit: Duration,
) -> Result<Word, RedisError> {
    let refused = match ask_one(sentinel, name, limit).await {
        Err(error) if error.code() == Some("NOAUTH") => error,
        answer => return answer,
    };
    if like.redis_settings().password().is_none() {
        return Err(refused);
    }
    let info = sentinel.get_connection_info().clone();
    let settings = like.redis_settings().clone().set_db(0);
    ask_one(&Client::open(info.set_redis_settings(settings))?, name, limit).await
}

async fn ask_one(sentinel: &Client, name: &str, limit: Duration) -> Result<Word, RedisError> {
    let mut connection = open(sentinel, limit).await?;
    let told: HashMap<String, String> =
        cmd("SENTINEL").arg("MASTER").arg(name).query_async(&mut connection).await?;
    read(&told).ok_or_else(|| (ErrorKind::UnexpectedReturnType, "no address of a primary").into())
}

fn read(told: &HashMap<String, String>) -> Option<Word> {
    let (host, port) = (told.get("ip")?.clone(), told.get("port")?.parse().ok()?);
    let epoch = told.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Some(Word { epoch, address: Address { host, port } })
}

fn explain(server: &Arc<str>, error: &RedisError) -> Error {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ResponseError) => Error::unknown_primary(server),
        _ => Error::of(server, error),
    }
}
