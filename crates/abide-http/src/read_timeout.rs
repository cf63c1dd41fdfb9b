//! How long a server may send nothing while its next byte is awaited.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use abide_gate::{Clock, SystemClock};
use tokio::time::{Sleep, sleep};

/// `sending`, which waits no longer than `limit` for the head of its response. Then the error is of the kind `TimedOut`, by which reqwest's
/// `is_timeout` knows it. The future is not `Unpin`: pin it to poll it by hand.
pub async fn with_read_timeout<F: Future + Unpin>(
    limit: Option<Duration>,
    mut sending: F,
) -> io::Result<F::Output> {
    // In this future, which is allocated anyway: nearly all requests wait for their response, and so need a timer.
    let (mut timeout, mut timer) = (ReadTimeout { limit, is_awaited: false }, pin!(None));
    poll_fn(|context| {
        let polled = Pin::new(&mut sending).poll(context);
        timeout.check(polled, timer.as_mut(), context)
    })
    .await
}

/// Counts only while a byte is awaited. reqwest's `read_timeout` goes on while a caller is busy with what it has, and then fails the body
/// though the next byte is there.
#[derive(Debug)]
struct ReadTimeout {
    limit: Option<Duration>,
    is_awaited: bool,
}

impl ReadTimeout {
    /// What was polled, or an error in its place when nothing has come for too long.
    fn check<T>(
        &mut self,
        polled: Poll<T>,
        mut timer: Pin<&mut Option<Sleep>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let (Poll::Pending, Some(limit)) = (&polled, self.limit) else {
            self.is_awaited = false;
            return polled.map(Ok);
        };
        // Not polled for long: what has come meanwhile may have given no decoded byte yet.
        let late = |timer: &Sleep| SystemClock.now().saturating_duration_since(timer.deadline().into_std());
        let is_late = |timer| late(timer) > limit.checked_div(4).unwrap_or_default();
        if !self.is_awaited || timer.as_ref().as_pin_ref().is_none_or(|timer| is_late(timer.get_ref())) {
            timer.set(Some(sleep(limit)));
        }
        self.is_awaited = true;
        let ended = timer.as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(context));
        let text = || format!("the server sent nothing for {limit:?} (Builder::read_timeout)");
        ended.map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, text())))
    }
}

/// The same for the frames of a body.
#[derive(Debug)]
pub(crate) struct FrameTimeout {
    timeout: ReadTimeout,
    /// Made at the first frame that is awaited: many bodies are here when their head is read.
    timer: Option<Pin<Box<Option<Sleep>>>>,
}

impl FrameTimeout {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { timeout: ReadTimeout { limit, is_awaited: false }, timer: None }
    }

    pub(crate) fn check<T, E: From<io::Error>>(
        &mut self,
        polled: Poll<Option<Result<T, E>>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, E>>> {
        if polled.is_ready() || self.timeout.limit.is_none() {
            self.timeout.is_awaited = false;
            return polled;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(None)).as_mut();
        let frame = self.timeout.check(polled, timer, context);
        frame.map(|frame| frame.unwrap_or_else(|error| Some(Err(error.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure_of;

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_is_a_timeout() {
        let limit = Some(Duration::from_secs(60));
        let error = with_read_timeout(limit, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(failure_of(&error), Some(abide_gate::Failure::Timeout));
    }
}
