//! Where a store is, as its URL says: a server, the nodes of a cluster, or sentinels and the name of what
//! they watch.
//!
//! The redis crate has a client for each, with types of their own; `link` connects to what is found here, and
//! need not know the URL.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode, parse_redis_url,
};

use crate::Error;

pub(crate) struct RedisTarget {
    pub(crate) way: Way,
    /// Hosts and ports, never who we are there.
    pub(crate) shown: String,
}

pub(crate) enum Way {
    Server(Client),
    Cluster(ClusterClient),
    Primary(Sentinels),
}

/// Sentinels that watch a primary, and what they call it.
pub(crate) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    name: String,
    /// How the primary is spoken with, wherever it is.
    like: ConnectionInfo,
    asked: AtomicUsize,
}

const SENTINEL_PORT: u16 = 26_379;

const UNREADABLE: &str = "one that cannot be read";

impl RedisTarget {
    pub(crate) fn of(url: &str, limit: Duration) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once("://") else { return Err(Error::url("none")) };
        match scheme.split_once('+') {
            Some((scheme, "cluster")) => cluster(scheme, rest, limit),
            Some((scheme, "sentinel")) => sentinel(scheme, rest),
            _ => {
                let server = server(url)?;
                let shown = shown([&server]);
                Ok(Self {
                    shown,
                    way: Way::Server(Client::open(server).map_err(|_| Error::url(UNREADABLE))?),
                })
            }
        }
    }
}

impl Sentinels {
    /// Where the primary is. Each time another sentinel is asked first, because the library waits for the
    /// first one of those that it asks at once, and one may be silent.
    pub(crate) async fn primary(&self) -> RedisResult<Client> {
        let mut sentinels = self.sentinels.clone();
        let first = self.asked.fetch_add(1, Ordering::Relaxed).checked_rem(sentinels.len());
        sentinels.rotate_left(first.unwrap_or_default());
        // A sentinel has no databases.
        let login = self.like.redis_settings().clone().set_db(0);
        match self.ask(sentinels.clone()).await {
            // It wants a password: that of the primary.
            Err(error) if error.code() == Some("NOAUTH") && login.password().is_some() => {
                let with_login = |at: ConnectionInfo| at.set_redis_settings(login.clone());
                self.ask(sentinels.into_iter().map(with_login).collect()).await
            }
            found => found,
        }
    }

    async fn ask(&self, sentinels: Vec<ConnectionInfo>) -> RedisResult<Client> {
        let mut primary = SentinelNodeConnectionInfo::default()
            .set_redis_connection_info(self.like.redis_settings().clone());
        if matches!(self.like.addr(), ConnectionAddr::TcpTls { .. }) {
            primary = primary.set_tls_mode(TlsMode::Secure);
        }
        let kind = SentinelServerType::Master;
        SentinelClient::build(sentinels, self.name.clone(), Some(primary), kind)?.async_get_client().await
    }
}

/// Of `redis+cluster://[user:password@]host[:port][,host[:port]...]`: some nodes, which know the others.
fn cluster(scheme: &str, rest: &str, limit: Duration) -> Result<RedisTarget, Error> {
    let (login, hosts, path) = parts(rest);
    if !["", "/", "/0"].contains(&path) {
        return Err(Error::url("a database number, of which a cluster has none but 0"));
    }
    let nodes = hosts.split(',').map(|host| server(&format!("{scheme}://{login}{host}")));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let client = ClusterClientBuilder::new(nodes.clone())
        // One node that is silent shall not use up all the time there is for a command to another.
        .connection_timeout(limit.checked_div(2).unwrap_or_default())
        .response_timeout(limit)
        .max_retry_wait(RETRY_MAX_MILLIS)
        .min_retry_wait(RETRY_MIN_MILLIS)
        .build();
    let way = Way::Cluster(client.map_err(|_| Error::url(UNREADABLE))?);
    Ok(RedisTarget { way, shown: shown(&nodes) })
}

/// Between two attempts while a slot is on its way from one node to another.
const RETRY_MIN_MILLIS: u64 = 10;
const RETRY_MAX_MILLIS: u64 = 100;

/// Of `redis+sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]`. User and password are
/// the primary's.
fn sentinel(scheme: &str, rest: &str) -> Result<RedisTarget, Error> {
    let (login, hosts, path) = parts(rest);
    let path = path.trim_start_matches('/');
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    // What sentinels allow in the name of a primary.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_plain) {
        return Err(Error::url(
            "sentinels without the name of a primary, as in redis+sentinel://host:26379/name",
        ));
    }
    // Whose address is asked for later.
    let like = server(&format!("{scheme}://{login}localhost/{database}"))?;
    let sentinels = hosts.split(',').map(|host| {
        let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
        server(&format!("{scheme}://{host}{port}"))
    });
    let sentinels = sentinels.collect::<Result<Vec<_>, _>>()?;
    let hosts = shown(&sentinels);
    let way = Way::Primary(Sentinels { sentinels, name: name.to_owned(), like, asked: AtomicUsize::new(0) });
    Ok(RedisTarget { way, shown: format!("{hosts}/{name}") })
}

/// `user:password@`, the hosts, and the path.
fn parts(rest: &str) -> (&str, &str, &str) {
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // The last `@`: one in a password that was not percent-encoded is no end of it.
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at.saturating_add(1)));
    (login, hosts, path)
}

/// `[::1]` has colons and no port.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn server(url: &str) -> Result<ConnectionInfo, Error> {
    if parse_redis_url(url).is_none() {
        return Err(Error::url(match url.split_once("://") {
            Some(("redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix" | "valkey+unix", _)) => {
                UNREADABLE
            }
            Some(_) => "another scheme",
            None => "none",
        }));
    }
    // The library's own text may repeat parts of the URL.
    let server = url.into_connection_info().map_err(|_| Error::url(UNREADABLE))?;
    match server.addr().is_supported() {
        true => Ok(server),
        false => Err(Error::url("TLS, which needs the feature tls")),
    }
}

fn shown<'a>(servers: impl IntoIterator<Item = &'a ConnectionInfo>) -> String {
    let shown = servers.into_iter().map(|server| match server.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        address => address.to_string(),
    });
    shown.collect::<Vec<_>>().join(",")
}
