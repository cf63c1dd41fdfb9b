//! The file: opening it, reading a row, committing a batch. Everything here blocks.
//!
//! Every commit is in two phases and durable when it returns. In one phase redb tells a torn commit by a
//! checksum that is not cryptographic, over bytes that servers on the web choose.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use abide_gate::pacing::HostEntry;
use abide_gate::robots_cache::RobotsRecord;
use abide_gate::{Origin, WallMillis};
use abide_permissions::PermissionRecord;
use redb::{
    Database, Error as RedbError, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition,
    TableHandle, WriteTransaction,
};

use crate::batch::{Batch, changed};
use crate::builder::Builder;
use crate::error::Error;
use crate::place::DatabasePlace;
use crate::record_table::{PERMISSIONS, ROBOTS, Records};
use crate::row::{self, FileState, VERSION};
use crate::store::StoreUsage;

/// As 0.1 named it.
const BACKOFFS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("backoffs");
const STATE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("state");
const STATE_KEY: &str = "abide";

#[derive(Debug)]
pub(crate) struct Disk {
    place: DatabasePlace,
    pub(crate) settings: Builder,
    handle: RwLock<Handle>,
}

#[derive(Debug)]
enum Handle {
    Open(Database),
    /// After a fault of the file system redb wants the file opened again.
    Faulted,
    Closed,
}

/// The backoffs that were in the file when it was opened. `None`: the row cannot be read.
pub(crate) type SavedBackoffs = Vec<(Arc<str>, Option<HostEntry>)>;

impl Disk {
    /// Opens the file, and makes sure that it is whole.
    pub(crate) fn open(place: DatabasePlace, settings: Builder) -> Result<(Self, SavedBackoffs), Error> {
        let mut opened = try_open(&place, &settings);
        if settings.rebuild && opened.as_ref().is_err_and(Error::is_corrupt) {
            // Of several that find it damaged, one moves it aside; the others look again, and find what that
            // one has made.
            let _alone = place.lock_folder();
            opened = try_open(&place, &settings);
            if let Err(error) = &opened
                && error.is_corrupt()
            {
                let kept = place.move_aside(settings.clock.wall());
                let kept = kept.map_err(|error| Error::io(place.path(), error))?;
                tracing::warn!(%error, kept = %kept.display(), "the store was damaged: it begins empty");
                opened = try_open(&place, &settings);
            }
        }
        let (database, found) = opened?;
        Ok((Self { place, settings, handle: RwLock::new(Handle::Open(database)) }, found))
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn robots(&self, origin: &Origin) -> Result<Option<RobotsRecord>, Error> {
        self.read(|read| ROBOTS.read(read, origin.as_str(), |row| row::read_robots(origin, row)))
    }

    pub(crate) fn permission(&self, url: &str) -> Result<Option<PermissionRecord>, Error> {
        self.read(|read| PERMISSIONS.read(read, url, |row| row::read_permission(url, row)))
    }

    pub(crate) fn usage(&self) -> Result<StoreUsage, Error> {
        self.read(|read| {
            let state = read.open_table(STATE)?.get(STATE_KEY)?;
            let state = state.and_then(|row| FileState::decode(row.value())).unwrap_or_default();
            let bytes = state.robots_bytes.saturating_add(state.permissions_bytes);
            Ok(StoreUsage { robots: ROBOTS.len(read)?, permissions: PERMISSIONS.len(read)?, bytes })
        })
    }

    /// Commits a batch, durably. Returns whether there is still more than there may be.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<bool, Error> {
        let Builder { max_records, max_bytes, ref clock, .. } = self.settings;
        let now = clock.wall().as_millis();
        self.write(|tables| {
            for (origin, record) in &batch.records {
                let (age, row) = row::robots(record);
                tables.robots.insert(origin.as_str(), age, &row)?;
            }
            for (url, changes) in &batch.permissions {
                // Read in the transaction that writes it: what an earlier batch saved must not be overlooked.
                let kept = tables.permissions.read(url, |row| row::read_permission(url, row))?;
                match changed(kept, changes) {
                    Some(record) => {
                        let Some((age, row)) = row::permission(&record) else { continue };
                        tables.permissions.insert(url, age, &row)?;
                    }
                    None => tables.permissions.remove(url)?,
                }
            }
            for (host, row) in &batch.backoffs {
                match row {
                    Some(row) => tables.backoffs.insert(&**host, &*row::host(host, row))?,
                    None => tables.backoffs.remove(&**host)?,
                };
            }
            // Not `||`: both are shrunk.
            Ok(tables.robots.shrink(max_records, max_bytes, now)?
                | tables.permissions.shrink(max_records, max_bytes, now)?)
        })
    }

    /// Removes the robots records that are older, some at a time.
    pub(crate) fn sweep(&self, older_than: WallMillis) -> Result<u64, Error> {
        let mut swept = 0_u64;
        loop {
            match self.write(|tables| tables.robots.sweep(older_than.as_millis()))? {
                0 => return Ok(swept),
                step => swept = swept.saturating_add(step),
            }
        }
    }

    /// Gives the file back. Nothing can be read or written any more.
    pub(crate) fn close(&self) {
        self.put(Handle::Closed);
    }

