//! What can go wrong. Nothing here ever shows who connects: neither what the URL says of the user nor what a
//! server repeats of it.
//!
//! Three kinds, by what helps: another URL, another attempt, or another server or role.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

/// The store could not be opened, or an operation failed.
///
/// The text is one sentence without user names, passwords and keys, so it may be logged.
///
/// ```
/// let error = abide_postgres::Store::builder("localhost:5432").open().unwrap_err();
/// assert!(error.is_usage() && !error.is_unreachable(), "another attempt fails, too");
/// assert_eq!(error.to_string(), "expected a URL such as postgres://localhost:5432/crawl, found another scheme");
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
    Locked,
}

impl Error {
    fn new(kind: Kind, text: impl Into<Arc<str>>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn url(found: &str) -> Self {
        Self::new(
            Kind::Usage,
            format!("expected a URL such as postgres://localhost:5432/crawl, found {found}"),
        )
    }

    pub(crate) fn schema() -> Self {
        Self::new(
            Kind::Usage,
            "expected a schema of 1 to 40 lower-case letters, digits or '_', no digit first",
        )
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn no_tls() -> Self {
        Self::new(Kind::Usage, "this abide-postgres was built without TLS: use its feature tls")
    }

    #[cfg(feature = "tls")]
    pub(crate) fn certificates(why: &impl std::fmt::Display) -> Self {
        Self::new(Kind::Usage, format!("expected certificates that this machine trusts, found none: {why}"))
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

    pub(crate) fn newer(server: &str, version: i32) -> Self {
        Self::refused(server, &format!("its schema has version {version}, of a later abide-postgres"))
    }

    /// What the first connection of a role has met that may not make the schema, or not use it.
    pub(crate) fn handshake(server: &str, schema: &str, error: &tokio_postgres::Error) -> Self {
        if error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            return Self::of(server, error);
        }
        let sql = format!("CREATE SCHEMA {schema} AUTHORIZATION the_role");
        let what = format!(
            "the role may not make or use the schema {schema}. An administrator makes it with: {sql}; or as the README of abide-postgres says"
        );
        Self::refused(server, &what)
    }

    /// What is known of a failure, without what the server may have repeated of our statements and names.
    pub(crate) fn of(server: &str, error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            // No server has said it: the causes are the system's words, or those of TLS.
            let mut why = error.to_string();
            if let Some(cause) = error.source() {
                why = format!("{why}: {cause}");
            }
            return Self::unreachable(server, &why);
        };
        let (kind, what) = explain(code);
        match kind {
            Kind::Unreachable => Self::unreachable(server, what),
            _ => Self { kind, ..Self::refused(server, what) },
        }
    }

    /// Whether it may be about one of several hosts alone.
    pub(crate) fn is_locked(&self) -> bool {
        self.kind == Kind::Locked
    }

    /// Whether the URL or the schema's name is invalid.
    pub fn is_usage(&self) -> bool {
        self.kind == Kind::Usage
    }

    /// Whether the server cannot be reached, or did not respond in time. A later attempt may succeed.
    pub fn is_unreachable(&self) -> bool {
        self.kind == Kind::Unreachable
    }
}

/// The codes that an operator can do something about.
fn explain(code: &SqlState) -> (Kind, &str) {
    match code.code() {
        "28P01" | "28000" => {
            (Kind::Refused, "it does not accept this user and password, or no connection from here")
        }
        "3D000" => (Kind::Refused, "the database does not exist"),
        "25006" => (Kind::Refused, "it takes no writes: it is a standby, or read-only"),
        "42501" => (Kind::Refused, "the role may not use the tables or functions of the schema"),
        "3F000" | "42P01" | "42883" => (Kind::Refused, "the schema has been removed"),
        "55P03" => (Kind::Locked, "another transaction has kept a host's row locked"),
        "53100" => (Kind::Refused, "its disk is full"),
        "53300" => (Kind::Unreachable, "it has no connection left"),
        "57014" => (Kind::Unreachable, "the statement was cancelled, as by a statement_timeout"),
        "57P01" | "57P02" | "57P03" | "57P05" => (Kind::Unreachable, "it closes the connection, or starts"),
        code => (Kind::Refused, code),
    }
}

impl From<Error> for abide_gate::StoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}
