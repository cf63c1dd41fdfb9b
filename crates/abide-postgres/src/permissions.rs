//! Records of permissions, by URL. They are kept for ever: the last known rules hold until the page is
//! fetched again.
//!
//! The record that was received last has to stay, whichever process writes last; the statement compares them.

use std::time::UNIX_EPOCH;

use abide_permissions::{BoxFuture, PermissionError, PermissionRecord, PermissionStore};
use tokio_postgres::types::{ToSql, Type};

use crate::Store;

const LOAD: &str = "SELECT record FROM abide.permissions WHERE url = abide.key($1)";

/// One that was received later by a day or more was dated by a clock far ahead.
const SAVE: &str =
    "INSERT INTO abide.permissions AS kept (url, record, received_at) VALUES (abide.key($1), $2, $3)
ON CONFLICT (url) DO UPDATE SET (record, received_at) = (excluded.record, excluded.received_at)
WHERE NOT kept.received_at::numeric - excluded.received_at BETWEEN 1 AND 86399999";

const REMOVE: &str = "DELETE FROM abide.permissions WHERE url = abide.key($1)";

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(async move {
            let rows = self.link.query(&self.link.schema.of(LOAD), &[(&url.as_bytes(), Type::BYTEA)]).await;
            let rows = rows.map_err(PermissionError::new)?;
            // What is damaged is absent.
            Ok(rows.first().and_then(|row| serde_json::from_slice(row.try_get(0).ok()?).ok()))
        })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let (name, text) = (record.url().as_bytes(), serde_json::to_vec(record));
            let (text, received) = (text.map_err(PermissionError::new)?, millis(record));
            let args: [(&(dyn ToSql + Sync), Type); 3] =
                [(&name, Type::BYTEA), (&text, Type::BYTEA), (&received, Type::INT8)];
            self.link.query(&self.link.schema.of(SAVE), &args).await.map_err(PermissionError::new)?;
            Ok(())
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let removed =
                self.link.query(&self.link.schema.of(REMOVE), &[(&url.as_bytes(), Type::BYTEA)]).await;
            removed.map(drop).map_err(PermissionError::new)
        })
    }
}

/// When it was received, since 1970; negative before.
fn millis(record: &PermissionRecord) -> i64 {
    let millis = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match record.received_at().duration_since(UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(before) => millis(before.duration()).saturating_neg(),
    }
}
