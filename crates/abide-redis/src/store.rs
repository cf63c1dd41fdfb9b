use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::key::Keys;
use crate::link::Link;
use crate::target::Target;

/// Leases of hosts, backoffs and robots.txt records in Redis or Valkey. Cheap to clone; all clones are one connection.
///
/// It implements [`HostStore`](abide_gate::pacing::HostStore) and [`RobotsStore`](abide_gate::robots_cache::RobotsStore) (and, with the
/// feature `permissions`, `PermissionStore`), so it is given to a crawler once for each.
///
/// A connection that is lost is made again by the next command, at most four times a second. A store that does not answer stops
/// nothing: the pacer goes on with the hosts that it has leased and with the limits of its own process, and robots.txt is kept in memory.
#[derive(Clone)]
pub struct Store {
    pub(crate) link: Arc<Link>,
    pub(crate) record_life: Duration,
}

impl Store {
    /// A store with the defaults of [`Builder`], connected.
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

    /// A store at this URL, of a server, a cluster, or a primary that sentinels watch:
    ///
    /// * `redis://[user:password@]host[:port][/database]`, also `unix:///path`;
    /// * `redis+cluster://[user:password@]host[:port][,host[:port]...]`: some nodes, which know the others;
    /// * `redis+sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]`: the sentinels, and what they call the
    ///   primary. User and password are the primary's; a sentinel is told them only if it wants some.
    ///
    /// `rediss` means TLS, everywhere; `valkey` and `valkeys` are other words for `redis` and `rediss`.
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
        f.debug_struct("Store").field("server", &self.link.server()).finish_non_exhaustive()
    }
}

/// Settings of a [`Store`].
///
/// What is done while the store does not answer belongs to the pacer:
/// [`PacePolicy::with_expected_workers`](abide_gate::pacing::PacePolicy::with_expected_workers) says by how much each process slows down
/// then, and [`PacePolicy::with_fail_closed`](abide_gate::pacing::PacePolicy::with_fail_closed) that nothing shall be sent.
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

/// Three times the 30 days for which a copy of a robots.txt stands in for a server that is down (RFC 9309 §2.3.1.4).
const RECORD_LIFE: Duration = Duration::from_secs(90 * 86_400);

impl Builder {
    /// What all keys begin with. Crawlers that shall not share leases have different ones; the default is `abide`. Letters, digits and
    /// `._-:`, at most 64.
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

    /// How long a record of robots.txt is kept after it was last written. Default 90 days. Shorter than 30 days, and last good copies
    /// can go while they are still needed.
    pub fn record_life(mut self, life: Duration) -> Self {
        self.record_life = life;
        self
    }

    /// The store, with a server that answers.
    ///
    /// # Errors
    /// The URL or the prefix cannot be used, the server cannot be reached, or it refuses.
    pub async fn connect(self) -> Result<Store, Error> {
        let store = self.open()?;
        store.link.ask(|_| std::future::ready(Ok(()))).await?;
        Ok(store)
    }

    /// The store, without a look at the server: for crawlers that shall also start while it is down.
    ///
    /// # Errors
    /// The URL or the prefix cannot be used.
    pub fn open(self) -> Result<Store, Error> {
        let keys = Keys::new(&self.prefix)?;
        let target = Target::of(&self.url, self.command_timeout)?;
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

    fn refused(url: &str) -> String {
        Store::builder(url).open().unwrap_err().to_string()
    }

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
            let told = refused(url);
            assert!(told.starts_with("expected a URL such as redis://localhost:6379/0, found "), "{told}");
            assert!(!told.contains("s3cret") && !told.contains("notanumber"), "{told}");
        }
    }

    #[test]
    fn no_password_in_debug() {
        for url in [
            "redis://user:s3cret@localhost/",
            "redis+cluster://user:s3cret@localhost:1,localhost:2",
            "redis+sentinel://user:s3cret@localhost/name",
        ] {
            let builder = Store::builder(url);
            let store = builder.clone().open().unwrap();
            for text in [format!("{builder:?}"), format!("{store:?}"), format!("{:?}", store.link)] {
                assert!(!text.contains("s3cret") && !text.contains("user"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_shown_of_a_target() {
        for (url, shown) in [
            ("redis://u:p@a.example", "a.example:6379"),
            ("redis+cluster://u:p@a.example:1,b.example,[::1]:3/", "a.example:1,b.example:6379,[::1]:3"),
            ("valkey+cluster://a.example/0", "a.example:6379"),
            (
                "redis+sentinel://u:p@a.example,b.example:2,[::1]/main/3",
                "a.example:26379,b.example:2,[::1]:26379/main",
            ),
        ] {
            let store = Store::builder(url).open().unwrap();
            assert_eq!(format!("{store:?}"), format!("Store {{ server: {shown:?}, .. }}"));
        }
    }
}
