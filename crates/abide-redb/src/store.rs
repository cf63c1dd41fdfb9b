//! The store that users hold.
//!
//! It opens and closes; what the gate asks of it is in `traits`.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;

use crate::builder::Builder;
use crate::disk::{Disk, SavedBackoffs};
use crate::error::Error;
use crate::shared::{PendingCommit, Shared};

/// Robots records, backoffs and permissions of one process, in one file. Cheap to clone; clones are one
/// store.
///
/// It implements [`RobotsStore`](abide_gate::robots_cache::RobotsStore),
/// [`HostStore`](abide_gate::pacing::HostStore) and [`PermissionStore`](abide_permissions::PermissionStore);
/// give a crawler three clones.
///
/// Backoffs, and records of unreachable sites, are on the disk when their call returns. Everything else is
/// written about once a second ([`Builder::write_behind`]). Dropping the last clone writes the rest, and
/// blocks meanwhile; [`close`](Self::close) does not block the runtime, and returns errors.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("abide.redb");
/// use std::sync::Arc;
/// use abide_gate::Gate;
///
/// let store = abide_redb::Store::open(&path)?;
/// let settings = Gate::builder().robots_store(Arc::new(store.clone())).host_store(Arc::new(store.clone()));
/// # drop(settings);
///
/// // The file has one user at a time.
/// assert!(abide_redb::Store::open(&path).unwrap_err().is_locked());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

/// The last one to drop it ends the writer.
#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// Taken when it is dropped.
    writer: Option<JoinHandle<()>>,
}

/// The size of a store, without records that are not yet written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let directory = tempfile::tempdir()?;
/// let usage = abide_redb::Store::open(directory.path().join("abide.redb"))?.usage().await?;
/// assert_eq!((usage.robots, usage.permissions, usage.bytes), (0, 0, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUsage {
    /// Records of robots.txt.
    pub robots: u64,
    /// Records of permissions.
    pub permissions: u64,
    /// Bytes of all records with their keys. The file is larger, by its tree and by the free pages that it
    /// keeps.
    pub bytes: u64,
}

impl Store {
    /// Opens or creates the file, with the defaults of [`builder`](Self::builder).
    ///
    /// This blocks while the whole file is checked, so call it before the runtime has other work.
    ///
    /// # Errors
    /// [`Error::Locked`] at once if it is open elsewhere; [`Error::Corrupt`] if it is damaged, or not a
    /// database of abide; [`Error::Version`]; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(path)
    }

    /// Settings other than the defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn start((disk, found): (Disk, SavedBackoffs)) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(disk, found));
        let writing = Arc::clone(&shared);
        // A thread of its own, because the store outlives runtimes, and redb blocks.
        let writer = std::thread::Builder::new().name("abide-redb".to_owned());
        let writer = writer.spawn(move || writing.write());
        let writer = writer.map_err(|error| Error::io(shared.disk.path(), error))?;
        Ok(Self { inner: Arc::new(Inner { shared, writer: Some(writer) }) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.inner.shared.disk.path()
    }

    /// Waits until everything that was saved before this call is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written; the store tries again later.
    pub async fn flush(&self) -> Result<(), Error> {
        self.written(Some(self.shared().flush()?)).await
    }

    /// Writes everything and closes the file, for all clones: their later calls return [`Error::Closed`].
    /// Call it after all requests have ended, and after [`Gate::settled`](abide_gate::Gate::settled): a later
    /// backoff is not in the file.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written. The file is closed in any case. Closing again is not an
    /// error.
    pub async fn close(&self) -> Result<(), Error> {
        self.written(Some(self.shared().close())).await
    }

    /// The number and size of the records.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Closed`].
    pub async fn usage(&self) -> Result<StoreUsage, Error> {
        self.on_disk(|shared| shared.disk.usage()).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Does blocking work on the file, on tokio's threads for that. Without a runtime no task can be blocked,
    /// so it is done here.
    pub(crate) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self.shared());
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn_blocking(move || work(&shared)).await.unwrap_or_else(|_| self.closed())
            }
            Err(_) => work(&shared),
        }
    }

    /// Waits for the commit, if there is one to be waited for. That blocks no thread.
    pub(crate) async fn written(&self, pending: Option<PendingCommit>) -> Result<(), Error> {
        match pending {
            // The writer goes without a word if it has panicked.
            Some(pending) => pending.await.unwrap_or_else(|_| self.closed()),
            None => Ok(()),
        }
    }

    fn closed<T>(&self) -> Result<T, Error> {
        Err(Error::closed(self.path()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The result is dropped: `close` returns it.
        drop(self.shared.close());
        if let Some(writer) = self.writer.take() {
            // Not the receiver's own way to block, which panics on a thread of a runtime.
            let _ = writer.join();
        }
    }
}
