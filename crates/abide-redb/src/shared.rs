//! What all handles of a store share: what waits to be written, the turns, and the thread that writes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide_gate::access::Record;
use abide_gate::{Clock, Origin, WallMillis};
use abide_permissions::PermissionRecord;

use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::Error;
use crate::leases::Leases;
use crate::turns::{Now, Turns};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    pub(crate) clock: Arc<dyn Clock>,
    write_behind: Duration,
    turns: Mutex<Turns>,
    leases: Mutex<Leases>,
    queue: Mutex<Queue>,
    /// The writer is needed earlier than it thinks.
    wake: Condvar,
}

/// What waits for the writer.
#[derive(Debug, Default)]
struct Queue {
    batch: Batch,
    /// On its way to the disk. Still read from here.
    committing: Option<Arc<Batch>>,
    /// Since when something has been waiting.
    since: Option<Instant>,
    /// Those who wait until everything that was asked for before is on the disk.
    waiters: Vec<Waiter>,
    /// The last commit failed, and why.
    fault: Option<Error>,
    phase: Phase,
}

type Waiter = Sender<Result<(), Error>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Closing,
    Closed,
}

/// Above this a save waits for the disk, so that a fast crawler does not fill the memory.
const WEIGHT_SOFT: usize = 8 << 20;

/// Above this, while the disk fails, records are dropped.
const WEIGHT_MAX: usize = 32 << 20;

/// While the disk fails it is tried this often.
const AGAIN: Duration = Duration::from_secs(1);

/// Who waits for a commit.
#[derive(Debug)]
pub(crate) struct Pending(Receiver<Result<(), Error>>);

impl Pending {
    /// Blocks until the commit is on the disk. `None`: nobody is left who could say so.
    pub(crate) fn wait(self) -> Option<Result<(), Error>> {
        self.0.recv().ok()
    }
}

impl Shared {
    pub(crate) fn new(disk: Disk, clock: Arc<dyn Clock>, write_behind: Duration, turns: Turns) -> Self {
        let (turns, leases, queue, wake) =
            (Mutex::new(turns), Mutex::default(), Mutex::default(), Condvar::new());
        Self { disk, clock, write_behind, turns, leases, queue, wake }
    }

    pub(crate) fn now(&self) -> Now {
        Now { at: self.clock.now(), wall: self.clock.wall() }
    }

