#![doc = include_str!("../README.md")]

// The face.
mod error;
mod store;

// The connection: where it leads, what the database must have, and how statements run on it.
mod link;
mod schema;
mod target;

// The traits, and the versions of pages.
mod hosts;
mod pages;
#[cfg(feature = "permissions")]
mod permissions;
mod robots;

pub use error::Error;
pub use store::{Builder, Store};
