//! The store that users hold, and how it is connected.
//!
//! One connection serves the state of hosts, robots.txt and permissions, so all three are implemented for one
//! type: in `hosts`, `robots` and `permissions`, each with its statements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::link::Link;
use crate::schema::Schema;
use crate::target::Target;

/// Leases of hosts, backoffs and robots.txt records in PostgreSQL. Cheap to clone; clones share one
/// connection.
///
/// It implements [`HostStore`](abide_gate::pacing::HostStore) and
/// [`RobotsStore`](abide_gate::robots_cache::RobotsStore) (and, with the feature `permissions`,
/// `PermissionStore`), so give a crawler one clone for each.
///
/// The next statement reconnects a lost connection, at most four times a second. If the store does not
/// respond, the crawl goes on: with the hosts that are leased, with the limits of this process, and with
/// robots.txt in memory.
#[derive(Clone)]
pub struct Store {
    pub(crate) link: Arc<Link>,
    pub(crate) record_life: Duration,
}

impl Store {
    /// Connects a store with the defaults of [`Builder`].
    ///
    /// # Errors
    /// As [`Builder::connect`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), abide_postgres::Error> {
    /// let store = abide_postgres::Store::connect("postgres://crawler:password@db.internal/crawl").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Settings of a store at this URL: `postgres://[user[:password]@]host[:port][,host[:port]...]/database`,
    /// or `postgres:///database?host=/run/postgresql` for a socket. With several hosts, add
    /// `target_session_attrs=read-write`, so that the primary is found.
    ///
    /// `sslmode` is `require` (the default for servers elsewhere, by name or by `hostaddr`, if the feature
    /// `tls` is enabled), `prefer` or `disable` (the default for sockets and loopback). A certificate is
    /// always verified: `verify-full` is the same as `require`.
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            schema: "abide".to_owned(),
            command_timeout: COMMAND_TIMEOUT,
            record_life: RECORD_LIFE,
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("server", &self.link.server).finish_non_exhaustive()
    }
}

/// Settings of a [`Store`].
///
/// The pacer decides what happens while the store does not respond: nothing is sent to hosts that the process
/// has not leased, unless
/// [`PacePolicy::with_store_outage`](abide_gate::pacing::PacePolicy::with_store_outage) says otherwise.
///
/// ```
/// use std::time::Duration;
/// use abide_postgres::Store;
///
/// // Nothing is sent before the first statement.
/// let store = Store::builder("postgres://localhost/crawl")
///     .schema("news_crawl")
///     .command_timeout(Duration::from_millis(500))
///     .open()?;
/// assert_eq!(format!("{store:?}"), r#"Store { server: "localhost:5432", .. }"#);
/// # Ok::<(), abide_postgres::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    url: String,
    schema: String,
    command_timeout: Duration,
    record_life: Duration,
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// For the first connection, which may have to make the schema, and to wait for another process that does.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// Three times the 30 days for which a copy of a robots.txt stands in for a server that is down (RFC 9309
/// §2.3.1.4).
const RECORD_LIFE: Duration = Duration::from_secs(90 * 86_400);

impl Builder {
    /// The schema in which everything is kept: lower-case letters, digits and `_`, at most 40. Default
    /// `abide`. Crawlers with different schemas share nothing.
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = schema.to_owned();
        self
    }

    /// How long a statement may take, connecting included. Default 1 s, from 1 ms to one hour. The pacer has
    /// a [limit of its own](abide_gate::pacing::PacePolicy::with_store_timeout).
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(3_600));
        self
    }

    /// How long a record of robots.txt is kept after it was last written. Default 90 days. With less than 30
    /// days, last good copies can expire while they are still needed.
    pub fn record_life(mut self, life: Duration) -> Self {
        self.record_life = life;
        self
    }

    /// The statements that make the schema, for an administrator to run where the role of the crawler may not
    /// create one. [`connect`](Self::connect) runs them where it may.
    ///
    /// # Errors
    /// The name of the schema is invalid.
    pub fn sql(&self) -> Result<String, Error> {
        Ok(Schema::new(&self.schema)?.sql())
    }

    /// Connects the store, and makes its schema or migrates it. That may take 10 s at most, or
    /// [`command_timeout`](Self::command_timeout) if that is longer.
    ///
    /// # Errors
    /// The URL or the schema's name is invalid, the server cannot be reached, or it refuses.
    pub async fn connect(self) -> Result<Store, Error> {
        let limit = self.command_timeout.max(CONNECTS_WITHIN);
        let store = self.open()?;
        store.link.connected_within(limit).await?;
        Ok(store)
    }

    /// Creates the store without checking the server, so that crawlers can start while it is down.
    ///
    /// # Errors
    /// The URL or the schema's name is invalid.
    pub fn open(self) -> Result<Store, Error> {
        let schema = Schema::new(&self.schema)?;
        let target = Target::of(&self.url, self.command_timeout)?;
        let link = Link::new(target, schema, self.command_timeout);
        Ok(Store { link: Arc::new(link), record_life: self.record_life })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL has the password in it.
        f.debug_struct("Builder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_not_repeated() {
        for url in [
            "s3cret",
            "http://user:s3cret@localhost/",
            "postgres://user:s3cret@localhost:99999/",
            "postgres://user:s3cret@/crawl",
            "postgres://user:s3cret@localhost/crawl?sslmode=s3cret",
            "postgres://user:s3cret@localhost/crawl?s3cret=1",
        ] {
            let text = Store::builder(url).open().unwrap_err().to_string();
            assert!(
                text.starts_with("expected a URL such as postgres://localhost:5432/crawl, found "),
                "{text}"
            );
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn what_is_shown_of_a_target_and_no_more() {
        for (url, shown) in [
            ("postgres://u:p@localhost", "localhost:5432"),
            ("postgresql://u:p@[::1]:3/d?sslmode=disable", "[::1]:3"),
            (
                "postgres://u:p@127.0.0.1:1,127.0.0.2/d?target_session_attrs=read-write",
                "127.0.0.1:1,127.0.0.2:5432",
            ),
            ("postgres:///d?host=/run/postgresql&user=u", "/run/postgresql:5432"),
        ] {
            let builder = Store::builder(url);
            assert_eq!(format!("{builder:?}"), r#"Builder { schema: "abide", .. }"#);
            let store = builder.open().unwrap();
            assert_eq!(format!("{store:?}"), format!("Store {{ server: {shown:?}, .. }}"));
        }
    }

    #[test]
    fn schemas_without_meaning_to_sql_are_taken() {
        for good in ["abide", "a", "_crawl_2"] {
            assert!(Store::builder("postgres://localhost").schema(good).open().is_ok(), "{good}");
        }
        for bad in ["", "2a", "Abide", "a.b", "a\"b", "a-b", "\u{e4}", &"x".repeat(41)] {
            let error = Store::builder("postgres://localhost").schema(bad).open().unwrap_err();
            assert!(error.is_usage(), "{bad}");
        }
    }
}
