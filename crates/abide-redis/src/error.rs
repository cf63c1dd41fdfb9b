//! What can go wrong. Nothing here ever shows a password: neither the URL's nor one that a server repeats in
//! an answer.
//!
//! Three kinds, by what helps: another URL, another attempt, or another server or user.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store could not be opened, or an operation failed.
///
/// The text is one sentence without user names, passwords and keys, so it may be logged.
///
/// ```
/// let error = abide_redis::Store::builder("localhost:6379").open().unwrap_err();
/// assert!(error.is_usage() && !error.is_unreachable(), "another attempt fails, too");
/// assert_eq!(error.to_string(), "expected a URL such as redis://localhost:6379/0, found none");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    kind: Kind,
    text: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usage,
    Unreachable,
    Refused,
}

const LOGIN: &str = "wrong user name or password";

impl Error {
    fn new(kind: Kind, text: impl Into<Arc<str>>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn url(found: &str) -> Self {
        Self::new(Kind::Usage, format!("expected a URL such as redis://localhost:6379/0, found {found}"))
    }

    pub(crate) fn prefix() -> Self {
        Self::new(Kind::Usage, "expected a key prefix of 1 to 64 letters, digits, '.', '_', '-' or ':'")
    }

    pub(crate) fn slow(server: &str, limit: Duration) -> Self {
        Self::new(Kind::Unreachable, format!("the store at {server} did not answer within {limit:?}"))
    }

    fn unreachable(server: &str, why: &str) -> Self {
        Self::new(Kind::Unreachable, format!("the store at {server} cannot be reached: {why}"))
    }

    pub(crate) fn refused(server: &str, what: &str) -> Self {
        Self::new(Kind::Refused, format!("the store at {server} answered: {what}"))
    }

    /// What the first script on a connection has met.
    pub(crate) fn handshake(server: &str, error: &RedisError) -> Self {
        let no_eval = |why| Self::refused(server, &format!("abide needs EVAL, and {why}"));
        let says = |what| error.to_string().contains(what);
        match error.kind() {
            // The first script touches the markers of all buckets, which lie in many slots.
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot) => {
                let text = format!(
                    "the store at {server} is one node of a cluster: expected a URL such as redis+cluster://{server}"
                );
                Self::new(Kind::Refused, text)
            }
            // NOPERM is about EVAL itself. What a script may not call is an ERR, whose text depends on the
            // server's version.
            ErrorKind::Server(ServerErrorKind::NoPerm) => no_eval(
                "the user may not run it: allow +eval and +evalsha, and +get +set +del +pexpire +time +info for its scripts",
            ),
            ErrorKind::Server(ServerErrorKind::ResponseError)
                if says("ACL failure") || says("can't run this") =>
            {
                no_eval(
                    "the user may not run what its scripts call: allow +get +set +del +pexpire +time +info",
                )
            }
            ErrorKind::Server(ServerErrorKind::ResponseError) if says("unknown command") => {
                no_eval("the server does not have it")
            }
            _ => Self::of(server, error),
        }
    }

    /// What the client library says, without what the server may have repeated of our commands: `ERR unknown
    /// command 'AUTH', with args beginning with: 'the password'`.
    pub(crate) fn of(server: &str, error: &RedisError) -> Self {
        let (unreachable, refused) =
            (|why| Self::unreachable(server, why), |what| Self::refused(server, what));
        let text = error.to_string();
        // The cluster client wraps what its nodes said, and a server has a text of its own for a long command
        // before AUTH.
        let is_login = ["AuthenticationFailed", "WRONGPASS", "NOAUTH", "unauthenticated"]
            .iter()
            .any(|code| text.contains(code));
        match error.kind() {
            _ if error.is_timeout() => unreachable("it did not answer in time"),
            _ if is_login => refused(LOGIN),
            // A detail may be the server's words; the category is the library's own.
            ErrorKind::Io if error.detail().is_some() => unreachable(error.category()),
            ErrorKind::Io => unreachable(&text),
            ErrorKind::ClusterConnectionNotFound => unreachable("a node of the cluster is away"),
            ErrorKind::MasterNameNotFoundBySentinel => refused("no primary of this name is known there"),
            ErrorKind::InvalidClientConfig => refused("it is not a sentinel: use redis:// instead"),
            ErrorKind::Server(_) if text.contains("cluster support disabled") => {
                refused("it is not a cluster: use redis:// instead")
            }
            ErrorKind::Server(_) | ErrorKind::Extension => refused(error.code().map_or("an error", explain)),
            _ => refused(error.category()),
        }
    }

    /// Whether the URL or the prefix is invalid.
    pub fn is_usage(&self) -> bool {
        self.kind == Kind::Usage
    }

    /// Whether the server cannot be reached, or did not respond in time. A later attempt may succeed.
    pub fn is_unreachable(&self) -> bool {
        self.kind == Kind::Unreachable
    }
}

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

impl From<Error> for abide_gate::StoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_repeated_by_a_server_are_not_shown() {
        for kind in [
            ErrorKind::Extension,
            ErrorKind::AuthenticationFailed,
            ErrorKind::Client,
            ErrorKind::UnexpectedReturnType,
            ErrorKind::Parse,
            ErrorKind::InvalidClientConfig,
        ] {
            let detail = "unknown command 'AUTH', with args beginning with: 's3cret'".to_owned();
            let shown = Error::of("cache.example:6379", &RedisError::from((kind, "said", detail)));
            assert!(!format!("{shown} {shown:?}").contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn sentences() {
        let server = "cache.example:6379";
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        for (error, expected) in [
            (
                Error::of(server, &refused.into()),
                "the store at cache.example:6379 cannot be reached: connection refused",
            ),
            (
                Error::slow(server, Duration::from_secs(1)),
                "the store at cache.example:6379 did not answer within 1s",
            ),
        ] {
            assert!(error.is_unreachable());
            assert_eq!(error.to_string(), expected);
        }
    }
}
