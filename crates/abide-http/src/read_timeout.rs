//! How long a server may send nothing while its next byte is awaited.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use abide_gate::{Clock, SystemClock};
use tokio::time::{Sleep, sleep};

/// `sending`, which waits no longer than `limit` for the head of its response. Then the error is of the kind `TimedOut`, by which reqwest's
/// `is_timeout` knows it.
pub fn with_read_timeout<F: Future + Unpin>(
    limit: Option<Duration>,
    sending: F,
) -> impl Future<Output = io::Result<F::Output>> + Unpin {
    WithReadTimeout { sending, timeout: ReadTimeout::new(limit) }
}

struct WithReadTimeout<F> {
    sending: F,
    timeout: ReadTimeout,
}

impl<F: Future + Unpin> Future for WithReadTimeout<F> {
    type Output = io::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.sending).poll(context);
        self.timeout.check(polled, context)
    }
}

/// Counts only while a byte is awaited. reqwest's `read_timeout` goes on while a caller is busy with what it has, and then fails the body
/// though the next byte is there.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    is_awaited: bool,
}

impl ReadTimeout {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, timer: None, is_awaited: false }
    }

    /// What was polled, or an error in its place when nothing has come for too long.
    fn check<T>(&mut self, polled: Poll<T>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let (Poll::Pending, Some(limit)) = (&polled, self.limit) else {
            self.is_awaited = false;
            return polled.map(Ok);
        };
        let timer = match &mut self.timer {
            Some(timer) => {
                // Not polled for long: what has come meanwhile may have given no decoded byte yet.
                let late = || SystemClock.now().saturating_duration_since(timer.deadline().into_std());
                if !self.is_awaited || late() > limit.checked_div(4).unwrap_or_default() {
                    timer.as_mut().set(sleep(limit));
                }
                timer
            }
            None => self.timer.insert(Box::pin(sleep(limit))),
        };
        self.is_awaited = true;
        let ended = timer.as_mut().poll(context);
        let text = || format!("the server sent nothing for {limit:?} (Builder::read_timeout)");
        ended.map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, text())))
    }

    /// The same of a frame of a body.
    pub(crate) fn check_frame<T, E: From<io::Error>>(
        &mut self,
        polled: Poll<Option<Result<T, E>>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, E>>> {
        self.check(polled, context).map(|frame| frame.unwrap_or_else(|error| Some(Err(error.into()))))
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
