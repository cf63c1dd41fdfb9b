#![doc = include_str!("../README.md")]

// What users hold.
mod builder;
mod error;
mod store;
mod traits;

// What all clones share: what waits, who has a turn, who asks for a robots.txt, and the thread that writes.
mod blocking;
mod leases;
mod shared;
mod turns;

// The file.
mod batch;
mod disk;
mod kind;
mod place;
mod row;

pub use builder::Builder;
pub use error::Error;
pub use redb::StorageBackend;
pub use store::{Store, Usage};
