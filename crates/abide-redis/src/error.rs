//! What can go wrong. Nothing here ever shows a password: neither the URL's nor one that a server repeats in an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store could not be opened, or an operation failed.
///
/// The text is one sentence without user names, passwords and keys, so it may be logged.
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
    /// One node of a cluster, which was taken for a server of its own.
    Node(Arc<str>),
    Slow(Arc<str>, Duration),
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

    pub(crate) fn unexpected(server: &Arc<str>) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), "something that abide does not understand".into()) }
    }

    /// What the first script on a connection has met.
    pub(crate) fn handshake(server: &Arc<str>, error: &RedisError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot) => {
                Self { kind: Kind::Node(Arc::clone(server)) }
            }
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::no_eval(
                server,
                "the user may not run it: allow +eval and +evalsha, and +get +set +del +pexpire +time +info for its scripts",
            ),
            ErrorKind::Server(ServerErrorKind::ResponseError)
                if text.contains("ACL failure") || text.contains("can't run this") =>
            {
                Self::no_eval(
                    server,
                    "the user may not run what its scripts call: allow +get +set +del +pexpire +time +info",
                )
            }
            ErrorKind::Server(ServerErrorKind::ResponseError) if text.contains("unknown command") => {
                Self::no_eval(server, "the server does not have it")
            }
            _ => Self::of(server, error),
        }
    }

    fn no_eval(server: &Arc<str>, why: &str) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), format!("abide needs EVAL, and {why}").into()) }
    }

    /// What the client library says, without what the server may have repeated of our commands: `ERR unknown command 'AUTH', with
    /// args beginning with: 'the password'`.
    pub(crate) fn of(server: &Arc<str>, error: &RedisError) -> Self {
        let (server, text) = (Arc::clone(server), error.to_string());
        // The cluster client wraps what its nodes said, and a server has a text of its own for a long command before AUTH.
        let is_login = ["AuthenticationFailed", "WRONGPASS", "NOAUTH", "unauthenticated"]
            .iter()
            .any(|code| text.contains(code));
        let kind = match error.kind() {
            _ if error.is_timeout() => Kind::Unreachable(server, "it did not answer in time".into()),
            _ if is_login => Kind::Refused(server, LOGIN.into()),
            ErrorKind::Io if error.detail().is_some() => Kind::Unreachable(server, error.category().into()),
            ErrorKind::Io => Kind::Unreachable(server, text.into()),
            ErrorKind::ClusterConnectionNotFound => {
                Kind::Unreachable(server, "a node of the cluster is away".into())
            }
            ErrorKind::MasterNameNotFoundBySentinel => {
                Kind::Refused(server, "no primary of this name is known there".into())
            }
            ErrorKind::InvalidClientConfig => {
                Kind::Refused(server, "it is not a sentinel: use redis:// instead".into())
            }
            ErrorKind::Server(_) if text.contains("cluster support disabled") => {
                Kind::Refused(server, "it is not a cluster: use redis:// instead".into())
            }
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Kind::Refused(server, error.code().map_or("an error", explain).into())
            }
            _ => Kind::Refused(server, error.category().into()),
        };
        Self { kind }
    }

    /// Whether the URL or the prefix is invalid.
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, Kind::Url(_) | Kind::Prefix)
    }

    /// Whether the server cannot be reached, or did not respond in time. A later attempt may succeed.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, Kind::Unreachable(..) | Kind::Slow(..))
    }
}

const LOGIN: &str = "wrong user name or password";

/// The codes that an operator can do something about.
fn explain(code: &str) -> &str {
    match code {
        "WRONGPASS" | "NOAUTH" => LOGIN,
        "NOPERM" => "NOPERM: the user may not run the commands that abide needs",
        "OOM" => "OOM: its memory is full",
        "READONLY" => "READONLY: it is a replica",
        "CLUSTERDOWN" => "CLUSTERDOWN: the cluster is not in order",
        "TRYAGAIN" => "TRYAGAIN: a slot is on its way from one node to another",
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
            Kind::Node(server) => write!(
                f,
                "the store at {server} is one node of a cluster: expected a URL such as redis+cluster://{server}"
            ),
            Kind::Slow(server, limit) => write!(f, "the store at {server} did not answer within {limit:?}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

impl From<Error> for abide_gate::StoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
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
    fn commands_repeated_by_a_server_are_not_shown() {
        let kinds = [
            ErrorKind::Extension,
            ErrorKind::AuthenticationFailed,
            ErrorKind::Client,
            ErrorKind::UnexpectedReturnType,
            ErrorKind::Parse,
            ErrorKind::InvalidClientConfig,
        ];
        for kind in kinds {
            let shown = sentence(kind, "unknown command 'AUTH', with args beginning with: 's3cret'");
            assert!(!shown.contains("s3cret"), "{shown}");
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
