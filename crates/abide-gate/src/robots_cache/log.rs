//! The `tracing` events of the robots.txt cache (feature `tracing`). They contain origins only, never a URL,
//! a body or a header field.
//!
//! Here and not where things happen, so that what is logged can be read in one go, beside
//! `docs/observability.md`, which lists the names.

#![cfg_attr(not(feature = "tracing"), allow(unused_imports, unused_variables, reason = "nothing is logged"))]

use std::mem::Discriminant;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::robots_cache::{FetchError, RobotsEntry, Source};
use crate::{Clock, Failure, Origin, StoreError, SystemClock};

pub(crate) fn asked(entry: &RobotsEntry) {
    let (origin, source) = (entry.origin(), entry.source());
    #[cfg(feature = "tracing")]
    match source {
        Source::Fresh => {
            tracing::debug!(name: "abide.robots.fetched", target: "abide::robots", %origin, "robots.txt fetched");
        }
        Source::Revalidated => {
            tracing::debug!(name: "abide.robots.confirmed", target: "abide::robots", %origin, "robots.txt confirmed");
        }
        Source::Unavailable(_) | Source::TooManyRedirects => {
            let cause = entry
                .status()
                .map_or("it redirects too often".to_owned(), |status| format!("it returned status {status}"));
            tracing::debug!(
                name: "abide.robots.unavailable", target: "abide::robots", %origin, cause,
                "robots.txt is unavailable, all is allowed"
            );
        }
        Source::Unreachable(cause) => {
            tracing::debug!(
                name: "abide.robots.unreachable", target: "abide::robots", %origin, %cause,
                "robots.txt is unreachable, all is disallowed"
            );
            warn_sometimes(origin, Some(cause));
        }
        Source::LastGood => {
            tracing::debug!(
                name: "abide.robots.last_good", target: "abide::robots", %origin,
                "robots.txt could not be fetched, the last good copy applies"
            );
            warn_sometimes(origin, None);
        }
        // Not once in ten minutes: from here on pages are fetched although no rules were seen.
        Source::LongOutage => tracing::warn!(
            name: "abide.robots.long_outage", target: "abide::robots", %origin,
            "robots.txt is unreachable for long, all is allowed"
        ),
    }
}

/// A broad crawl meets an unreachable robots.txt every second, so each cause is a warning once in ten
/// minutes. All are logged at debug level. Without a cause, the last good copy applies.
#[cfg(feature = "tracing")]
fn warn_sometimes(origin: &Origin, cause: Option<Failure>) {
    // At most one for each cause.
    static WARNED: Mutex<Vec<(Option<Discriminant<Failure>>, Instant)>> = Mutex::new(Vec::new());
    const WARN_EVERY: Duration = Duration::from_secs(10 * 60);
    let (now, mut warned) = (SystemClock.now(), WARNED.lock().unwrap_or_else(PoisonError::into_inner));
    let kind = cause.as_ref().map(std::mem::discriminant);
    match warned.iter_mut().find(|(other, _)| *other == kind) {
        Some((_, at)) if now.saturating_duration_since(*at) < WARN_EVERY => return,
        Some((_, at)) => *at = now,
        None => warned.push((kind, now)),
    }
    // A subscriber is foreign code: it is not called under the lock.
    drop(warned);
    let cause = cause.map_or("the last good copy applies".to_owned(), |cause| cause.to_string());
    tracing::warn!(
        name: "abide.robots.outage", target: "abide::robots", %origin, %cause,
        "robots.txt is unreachable; this cause is logged once in ten minutes, and each origin at the level debug"
    );
}

pub(crate) fn deferred(origin: &Origin) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.robots.deferred", target: "abide::robots", %origin,
        "the robots.txt request was deferred by the pacing"
    );
}

pub(crate) fn failed(origin: &Origin, error: &FetchError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        name: "abide.robots.failed", target: "abide::robots", %origin, error = %error,
        "the robots.txt request failed"
    );
}

pub(crate) fn store_down(error: &StoreError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.robots.store_down", target: "abide::robots", error = %error,
        "robots.txt records are kept in memory only for now"
    );
}

pub(crate) fn store_back() {
    #[cfg(feature = "tracing")]
    tracing::info!(
        name: "abide.robots.store_back", target: "abide::robots",
        "the store of robots.txt records works again"
    );
}

/// Puts a fetch into a span of its own, because it belongs to no request.
pub(crate) fn in_span<F: Future>(origin: &Origin, fetching: F) -> impl Future<Output = F::Output> + use<F> {
    #[cfg(feature = "tracing")]
    let fetching = tracing::Instrument::instrument(
        fetching,
        tracing::debug_span!(target: "abide::robots", parent: None, "abide.robots.fetch", %origin),
    );
    fetching
}
