use std::fmt;
use std::time::Duration;

use crate::access::Record;
use crate::{BoxFuture, Origin, StoreError, WallMillis};

/// Where records are kept between fetches, processes and restarts.
///
/// A store keeps what it is given and decides nothing. What it cannot read any more (another format, a wrong checksum) is
/// *absent*, not an error: it will be fetched again. Every implementation passes
/// the suite `testing::access::conformance` (feature `testing`).
pub trait AccessStore: fmt::Debug + Send + Sync + 'static {
    /// The record of `origin`, if there is a readable one.
    fn load<'a>(&'a self, origin: &'a Origin) -> BoxFuture<'a, Result<Option<Record>, StoreError>>;

    /// Keeps `record`. The last writer wins, and the lease of that origin has ended.
    fn save<'a>(&'a self, origin: &'a Origin, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Asks to be the one process that fetches this robots.txt, for at most `ttl` from `now`. The holder of a lease gets it
    /// again.
    fn lease<'a>(
        &'a self,
        origin: &'a Origin,
        holder: LeaseHolder,
        now: WallMillis,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>>;

    /// Gives a lease back without a record. Nothing happens unless `holder` holds it.
    fn release<'a>(
        &'a self,
        origin: &'a Origin,
        holder: LeaseHolder,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes the records that were last asked for before `older_than`, and says how many. Only ever done by hand.
    fn sweep(&self, older_than: WallMillis) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// Who asks for a lease: a number drawn once per process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseHolder(pub u64);

/// Who fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The one who asked.
    Leader,
    /// Another one, who has until then.
    Follow {
        /// The end of the other's lease.
        until: WallMillis,
    },
}
