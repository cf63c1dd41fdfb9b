//! The file: opening it, reading a row, committing a batch. Everything here blocks.
//!
//! Every commit is in two phases and durable when it returns. In one phase redb tells a torn commit by a checksum that is not
//! cryptographic, over bytes that servers on the web choose.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use abide_gate::robots_cache::RobotsRecord;
use abide_gate::{Clock, Origin, WallMillis};
use abide_permissions::PermissionRecord;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
    WriteTransaction,
};

use crate::batch::Batch;
use crate::error::{Error, Fault};
use crate::kind::{Limits, PERMISSIONS, ROBOTS};
use crate::place::Place;
use crate::row::{self, BackoffRow, State, VERSION};

/// As 0.1 named it.
const BACKOFFS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("holds");
const STATE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("state");
const STATE_KEY: &str = "abide";

/// How the file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) cache_size: usize,
    pub(crate) verify: bool,
    pub(crate) rebuild: bool,
    pub(crate) limits: Limits,
}

#[derive(Debug)]
pub(crate) struct Disk {
    place: Place,
    options: Options,
    handle: RwLock<Handle>,
}

#[derive(Debug)]
enum Handle {
    Open(Database),
    /// After a fault of the file system redb wants the file opened again.
    Faulted,
    Closed,
}

/// What was in the file when it was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Nothing: no request was ever sent with it.
    pub(crate) is_new: bool,
    pub(crate) backoffs: Vec<(Arc<str>, BackoffRow)>,
    /// Rows of backoffs that cannot be read.
    pub(crate) unreadable: Vec<Arc<str>>,
}

/// How many records there are, and how large they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) robots: u64,
    pub(crate) permissions: u64,
    pub(crate) bytes: u64,
}

impl Disk {
    /// Opens the file, and makes sure that it is whole.
    pub(crate) fn open(place: Place, options: Options, clock: &dyn Clock) -> Result<(Self, Found), Error> {
        // Asked first: a file that is moved aside was not new, and what was sent before it was damaged was sent.
        let is_new = place.is_empty();
        match Self::try_open(&place, options, is_new) {
            Err(error) if error.is_corrupt() && options.rebuild => {
                let kept = place.move_aside(clock.wall()).map_err(|error| Error::io(place.path(), error))?;
                tracing::warn!(%error, kept = %kept.display(), "the store was damaged: it begins empty");
                Self::try_open(&place, options, is_new)
            }
            result => result,
        }
        .map(|(database, found)| {
            (Self { place, options, handle: RwLock::new(Handle::Open(database)) }, found)
        })
    }

    fn try_open(place: &Place, options: Options, is_new: bool) -> Result<(Database, Found), Error> {
        let database = open_whole(place, options)?;
        let found = guarded(|| take_over(&database, place.path(), is_new))
            .map_err(|fault| Error::of(place.path(), fault))?;
        Ok((database, found))
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn robots(&self, origin: &Origin) -> Result<Option<RobotsRecord>, Error> {
        self.read(|read| ROBOTS.row(read, origin.as_str(), |row| row::read_robots(origin, row)))
    }

    pub(crate) fn permission(&self, url: &str) -> Result<Option<PermissionRecord>, Error> {
        self.read(|read| PERMISSIONS.row(read, url, |row| row::read_permission(url, row)))
    }

    pub(crate) fn counts(&self) -> Result<Counts, Error> {
        self.read(|read| {
            let state = state(&read.open_table(STATE)?)?.unwrap_or_default();
            Ok(Counts {
                robots: ROBOTS.len(read)?,
                permissions: PERMISSIONS.len(read)?,
                bytes: state.robots_bytes.saturating_add(state.permissions_bytes),
            })
        })
    }

    /// Commits a batch, durably. Returns whether there is still more than there may be.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<bool, Error> {
        self.write(|write| {
            let mut state = begin(write)?;
            for (origin, record) in &batch.records {
                let (age, row) = row::robots(record);
                ROBOTS.insert(write, origin.as_str(), age, &row, &mut state.robots_bytes)?;
            }
            for (url, permission) in &batch.permissions {
                if permission.is_removed {
                    PERMISSIONS.remove(write, url, &mut state.permissions_bytes)?;
                }
                let Some(record) = &permission.record else { continue };
                let Some((age, row)) = row::permission(record) else { continue };
                let kept = PERMISSIONS.read(write, url, |row| row::read_permission(url, row))?;
                if !kept.is_some_and(|kept| kept.outlives(record)) {
                    PERMISSIONS.insert(write, url, age, &row, &mut state.permissions_bytes)?;
                }
            }
            write_backoffs(write, &batch.backoffs)?;
            let limits = self.options.limits;
            let more = ROBOTS.shrink(write, limits, &mut state.robots_bytes)?
                | PERMISSIONS.shrink(write, limits, &mut state.permissions_bytes)?;
            finish(write, &state)?;
            Ok(more)
        })
    }

    /// Removes the robots records that are older, some at a time.
    pub(crate) fn sweep(&self, older_than: WallMillis) -> Result<u64, Error> {
        let mut swept = 0_u64;
        loop {
            let step = self.write(|write| {
                let mut state = begin(write)?;
                let step = ROBOTS.sweep(write, older_than.as_millis(), &mut state.robots_bytes)?;
                finish(write, &state)?;
                Ok(step)
            })?;
            swept = swept.saturating_add(step);
            if step == 0 {
                return Ok(swept);
            }
        }
    }