    pub(crate) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.queue().check_open(&self.disk)
    }

    /// The record, if it still waits to be written.
    pub(crate) fn waiting_record(&self, origin: &Origin) -> Result<Option<Record>, Error> {
        let queue = self.queue();
        queue.check_open(&self.disk)?;
        Ok(queue.batches().find_map(|batch| batch.records.get(origin)).cloned())
    }

    /// The same for permissions. `Some(None)`: it is to be removed.
    pub(crate) fn waiting_permission(&self, url: &str) -> Result<Option<Option<PermissionRecord>>, Error> {
        let queue = self.queue();
        queue.check_open(&self.disk)?;
        Ok(queue.batches().find_map(|batch| batch.permissions.get(url)).cloned())
    }

    /// Puts something into the next batch. `Some`: the caller has to wait until it is written.
    ///
    /// # Errors
    /// The fault of the last commit: what was put there is tried again, but nobody knows whether it will ever be written.
    pub(crate) fn put(
        &self,
        is_urgent: bool,
        put: impl FnOnce(&mut Batch),
    ) -> Result<Option<Pending>, Error> {
        let mut queue = self.queue();
        queue.check_open(&self.disk)?;
        put(&mut queue.batch);
        if is_urgent || self.write_behind.is_zero() || queue.batch.weight() > WEIGHT_SOFT {
            return Ok(Some(self.commit_soon(queue)));
        }
        if queue.since.is_none() {
            queue.since = Some(Instant::now());
            self.wake.notify_one();
        }
        queue.fault.clone().map_or(Ok(None), Err)
    }

    /// Asks for a commit of everything that waits, now.
    pub(crate) fn flush(&self) -> Result<Pending, Error> {
        let queue = self.queue();
        queue.check_open(&self.disk)?;
        Ok(self.commit_soon(queue))
    }

    fn commit_soon(&self, mut queue: MutexGuard<'_, Queue>) -> Pending {
        let (tell, told) = channel();
        queue.waiters.push(tell);
        self.wake.notify_one();
        Pending(told)
    }

    /// Tells the writer to write everything and to end.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        if queue.phase == Phase::Open {
            queue.phase = Phase::Closing;
            self.wake.notify_one();
        }
    }

    /// The writer's thread.
    pub(crate) fn write_behind(&self) -> Result<(), Error> {
        loop {
            let (batch, waiters, is_last) = self.next_batch();
            let result = self.commit(batch, is_last);
            for waiter in waiters {
                // Whoever does not wait any more need not know.
                let _ = waiter.send(result.clone());
            }
            if is_last {
                self.disk.close();
                self.queue().phase = Phase::Closed;
                return result;
            }
        }
    }

    fn next_batch(&self) -> (Batch, Vec<Waiter>, bool) {
        let mut queue = self.queue();
        loop {
            let is_last = queue.phase != Phase::Open;
            let wait = queue.since.map(|since| self.pause(&queue).saturating_sub(since.elapsed()));
            if is_last || !queue.waiters.is_empty() || wait.is_some_and(|wait| wait.is_zero()) {
                queue.since = None;
                return (std::mem::take(&mut queue.batch), std::mem::take(&mut queue.waiters), is_last);
            }
            queue = match wait {
                Some(wait) => self.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn pause(&self, queue: &Queue) -> Duration {
        if queue.fault.is_some() { AGAIN.max(self.write_behind) } else { self.write_behind }
    }

    fn commit(&self, mut batch: Batch, closes: bool) -> Result<(), Error> {
        let now = self.now();
        batch.closes = closes;
        batch.turns = if closes { self.turns().take_all(now) } else { self.turns().take_unwritten(now) };
        let is_nothing = batch.is_empty() && batch.turns.is_empty() && !closes;
        let batch = Arc::new(batch);
        self.queue().committing = Some(Arc::clone(&batch));
        // Also with nothing to write while it fails: somebody asks whether it still does.
        let result = match is_nothing && self.queue().fault.is_none() {
            true => Ok(false),
            false => self.disk.commit(&batch),
        };
        self.committed(&batch, result)
    }

    fn committed(&self, batch: &Batch, result: Result<bool, Error>) -> Result<(), Error> {
        if result.is_err() {
            self.turns().untold(batch.turns.iter().map(|(scope, _)| scope.clone()));
        }
        let mut queue = self.queue();
        queue.committing = None;
        match result {
            Ok(is_too_full) => {
                if is_too_full {
                    queue.since.get_or_insert_with(Instant::now);
                }
                if queue.fault.take().is_some() {
                    tracing::info!(path = %self.disk.path().display(), "the store can be written again");
                }
                Ok(())
            }
            Err(error) => {
                let dropped = queue.batch.take_back(batch, WEIGHT_MAX);
                queue.since.get_or_insert_with(Instant::now);
                if queue.fault.replace(error.clone()).is_none() {
                    tracing::warn!(%error, "the store cannot be written: it is tried again every second");
                }
                if dropped > 0 {
                    tracing::warn!(dropped, "records that could not be written were dropped");
                }
                Err(error)
            }
        }
    }

    /// Removes the robots records that are older, also those that wait.
    pub(crate) fn sweep(&self, older_than: WallMillis) -> Result<u64, Error> {
        let pending = self.flush()?;
        pending.wait().unwrap_or_else(|| Err(self.closed()))?;
        self.disk.sweep(older_than)
    }

    pub(crate) fn closed(&self) -> Error {
        Error::Closed { path: self.disk.path().to_owned() }
    }
}

impl Queue {
    fn check_open(&self, disk: &Disk) -> Result<(), Error> {
        match self.phase {
            Phase::Open => Ok(()),
            _ => Err(Error::Closed { path: disk.path().to_owned() }),
        }
    }

    /// The newest first.
    fn batches(&self) -> impl Iterator<Item = &Batch> {
        [Some(&self.batch), self.committing.as_deref()].into_iter().flatten()
    }
}
