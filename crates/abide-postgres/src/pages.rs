//! Versions of pages: what a crawler keeps of a page to ask for it conditionally the next time.
//!
//! Not needed for politeness, and here because a crawler that shares hosts over machines wants to share
//! this, too. What stands in a version is up to the crawler.

use tokio_postgres::types::{ToSql, Type};

use crate::robots::seconds;
use crate::{Error, Store};

const LOAD: &str = "SELECT version FROM abide.pages WHERE url = abide.key($1)";

/// With those that are saved, twice as many go whose life is over. A URL may occur twice: the last one
/// counts.
const SAVE: &str = "WITH gone AS (
  DELETE FROM abide.pages WHERE url IN (
    SELECT url FROM abide.pages WHERE saved_at < now() - $3 * interval '1 second'
    AND url <> ALL (SELECT abide.key(name) FROM unnest($1) AS name)
    ORDER BY saved_at LIMIT 2 * cardinality($1) FOR UPDATE SKIP LOCKED))
INSERT INTO abide.pages (url, version)
  SELECT DISTINCT ON (key) key, version FROM (
    SELECT abide.key(name) AS key, version, n FROM unnest($1, $2) WITH ORDINALITY AS page(name, version, n)) AS pages
  ORDER BY key, n DESC
ON CONFLICT (url) DO UPDATE SET (version, saved_at) = (excluded.version, excluded.saved_at)";

impl Store {
    /// What [`save_pages`](Self::save_pages) has kept of this URL.
    ///
    /// # Errors
    /// The server cannot be reached, or it refuses.
    pub async fn load_page(&self, url: &str) -> Result<Option<Vec<u8>>, Error> {
        let rows = self.link.query(&self.link.schema.of(LOAD), &[(&url.as_bytes(), Type::BYTEA)]).await?;
        Ok(rows.first().and_then(|row| row.try_get(0).ok()))
    }

    /// Keeps what a crawler knows of these pages, as bytes by URL, to ask for them conditionally the next
    /// time. For as long as a record of robots.txt: [`Builder::record_life`](crate::Builder::record_life).
    ///
    /// # Errors
    /// The server cannot be reached, or it refuses.
    ///
    /// ```no_run
    /// # async fn example(store: abide_postgres::Store) -> Result<(), abide_postgres::Error> {
    /// store.save_pages(&[("https://example.org/a".to_owned(), b"ETag: \"7\"".to_vec())]).await?;
    /// assert_eq!(store.load_page("https://example.org/a").await?, Some(b"ETag: \"7\"".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save_pages(&self, pages: &[(String, Vec<u8>)]) -> Result<(), Error> {
        let urls: Vec<_> = pages.iter().map(|(url, _)| url.as_bytes()).collect();
        let versions: Vec<_> = pages.iter().map(|(_, version)| &**version).collect();
        let args: [(&(dyn ToSql + Sync), Type); 3] = [
            (&urls, Type::BYTEA_ARRAY),
            (&versions, Type::BYTEA_ARRAY),
            (&seconds(self.record_life), Type::FLOAT8),
        ];
        self.link.query(&self.link.schema.of(SAVE), &args).await?;
        Ok(())
    }
}
