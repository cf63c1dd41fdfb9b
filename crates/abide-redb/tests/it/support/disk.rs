//! A disk in memory that fails on demand, and forgets what was not synced when the power goes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use fastrand::Rng;
use redb::StorageBackend;

/// Cheap to clone; clones are one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    /// What a reader sees.
    now: Vec<u8>,
    /// What was there at the last sync.
    synced: Vec<u8>,
    /// What has been done since.
    unsynced: Vec<Change>,
    operations: u64,
    fault: Fault,
    /// It does not grow beyond.
    room: Option<u64>,
    /// Syncing does not return while this is set.
    stalls: bool,
    syncs: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
}

/// Which operations fail. They are counted from 0: reading, writing, growing, syncing, asking for the length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Fault {
    #[default]
    None,
    /// This one.
    Once(u64),
    /// This one and all after it.
    From(u64),
}

/// Disks write whole sectors.
const SECTOR: usize = 512;

impl Disk {
    fn of(state: State) -> Self {
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    pub(crate) fn holding(bytes: Vec<u8>) -> Self {
        Self::of(State { now: bytes.clone(), synced: bytes, ..State::default() })
    }

    pub(crate) fn of_size(room: u64) -> Self {
        Self::of(State { room: Some(room), ..State::default() })
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.state().fault = fault;
    }

    pub(crate) fn set_room(&self, room: Option<u64>) {
        self.state().room = room;
    }

    /// From now on, or no more, syncing takes for ever.
    pub(crate) fn stall(&self, stalls: bool) {
        self.state().stalls = stalls;
        self.0.1.notify_all();
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub(crate) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().now.clone()
    }

    /// What is on the disk after the power has gone: what was synced, and of what was not some writes, in any
    /// order, some of them torn at a sector.
    pub(crate) fn after_power_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let state = self.state();
        let (mut bytes, mut changes) = (state.synced.clone(), state.unsynced.clone());
        rng.shuffle(&mut changes);
        for change in changes {
            match change {
                _ if rng.bool() => {}
                Change::Len(len) => bytes.resize(len as usize, 0),
                Change::Write(at, data) => {
                    let is_torn = rng.u64(..3) == 0;
                    for (n, sector) in data.chunks(SECTOR).enumerate() {
                        if !is_torn || rng.bool() {
                            put(&mut bytes, at as usize + n * SECTOR, sector);
                        }
                    }
                }
            }
        }
        bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// The state, unless this operation is to fail.
    fn operation(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let n = state.operations;
        state.operations += 1;
        match state.fault {
            Fault::Once(at) if n == at => Err(io::Error::other("the disk failed once")),
            Fault::From(at) if n >= at => Err(io::Error::other("the disk is gone")),
            _ => Ok(state),
        }
    }
}

/// A write beyond the end of what is left is lost.
fn put(bytes: &mut [u8], at: usize, data: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(data) {
        *to = *from;
    }
}

impl State {
    fn has_room(&self, len: u64) -> io::Result<()> {
        match self.room {
            Some(room) if len > room => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left")),
            _ => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.operation()?.now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.operation()?;
        let offset = offset as usize;
        let bytes = state.now.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.operation()?;
        state.has_room(len)?;
        state.now.resize(len as usize, 0);
        state.unsynced.push(Change::Len(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.operation()?;
        state.syncs += 1;
        while state.stalls {
            state = self.0.1.wait(state).unwrap();
        }
        let State { now, synced, .. } = &mut *state;
        synced.clone_from(now);
        state.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.operation()?;
        let end = offset as usize + data.len();
        state.has_room(end as u64)?;
        if state.now.len() < end {
            state.now.resize(end, 0);
        }
        state.now[offset as usize..end].copy_from_slice(data);
        state.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}
