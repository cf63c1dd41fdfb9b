//! What is said of calls in `tracing` (feature `tracing`): origins only, never a path, a header field or a body. The names are listed
//! in `docs/observability.md`.

use std::error::Error;
#[cfg(feature = "tracing")]
use std::pin::Pin;
#[cfg(feature = "tracing")]
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, StatusCode};
use url::Url;

use abide_permissions::PermissionError;

/// The span of one call, `abide.request`. Without the feature `tracing` it is nothing.
#[derive(Debug)]
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl CallSpan {
    /// A call for `url` begins. It is the child of the span that is entered now.
    pub fn begin(method: &Method, url: &Url) -> Self {
        #[cfg(not(feature = "tracing"))]
        let _ = (method, url);
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "abide::request",
                "abide.request",
                %method,
                origin = %origin(url),
                hops = tracing::field::Empty,
                status = tracing::field::Empty,
                waited_ms = tracing::field::Empty,
            ),
        }
    }

    /// A part of the call, which is pinned elsewhere: polled within the span, and dropped wherever it is dropped.
    pub fn cover<F: Future + Unpin>(&self, calling: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return Covered { span: &self.span, future: calling };
        #[cfg(not(feature = "tracing"))]
        return calling;
    }

    /// The whole call: polled and dropped within the span, with what it holds.
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return tracing::Instrument::instrument(calling, self.span.clone());
        #[cfg(not(feature = "tracing"))]
        return calling;
    }

    /// The call has its answer, after so many requests, and has `waited` for their permits.
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {
        #[cfg(feature = "tracing")]
        self.span.record("hops", hops).record("status", status.as_u16()).record("waited_ms", millis(waited));
        #[cfg(not(feature = "tracing"))]
        let _ = (hops, status, waited);
    }
}

/// The span of one hop of a call, `abide.hop`, from its permit to the head of its answer: for clients that follow redirects. Without
/// the feature `tracing` it is nothing.
#[derive(Debug)]
pub(crate) struct HopSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl HopSpan {
    /// No span: the hop has not begun.
    pub(crate) const fn none() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::Span::none(),
        }
    }

    /// The request for `url` is about to acquire its permit; `number` have been answered before it.
    pub(crate) fn begin(number: usize, url: &Url) -> Self {
        #[cfg(not(feature = "tracing"))]
        let _ = (number, url);
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "abide::request",
                "abide.hop",
                hop = number,
                origin = %origin(url),
                status = tracing::field::Empty,
                waited_ms = tracing::field::Empty,
                wire_ms = tracing::field::Empty,
            ),
        }
    }

    /// Whether anybody listens to it.
    pub(crate) fn is_enabled(&self) -> bool {
        #[cfg(feature = "tracing")]
        return !self.span.is_disabled();
        #[cfg(not(feature = "tracing"))]
        return false;
    }

    /// A part of the hop, polled within the span, and pinned elsewhere.
    pub(crate) fn cover<F: Future + Unpin>(&self, sending: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return Covered { span: &self.span, future: sending };
        #[cfg(not(feature = "tracing"))]
        return sending;
    }

    /// A part of the hop in which nothing is awaited.
    pub(crate) fn within<T>(&self, sending: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let _entered = self.span.enter();
        sending()
    }

    /// The head of the answer is here: after `waited` for the permit, and `wire` on the wire.
    pub(crate) fn answered(&self, status: StatusCode, waited: Duration, wire: Duration) {
        #[cfg(feature = "tracing")]
        self.span
            .record("status", status.as_u16())
            .record("waited_ms", millis(waited))
            .record("wire_ms", millis(wire));
        #[cfg(not(feature = "tracing"))]
        let _ = (status, waited, wire);
    }
}

/// Tells that a request ended without an answer, and without a refusal, after `hops` that were answered.
///
/// Of `error` only the innermost cause is told: the sentences around it may hold the URL.
pub fn log_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop = hops,
        error = ?root_cause(error), "the network failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (hops, url, error);
}

/// Tells that permissions could not be kept.
pub(crate) fn not_persisted(url: &Url, error: &PermissionError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.permissions.not_persisted", target: "abide::permissions", origin = %origin(url),
        error = ?error.to_string(), "permissions could not be kept"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (url, error);
}

/// Where a URL leads, as it may be told.
#[cfg(feature = "tracing")]
fn origin(url: &Url) -> String {
    abide_gate::Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

#[cfg(feature = "tracing")]
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let cause = std::iter::successors(error.source(), |&cause| cause.source()).last();
    cause.map_or_else(|| "no cause is known".to_owned(), ToString::to_string)
}

#[cfg(feature = "tracing")]
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A future within a span. `tracing`'s own holds the span by value, and the future pinned.
#[cfg(feature = "tracing")]
struct Covered<'s, F> {
    span: &'s tracing::Span,
    future: F,
}

#[cfg(feature = "tracing")]
impl<F: Future + Unpin> Future for Covered<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.span.enter();
        Pin::new(&mut self.future).poll(context)
    }
}