    /// Ends the use of the database, unless the file has been given back already.
    fn put(&self, handle: Handle) {
        let mut place = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*place, Handle::Closed) {
            let old = std::mem::replace(&mut *place, handle);
            // redb writes down its free pages when it is dropped, and does without where it cannot.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
        }
    }

    fn read<T>(&self, read: impl Fn(&ReadTransaction) -> Result<T, RedbError>) -> Result<T, Error> {
        let read = || self.with(|database| read(&database.begin_read()?));
        match read() {
            // After one fault redb returns it for all reads, until the file is opened again.
            Err(Error::Io { .. }) => {
                self.put(Handle::Faulted);
                self.reopen()?;
                read()
            }
            result => result,
        }
    }

    /// One transaction. After a fault the file has to be opened again first.
    fn write<T>(&self, write: impl FnOnce(&mut Tables<'_>) -> Result<T, RedbError>) -> Result<T, Error> {
        self.reopen()?;
        let result = self.with(|database| {
            let transaction = begin(database)?;
            let mut tables = Tables::open(&transaction)?;
            let done = write(&mut tables)?;
            tables.finish()?;
            transaction.commit()?;
            Ok(done)
        });
        if result.is_err() {
            self.put(Handle::Faulted);
            // A full disk still reads.
            let _ = self.reopen();
        }
        result
    }

    fn reopen(&self) -> Result<(), Error> {
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*handle, Handle::Faulted) {
            // It was not closed in order, so redb looks at all of it in any case.
            *handle = Handle::Open(open_whole(&self.place, &self.settings, false)?);
        }
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, RedbError>) -> Result<T, Error> {
        match &*self.handle.read().unwrap_or_else(PoisonError::into_inner) {
            Handle::Open(database) => guarded(self.path(), || work(database)),
            Handle::Faulted => {
                Err(Error::io(self.path(), io::Error::other("it failed before, and is not open")))
            }
            Handle::Closed => Err(Error::closed(self.path())),
        }
    }
}

fn try_open(place: &DatabasePlace, settings: &Builder) -> Result<(Database, SavedBackoffs), Error> {
    let database = open_whole(place, settings, settings.verify)?;
    match guarded(place.path(), || take_over(&database))? {
        Ok(found) => Ok((database, found)),
        Err(found) => Err(Error::Version { path: place.path().to_owned(), expected: VERSION, found }),
    }
}

/// Opens the database, and reads all of it once unless it has just been repaired: what lies below a page is
/// only trusted if its checksum holds.
fn open_whole(place: &DatabasePlace, settings: &Builder, verify: bool) -> Result<Database, Error> {
    let is_repaired = Arc::new(AtomicBool::new(false));
    guarded(place.path(), || {
        let mut builder = Database::builder();
        builder.set_cache_size(settings.cache_size);
        let repaired = Arc::clone(&is_repaired);
        builder.set_repair_callback(move |_| repaired.store(true, Ordering::Relaxed));
        let mut database = place.database(&builder)?;
        if verify && !is_repaired.load(Ordering::Relaxed) && !database.check_integrity()? {
            tracing::warn!(path = %place.path().display(), "the store was damaged, and has been repaired");
        }
        Ok(database)
    })
}

/// Reads what the last user of the file left, and makes what is not there yet. `Err`: the format of the file,
/// which is another one.
fn take_over(database: &Database) -> Result<Result<SavedBackoffs, u8>, RedbError> {
    let transaction = begin(database)?;
    // Before any table is made, so that the database of another program stays as it is.
    let tables: Vec<_> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    if !tables.is_empty() && !tables.iter().any(|table| table == STATE.name()) {
        return Err(RedbError::Corrupted("a redb database that is not abide's".to_owned()));
    }
    let version =
        transaction.open_table(STATE)?.get(STATE_KEY)?.and_then(|row| FileState::version(row.value()));
    if let Some(version) = version.filter(|version| *version != VERSION) {
        return Ok(Err(version));
    }
    let (tables, mut found) = (Tables::open(&transaction)?, Vec::new());
    for row in tables.backoffs.iter()? {
        let (key, row) = row?;
        found.push((key.value().into(), row::read_host(key.value(), row.value())));
    }
    tables.finish()?;
    transaction.commit()?;
    Ok(Ok(found))
}

fn begin(database: &Database) -> Result<WriteTransaction, RedbError> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// All that is in the file, in one transaction.
struct Tables<'t> {
    robots: Records<'t>,
    permissions: Records<'t>,
    backoffs: Table<'t, &'static str, &'static [u8]>,
    state: Table<'t, &'static str, &'static [u8]>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, RedbError> {
        let (state, backoffs) = (transaction.open_table(STATE)?, transaction.open_table(BACKOFFS)?);
        let stored = state.get(STATE_KEY)?.and_then(|row| FileState::decode(row.value()));
        let robots = ROBOTS.open(transaction, stored.map(|state| state.robots_bytes))?;
        let permissions = PERMISSIONS.open(transaction, stored.map(|state| state.permissions_bytes))?;
        Ok(Self { robots, permissions, backoffs, state })
    }

    fn finish(mut self) -> Result<(), RedbError> {
        let state = FileState { robots_bytes: self.robots.bytes, permissions_bytes: self.permissions.bytes };
        self.state.insert(STATE_KEY, &*state.encode())?;
        Ok(())
    }
}

/// A damaged file may make redb panic, which is an error like any other.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, RedbError>) -> Result<T, Error> {
    let result = catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| Error::corrupt(path, format!("reading it panicked: {}", text_of(&*panic))));
    result?.map_err(|error| Error::of(path, error))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| Some(panic.downcast_ref::<String>()?)).unwrap_or("no message")
}
