//! What can go wrong with the file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

/// The store could not be opened, or could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has it open, or another [`Store`](crate::Store) of this one. Nothing was waited for, nothing changed.
    #[error("the store {} is open already: one process at a time can use it", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a database of abide, or it was damaged. Nothing was changed;
    /// [`rebuild_if_corrupt`](crate::Builder::rebuild_if_corrupt) moves it aside and begins with an empty one.
    #[error("expected a database of abide in {}, found: {found}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: Arc<str>,
    },
    /// A newer version of abide has made the file.
    #[error("expected {} in format {expected}, found format {found}: a newer version of abide made it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format of this version.
        expected: u8,
        /// The format of the file.
        found: u8,
    },
    /// The file system or the disk failed: full, gone, not permitted. What was not written is tried again.
    #[error("the store {} cannot be read or written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// It has been [closed](crate::Store::close).
    #[error("the store {} has been closed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// Another process has the file open.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// The file is damaged, or not ours.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }

    pub(crate) fn corrupt(path: &Path, found: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), found: found.into().into() }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            // redb's words for a file that is not its own, or that ends too early.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::corrupt(path, source.to_string())
            }
            _ => Self::Io { path: path.to_owned(), source: Arc::new(source) },
        }
    }

    pub(crate) fn of(path: &Path, fault: Fault) -> Self {
        match fault {
            Fault::Database(DatabaseError::DatabaseAlreadyOpen) => Self::Locked { path: path.to_owned() },
            Fault::Database(DatabaseError::Storage(error)) | Fault::Storage(error) => {
                Self::storage(path, error)
            }
            Fault::Database(error) => Self::corrupt(path, error.to_string()),
            Fault::Table(error) => Self::corrupt(path, error.to_string()),
            Fault::Foreign(what) => Self::corrupt(path, what),
            Fault::Version(error) => error,
            Fault::Panic(text) => Self::corrupt(path, format!("reading it panicked: {text}")),
        }
    }

    fn storage(path: &Path, error: StorageError) -> Self {
        match error {
            StorageError::Io(error) => Self::io(path, error),
            StorageError::Corrupted(text) => Self::corrupt(path, text),
            StorageError::DatabaseClosed => Self::Closed { path: path.to_owned() },
            error => Self::io(path, io::Error::other(error.to_string())),
        }
    }
}

/// The errors of redb, by what they mean to us.
#[derive(Debug)]
pub(crate) enum Fault {
    Database(DatabaseError),
    Storage(StorageError),
    Table(TableError),
    /// Whole, and not ours.
    Foreign(&'static str),
    Version(Error),
    Panic(String),
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<TableError> for Fault {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => Self::Storage(error),
            error => Self::Table(error),
        }
    }
}

impl From<TransactionError> for Fault {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => Self::Storage(error),
            error => Self::Storage(StorageError::Io(io::Error::other(error.to_string()))),
        }
    }
}

impl From<CommitError> for Fault {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(error) => Self::Storage(error),
            error => Self::Storage(StorageError::Io(io::Error::other(error.to_string()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_one_sentence_that_names_the_file() {
        let path = PathBuf::from("/var/lib/bot/abide.redb");
        let full = io::Error::new(io::ErrorKind::StorageFull, "no space left");
        for (error, expected) in [
            (
                Error::Locked { path: path.clone() },
                "the store /var/lib/bot/abide.redb is open already: one process at a time can use it",
            ),
            (
                Error::corrupt(&path, "a text"),
                "expected a database of abide in /var/lib/bot/abide.redb, found: a text",
            ),
            (
                Error::Version { path: path.clone(), expected: 1, found: 2 },
                "expected /var/lib/bot/abide.redb in format 1, found format 2: a newer version of abide made it",
            ),
            (
                Error::io(&path, full),
                "the store /var/lib/bot/abide.redb cannot be read or written: no space left",
            ),
            (Error::Closed { path: path.clone() }, "the store /var/lib/bot/abide.redb has been closed"),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
