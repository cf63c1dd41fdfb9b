//! What all handles of a store share: what waits to be written, the hosts, and the thread that writes.
//!
//! `store` and `traits` put rows into the queue; the thread takes them to `disk`. It holds this and not the
//! store, so that the last handle to be dropped can end it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide_gate::Origin;
use abide_gate::pacing::{HostState, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::RobotsRecord;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::batch::{Batch, PermissionChanges};
use crate::disk::{Disk, SavedBackoffs};
use crate::error::Error;
use crate::hosts::{Hosts, Now};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    hosts: Mutex<Hosts>,
    queue: Mutex<WriteQueue>,
    /// The writer is needed earlier than it thinks.
    wake: Condvar,
}

/// What waits for the writer.
#[derive(Debug, Default)]
struct WriteQueue {
    batch: Batch,
    /// On its way to the disk. Still read from here.
    committing: Option<Arc<Batch>>,
    /// Since when something has been waiting.
    since: Option<Instant>,
    /// Those who wait until everything that was asked for before is on the disk, or the file is given back.
    waiters: Vec<Sender<Result<(), Error>>>,
    /// The last commit failed, and why; and how many have in a row.
    fault: Option<Error>,
    faults: u32,
    phase: WriterPhase,
}

/// Waits for a commit, and for how it ended.
pub(crate) type PendingCommit = Receiver<Result<(), Error>>;

#[derive(Debug, Default)]
enum WriterPhase {
    #[default]
    Open,
    Closing,
    /// The file is given back; and whether everything was written.
    Closed(Result<(), Error>),
}

/// Above this a save waits for the disk, so that a fast crawler does not fill the memory.
const WEIGHT_SOFT: usize = 8 << 20;

/// Above this, while the disk fails, records are not kept for it.
const WEIGHT_MAX: usize = 32 << 20;

/// While the disk fails it is tried again after this, then after twice as long, and so on. Backoffs do not
/// wait for it.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);

impl Shared {
    pub(crate) fn new(disk: Disk, found: SavedBackoffs) -> Self {
        let mut queue = WriteQueue::default();
        let hosts = Hosts::load(found, Now::for_reading(&*disk.settings.clock), &mut queue.batch.backoffs);
        Self { disk, hosts: Mutex::new(hosts), queue: Mutex::new(queue), wake: Condvar::new() }
    }

    /// One step of a host's lease. It counts at once. `Some`: the host's backoff is not on the disk yet, and
    /// the caller has to wait for that.
    pub(crate) fn exchange(
        &self,
        host: &str,
        ask: &LeaseAsk,
    ) -> Result<((LeaseStatus, HostState), Option<PendingCommit>), Error> {
        let now = Now::for_writing(&*self.disk.settings.clock);
        // Both are locked in this order: hosts, queue. Under the locks, so that what is changed now is in
        // what is written at the end.
        let mut hosts = self.hosts();
        let mut queue = self.open_queue()?;
        let reply = hosts.exchange(host, ask, now, &mut queue.batch.backoffs);
        // Also if another call has put it there, whose commit may have failed: reported again, it is on the
        // disk or an error again, and so is the question whether the store is back. Another pacer that asks
        // for the lease gets the backoff at once: it must not take the store for away, and go by what it
        // knows alone.
        let only_asks = matches!(ask.want, Want::Lease { .. }) && ask.state.backoff.is_none();
        let waits =
            !only_asks && queue.batches().any(|batch| matches!(batch.backoffs.get(host), Some(Some(_))));
        Ok((reply, waits.then(|| self.commit_soon(queue))))
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_queue(&self) -> Result<MutexGuard<'_, WriteQueue>, Error> {
        let queue = self.queue();
        match queue.phase {
            WriterPhase::Open => Ok(queue),
            _ => Err(Error::closed(self.disk.path())),
        }
    }

    pub(crate) fn waiting_record(&self, origin: &Origin) -> Result<Option<RobotsRecord>, Error> {
        Ok(self.open_queue()?.batches().find_map(|batch| batch.records.get(origin)).cloned())
    }

    pub(crate) fn waiting_permission(&self, url: &str) -> Result<PermissionChanges, Error> {
        let queue = self.open_queue()?;
        let newest_first = queue.batches().filter_map(|batch| batch.permissions.get(url));
        Ok(newest_first.fold(Vec::new(), |newer, older| [&**older, &*newer].concat()))
    }

    /// Puts something into the next batch. `Some`: the caller has to wait until it is written.
    ///
    /// # Errors
    /// The fault of the last commit: what was put there is tried again, but it may never be written.
    pub(crate) fn put(
        &self,
        is_urgent: bool,
        put: impl FnOnce(&mut Batch),
    ) -> Result<Option<PendingCommit>, Error> {
        let mut queue = self.open_queue()?;
        match &queue.fault {
            Some(fault) if queue.weight() > WEIGHT_MAX => return Err(fault.clone()),
            _ => put(&mut queue.batch),
        }
        // While the disk fails, waiting for it would stop the crawl: then records are dropped instead.
        let is_behind = queue.fault.is_none() && queue.weight() > WEIGHT_SOFT;
        if is_urgent || is_behind || self.disk.settings.write_behind.is_zero() {
            return Ok(Some(self.commit_soon(queue)));
        }
        // The first that waits sets the time: a later one would put the commit off again and again.
        if queue.since.is_none() {
            queue.since = Some(Instant::now());
            self.wake.notify_one();
        }
        queue.fault.clone().map_or(Ok(None), Err)
    }

