//! How a call ended: its exit status, and what is wrong usage.
//!
//! Scripts go by the exit status: a call that is wrong has another one than a URL that was denied.

use std::process::ExitCode;

/// How a call ended, and its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// 0: everything asked for was done.
    Done,
    /// 1: something was denied, deferred or failed.
    Failed,
    /// 2: the call itself is wrong.
    Usage,
    /// 130: ended by Ctrl-C.
    Interrupted,
    /// 143: ended by SIGTERM.
    Terminated,
}

impl Status {
    /// The worse of the two.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }

    pub(crate) fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Failed }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            // As shells report a signal: 128 and its number.
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// The call itself is wrong: a file that cannot be read, a token that is none.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);
