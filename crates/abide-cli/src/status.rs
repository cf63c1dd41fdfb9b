//! How a call ended: its exit status, and what is wrong usage.
//!
//! Scripts go by the exit status: a call that is wrong has another one than a URL that was denied.

use std::process::ExitCode;

/// How a call ended, and its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything asked for was done.
    Done = 0,
    /// Something was denied, deferred or failed.
    Failed = 1,
    /// The call itself is wrong.
    Usage = 2,
    /// Ended by Ctrl-C. As shells report a signal: 128 and its number.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Status {
    /// The worse of the two.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }

    pub(crate) fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Failed }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// The call itself is wrong: a file that cannot be read, a token that is none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

pub(crate) fn wrong_usage<T>(what: impl Into<String>) -> anyhow::Result<T> {
    Err(UsageError(what.into()).into())
}
