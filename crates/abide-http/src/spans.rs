//! The spans and events of calls in `tracing` (feature `tracing`): they show origins, never a path, a header field or a body.
//!
//! Both clients log with these, so a crawler's logs read alike whichever it uses. `docs/observability.md` lists the names.

use std::error::Error;
#[cfg(feature = "tracing")]
use std::pin::Pin;
#[cfg(feature = "tracing")]
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, StatusCode};
use url::Url;

use abide_permissions::PermissionError;

#[cfg(feature = "tracing")]
use crate::failure::root_cause;

/// The span of one call, `abide.request`, or of one hop of it. Without the feature `tracing` it is nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), url::ParseError> {
/// let span = abide_http::CallSpan::begin(&http::Method::GET, &"https://example.org/a".parse()?);
/// let page = span.instrument(async { http::Response::new("a page") }).await;
/// span.answered(1, page.status(), std::time::Duration::ZERO);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "a span that is nothing has no use for what it would show")
)]
impl CallSpan {
    /// Begins the span of a call for `url`, as a child of the current span.
    pub fn begin(method: &Method, url: &Url) -> Self {
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

    /// No span: the hop has not begun.
    pub(crate) const fn none() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::Span::none(),
        }
    }

    /// The span of a hop, `abide.hop`, from its permit to the head of its response. The request for `url` is about to acquire its permit;
    /// `number` have been answered before it.
    pub(crate) fn hop(number: usize, url: &Url) -> Self {
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

    /// Whether a subscriber records it.
    pub(crate) fn is_enabled(&self) -> bool {
        #[cfg(feature = "tracing")]
        return !self.span.is_disabled();
        #[cfg(not(feature = "tracing"))]
        return false;
    }

    /// A part of the call, which is pinned elsewhere: polled within the span, and dropped wherever it is dropped.
    pub fn cover<F: Future + Unpin>(&self, calling: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return Covered { span: &self.span, future: calling };
        #[cfg(not(feature = "tracing"))]
        return calling;
    }

    /// A part of the call in which nothing is awaited.
    pub(crate) fn within<T>(&self, sending: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let _entered = self.span.enter();
        sending()
    }

    /// The whole call: polled and dropped within the span, with what it holds.
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return tracing::Instrument::instrument(calling, self.span.clone());
        #[cfg(not(feature = "tracing"))]
        return calling;
    }

    /// The call has its response, after so many requests, and has `waited` for their permits.
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {
        #[cfg(feature = "tracing")]
        // Without a subscriber not even the numbers are computed.
        if self.is_enabled() {
            let waited = millis(waited);
            self.span.record("hops", hops).record("status", status.as_u16()).record("waited_ms", waited);
        }
    }

    /// The head of the hop's response is here: after `waited` for the permit, and `wire` on the wire.
    pub(crate) fn hop_answered(&self, status: StatusCode, waited: Duration, wire: Duration) {
        #[cfg(feature = "tracing")]
        if self.is_enabled() {
            let (waited, wire) = (millis(waited), millis(wire));
            self.span.record("status", status.as_u16()).record("waited_ms", waited).record("wire_ms", wire);
        }
    }
}

/// Logs that a request ended with a network error, after `hops` responses.
///
/// Only the innermost cause of `error` is logged, because the texts around it may contain the URL.
pub fn log_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop = hops,
        error = ?cause(error), "the network failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (hops, url, error);
}

/// Reports that permissions could not be stored.
pub(crate) fn not_persisted(url: &Url, error: &PermissionError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.permissions.not_persisted", target: "abide::permissions", origin = %origin(url),
        error = ?error.to_string(), "permissions could not be kept"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (url, error);
}

/// Of a URL only the origin is shown.
#[cfg(feature = "tracing")]
fn origin(url: &Url) -> String {
    abide_gate::Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

#[cfg(feature = "tracing")]
fn cause(error: &(dyn Error + 'static)) -> String {
    error.source().map_or_else(|| "no cause is known".to_owned(), |cause| root_cause(cause).to_string())
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
