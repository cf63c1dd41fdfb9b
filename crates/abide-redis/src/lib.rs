#![doc = include_str!("../README.md")]

// The face.
mod error;
mod store;

// The way to the servers, the connection, and the names of keys.
mod key;
mod link;
mod place;
mod script;

// The traits.
mod access;
mod hosts;
#[cfg(feature = "permissions")]
mod permissions;

pub use error::Error;
pub use store::{Builder, Store};
