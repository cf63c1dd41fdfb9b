//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is
//! fetched again.
//!
//! The record that was received last has to stay, whichever process writes last; a script compares them in
//! the server (`lua/later.lua`).

use std::sync::LazyLock;

use abide_permissions::{BoxFuture, PermissionError, PermissionRecord, PermissionStore};
use redis::{Value, cmd};

use crate::Store;
use crate::key::PERMISSIONS;
use crate::script::Script;

static LOAD: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/seal.lua"), "return (unsealed(KEYS[1]))")));

static LATER: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/seal.lua"), include_str!("lua/later.lua"))));

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(async move {
            let key = self.link.keys.of(PERMISSIONS, url);
            let text = self.link.run::<Option<Vec<u8>>>(&LOAD, &[key], None::<&str>).await;
            // What is damaged, or was written for another URL, is absent.
            Ok(text.map_err(PermissionError::new)?.and_then(|text| serde_json::from_slice(&text).ok()))
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
        Box::pin(async move {
            let key = self.link.keys.of(PERMISSIONS, url);
            self.link.query(cmd("DEL").arg(key)).await.map_err(PermissionError::new)
        })
    }
}
