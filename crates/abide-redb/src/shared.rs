//! What all handles of a store share: what waits to be written, the hosts, and the thread that writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use abide_gate::pacing::{HostState, LeaseAsk, LeaseStatus, Want};
use abide_gate::robots_cache::{RobotsLeases, RobotsRecord};
use abide_gate::{Clock, Origin};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::batch::{Batch, Permission};
use crate::disk::Disk;
use crate::error::Error;
use crate::hosts::{Hosts, Now};
use crate::row::BackoffRow;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    clock: Arc<dyn Clock>,
    write_behind: Duration,
    hosts: Mutex<Hosts>,
    pub(crate) leases: RobotsLeases,
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
    /// The last commit failed, and why; and how many have in a row.
    fault: Option<Error>,
    faults: u32,
    phase: Phase,
    /// Those who wait until the file is given back.
    closers: Vec<Waiter>,
}

type Waiter = Sender<Result<(), Error>>;

#[derive(Debug, Default)]
enum Phase {
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

/// While the disk fails it is tried again after this, then after twice as long, and so on. Backoffs do not wait for it.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// Who waits for a commit.
#[derive(Debug)]
pub(crate) struct Pending(Receiver<Result<(), Error>>);

impl Pending {
    /// Waits until the commit is on the disk, which blocks no thread. `None`: the writer has gone without a word.
    pub(crate) async fn wait(self) -> Option<Result<(), Error>> {
        self.0.await.ok()
    }

    /// What has been said, if it has.
    pub(crate) fn now(mut self) -> Option<Result<(), Error>> {
        self.0.try_recv().ok()
    }
}

impl Shared {
    pub(crate) fn new(disk: Disk, clock: Arc<dyn Clock>, write_behind: Duration, hosts: Hosts) -> Self {
        let (hosts, queue, wake) = (Mutex::new(hosts), Mutex::default(), Condvar::new());
        Self { disk, clock, write_behind, hosts, leases: RobotsLeases::default(), queue, wake }
    }

    /// One step of a host's lease. It counts at once. `Some`: the host's backoff is not on the disk yet, and the caller has to wait for
    /// that.
    pub(crate) fn exchange(
        &self,
        host: &str,
        ask: &LeaseAsk,
    ) -> Result<((LeaseStatus, HostState), Option<Pending>), Error> {
        let now = Now::for_writing(&*self.clock);
        // Both are locked in this order: hosts, queue.
        let mut hosts = self.hosts();
        let mut queue = self.queue();
        // Under the locks: what is changed now is in what is written at the end.
        queue.check_open(&self.disk)?;
        let reply = hosts.exchange(host, ask, now);
        queue.batch.backoffs(hosts.take_changed());
        // Also if another call has put it there, whose commit may have failed: reported again, it is on the disk or an error again, and so
        // is the question whether the store is back. Another pacer that asks for the lease gets the backoff at once: it must not
        // take the store for away, and go by what it knows alone.
        let only_asks = matches!(ask.want, Want::Lease { .. }) && ask.state.backoff.is_none();
        let waits =
            !only_asks && queue.batches().any(|batch| matches!(batch.backoffs.get(host), Some(Some(_))));
        Ok((reply, waits.then(|| self.commit_soon(queue))))
    }

    /// These go with the next commit.
    pub(crate) fn change_later(&self, rows: impl IntoIterator<Item = (Arc<str>, Option<BackoffRow>)>) {
        self.queue().batch.backoffs(rows);
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.queue().check_open(&self.disk)
    }

    /// The record, if it still waits to be written.
    pub(crate) fn waiting_record(&self, origin: &Origin) -> Result<Option<RobotsRecord>, Error> {
        let queue = self.queue();
        queue.check_open(&self.disk)?;
        Ok(queue.batches().find_map(|batch| batch.records.get(origin)).cloned())
    }

    /// What waits to become of a record of permissions.
    pub(crate) fn waiting_permission(&self, url: &str) -> Result<Permission, Error> {
        let queue = self.queue();
        queue.check_open(&self.disk)?;
        let waiting = queue.batches().filter_map(|batch| batch.permissions.get(url)).cloned();
        Ok(waiting.reduce(Permission::after).unwrap_or_default())
    }

