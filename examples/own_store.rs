//! A store of your own: robots.txt records, leases and backoffs of hosts, and permissions, in maps behind one
//! lock.
//!
//! `docs/stores.md` explains it. The tests of the examples include this file and run the suites on it.

#![allow(clippy::arithmetic_side_effects, reason = "an example counts a handful of pages")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide::{Abide, Origin};
use abide_examples::{Web, plain_client};
use abide_gate::pacing::{HostEntry, HostState, HostStore, LeaseAsk, LeaseStatus};
use abide_gate::robots_cache::{RobotsRecord, RobotsStore};
use abide_gate::{BoxFuture, StoreError, WallMillis};
use abide_permissions::{PermissionError, PermissionRecord, PermissionStore};
use tokio::time::Instant;

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

#[derive(Debug)]
pub(crate) struct OwnStore {
    opened: Instant,
    tables: Mutex<Tables>,
}

/// Each would be a table of a database, and each call below a transaction.
#[derive(Debug, Default)]
struct Tables {
    robots: HashMap<Origin, Vec<u8>>,
    hosts: HashMap<Arc<str>, HostEntry>,
    permissions: HashMap<String, PermissionRecord>,
}

impl Default for OwnStore {
    fn default() -> Self {
        Self { opened: Instant::now(), tables: Mutex::default() }
    }
}

impl OwnStore {
    /// No call awaits while it has the lock, so each is one step, and one that is dropped is done or not
    /// begun.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RobotsStore for OwnStore {
    fn load<'a>(&'a self, origin: &'a Origin) -> StoreFuture<'a, Option<RobotsRecord>> {
        Box::pin(async move {
            // What cannot be decoded is absent: it is fetched again.
            Ok(self.lock().robots.get(origin).and_then(|bytes| RobotsRecord::decode(bytes)))
        })
    }

    fn save<'a>(&'a self, origin: &'a Origin, record: &'a RobotsRecord) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.lock().robots.insert(origin.clone(), record.encode());
            Ok(())
        })
    }

    fn sweep(&self, older_than: WallMillis) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let robots = &mut self.lock().robots;
            let before = robots.len();
            robots.retain(|_, bytes| {
                RobotsRecord::decode(bytes).is_some_and(|record| record.asked_at() >= older_than)
            });
            Ok((before - robots.len()) as u64)
        })
    }
}

impl HostStore for OwnStore {
    fn exchange<'a>(&'a self, host: &'a str, ask: LeaseAsk) -> StoreFuture<'a, (LeaseStatus, HostState)> {
        Box::pin(async move {
            let hosts = &mut self.lock().hosts;
            // Under the lock, so that no exchange has an earlier time than the one before.
            let now = self.opened.elapsed();
            // Nothing is lost while processes run, so there is no grace.
            let reply = hosts.entry(host.into()).or_default().exchange(&ask, now, Duration::ZERO);
            if !hosts[host].is_in_use(now) {
                hosts.remove(host);
            }
            Ok(reply)
        })
    }
}

impl PermissionStore for OwnStore {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        Box::pin(async move { Ok(self.lock().permissions.get(url).cloned()) })
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            let permissions = &mut self.lock().permissions;
            if !permissions.get(record.url()).is_some_and(|kept| kept.outlives(record)) {
                permissions.insert(record.url().to_owned(), record.clone());
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        Box::pin(async move {
            self.lock().permissions.remove(url);
            Ok(())
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    let store = Arc::new(OwnStore::default());
    for crawler in ["first", "second"] {
        let builder = Abide::builder("ExampleBot")
            .user_agent("ExampleBot/1.0 (+https://example.com/bot)")
            .robots_store(store.clone())
            .host_store(store.clone())
            .permission_store(store.clone());
        let (abide, client) = web.stand_in(builder).build_with(plain_client())?;
        let page = abide.clone().wrap(client).get("http://bakery.example/bread.html").send().await?;
        let gate = abide.gate();
        println!("{crawler}: {}, {} requests for robots.txt", page.status(), gate.stats().robots_requests);
        // The lease of the host is given up by a task of its own.
        drop(page);
        gate.settled(Duration::from_secs(2)).await;
    }
    Ok(())
}
