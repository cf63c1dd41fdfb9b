//! The store that users hold.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use redb::StorageBackend;

use crate::blocking::blocking;
use crate::builder::Builder;
use crate::disk::Counts;
use crate::error::Error;
use crate::shared::{Pending, Shared};

/// Robots records, backoffs and permissions of one process, in one file. Cheap to clone; clones are one store.
///
/// It is an [`RobotsStore`](abide_gate::robots_cache::RobotsStore), a [`HostStore`](abide_gate::pacing::HostStore) and a
/// [`PermissionStore`](abide_permissions::PermissionStore) at once; a crawler is given three clones.
///
/// Backoffs, and records of sites that cannot be reached, are on the disk when their call returns. Everything else is written about once
/// a second ([`Builder::write_behind`]). When the last clone is dropped what is left is written, which blocks for the time of a
/// commit; [`close`](Self::close) does the same without blocking the runtime, and says whether it could.
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

/// How much a store holds. What waits to be written is not counted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Records of robots.txt.
    pub robots: u64,
    /// Records of permissions.
    pub permissions: u64,
    /// Bytes of all records with their keys. The file is larger, by its tree and by the free pages that it keeps.
    pub bytes: u64,
}

impl Store {
    /// Opens the file, or makes it, with the defaults of [`builder`](Self::builder).
    ///
    /// It blocks: the whole file is read once, to be sure of it. Do it before the runtime has anything else to do.
    ///
    /// # Errors
    /// [`Error::Locked`] at once if it is open elsewhere; [`Error::Corrupt`] if it is no database of abide, or was damaged;
    /// [`Error::Version`]; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(path)
    }

    /// Opens it with other sizes and times.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A store on something else than a file, for tests. It must go on working after its `close`: after a fault it is opened again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_backend(backend: impl StorageBackend) -> Result<Self, Error> {
        Self::builder().open_backend(backend)
    }

    pub(crate) fn start(shared: Shared) -> Result<Self, Error> {
        let shared = Arc::new(shared);
        let writing = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("abide-redb".to_owned());
        let writer = writer.spawn(move || writing.write());
        let writer = writer.map_err(|error| Error::io(shared.disk.path(), error))?;
        Ok(Self { inner: Arc::new(Inner { shared, writer: Some(writer) }) })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.inner.shared.disk.path()
    }

    /// Waits until everything that was saved before this call is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written; it is tried again.
    pub async fn flush(&self) -> Result<(), Error> {
        let pending = self.shared().flush()?;
        self.written(Some(pending)).await
    }

    /// Writes everything, and gives the file back. All clones are closed with it: what they are asked for afterwards is an
    /// [`Error::Closed`]. Do it when no request is under way any more, and after
    /// [`Gate::settled`](abide_gate::Gate::settled): a backoff that is observed later is not in the file.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written. The file is given back all the same. Closing again is no error.
    pub async fn close(&self) -> Result<(), Error> {
        self.written(Some(self.shared().close())).await
    }

    /// How much it holds.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Closed`].
    pub async fn usage(&self) -> Result<Usage, Error> {
        let counts = self.on_disk(|shared| shared.disk.counts()).await?;
        let Counts { robots, permissions, bytes } = counts;
        Ok(Usage { robots, permissions, bytes })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Does blocking work on the file.
    pub(crate) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self.shared());
        blocking(move || work(&shared)).await.unwrap_or_else(|| Err(self.shared().closed()))
    }

    /// Waits for the commit, if there is one to be waited for.
    pub(crate) async fn written(&self, pending: Option<Pending>) -> Result<(), Error> {
        let Some(pending) = pending else { return Ok(()) };
        pending.wait().await.unwrap_or_else(|| Err(self.shared().closed()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let was_open = self.shared.check_open().is_ok();
        let pending = self.shared.close();
        if let Some(writer) = self.writer.take() {
            // Not the receiver's own way to block, which panics on a thread of a runtime.
            let _ = writer.join();
        }
        // `close` has returned it.
        if was_open && let Some(Err(error)) = pending.now() {
            tracing::warn!(%error, "the store could not be closed in order");
        }
    }
}