    pub(crate) fn flush(&self) -> Result<PendingCommit, Error> {
        Ok(self.commit_soon(self.open_queue()?))
    }

    fn commit_soon(&self, mut queue: MutexGuard<'_, WriteQueue>) -> PendingCommit {
        let (sender, receiver) = channel();
        queue.waiters.push(sender);
        self.wake.notify_one();
        receiver
    }

    /// Makes the writer write everything and end. Every caller gets its result.
    pub(crate) fn close(&self) -> PendingCommit {
        let now = Now::for_writing(&*self.disk.settings.clock);
        // Hosts before the queue, as in `exchange`.
        let hosts = self.hosts();
        let mut queue = self.queue();
        if let WriterPhase::Closed(result) = &queue.phase {
            let (sender, receiver) = channel();
            // It is received, because the other end is still here.
            let _ = sender.send(result.clone());
            return receiver;
        }
        if matches!(queue.phase, WriterPhase::Open) {
            hosts.at_the_end(now, &mut queue.batch.backoffs);
            queue.phase = WriterPhase::Closing;
        }
        self.commit_soon(queue)
    }

    /// The writer's thread. No caller waits in vain, should it end by a panic.
    pub(crate) fn write(&self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.write_behind()));
        self.disk.close();
        let result = result.unwrap_or_else(|_| Err(Error::closed(self.disk.path())));
        if let Err(error) = &result {
            tracing::warn!(%error, "the store could not be closed in order");
        }
        let mut queue = self.queue();
        for waiter in queue.waiters.drain(..) {
            let _ = waiter.send(result.clone());
        }
        queue.phase = WriterPhase::Closed(result);
    }

    /// Returns how the last commit ended. Those who wait for it wait until the file is given back, too.
    fn write_behind(&self) -> Result<(), Error> {
        loop {
            let mut queue = self.next_batch();
            let is_last = !matches!(queue.phase, WriterPhase::Open);
            // Taken before the commit: who asks from now on waits for the next one, which has what was put
            // meanwhile.
            let waiters = if is_last { Vec::new() } else { std::mem::take(&mut queue.waiters) };
            let batch = Arc::new(std::mem::take(&mut queue.batch));
            queue.since = None;
            queue.committing = Some(Arc::clone(&batch));
            drop(queue);
            let result = self.commit(batch);
            for waiter in waiters {
                // A caller that does not wait any more need not know.
                let _ = waiter.send(result.clone());
            }
            if is_last {
                return result;
            }
        }
    }

    fn next_batch(&self) -> MutexGuard<'_, WriteQueue> {
        let mut queue = self.queue();
        loop {
            let is_last = !matches!(queue.phase, WriterPhase::Open);
            let wait = queue.since.map(|since| self.pause(&queue).saturating_sub(since.elapsed()));
            if is_last || !queue.waiters.is_empty() || wait.is_some_and(|wait| wait.is_zero()) {
                return queue;
            }
            queue = match wait {
                Some(wait) => self.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn pause(&self, queue: &WriteQueue) -> Duration {
        match queue.faults {
            0 => self.disk.settings.write_behind,
            // Six doublings are 64 seconds, more than the longest pause.
            n => AGAIN.saturating_mul(1 << n.saturating_sub(1).min(6)).min(AGAIN_MAX),
        }
    }

    fn commit(&self, batch: Arc<Batch>) -> Result<(), Error> {
        // Also with nothing to write while it fails: a caller asks whether it still does.
        let is_idle = batch.is_empty() && self.queue().fault.is_none();
        let result = if is_idle { Ok(false) } else { self.disk.commit(&batch) };
        let mut queue = self.queue();
        queue.committing = None;
        match result {
            Ok(is_too_full) => {
                if is_too_full {
                    // The rest goes in the next transaction, after whatever waits: a backoff first of all.
                    queue.since.get_or_insert_with(Instant::now);
                }
                queue.faults = 0;
                if queue.fault.take().is_some() {
                    tracing::info!(path = %self.disk.path().display(), "the store can be written again");
                }
                Ok(())
            }
            Err(error) => {
                // What failed is older than what was put meanwhile, which must win.
                let later = std::mem::replace(&mut queue.batch, Arc::unwrap_or_clone(batch));
                queue.batch.extend(later);
                queue.since = Some(Instant::now());
                queue.faults = queue.faults.saturating_add(1);
                if queue.fault.replace(error.clone()).is_none() {
                    tracing::warn!(%error, "the store cannot be written: it is tried again");
                }
                Err(error)
            }
        }
    }
}

impl WriteQueue {
    /// About how many bytes are in memory for the disk.
    fn weight(&self) -> usize {
        self.batches().map(Batch::weight).sum()
    }

    /// The newest first.
    fn batches(&self) -> impl Iterator<Item = &Batch> {
        [Some(&self.batch), self.committing.as_deref()].into_iter().flatten()
    }
}
