//! How a store is opened.
//!
//! Its settings are those of the file; what may be kept at most is decided here, and kept to by `disk`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_gate::{Clock, SystemClock, caught_clock};
use redb::StorageBackend;

use crate::disk::Disk;
use crate::error::Error;
use crate::place::DatabasePlace;
use crate::store::Store;

/// Settings of a [`Store`].
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("abide.redb");
/// use std::time::Duration;
///
/// let store = abide_redb::Store::builder()
///     .cache_size(16 << 20)
///     .max_records(100_000)
///     .write_behind(Duration::from_millis(250))
///     .open(&path)?;
/// assert_eq!(store.path(), path);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(crate) cache_size: usize,
    pub(crate) max_records: u64,
    pub(crate) max_bytes: u64,
    pub(crate) write_behind: Duration,
    pub(crate) verify: bool,
    pub(crate) rebuild: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            // A store of 100,000 records is as fast, and a twentieth as large, as with redb's own gigabyte.
            cache_size: 4 << 20,
            max_records: 1_000_000,
            max_bytes: 1 << 30,
            write_behind: Duration::from_secs(1),
            verify: true,
            rebuild: false,
            clock: Arc::new(SystemClock),
        }
    }

    /// Bytes of the file that are kept in memory. Default 4 MiB.
    pub fn cache_size(mut self, bytes: usize) -> Self {
        self.cache_size = bytes;
        self
    }

    /// Maximum number of records of each kind, robots.txt and permissions. Default 1,000,000. The oldest are
    /// dropped: robots.txt by its last attempt, permissions by the time of receipt. Backoffs do not count;
    /// they are dropped when they end.
    pub fn max_records(mut self, records: u64) -> Self {
        self.max_records = records.max(1);
        self
    }

    /// Maximum size of the records of each kind, with their keys. Default 1 GiB, at least 1 MiB. The file is
    /// somewhat larger.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        // Less would not hold two robots.txt of 500 KiB, the least that RFC 9309 §2.5 lets a crawler read.
        self.max_bytes = bytes.max(1 << 20);
        self
    }

    /// How long a record may wait until it is written. Default 1 s. With zero, every save is on the disk when
    /// it returns.
    ///
    /// Backoffs, and records of unreachable sites, are always written at once.
    pub fn write_behind(mut self, wait: Duration) -> Self {
        self.write_behind = wait;
        self
    }

    /// Whether the whole file is checked for damage when it is opened. Default true: a second for some
    /// hundred megabytes. After a crash it is always checked.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Moves a file that is damaged, or not a database of abide, aside (`abide.redb.corrupt-1800000000000`,
    /// with the time in milliseconds), and creates a new one. Default false: `open` returns an error, and the
    /// file stays as it is.
    pub fn rebuild_if_corrupt(mut self, rebuild: bool) -> Self {
        self.rebuild = rebuild;
        self
    }

    /// Another clock, for tests. If it panics, the system's is used.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = caught_clock(clock);
        self
    }

    /// Opens or creates the file. Blocks.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, Error> {
        Store::start(Disk::open(DatabasePlace::File(path.as_ref().to_owned()), self)?)
    }

    /// Opens a store on another backend than a file, for tests. Blocks. The backend must work after its
    /// `close`: after a fault it is opened again.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_backend(self, backend: impl StorageBackend) -> Result<Store, Error> {
        Store::start(Disk::open(DatabasePlace::backend(backend), self)?)
    }
}
