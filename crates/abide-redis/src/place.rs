//! Where a store is, as its URL says: a server, the nodes of a cluster, or sentinels and the name of what they watch.

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, parse_redis_url};

use crate::Error;
use crate::sentinel::Sentinels;

/// What a URL names.
pub(crate) enum Place {
    Server(Client),
    /// Some nodes; they know the others.
    Cluster(Vec<Client>),
    Primary(Sentinels),
}

/// Host and port of a server, as another server tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

const SENTINEL_PORT: u16 = 26_379;

const UNREADABLE: &str = "one that cannot be read";

impl Place {
    pub(crate) fn of(url: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once("://") else { return Err(Error::url("none")) };
        match scheme.split_once('+') {
            Some((scheme, "cluster")) => cluster(scheme, rest),
            Some((scheme, "sentinel")) => sentinel(scheme, rest),
            _ => server(url).map(Self::Server),
        }
    }

    /// Hosts and ports, never who we are there.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Server(client) => shown(client),
            Self::Cluster(nodes) => nodes.iter().map(shown).collect::<Vec<_>>().join(","),
            Self::Primary(Sentinels { sentinels, name, .. }) => {
                let sentinels = sentinels.iter().map(shown).collect::<Vec<_>>().join(",");
                format!("{sentinels}/{name}")
            }
        }
    }
}

/// Of `redis+cluster://[user:password@]host[:port][,host[:port]...]`.
fn cluster(scheme: &str, rest: &str) -> Result<Place, Error> {
    let (authority, path) = split_path(rest);
    if !["", "/", "/0"].contains(&path) {
        return Err(Error::url("a database number, of which a cluster has none but 0"));
    }
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    let nodes = hosts.split(',').map(|host| server(&format!("{scheme}://{user}{at}{host}")));
    Ok(Place::Cluster(nodes.collect::<Result<_, _>>()?))
}

/// Of `redis+sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]`. User and password are the primary's.
fn sentinel(scheme: &str, rest: &str) -> Result<Place, Error> {
    let (authority, path) = split_path(rest);
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    let path = path.trim_start_matches('/');
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_plain) {
        return Err(Error::url(
            "sentinels without the name of a primary, as in redis+sentinel://host:26379/name",
        ));
    }
    // Whose address is asked for later.
    let like = server(&format!("{scheme}://{user}{at}localhost/{database}"))?;
    let sentinels = hosts.split(',').map(|host| {
        let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
        server(&format!("{scheme}://{host}{port}"))
    });
    Ok(Place::Primary(Sentinels {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        name: name.to_owned(),
        like: like.get_connection_info().clone(),
    }))
}

fn split_path(rest: &str) -> (&str, &str) {
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// `[::1]` has colons and no port.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn server(url: &str) -> Result<Client, Error> {
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
    let client = Client::open(url).map_err(|_| Error::url(UNREADABLE))?;
    match client.get_connection_info().addr().is_supported() {
        true => Ok(client),
        false => Err(Error::url("TLS, which needs the feature tls")),
    }
}

/// A server at this address, spoken with like that one.
pub(crate) fn client(like: &ConnectionInfo, Address { host, port }: &Address) -> RedisResult<Client> {
    let (host, port) = (host.clone(), *port);
    let address = match like.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(like.clone().set_addr(address).into_connection_info()?)
}

/// Host and port.
pub(crate) fn shown(client: &Client) -> String {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}")
        }
        ConnectionAddr::Unix(path) => path.display().to_string(),
        _ => "the given address".to_owned(),
    }
}

pub(crate) fn address(client: &Client) -> Option<Address> {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some(Address { host: host.clone(), port: *port })
        }
        _ => None,
    }
}
