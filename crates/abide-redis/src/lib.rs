#![doc = include_str!("../README.md")]

// The face.
mod error;
mod store;

// The connection: where it leads, how scripts run on it, and the names of keys.
mod key;
mod link;
mod script;
mod target;

// The traits.
mod hosts;
#[cfg(feature = "permissions")]
mod permissions;
mod robots;

pub use error::Error;
pub use store::{Builder, Store};
