//! The spans and events of calls in `tracing`: they show origins, never a path, a header field or a body. The names are listed in
//! `docs/observability.md`.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, StatusCode};
use tracing::{Instrument, Span};
use url::Url;

use abide_gate::Origin;
use abide_permissions::PermissionError;

use crate::failure::root_cause;

/// The span of one call, `abide.request`, or of one hop of it.
#[derive(Debug)]
pub struct CallSpan(Span);

impl CallSpan {
    /// Begins the span of a call for `url`, as a child of the current span.
    pub fn begin(method: &Method, url: &Url) -> Self {
        Self(tracing::debug_span!(
            target: "abide::request",
            "abide.request",
            %method,
            origin = %origin(url),
            hops = tracing::field::Empty,
            status = tracing::field::Empty,
            waited_ms = tracing::field::Empty,
        ))
    }

    /// No span: the hop has not begun.
    pub(crate) const fn none() -> Self {
        Self(Span::none())
    }

    /// The span of a hop, `abide.hop`, from its permit to the head of its response. The request for `url` is about to acquire its permit;
    /// `number` have been answered before it.
    pub(crate) fn hop(number: usize, url: &Url) -> Self {
        Self(tracing::debug_span!(
            target: "abide::request",
            "abide.hop",
            hop = number,
            origin = %origin(url),
            status = tracing::field::Empty,
            waited_ms = tracing::field::Empty,
            wire_ms = tracing::field::Empty,
        ))
    }

    /// Whether a subscriber records it.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.0.is_disabled()
    }

    /// A part of the call, which is pinned elsewhere: polled within the span, and dropped wherever it is dropped.
    pub fn cover<F: Future + Unpin>(&self, calling: F) -> impl Future<Output = F::Output> {
        Covered { span: &self.0, future: calling }
    }

    /// A part of the call in which nothing is awaited.
    pub(crate) fn within<T>(&self, sending: impl FnOnce() -> T) -> T {
        self.0.in_scope(sending)
    }

    /// The whole call: polled and dropped within the span, with what it holds.
    pub fn instrument<F: Future>(&self, calling: F) -> impl Future<Output = F::Output> {
        calling.instrument(self.0.clone())
    }

    /// The call has its response, after so many requests, and has `waited` for their permits.
    pub fn answered(&self, hops: usize, status: StatusCode, waited: Duration) {
        if self.is_enabled() {
            let waited = millis(waited);
            self.0.record("hops", hops).record("status", status.as_u16()).record("waited_ms", waited);
        }
    }

    /// The head of the hop's response is here: after `waited` for the permit, and `wire` on the wire.
    pub(crate) fn hop_answered(&self, status: StatusCode, waited: Duration, wire: Duration) {
        if self.is_enabled() {
            let (waited, wire) = (millis(waited), millis(wire));
            self.0.record("status", status.as_u16()).record("waited_ms", waited).record("wire_ms", wire);
        }
    }
}

/// Logs that a request ended with a network error, after `hops` responses.
///
/// Only the innermost cause of `error` is logged, because the texts around it may contain the URL.
pub fn log_failed(hops: usize, url: &Url, error: &(dyn Error + 'static)) {
    let cause = error.source().map(|cause| root_cause(cause).to_string());
    let cause = cause.unwrap_or_else(|| "no cause is known".to_owned());
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop = hops,
        error = ?cause, "the network failed"
    );
}

/// Reports that permissions could not be stored.
pub(crate) fn not_persisted(url: &Url, error: &PermissionError) {
    tracing::warn!(
        name: "abide.permissions.not_persisted", target: "abide::permissions", origin = %origin(url),
        error = ?error.to_string(), "permissions could not be kept"
    );
}

/// Of a URL only the origin is shown.
fn origin(url: &Url) -> String {
    Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A future within a span. `tracing`'s own holds the span by value, and the future pinned.
struct Covered<'s, F> {
    span: &'s Span,
    future: F,
}

impl<F: Future + Unpin> Future for Covered<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.span.enter();
        Pin::new(&mut self.future).poll(context)
    }
}
