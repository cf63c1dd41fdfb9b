//! What is said in `tracing` (feature `tracing`): origins only, never a URL, a body or a header field.

use crate::Origin;
use crate::access::{Answer, FetchError, Source, StoreError};

pub(crate) fn asked(answer: &Answer) {
    let (origin, source) = (answer.origin(), answer.source());
    #[cfg(feature = "tracing")]
    match source {
        Source::Fresh => tracing::debug!(%origin, "robots.txt fetched"),
        Source::Revalidated => tracing::debug!(%origin, "robots.txt confirmed"),
        Source::Unavailable(why) => {
            tracing::debug!(%origin, "robots.txt is unavailable, all is allowed: {why}")
        }
        Source::Unreachable(cause) => {
            tracing::warn!(%origin, "robots.txt is unreachable, all is disallowed: {cause}");
        }
        Source::LastGood => {
            tracing::warn!(%origin, "robots.txt is unreachable, the last good copy stands in")
        }
        Source::LongOutage => tracing::warn!(%origin, "robots.txt is unreachable for long, all is allowed"),
    }
    #[cfg(not(feature = "tracing"))]
    let _: (&Origin, Source) = (origin, source);
}

pub(crate) fn deferred(origin: &Origin) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%origin, "the robots.txt request was deferred by the pacing");
    #[cfg(not(feature = "tracing"))]
    let _ = origin;
}

pub(crate) fn failed(origin: &Origin, error: &FetchError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%origin, "the robots.txt request failed: {error}");
    #[cfg(not(feature = "tracing"))]
    let _ = (origin, error);
}

pub(crate) fn store_down(error: &StoreError) {
    #[cfg(feature = "tracing")]
    tracing::warn!("robots.txt records are kept in memory only for now: {error}");
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

pub(crate) fn store_back() {
    #[cfg(feature = "tracing")]
    tracing::info!("the store of robots.txt records works again");
}

pub(crate) fn observer_panicked() {
    #[cfg(feature = "tracing")]
    tracing::error!("an observer of robots.txt panicked; the event was lost for it");
}
