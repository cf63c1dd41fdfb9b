//! The store as the gate and the permissions know it.
//!
//! Each method says what is on the disk when it returns. redb blocks, so its reads run on the threads that
//! tokio has for that.

use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::{BoxFuture, Origin, StoreError, WallMillis};
use abide_permissions::{PermissionError, PermissionRecord, PermissionStore};

use crate::batch::changed;
use crate::error::Error;
use crate::store::Store;

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

impl RobotsStore for Store {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move {
            // What waits is newer than what is in the file.
            if let Some(record) = self.shared().waiting_record(origin)? {
                return Ok(Some(record));
            }
            let origin = origin.clone();
            Ok(self.on_disk(move |shared| shared.disk.robots(&origin)).await?)
        })
    }

    /// A record of a site that cannot be reached is on the disk when this returns: since when it has been so
    /// must not be lost.
    fn save<'a>(&'a self, _: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let is_urgent = record.failing_since().is_some();
            let pending = self.shared().put(is_urgent, |batch| batch.save(record.clone()))?;
            Ok(self.written(pending).await?)
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            // Also those that wait.
            self.flush().await?;
            Ok(self.on_disk(move |shared| shared.disk.sweep(older_than)).await?)
        })
    }
}

impl HostStore for Store {
    /// A backoff that was reported is on the disk when this returns.
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let (reply, pending) = self.shared().exchange(host, &ask)?;
            if pending.is_none() {
                return Ok(reply);
            }
            self.written(pending).await?;
            // The disk took its time, and what is left of a backoff or a lease is counted from the reply: it
            // is asked for again, with nothing to report.
            let ask = LeaseAsk { state: HostState::default(), ..ask };
            Ok(self.shared().exchange(host, &ask)?.0)
        })
    }

    /// The file is locked.
    fn is_shared(&self) -> bool {
        false
    }
}

impl PermissionStore for Store {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(async move {
            let waiting = self.shared().waiting_permission(url)?;
            let url = url.to_owned();
            match self.on_disk(move |shared| shared.disk.permission(&url)).await {
                // What waits is known all the same.
                Err(error) if waiting.is_empty() => Err(error.into()),
                on_disk => Ok(changed(on_disk.ok().flatten(), &waiting)),
            }
        })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        self.change_permission(record.url(), Some(record.clone()))
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        self.change_permission(url, None)
    }
}

impl Store {
    fn change_permission<'a>(
        &'a self,
        url: &'a str,
        change: Option<PermissionRecord>,
    ) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let pending = self.shared().put(false, |batch| batch.change_permission(url, change))?;
            Ok(self.written(pending).await?)
        })
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl From<Error> for PermissionError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}