    /// Puts something into the next batch. `Some`: the caller has to wait until it is written.
    ///
    /// # Errors
    /// The fault of the last commit: what was put there is tried again, but it may never be written.
    pub(crate) fn put(
        &self,
        is_urgent: bool,
        put: impl FnOnce(&mut Batch),
    ) -> Result<Option<Pending>, Error> {
        let mut queue = self.queue();
        queue.check_open(&self.disk)?;
        match &queue.fault {
            Some(fault) if !is_urgent && queue.weight() > WEIGHT_MAX => return Err(fault.clone()),
            _ => put(&mut queue.batch),
        }
        let is_behind = queue.fault.is_none() && queue.weight() > WEIGHT_SOFT;
        if is_urgent || is_behind || self.write_behind.is_zero() {
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
        let (sender, receiver) = channel();
        queue.waiters.push(sender);
        self.wake.notify_one();
        Pending(receiver)
    }

    /// Makes the writer write everything and end. Every caller gets its result.
    pub(crate) fn close(&self) -> Pending {
        let now = Now::for_writing(&*self.clock);
        let hosts = self.hosts();
        let mut queue = self.queue();
        if matches!(queue.phase, Phase::Open) {
            queue.batch.backoffs(hosts.at_the_end(now));
            queue.phase = Phase::Closing;
            self.wake.notify_one();
        }
        let (sender, receiver) = channel();
        match &queue.phase {
            // It is received, because the other end is still here.
            Phase::Closed(result) => drop(sender.send(result.clone())),
            _ => queue.closers.push(sender),
        }
        Pending(receiver)
    }

    /// The writer has ended.
    fn closed_with(&self, result: Result<(), Error>) {
        let mut queue = self.queue();
        for closer in queue.closers.drain(..) {
            let _ = closer.send(result.clone());
        }
        // No caller waits in vain, should it have ended by a panic.
        queue.waiters.clear();
        queue.phase = Phase::Closed(result);
    }

    /// The writer's thread.
    pub(crate) fn write(&self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.write_behind()));
        self.closed_with(result.unwrap_or_else(|_| Err(self.closed())));
    }

    fn write_behind(&self) -> Result<(), Error> {
        loop {
            let (batch, waiters) = self.next_batch();
            let result = self.commit(&batch);
            for waiter in waiters {
                // A caller that does not wait any more need not know.
                let _ = waiter.send(result.clone());
            }
            if batch.closes {
                self.disk.close();
                return result;
            }
        }
    }

    /// Waits until something has to be written.
    fn next_batch(&self) -> (Arc<Batch>, Vec<Waiter>) {
        let mut queue = self.queue();
        loop {
            let is_last = !matches!(queue.phase, Phase::Open);
            let wait = queue.since.map(|since| self.pause(&queue).saturating_sub(since.elapsed()));
            if is_last || !queue.waiters.is_empty() || wait.is_some_and(|wait| wait.is_zero()) {
                return queue.take(is_last);
            }
            queue = match wait {
                Some(wait) => self.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn pause(&self, queue: &Queue) -> Duration {
        match queue.faults {
            0 => self.write_behind,
            n => AGAIN.saturating_mul(1 << n.saturating_sub(1).min(6)).min(AGAIN_MAX),
        }
    }

    fn commit(&self, batch: &Batch) -> Result<(), Error> {
        // Also with nothing to write while it fails: a caller asks whether it still does.
        let is_idle = batch.is_empty() && self.queue().fault.is_none();
        let result = if is_idle { Ok(false) } else { self.disk.commit(batch) };
        self.committed(batch, result)
    }

    fn committed(&self, batch: &Batch, result: Result<bool, Error>) -> Result<(), Error> {
        let mut queue = self.queue();
        queue.committing = None;
        match result {
            Ok(is_too_full) => {
                if is_too_full {
                    queue.since.get_or_insert_with(Instant::now);
                }
                queue.faults = 0;
                if queue.fault.take().is_some() {
                    tracing::info!(path = %self.disk.path().display(), "the store can be written again");
                }
                Ok(())
            }
            Err(error) => {
                let dropped = queue.batch.take_back(batch, WEIGHT_MAX);
                queue.since = Some(Instant::now());
                queue.faults = queue.faults.saturating_add(1);
                if queue.fault.replace(error.clone()).is_none() {
                    tracing::warn!(%error, "the store cannot be written: it is tried again");
                }
                if dropped > 0 {
                    tracing::warn!(dropped, "records that could not be written were dropped");
                }
                Err(error)
            }
        }
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

    /// What is to be written now. It is still read from here until it is on the disk.
    fn take(&mut self, is_last: bool) -> (Arc<Batch>, Vec<Waiter>) {
        self.since = None;
        self.batch.closes = is_last;
        let batch = Arc::new(std::mem::take(&mut self.batch));
        self.committing = Some(Arc::clone(&batch));
        (batch, std::mem::take(&mut self.waiters))
    }

    /// About how many bytes are in memory for the disk.
    fn weight(&self) -> usize {
        self.batches().map(Batch::weight).sum()
    }

    /// The newest first.
    fn batches(&self) -> impl Iterator<Item = &Batch> {
        [Some(&self.batch), self.committing.as_deref()].into_iter().flatten()
    }
}
