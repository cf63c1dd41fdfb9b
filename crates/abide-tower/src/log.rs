//! What is said in `tracing` (feature `tracing`): origins only, never a path, a header field or a body. The names are listed in
//! `docs/observability.md`.

use std::error::Error;
use std::future::Future;

use http::{Method, Response};
use url::Url;

#[cfg(feature = "tracing")]
use abide_gate::Origin;
#[cfg(feature = "tracing")]
use abide_visit::Visit;
#[cfg(feature = "tracing")]
use tracing::Instrument;

/// The span of one request. Without the feature it is nothing.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Call {
    pub(crate) fn begin(method: &Method, url: &Url) -> Self {
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

    #[cfg(feature = "tracing")]
    pub(crate) fn cover<F: Future>(&self, visiting: F) -> tracing::instrument::Instrumented<F> {
        visiting.instrument(self.span.clone())
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn cover<F: Future>(&self, visiting: F) -> F {
        visiting
    }

    pub(crate) fn answered<B>(&self, response: &Response<B>) {
        #[cfg(feature = "tracing")]
        {
            let waited = Visit::of(response.extensions()).map(Visit::waited).unwrap_or_default();
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            self.span
                .record("hops", 1)
                .record("status", response.status().as_u16())
                .record("waited_ms", waited);
        }
        #[cfg(not(feature = "tracing"))]
        let _ = response;
    }
}

/// A request ended without an answer, and without a refusal.
pub(crate) fn failed(url: &Url, error: &(dyn Error + 'static)) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.request.failed", target: "abide::request", origin = %origin(url), hop = 0,
        error = ?root_cause(error), "the network failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (url, error);
}

#[cfg(feature = "tracing")]
fn origin(url: &Url) -> String {
    Origin::of(url).map_or_else(|_| url.scheme().to_owned(), |origin| origin.to_string())
}

/// The innermost sentence: the outer ones may hold the URL.
#[cfg(feature = "tracing")]
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut text = "no cause is known".to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}
