//! What is said in `tracing` (feature `tracing`): origins only, never a path, a header field or a body. The names are listed in
//! `docs/observability.md`.

#[cfg(feature = "tracing")]
use std::error::Error as _;
use std::time::Duration;

use reqwest::Request;
use reqwest_middleware::Result;
use url::Url;

#[cfg(feature = "tracing")]
use tracing::Instrument;

#[cfg(feature = "tracing")]
use abide_gate::Origin;

use crate::send::Sent;

/// The span of one call. Without the feature it is nothing.
#[derive(Debug, Clone)]
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

    /// Not `async`: a future that holds another one by value is twice its size while it begins.
    #[cfg(feature = "tracing")]
    pub(crate) fn cover<F: Future>(&self, walking: F) -> tracing::instrument::Instrumented<F> {
        walking.instrument(self.span.clone())
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn cover<F: Future>(&self, walking: F) -> F {
        walking
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

    #[cfg(feature = "tracing")]
    pub(crate) fn cover<F: Future>(&self, sending: F) -> tracing::instrument::Instrumented<F> {
        sending.instrument(self.span.clone())
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn cover<F: Future>(&self, sending: F) -> F {
        sending
    }

    pub(crate) fn answered(&self, sent: &Result<Sent>) {
        #[cfg(feature = "tracing")]
        if let Ok(sent) = sent {
            self.span.record("status", sent.response.status().as_u16());
            self.span.record("waited_ms", millis(sent.waited)).record("wire_ms", millis(sent.wire));
        }
        #[cfg(not(feature = "tracing"))]
        let _ = sent;
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
