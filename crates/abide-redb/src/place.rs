//! Where the database lies: a file, or a backend of the user's.
//!
//! A file is created under another name and renamed when it is whole, so that a process killed meanwhile
//! leaves nothing that cannot be opened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_gate::{HolderId, WallMillis};
use redb::{Builder, Database, DatabaseError, StorageBackend};

#[derive(Debug)]
pub(crate) enum DatabasePlace {
    File(PathBuf),
    Backend(Arc<dyn StorageBackend>, PathBuf),
}

impl DatabasePlace {
    pub(crate) fn backend(backend: impl StorageBackend) -> Self {
        Self::Backend(Arc::new(backend), PathBuf::from("(a storage backend)"))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Backend(_, path) => path,
        }
    }

    /// Opens the database there, or makes one.
    pub(crate) fn database(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        match self {
            Self::File(path) => {
                create_whole(path, builder)?;
                builder.create(path)
            }
            Self::Backend(backend, _) => builder.create_with_backend(Borrowed(Arc::clone(backend))),
        }
    }

    /// No other process has it until it is dropped, where the system locks folders.
    pub(crate) fn lock_folder(&self) -> Option<fs::File> {
        let Self::File(path) = self else { return None };
        let folder = fs::File::open(folder_of(path)).ok()?;
        folder.lock().ok().map(|()| folder)
    }

    /// Moves the file aside, and says where to. A backend is emptied.
    pub(crate) fn move_aside(&self, now: WallMillis) -> io::Result<PathBuf> {
        match self {
            Self::File(path) => {
                let aside = with_suffix(path, &format!("corrupt-{}", now.as_millis()));
                fs::rename(path, &aside)?;
                Ok(aside)
            }
            Self::Backend(backend, path) => backend.set_len(0).map(|()| path.clone()),
        }
    }
}

/// Makes a new database beside the path, whole, and then links it there, so that a process that is killed
/// meanwhile does not leave half a database behind. Where that cannot be done, redb makes it in place.
fn create_whole(path: &Path, builder: &Builder) -> Result<(), DatabaseError> {
    remove_leftovers(path);
    if fs::metadata(path).is_ok() {
        return Ok(());
    }
    // A name of its own: several may start at once where there is no file yet, and one that was killed leaves
    // half a database. A process id is no such name, because that of each start in a container is 1.
    let new = with_suffix(path, &format!("new-{}", HolderId::random()));
    let made = builder.create(&new).map(drop);
    if made.is_ok() {
        // Unlike renaming, linking never replaces what another process has put there by now.
        let _ = fs::hard_link(&new, path);
    }
    let _ = fs::remove_file(&new);
    made
}

/// Removes unfinished databases of processes that were killed. A younger one may be in the making; a process
/// that needs longer still makes its database in place.
fn remove_leftovers(path: &Path) {
    let prefix = with_suffix(path, "new-");
    let prefix = prefix.file_name().unwrap_or_default().as_encoded_bytes();
    for file in fs::read_dir(folder_of(path)).into_iter().flatten().flatten() {
        let name = file.file_name();
        let holder = name.as_encoded_bytes().strip_prefix(prefix).unwrap_or_default();
        let age = || file.metadata()?.modified()?.elapsed().map_err(io::Error::other);
        if holder.len() == 32
            && holder.iter().all(u8::is_ascii_hexdigit)
            && age().is_ok_and(|age| age > MAKING_MAX)
        {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Much longer than the milliseconds that it takes to make a database, also on a machine that was suspended
/// meanwhile.
const MAKING_MAX: Duration = Duration::from_secs(3_600);

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// The backend as redb wants to own it. It can be opened again after a fault.
#[derive(Debug)]
struct Borrowed(Arc<dyn StorageBackend>);

impl StorageBackend for Borrowed {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}
