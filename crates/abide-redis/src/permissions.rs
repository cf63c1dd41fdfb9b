//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is fetched again.

use std::sync::Arc;

use abide_permissions::{PermissionRecord, PermissionStore, PermissionStoreError};
use redis::{Cmd, FromRedisValue, cmd};

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
            let key = self.link.keys.permissions(record.url());
            let mut save = cmd("SET");
            save.arg(&key).arg(text);
            ask(&self.link, key, save).await
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> StoreFuture<'a, ()> {
        let key = self.link.keys.permissions(url);
        let mut remove = cmd("DEL");
        remove.arg(&key);
        Box::pin(async move { ask(&self.link, key, remove).await })
    }
}

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
