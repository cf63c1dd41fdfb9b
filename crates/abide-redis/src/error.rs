//! What can go wrong. Nothing here ever shows a password: neither the URL's nor one that a server repeats in an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

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
    Slow(Arc<str>, Duration),
    Forgetful(Arc<str>),
    Interrupted,
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

    pub(crate) fn unexpected(server: &Arc<str>) -> Self {
        Self { kind: Kind::Refused(Arc::clone(server), "something that abide does not understand".into()) }
    }

    /// What the client library says, without what the server may have repeated of our commands: `ERR unknown command 'AUTH', with
    /// args beginning with: 'the password'`.
    pub(crate) fn of(server: &Arc<str>, error: &RedisError) -> Self {
        let server = Arc::clone(server);
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

    /// The URL or the prefix cannot be used; nothing was tried.
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, Kind::Url(_) | Kind::Prefix)
    }

    /// The server cannot be reached, or does not answer in time. It may do so later.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, Kind::Unreachable(..) | Kind::Slow(..) | Kind::Interrupted)
    }
}

/// The codes that an operator can do something about.
fn explain(code: &str) -> &str {
    match code {
        "WRONGPASS" | "NOAUTH" => "wrong user name or password",
        "NOPERM" => "NOPERM: the user may not run the commands that abide needs",
        "OOM" => "OOM: its memory is full",
        "READONLY" => "READONLY: it is a replica",
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
