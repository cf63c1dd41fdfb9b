//! What is said in `tracing` (feature `tracing`): origins only, never a path, a header field or a body. The names are listed in
//! `docs/observability.md`.

#[cfg(feature = "tracing")]
use std::error::Error as _;
#[cfg(feature = "tracing")]
use std::pin::Pin;
#[cfg(feature = "tracing")]
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::Request;
use url::Url;

#[cfg(feature = "tracing")]
use abide_gate::Origin;

/// The span of one call. Without the feature it is nothing.
#[derive(Debug)]
pub(crate) struct Call {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Call {
    pub(crate) fn begin(request: &Request) -> Self {
        #[cfg(not(feature = "tracing"))]
        let _ = request;
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "abide::request",
                "abide.request",
                method = %request.method(),
                origin = %origin(request.url()),
                hops = tracing::field::Empty,
                status = tracing::field::Empty,
                waited_ms = tracing::field::Empty,
            ),
        }
    }

    pub(crate) fn cover<F: Future + Unpin>(&self, walking: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return Covered { span: &self.span, future: walking };
        #[cfg(not(feature = "tracing"))]
        return walking;
    }

    pub(crate) fn answered(&self, hops: usize, status: u16, waited: Duration) {
        #[cfg(feature = "tracing")]
        self.span.record("hops", hops).record("status", status).record("waited_ms", millis(waited));
        #[cfg(not(feature = "tracing"))]
        let _ = (hops, status, waited);
    }
}

/// The span of one hop, from its turn to the head of its answer.
#[derive(Debug)]
pub(crate) struct Hop {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Hop {
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

    pub(crate) fn cover<F: Future + Unpin>(&self, sending: F) -> impl Future<Output = F::Output> {
        #[cfg(feature = "tracing")]
        return Covered { span: &self.span, future: sending };
        #[cfg(not(feature = "tracing"))]
        return sending;
    }

    /// Within the span, where nothing is waited for.
    pub(crate) fn within<T>(&self, sending: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let _entered = self.span.enter();
        sending()
    }

    pub(crate) fn answered(&self, status: u16, waited: Duration, wire: Duration) {
        #[cfg(feature = "tracing")]
        self.span
            .record("status", status)
            .record("waited_ms", millis(waited))
            .record("wire_ms", millis(wire));
        #[cfg(not(feature = "tracing"))]
        let _ = (status, waited, wire);
    }
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

/// A request ended without an answer, and without a refusal.
pub(crate) fn failed(hop: usize, url: &Url, error: &reqwest_middleware::Error) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop,
        error = ?root_cause(error), "the network failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (hop, url, error);
}

pub(crate) fn seems_to_follow() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.follows_redirects", target: "abide::build",
        "the inner client seems to follow redirects by itself: build it with redirect::Policy::none()"
    );
}

pub(crate) fn host_for_all() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.host_for_all", target: "abide::build",
        "the inner client seems to send one Host to every site: leave it out of default_headers"
    );
}

pub(crate) fn names_past_the_guard() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.names_past_the_guard", target: "abide::build",
        "names given to ClientBuilder::resolve go past the address guard: give them to abide's Builder::resolve"
    );
}

pub(crate) fn proxy_resolves() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.proxy", target: "abide::build",
        "a proxy or a unix socket is set: it resolves names itself, so resolved addresses are not guarded"
    );
}

#[cfg(feature = "tracing")]
fn origin(url: &Url) -> String {
    Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

#[cfg(feature = "tracing")]
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The innermost sentence: the outer ones hold the URL.
#[cfg(feature = "tracing")]
fn root_cause(error: &reqwest_middleware::Error) -> String {
    let mut text = "no cause is known".to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}
