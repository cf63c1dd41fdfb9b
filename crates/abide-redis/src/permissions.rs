//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is fetched again.

use abide_permissions::{PermissionRecord, PermissionStore, PermissionStoreError};
use redis::{FromRedisValue, cmd};

use crate::Store;
use crate::key::Kind;

type StoreFuture<'a, T> =
    std::pin::Pin<Box<dyn Future<Output = Result<T, PermissionStoreError>> + Send + 'a>>;

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> StoreFuture<'a, Option<PermissionRecord>> {
        Box::pin(async move {
            let text: Option<Vec<u8>> = ask(self, "GET", url, None).await?;
            // What cannot be read, or was written for another URL, is absent.
            let record = text.and_then(|text| serde_json::from_slice::<PermissionRecord>(&text).ok());
            Ok(record.filter(|record| record.url() == url))
        })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let text = serde_json::to_vec(record).map_err(PermissionStoreError::new)?;
            ask(self, "SET", record.url(), Some(text)).await
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(ask(self, "DEL", url, None))
    }
}

async fn ask<T: FromRedisValue>(
    store: &Store,
    what: &str,
    url: &str,
    text: Option<Vec<u8>>,
) -> Result<T, PermissionStoreError> {
    let mut command = cmd(what);
    command.arg(store.link.keys.of(Kind::Permissions, url)).arg(text);
    store.link.query(&command).await.map_err(PermissionStoreError::new)
}
