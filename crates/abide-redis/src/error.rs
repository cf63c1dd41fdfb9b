//! What can go wrong. Nothing here ever shows a password: neither the URL's nor one that a server repeats in an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

use crate::place::Address;

/// The store could not be opened, or did not do what it was asked.
///
/// Its text is one sentence without user names, passwords and keys, and may be logged.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Url(&'static str),
    Prefix,
    /// The server, and why not.
    Unreachable(Arc<str>, Arc<str>),
    /// The server, and what it answered.
    Refused(Arc<str>, Arc<str>),
    /// The node that was asked, and where the key is instead.
    Elsewhere(Arc<str>, Elsewhere),
    /// A slot is on its way from one node to another for long.
    Moving(Arc<str>),
    Slow(Arc<str>, Duration),
    Forgetful(Arc<str>),
    Interrupted,
}

/// Where a key of a cluster is, if not on the node that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// Its slot is another node's. An empty host is that of the node that was asked.
    Moved { slot: u16, to: Address },
    /// Its slot is on its way to another node.
    Moving,
}

impl Error {
    pub(crate) fn url(found: &'static str) -> Self {
        Self { kind: Kind::Url(found) }
    }

    pub(crate) fn prefix() -> Self {
        Self { kind: Kind::Prefix }
    }

    pub(crate) fn slow(server: &Arc<str>, limit: Duration) -> Self {
        Self { kind: Kind::Slow(Arc::clone(server), limit) }
    }

    pub(crate) fn forgetful(server: &Arc<str>) -> Self {
        Self { kind: Kind::Forgetful(Arc::clone(server)) }
    }

    pub(crate) fn interrupted() -> Self {
        Self { kind: Kind::Interrupted }
    }

    pub(crate) fn not_whole(server: &Arc<str>) -> Self {
        Self {
            kind: Kind::Refused(
                Arc::clone(server),
                "the cluster is not in order: some slots have no node".into(),
            ),
        }
    }

    pub(crate) fn moving(server: &Arc<str>) -> Self {
        Self { kind: Kind::Moving(Arc::clone(server)) }
    }

    /// Only the keys of one slot are concerned.
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.kind, Kind::Moving(_))
    }

    pub(crate) fn no_cluster(server: &Arc<str>) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), "it is not a cluster: use redis:// instead".into()) }
    }

    pub(crate) fn unknown_primary(server: &Arc<str>) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), "no primary of this name is known there".into()) }
    }

    pub(crate) fn nameless(server: &Arc<str>) -> Self {
        let what = "NOPERM: the user may not run INFO, without which no failover is noticed: allow +info";
        Self { kind: Kind::Refused(Arc::clone(server), what.into()) }
    }

    pub(crate) fn unexpected(server: &Arc<str>) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), "something that abide does not understand".into()) }
    }

    /// What the client library says, without what the server may have repeated of our commands: `ERR unknown command 'AUTH', with
    /// args beginning with: 'the password'`.
    pub(crate) fn of(server: &Arc<str>, error: &RedisError) -> Self {
        let server = Arc::clone(server);
        if let Some(elsewhere) = elsewhere(error) {
            return Self { kind: Kind::Elsewhere(server, elsewhere) };
        }
        let kind = match error.kind() {
            _ if error.is_timeout() => Kind::Unreachable(server, "it did not answer in time".into()),
            ErrorKind::Io => Kind::Unreachable(server, error.to_string().into()),
            ErrorKind::AuthenticationFailed => Kind::Refused(server, "wrong user name or password".into()),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Kind::Refused(server, error.code().map_or("an error", explain).into())
            }
            _ => Kind::Refused(server, error.category().into()),
        };
        Self { kind }
    }

    pub(crate) fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.kind {
            Kind::Elsewhere(_, elsewhere) => Some(elsewhere),
            _ => None,
        }
    }

    /// The URL or the prefix cannot be used; nothing was tried.
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, Kind::Url(_) | Kind::Prefix)
    }

    /// The server cannot be reached, or does not answer in time. It may do so later.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, Kind::Unreachable(..) | Kind::Slow(..) | Kind::Interrupted)
    }
}

/// What a node of a cluster says of a key that it does not have, alone or as the answer to one of several commands.
fn elsewhere(error: &RedisError) -> Option<Elsewhere> {
    let all = error.clone().into_server_errors()?;
    let read = |error: &ServerError| match error.kind()? {
        ServerErrorKind::Moved => moved(error.details()?),
        ServerErrorKind::Ask | ServerErrorKind::TryAgain => Some(Elsewhere::Moving),
        _ => None,
    };
    all.iter().find_map(|(_, error)| read(error))
}

