//! A server for tests that does exactly what it is told, and remembers what it saw.
//!
//! The tests judge by its log: what counts is what reached the wire.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/ai-training.md")]
struct AiTraining;

#[cfg(doctest)]
#[doc = include_str!("../../docs/observability.md")]
struct Observability;

#[cfg(doctest)]
#[doc = include_str!("../../docs/cookbook.md")]
struct Cookbook;

#[cfg(doctest)]
#[doc = include_str!("../../docs/migrating.md")]
struct Migrating;

#[cfg(doctest)]
#[doc = include_str!("../../docs/stores.md")]
struct Stores;

mod reply;
mod server;
mod silent;
mod tls;

pub use reply::{Reply, Step};
pub use server::{Names, Seen, Server};
pub use silent::{OWN_ADDRESSES, Silent};
pub use tls::Authority;
