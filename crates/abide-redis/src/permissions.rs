//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is fetched again.

use std::sync::Arc;
use std::time::SystemTime;

use abide_permissions::{PermissionRecord, PermissionStore, PermissionStoreError};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd, pipe};

use crate::link::Link;
use crate::node::Reached;
use crate::{Error, Store};

type StoreFuture<'a, T> =
    std::pin::Pin<Box<dyn Future<Output = Result<T, PermissionStoreError>> + Send + 'a>>;

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> StoreFuture<'a, Option<PermissionRecord>> {
        let key = self.link.keys.permissions(url);
        let mut load = cmd("GET");
        load.arg(&key);
        Box::pin(async move {
            let text: Option<Vec<u8>> = ask(&self.link, key, load).await?;
            // What cannot be read, or was written for another URL, is absent.
            let record = text.and_then(|text| serde_json::from_slice::<PermissionRecord>(&text).ok());
            Ok(record.filter(|record| record.url() == url))
        })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let text = serde_json::to_vec(record).map_err(PermissionStoreError::new)?;
            let received = record.received_at();
            let key = self.link.keys.permissions(record.url());
            let asking = Arc::clone(&self.link);
            let save = self.link.run(async move {
                let save = |at: Reached| {
                    let (key, text) = (&key, &text);
                    async move { save(&at, key, text, received).await }
                };
                asking.at(&key, save).await
            });
            save.await.map_err(|error: Error| PermissionStoreError::new(error))
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> StoreFuture<'a, ()> {
        let key = self.link.keys.permissions(url);
        let mut remove = cmd("DEL");
        remove.arg(&key);
        Box::pin(async move { ask(&self.link, key, remove).await })
    }
}

/// Sets the record, unless the one that is there was received later. Another process may be about to do the same.
async fn save(at: &Reached, key: &str, text: &[u8], received: SystemTime) -> Result<(), Error> {
    // What is watched belongs to the connection, so nobody else may use it meanwhile.
    let mut spare = at.spare().await?;
    let done = attempts(&mut spare.connection, key, text, received).await;
    let is_done = done.map_err(|error| at.failed(&error))?;
    at.put_back(spare);
    if is_done { Ok(()) } else { Err(Error::unexpected(at.server())) }
}

async fn attempts(
    connection: &mut MultiplexedConnection,
    key: &str,
    text: &[u8],
    received: SystemTime,
) -> RedisResult<bool> {
    for _ in 0..TRIES {
        let (old,): (Option<Vec<u8>>,) =
            pipe().cmd("WATCH").arg(key).ignore().cmd("GET").arg(key).query_async(connection).await?;
        let old = old.and_then(|old| serde_json::from_slice::<PermissionRecord>(&old).ok());
        if old.is_some_and(|old| old.received_at() > received) {
            let () = cmd("UNWATCH").query_async(connection).await?;
            return Ok(true);
        }
        let mut set = pipe();
        set.atomic().cmd("SET").arg(key).arg(text);
        if set.query_async::<Value>(connection).await? != Value::Nil {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Others can be faster so often.
const TRIES: usize = 32;

async fn ask<T: FromRedisValue + Send + 'static>(
    link: &Arc<Link>,
    key: String,
    command: Cmd,
) -> Result<T, PermissionStoreError> {
    let asking = Arc::clone(link);
    let answer = link.run(async move {
        let command = &command;
        let ask = |at: Reached| async move {
            let answer = command.query_async(&mut at.connection()).await;
            answer.map_err(|error| at.failed(&error))
        };
        asking.at(&key, ask).await
    });
    answer.await.map_err(|error: Error| PermissionStoreError::new(error))
}
