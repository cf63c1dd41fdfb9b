#![doc = include_str!("../README.md")]

// What users hold.
mod builder;
mod error;
mod store;
mod traits;

// What all clones share: what waits, the leases and states of hosts, and the thread that writes.
mod hosts;
mod shared;

// The file.
mod batch;
mod disk;
mod place;
mod record_table;
mod row;

pub use builder::Builder;
pub use error::Error;
pub use redb::StorageBackend;
pub use store::{Store, StoreUsage};
