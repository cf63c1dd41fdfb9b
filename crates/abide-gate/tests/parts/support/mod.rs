//! What several tests share.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

pub(crate) mod faulty;
pub(crate) mod pacing;
pub(crate) mod robots_cache;
#[path = "../../it/scripted.rs"]
pub(crate) mod scripted;

pub(crate) fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Polls at most so often, also without being woken, then goes away.
pub(crate) async fn at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        context.waker().wake_by_ref();
        future.as_mut().poll(context).map(Some)
    })
    .await
}
