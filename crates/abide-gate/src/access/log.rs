//! What is said in `tracing` (feature `tracing`): origins only, never a URL, a body or a header field. The names are listed in
//! `docs/observability.md`.

use crate::Origin;
use crate::access::{Answer, FetchError, Source, StoreError};

pub(crate) fn asked(answer: &Answer) {
    let (origin, source) = (answer.origin(), answer.source());
    #[cfg(feature = "tracing")]
    match source {
        Source::Fresh => {
            tracing::debug!(name: "abide.robots.fetched", target: "abide::robots", %origin, "robots.txt fetched");
        }
        Source::Revalidated => {
            tracing::debug!(name: "abide.robots.confirmed", target: "abide::robots", %origin, "robots.txt confirmed");
        }
        Source::Unavailable(cause) => tracing::debug!(
            name: "abide.robots.unavailable", target: "abide::robots", %origin, %cause,
            "robots.txt is unavailable, all is allowed"
        ),
        Source::Unreachable(cause) => tracing::warn!(
            name: "abide.robots.unreachable", target: "abide::robots", %origin, %cause,
            "robots.txt is unreachable, all is disallowed"
        ),
        Source::LastGood => tracing::warn!(
            name: "abide.robots.last_good", target: "abide::robots", %origin,
            "robots.txt could not be fetched, the last good copy applies"
        ),
        Source::LongOutage => tracing::warn!(
            name: "abide.robots.long_outage", target: "abide::robots", %origin,
            "robots.txt is unreachable for long, all is allowed"
        ),
    }
    #[cfg(not(feature = "tracing"))]
    let _: (&Origin, Source) = (origin, source);
}

pub(crate) fn deferred(origin: &Origin) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.robots.deferred", target: "abide::robots", %origin,
        "the robots.txt request was deferred by the pacing"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = origin;
}

pub(crate) fn failed(origin: &Origin, error: &FetchError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.robots.failed", target: "abide::robots", %origin, error = %error,
        "the robots.txt request failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (origin, error);
}

pub(crate) fn store_down(error: &StoreError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.robots.store_down", target: "abide::robots", error = %error,
        "robots.txt records are kept in memory only for now"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

pub(crate) fn store_back() {
    #[cfg(feature = "tracing")]
    tracing::info!(
        name: "abide.robots.store_back", target: "abide::robots",
        "the store of robots.txt records works again"
    );
}

pub(crate) fn observer_panicked() {
    #[cfg(feature = "tracing")]
    tracing::error!(
        name: "abide.observer_panicked", target: "abide",
        "an observer panicked; the event was lost for it"
    );
}

/// Puts a fetch, which belongs to nobody's request, into a span of its own.
#[cfg(feature = "tracing")]
pub(crate) fn in_span<F: Future>(origin: &Origin, fetching: F) -> tracing::instrument::Instrumented<F> {
    use tracing::Instrument;
    fetching.instrument(
        tracing::debug_span!(target: "abide::robots", parent: None, "abide.robots.fetch", %origin),
    )
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn in_span<F: Future>(_: &Origin, fetching: F) -> F {
    fetching
}
