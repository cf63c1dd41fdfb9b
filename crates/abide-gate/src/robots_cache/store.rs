//! The trait of stores for robots.txt records, and all that one promises.
//!
//! The cache works without a store. With one, records outlive the process. Processes that also lease hosts in
//! a common store fetch a robots.txt once for all: the one that has the lease of the host requests it, and
//! the others find its record when they have the lease.

use std::fmt;

use crate::robots_cache::RobotsRecord;
use crate::{BoxFuture, Origin, StoreError, WallMillis};

/// Keeps robots.txt records between fetches, processes and restarts.
///
/// A store keeps what it is given and decides nothing. `docs/stores.md` shows how to write one. Every
/// implementation passes the suite `testing::robots_cache::conformance` (feature `testing`), which checks
/// what a store promises here:
///
/// * **Keys.** Each origin (scheme, host and port) has one record.
/// * **Format.** [`RobotsRecord::encode`] and [`RobotsRecord::decode`] turn a record into bytes and back.
///   What cannot be decoded (another version, a wrong checksum) is *absent*, not an error: it is fetched
///   again.
/// * **Time** is an argument. A store asks no clock, and drops no record for its age: an old one is the last
///   good copy that an outage needs. Times may go back, because the clock of a process can be set back.
/// * **Atomicity.** Each call is one step: other tasks and processes see it whole or not at all.
/// * **Cancellation.** The cache waits two seconds for a call
///   ([`with_store_timeout`](super::RobotsPolicy::with_store_timeout)), then drops its future. A dropped call
///   is done or not done, and leaves no lock behind.
/// * **Capacity.** A bounded store may forget any record, which costs a fetch, but takes in every new one:
///   one that it refused would be fetched for every page.
pub trait RobotsStore: fmt::Debug + Send + Sync + 'static {
    /// The record of `origin` that was saved last, or `None` if there is no readable one.
    fn load<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Result<Option<RobotsRecord>, StoreError>>;

    /// Keeps `record` in place of the last one, whatever the times in the two say. When it returns, every
    /// process loads this record.
    fn save<'a>(
        &'a self,
        origin: &'a Origin,
        record: &'a RobotsRecord,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes the records whose [`asked_at`](RobotsRecord::asked_at) is before `older_than`, and returns how
    /// many. Operators call it, and the cache never.
    fn sweep(&self, older_than: WallMillis) -> BoxFuture<'_, Result<u64, StoreError>>;
}
