#![doc = include_str!("../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/scaling.md")]
struct Scaling;

// The face.
mod error;
mod store;

// The connection, and the names of keys.
mod greeting;
mod key;
mod link;

// The traits.
mod access;
mod pacing;
#[cfg(feature = "permissions")]
mod permissions;

pub use error::Error;
pub use store::{Builder, Store};
