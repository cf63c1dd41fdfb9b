//! Records of robots.txt.
//!
//! What one process has fetched, the others use. Which of them fetches is decided by the lease of the host,
//! not here.

use std::time::Duration;

use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::{BoxFuture, Origin, StoreError, WallMillis};
use tokio_postgres::types::{ToSql, Type};

use crate::Store;

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

const LOAD: &str = "SELECT record FROM abide.robots WHERE origin = abide.key($1)";

/// With each record that is saved, two go whose life is over.
const SAVE: &str = "WITH gone AS (
  DELETE FROM abide.robots WHERE origin IN (
    SELECT origin FROM abide.robots WHERE saved_at < now() - $5 * interval '1 second' AND origin <> abide.key($1)
    ORDER BY saved_at LIMIT 2 FOR UPDATE SKIP LOCKED))
INSERT INTO abide.robots (origin, record, text_length, asked_at) VALUES (abide.key($1), $2, $3, $4)
ON CONFLICT (origin) DO UPDATE SET (record, text_length, asked_at, saved_at) =
  (excluded.record, excluded.text_length, excluded.asked_at, excluded.saved_at)";

const SWEEP: &str = "WITH gone AS (
  DELETE FROM abide.robots WHERE origin IN (
    SELECT origin FROM abide.robots WHERE asked_at < $1 ORDER BY asked_at LIMIT 1000 FOR UPDATE)
  RETURNING 1)
SELECT count(*) FROM gone";

impl RobotsStore for Store {
    /// What cannot be read is absent: it is fetched again, and replaced.
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move {
            let name = origin.as_str().as_bytes();
            let rows = self.link.query(&self.link.schema.of(LOAD), &[(&name, Type::BYTEA)]).await?;
            Ok(rows.first().and_then(|row| RobotsRecord::decode(row.try_get(0).ok()?)))
        })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (name, bytes) = (origin.as_str().as_bytes(), record.encode());
            let text_len = record.copy().map_or(0, |copy| copy.body().len());
            let text_len = i32::try_from(text_len).unwrap_or(i32::MAX);
            let args: [(&(dyn ToSql + Sync), Type); 5] = [
                (&name, Type::BYTEA),
                (&bytes, Type::BYTEA),
                (&text_len, Type::INT4),
                (&millis(record.asked_at()), Type::INT8),
                (&seconds(self.record_life), Type::FLOAT8),
            ];
            self.link.query(&self.link.schema.of(SAVE), &args).await?;
            Ok(())
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let (sql, mut removed) = (self.link.schema.of(SWEEP), 0_u64);
            loop {
                let rows = self.link.query(&sql, &[(&millis(older_than), Type::INT8)]).await?;
                let gone: i64 = rows.first().map_or(0, |row| row.get(0));
                match u64::try_from(gone) {
                    Ok(gone @ 1..) => removed = removed.saturating_add(gone),
                    _ => return Ok(removed),
                }
            }
        })
    }
}

fn millis(at: WallMillis) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// A hundred years are for ever, and what is taken from a date has a bound.
pub(crate) fn seconds(life: Duration) -> f64 {
    life.as_secs_f64().min(100.0 * 366.0 * 86_400.0)
}