/// `3999 127.0.0.1:6381`.
fn moved(details: &str) -> Option<Elsewhere> {
    let (slot, to) = details.split_once(' ')?;
    let (host, port) = to.rsplit_once(':')?;
    let to = Address { host: host.to_owned(), port: port.parse().ok()? };
    Some(Elsewhere::Moved { slot: slot.parse().ok()?, to })
}

/// The codes that an operator can do something about.
fn explain(code: &str) -> &str {
    match code {
        "WRONGPASS" | "NOAUTH" => "wrong user name or password",
        "NOPERM" => "NOPERM: the user may not run the commands that abide needs",
        "OOM" => "OOM: its memory is full",
        "READONLY" => "READONLY: it is a replica",
        "CLUSTERDOWN" => "CLUSTERDOWN: the cluster is not in order",
        "LOADING" => "LOADING: it is still reading its data",
        "MISCONF" => "MISCONF: it cannot save its data, so it takes no writes",
        code => code,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Url(found) => write!(f, "expected a URL such as redis://localhost:6379/0, found {found}"),
            Kind::Prefix => {
                f.write_str("expected a key prefix of 1 to 64 letters, digits, '.', '_', '-' or ':'")
            }
            Kind::Unreachable(server, why) => write!(f, "the store at {server} cannot be reached: {why}"),
            Kind::Refused(server, what) => write!(f, "the store at {server} answered: {what}"),
            Kind::Elsewhere(server, _) => write!(
                f,
                "the store at {server} is one node of a cluster, and another has the key: expected a URL such as \
                 redis+cluster://{server}"
            ),
            Kind::Moving(server) => {
                write!(
                    f,
                    "the store at {server} is moving this slot from one node to another, and not done yet"
                )
            }
            Kind::Slow(server, limit) => write!(f, "the store at {server} did not answer within {limit:?}"),
            Kind::Forgetful(server) => {
                write!(f, "the store at {server} keeps losing its data: is its memory too small?")
            }
            Kind::Interrupted => f.write_str("the command was interrupted: the runtime is going down"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

impl From<Error> for abide_gate::pacing::StoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl From<Error> for abide_gate::access::StoreError {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(kind: ErrorKind, detail: &str) -> String {
        Error::of(&"cache.example:6379".into(), &RedisError::from((kind, "said", detail.to_owned())))
            .to_string()
    }

    #[test]
    fn what_a_server_repeats_of_our_commands_is_not_told() {
        let kinds = [
            ErrorKind::Extension,
            ErrorKind::AuthenticationFailed,
            ErrorKind::Client,
            ErrorKind::UnexpectedReturnType,
            ErrorKind::Parse,
            ErrorKind::InvalidClientConfig,
        ];
        for kind in kinds {
            let told = sentence(kind, "unknown command 'AUTH', with args beginning with: 's3cret'");
            assert!(!told.contains("s3cret"), "{told}");
        }
    }

    #[test]
    fn where_a_key_is_instead() {
        let redis = |text: &[u8]| redis::parse_redis_value(text).unwrap().extract_error().unwrap_err();
        let moved =
            |host: &str, port| Elsewhere::Moved { slot: 3999, to: Address { host: host.to_owned(), port } };
        for (text, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(moved("127.0.0.1", 6381))),
            ("MOVED 3999 ::1:6381", Some(moved("::1", 6381))),
            ("MOVED 3999 :6381", Some(moved("", 6381))),
            ("MOVED 3999 a.example:x", None),
            ("MOVED 99999 a.example:1", None),
            ("MOVED", None),
            ("ASK 3999 127.0.0.1:6381", Some(Elsewhere::Moving)),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Elsewhere::Moving)),
            ("ERR moved", None),
        ] {
            let error = redis(format!("-{text}\r\n").as_bytes());
            assert_eq!(elsewhere(&error), expected, "{text}");
        }
    }

    #[test]
    fn sentences() {
        let server: Arc<str> = "cache.example:6379".into();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(
            Error::of(&server, &refused.into()).to_string(),
            "the store at cache.example:6379 cannot be reached: connection refused"
        );
        assert_eq!(
            Error::slow(&server, Duration::from_secs(1)).to_string(),
            "the store at cache.example:6379 did not answer within 1s"
        );
        assert_eq!(
            Error::url("another scheme").to_string(),
            "expected a URL such as redis://localhost:6379/0, found another scheme"
        );
        assert!(Error::slow(&server, Duration::ZERO).is_unreachable() && Error::prefix().is_usage());
    }
}
