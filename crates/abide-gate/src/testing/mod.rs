//! For tests: the suites that every store passes, and a store in memory.
//!
//! A store of your own keeps the gate's invariants only if it does what the traits promise; `docs/stores.md`
//! shows how to run these.

#![allow(clippy::disallowed_methods, reason = "a test is the world outside")]
#![allow(clippy::restriction, reason = "a suite fails by panicking")]

use std::fmt::{Debug, Display};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub mod hosts;
mod memory_store;
pub mod robots_cache;

pub use memory_store::MemoryStore;

/// Panics unless the `call` of a store returned what was expected.
#[track_caller]
fn check(holds: bool, call: &str, expected: impl Display, found: impl Debug) {
    assert!(holds, "{call}: expected {expected}, found {found:?}");
}

/// What the `call` of a store returned, which must not be an error.
#[track_caller]
fn replied<T>(call: &str, result: Result<T, impl Display>) -> T {
    result.unwrap_or_else(|error| panic!("{call}: expected success, found the error: {error}"))
}

/// Drops a call after it has begun, as the gate does with one that takes too long.
async fn poll_once(call: impl Future) {
    let mut call = pin!(call);
    poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
}
