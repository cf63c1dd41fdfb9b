//! The read timeout: how long a server may send nothing.
//!
//! A host has one request in flight, so a server that is silent would keep its host for ever. Time counts
//! only while something is awaited.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep, timeout};

use abide_gate::{Clock, SystemClock};

/// `sending`, which waits no longer than `limit` for the head of its response. Its error is of the kind
/// `TimedOut`, by which reqwest's `is_timeout` knows it.
///
/// # Errors
/// The head has not come in time.
pub async fn with_read_timeout<F: Future>(limit: Option<Duration>, sending: F) -> io::Result<F::Output> {
    match limit {
        None => Ok(sending.await),
        Some(limit) => timeout(limit, sending).await.map_err(|_| timed_out(limit)),
    }
}

fn timed_out(limit: Duration) -> io::Error {
    let text = format!("the server sent nothing for {limit:?} (Builder::read_timeout)");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Counts only while a byte is awaited. reqwest's `read_timeout` goes on while a caller is busy with what it
/// has, and then fails the body though the next byte is there.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    limit: Option<Duration>,
    /// While a byte is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ReadTimeout {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, timer: None }
    }

    /// To be polled while nothing has come: an error when that has lasted too long.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(limit) = self.limit else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        let late = SystemClock.now().saturating_duration_since(timer.deadline().into_std());
        // Not polled for long: what has come meanwhile may have given no decoded byte yet.
        if late > limit.checked_div(4).unwrap_or_default() {
            timer.set(sleep(limit));
            ready!(timer.as_mut().poll(context));
        }
        Poll::Ready(timed_out(limit))
    }

    /// Something has come.
    pub(crate) fn end(&mut self) {
        self.timer = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use abide_gate::Failure;
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Has begun to wait for a byte.
    async fn begun(limit: Duration) -> ReadTimeout {
        let mut timeout = ReadTimeout::new(Some(limit));
        assert!(poll_fn(|context| Poll::Ready(timeout.poll(context))).await.is_pending());
        timeout
    }

    async fn fires_after(mut timeout: ReadTimeout) -> Duration {
        let began = Instant::now();
        poll_fn(|context| timeout.poll(context)).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_was_busy_waits_once_more() {
        let mut timeout = begun(4 * SECOND).await;
        tokio::time::sleep(6 * SECOND).await;
        assert!(poll_fn(|context| Poll::Ready(timeout.poll(context))).await.is_pending());
        assert_eq!(fires_after(timeout).await, 4 * SECOND);
        let timeout = begun(4 * SECOND).await;
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(fires_after(timeout).await, Duration::ZERO, "a quarter of the limit is in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_is_a_timeout() {
        let limit = Some(Duration::from_secs(60));
        let error = with_read_timeout(limit, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(crate::failure_of(&error), Some(Failure::Timeout));
    }
}
