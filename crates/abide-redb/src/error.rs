//! What can go wrong with the file.
//!
//! A user acts on three of them: close the other process, rebuild the file, update abide. All others are the
//! disk's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::Error as RedbError;

/// The store could not be opened, or an operation failed.
///
/// ```
/// use abide_redb::Store;
///
/// fn open(path: &str) -> Result<Store, abide_redb::Error> {
///     Store::open(path).inspect_err(|error| {
///         if error.is_locked() {
///             eprintln!("another crawler uses {path}");
///         }
///     })
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or another [`Store`](crate::Store) of this process, has the file open. `open` does
    /// not wait.
    #[error("the store {} is open already: one process at a time can use it", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a database of abide, or is damaged. It was not changed;
    /// [`rebuild_if_corrupt`](crate::Builder::rebuild_if_corrupt) moves it aside and starts with an empty
    /// one.
    #[error("expected a database of abide in {}, found: {found}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: Arc<str>,
    },
    /// A newer version of abide created the file.
    #[error("expected {} in format {expected}, found format {found}: a newer version of abide made it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format of this version.
        expected: u8,
        /// The format of the file.
        found: u8,
    },
    /// The file system or the disk failed: full, missing, not permitted. The store tries to write again.
    #[error("the store {} cannot be read or written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The store was [closed](crate::Store::close).
    #[error("the store {} has been closed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// Whether the file is open elsewhere.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Whether the file is damaged, or not a database of abide.
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

    pub(crate) fn closed(path: &Path) -> Self {
        Self::Closed { path: path.to_owned() }
    }

    pub(crate) fn of(path: &Path, error: RedbError) -> Self {
        match error {
            RedbError::DatabaseAlreadyOpen => Self::Locked { path: path.to_owned() },
            RedbError::DatabaseClosed => Self::closed(path),
            RedbError::Io(error) => Self::io(path, error),
            RedbError::Corrupted(text) => Self::corrupt(path, text),
            // An older format, missing tables, or tables of other types.
            RedbError::RepairAborted
            | RedbError::UpgradeRequired(_)
            | RedbError::TableTypeMismatch { .. }
            | RedbError::TableDoesNotExist(_)
            | RedbError::TableIsMultimap(_)
            | RedbError::TableIsNotMultimap(_)
            | RedbError::TypeDefinitionChanged { .. } => Self::corrupt(path, error.to_string()),
            // Whatever else: no reason to move the file aside.
            error => Self::io(path, io::Error::other(error.to_string())),
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