    /// Gives the file back. Nothing can be read or written any more.
    pub(crate) fn close(&self) {
        self.put(Handle::Closed);
    }

    fn put(&self, handle: Handle) {
        let mut place = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, handle);
        // redb writes down its free pages when it is dropped, and does without where it cannot.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
    }

    fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, Fault>) -> Result<T, Error> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            read(&transaction)
        })
    }

    /// One transaction, committed in two phases. After a fault the file has to be opened again first.
    fn write<T>(&self, write: impl FnOnce(&WriteTransaction) -> Result<T, Fault>) -> Result<T, Error> {
        self.reopen()?;
        let result = self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_two_phase_commit(true);
            let done = write(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        if result.is_err() && !self.is_closed() {
            self.put(Handle::Faulted);
            // A full disk still reads.
            let _ = self.reopen();
        }
        result
    }

    fn reopen(&self) -> Result<(), Error> {
        if !matches!(*self.handle.read().unwrap_or_else(PoisonError::into_inner), Handle::Faulted) {
            return Ok(());
        }
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*handle, Handle::Faulted) {
            // It was not closed in order, so redb looks at all of it in any case.
            let options = Options { verify: false, ..self.options };
            *handle = Handle::Open(open_whole(&self.place, options)?);
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        matches!(*self.handle.read().unwrap_or_else(PoisonError::into_inner), Handle::Closed)
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Fault>) -> Result<T, Error> {
        match &*self.handle.read().unwrap_or_else(PoisonError::into_inner) {
            Handle::Open(database) => {
                guarded(|| work(database)).map_err(|fault| Error::of(self.path(), fault))
            }
            Handle::Faulted => {
                Err(Error::io(self.path(), io::Error::other("it failed before, and is not open")))
            }
            Handle::Closed => Err(Error::Closed { path: self.path().to_owned() }),
        }
    }
}

/// Opens the database, and reads all of it once unless it has just been repaired: what lies below a page is only trusted if its
/// checksum holds.
fn open_whole(place: &Place, options: Options) -> Result<Database, Error> {
    let is_repaired = Arc::new(AtomicBool::new(false));
    guarded(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(options.cache_size);
        let repaired = Arc::clone(&is_repaired);
        builder.set_repair_callback(move |_| repaired.store(true, Ordering::Relaxed));
        let mut database = place.database(&builder)?;
        if options.verify && !is_repaired.load(Ordering::Relaxed) && !database.check_integrity()? {
            tracing::warn!(path = %place.path().display(), "the store was damaged, and has been repaired");
        }
        Ok(database)
    })
    .map_err(|fault| Error::of(place.path(), fault))
}

/// Reads what the last user of the file left, and makes what is not there yet.
///
/// It is only new if nothing was there, and nothing has come there meanwhile.
fn take_over(database: &Database, path: &Path, is_new: bool) -> Result<Found, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    let mut tables: Vec<String> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    tables.sort();
    if !tables.is_empty() && !tables.iter().any(|table| table == STATE.name()) {
        return Err(Fault::Foreign("a redb database that is not abide's"));
    }
    check_version(&transaction, path)?;
    let mut found = Found { is_new: is_new && tables.is_empty(), ..Found::default() };
    {
        let table = transaction.open_table(BACKOFFS)?;
        for row in table.iter()? {
            let (key, row) = row?;
            match BackoffRow::decode(key.value(), row.value()) {
                Some(row) => found.backoffs.push((key.value().into(), row)),
                None => found.unreadable.push(key.value().into()),
            }
        }
    }
    ROBOTS.create(&transaction)?;
    PERMISSIONS.create(&transaction)?;
    finish(&transaction, &begin(&transaction)?)?;
    transaction.commit()?;
    Ok(found)
}

fn check_version(transaction: &WriteTransaction, path: &Path) -> Result<(), Fault> {
    let table = transaction.open_table(STATE)?;
    let version = table.get(STATE_KEY)?.and_then(|row| State::version(row.value()));
    match version {
        Some(found) if found != VERSION => {
            Err(Fault::Version(Error::Version { path: path.to_owned(), expected: VERSION, found }))
        }
        _ => Ok(()),
    }
}

/// The state of the file; counted again if it cannot be read.
fn begin(transaction: &WriteTransaction) -> Result<State, Fault> {
    let stored = state(&transaction.open_table(STATE)?)?;
    match stored {
        Some(state) => Ok(state),
        None => Ok(State {
            robots_bytes: ROBOTS.count_bytes(transaction)?,
            permissions_bytes: PERMISSIONS.count_bytes(transaction)?,
        }),
    }
}

fn state(table: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Option<State>, Fault> {
    Ok(table.get(STATE_KEY)?.and_then(|row| State::decode(row.value())))
}

fn finish(transaction: &WriteTransaction, state: &State) -> Result<(), Fault> {
    transaction.open_table(STATE)?.insert(STATE_KEY, &*state.encode())?;
    Ok(())
}

fn write_backoffs(
    transaction: &WriteTransaction,
    rows: &BTreeMap<Arc<str>, Option<BackoffRow>>,
) -> Result<(), Fault> {
    let mut table = transaction.open_table(BACKOFFS)?;
    for (host, row) in rows {
        match row {
            Some(row) => table.insert(&**host, &*row.encode(host))?,
            None => table.remove(&**host)?,
        };
    }
    Ok(())
}

/// A damaged file may make redb panic, which is an error like any other.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::Panic(text_of(&*panic))))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "no message".to_owned())
}
