//! Running code of the user's, which may panic.
//!
//! Observers, stores, clocks and fetches are the user's. A panic in one must neither end the task of a host
//! nor leave its lease taken.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs code of the user's. `None`: it panicked, and what it left half done must not be used.
pub fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// The same for a future, which is not polled again after a panic.
pub async fn caught_future<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
        Some(poll) => poll.map(Some),
        None => Poll::Ready(None),
    })
    .await
}
