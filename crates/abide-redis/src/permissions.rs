//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is fetched again.

use std::sync::LazyLock;

use abide_permissions::{BoxFuture, PermissionError, PermissionRecord, PermissionStore};
use redis::{FromRedisValue, Value, cmd};

use crate::Store;
use crate::key::PERMISSIONS;
use crate::script::Script;

static LATER: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/later.lua")));

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(async move {
            let text: Option<Vec<u8>> = ask(self, "GET", url).await?;
            // What cannot be read, or was written for another URL, is absent.
            let record = text.and_then(|text| serde_json::from_slice::<PermissionRecord>(&text).ok());
            Ok(record.filter(|record| record.url() == url))
        })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let text = serde_json::to_string(record).map_err(PermissionError::new)?;
            let key = self.link.keys.of(PERMISSIONS, record.url());
            let saved = self.link.run::<Value>(&LATER, &[key], text).await;
            saved.map(drop).map_err(PermissionError::new)
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(ask(self, "DEL", url))
    }
}

async fn ask<T: FromRedisValue>(store: &Store, what: &str, url: &str) -> Result<T, PermissionError> {
    let mut command = cmd(what);
    command.arg(store.link.keys.of(PERMISSIONS, url));
    store.link.query(&command).await.map_err(PermissionError::new)
}
