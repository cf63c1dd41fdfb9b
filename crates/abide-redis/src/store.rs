//! The store that users hold, and how it is connected.
//!
//! One connection serves the state of hosts, robots.txt and permissions, so all three are implemented for one
//! type: in `hosts`, `robots` and `permissions`, each with the scripts that it runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::key::Keys;
use crate::link::Link;
use crate::target::RedisTarget;

/// Leases of hosts, backoffs and robots.txt records in Redis or Valkey. Cheap to clone; clones share one
/// connection.
///
/// It implements [`HostStore`](abide_gate::pacing::HostStore) and
/// [`RobotsStore`](abide_gate::robots_cache::RobotsStore) (and, with the feature `permissions`,
/// `PermissionStore`), so give a crawler one clone for each.
///
/// The next command reconnects a lost connection, at most four times a second. If the store does not respond,
/// the crawl goes on: with the hosts that are leased, with the limits of this process, and with robots.txt in
/// memory.
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
    /// # async fn example() -> Result<(), abide_redis::Error> {
    /// let store = abide_redis::Store::connect("redis://:password@redis.internal:6379/0").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Settings of a store at this URL, of a server, a cluster, or a primary with sentinels:
    ///
    /// * `redis://[user:password@]host[:port][/database]`, also `unix:///path`;
    /// * `redis+cluster://[user:password@]host[:port][,host[:port]...]`: one node or more;
    /// * `redis+sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]`: the sentinels, and
    ///   their name for the primary. User and password are the primary's; a sentinel gets them only if it
    ///   asks for authentication.
    ///
    /// `rediss` means TLS, everywhere; `valkey` and `valkeys` mean the same as `redis` and `rediss`.
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            prefix: "abide".to_owned(),
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
/// use abide_redis::Store;
///
/// // Nothing is sent before the first command.
/// let store = Store::builder("redis://localhost:6379/1")
///     .key_prefix("news-crawl")
///     .command_timeout(Duration::from_millis(500))
///     .open()?;
/// assert_eq!(format!("{store:?}"), r#"Store { server: "localhost:6379", .. }"#);
/// # Ok::<(), abide_redis::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    url: String,
    prefix: String,
    command_timeout: Duration,
    record_life: Duration,
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Three times the 30 days for which a copy of a robots.txt stands in for a server that is down (RFC 9309
/// §2.3.1.4).
const RECORD_LIFE: Duration = Duration::from_secs(90 * 86_400);

impl Builder {
    /// The prefix of all keys: letters, digits and `._-:`, at most 64. Default `abide`. Crawlers with
    /// different prefixes share nothing.
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// How long a command may take, connecting included. Default 1 s, from 1 ms to one hour. The pacer has a
    /// [limit of its own](abide_gate::pacing::PacePolicy::with_store_timeout).
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

    /// Connects the store, and checks the server.
    ///
    /// # Errors
    /// The URL or the prefix is invalid, the server cannot be reached, or it refuses.
    pub async fn connect(self) -> Result<Store, Error> {
        let store = self.open()?;
        // Connecting has run a script, so there is nothing more to ask.
        store.link.ask(|_| std::future::ready(Ok(()))).await?;
        Ok(store)
    }

    /// Creates the store without checking the server, so that crawlers can start while it is down.
    ///
    /// # Errors
    /// The URL or the prefix is invalid.
    pub fn open(self) -> Result<Store, Error> {
        let keys = Keys::new(&self.prefix)?;
        let target = RedisTarget::of(&self.url, self.command_timeout)?;
        let link = Link::new(target, keys, self.command_timeout);
        Ok(Store { link: Arc::new(link), record_life: self.record_life })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL has the password in it.
        f.debug_struct("Builder").field("prefix", &self.prefix).finish_non_exhaustive()
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
            "redis://user:s3cret@localhost:99999/",
            "redis://user:s3cret@localhost/notanumber",
            "redis://user:s3cret@/",
            "redis://:s3cret@local host/",
            "redis+cluster://user:s3cret@/",
            "redis+cluster://user:s3cret@localhost:1,localhost:99999",
            "redis+cluster://user:s3cret@localhost/1",
            "redis+sentinel://user:s3cret@localhost",
            "redis+sentinel://user:s3cret@localhost/",
            "redis+sentinel://user:s3cret@localhost/name/notanumber",
            "redis+sentinel://user:s3cret@localhost/na me",
            "redis+sentinel://user:s3cret/@localhost/name",
            "redis+other://user:s3cret@localhost/",
            "unix+cluster://user:s3cret@localhost/",
        ] {
            let text = Store::builder(url).open().unwrap_err().to_string();
            assert!(text.starts_with("expected a URL such as redis://localhost:6379/0, found "), "{text}");
            assert!(!text.contains("s3cret") && !text.contains("notanumber"), "{text}");
        }
    }

    #[test]
    fn what_is_shown_of_a_target_and_no_more() {
        for (url, shown) in [
            ("redis://u:p@a.example", "a.example:6379"),
            ("redis+cluster://u:p@a.example:1,b.example,[::1]:3/", "a.example:1,b.example:6379,[::1]:3"),
            ("valkey+cluster://a.example/0", "a.example:6379"),
            (
                "redis+sentinel://u:p@a.example,b.example:2,[::1]/main/3",
                "a.example:26379,b.example:2,[::1]:26379/main",
            ),
        ] {
            let builder = Store::builder(url);
            assert_eq!(format!("{builder:?}"), r#"Builder { prefix: "abide", .. }"#);
            let store = builder.open().unwrap();
            assert_eq!(format!("{store:?}"), format!("Store {{ server: {shown:?}, .. }}"));
        }
    }
}
