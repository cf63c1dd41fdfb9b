//! How long a server may send nothing while its next byte is awaited.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::Response;
use reqwest_middleware::Result;
use tokio::time::{Sleep, sleep};

use abide_gate::{Clock, SystemClock};

/// The default: longer than any site takes that answers at all.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Counts only while a byte is awaited. reqwest's `read_timeout` goes on while a caller is busy with what it has, and then fails the body
/// though the next byte is there.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    is_awaited: bool,
}

impl ReadTimeout {
    pub(crate) fn within(limit: Option<Duration>) -> Self {
        Self { limit, timer: None, is_awaited: false }
    }

    /// What was polled, or an error in its place when nothing has come for too long.
    fn check<T>(
        &mut self,
        polled: Poll<T>,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<T, ReadTimedOut>> {
        let (Poll::Pending, Some(limit)) = (&polled, self.limit) else {
            self.is_awaited = false;
            return polled.map(Ok);
        };
        let timer = match &mut self.timer {
            Some(timer) => {
                if !self.is_awaited {
                    timer.as_mut().set(sleep(limit));
                }
                timer
            }
            None => self.timer.insert(Box::pin(sleep(limit))),
        };
        self.is_awaited = true;
        // Not polled for long: what has come meanwhile may have given no decoded byte yet.
        let late = SystemClock.now().saturating_duration_since(timer.deadline().into_std());
        if late.saturating_mul(4) > limit {
            timer.as_mut().set(sleep(limit));
        }
        timer
            .as_mut()
            .poll(context)
            .map(|()| Err(ReadTimedOut { limit, source: io::ErrorKind::TimedOut.into() }))
    }

    /// The same of a frame of a body.
    pub(crate) fn check_frame<T, E: From<ReadTimedOut>>(
        &mut self,
        polled: Poll<Option<std::result::Result<T, E>>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<T, E>>> {
        self.check(polled, context).map(|frame| frame.unwrap_or_else(|silent| Some(Err(silent.into()))))
    }
}

/// The server was silent. Its source is an I/O error of the kind `TimedOut`, by which reqwest's `is_timeout` knows it.
#[derive(Debug, thiserror::Error)]
#[error("the server sent nothing for {limit:?} (Builder::read_timeout)")]
pub(crate) struct ReadTimedOut {
    limit: Duration,
    source: io::Error,
}

/// A request that waits for the head of its answer no longer than this.
pub(crate) fn with_read_timeout<F>(limit: Option<Duration>, sending: F) -> WithReadTimeout<F> {
    WithReadTimeout { sending, silence: ReadTimeout::within(limit) }
}

pub(crate) struct WithReadTimeout<F> {
    sending: F,
    silence: ReadTimeout,
}

impl<F: Future<Output = Result<Response>> + Unpin> Future for WithReadTimeout<F> {
    type Output = Result<Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Response>> {
        let polled = Pin::new(&mut self.sending).poll(context);
        let heard = self.silence.check(polled, context);
        heard.map(|heard| heard.unwrap_or_else(|silent| Err(reqwest_middleware::Error::middleware(silent))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_is_a_timeout_by_its_sources() {
        let error = with_read_timeout(Some(READ_TIMEOUT), std::future::pending()).await.unwrap_err();
        let mut sources =
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        assert!(sources.any(|error| error.downcast_ref().is_some_and(is_timeout)), "{error:?}");
    }
}
