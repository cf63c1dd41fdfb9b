//! What the pacer tells: to `tracing` (feature), and to an observer, for metrics.

use std::fmt;
use std::time::Duration;

use super::feedback::BackoffCause;
use super::refusal::DeferReason;
use crate::Failure;

/// Something worth counting. Hosts only: no URL, no path, nothing a user typed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PaceEvent<'a> {
    /// A request got its turn after this long.
    Granted {
        /// The host.
        scope: &'a str,
        /// Zero if it could go at once.
        waited: Duration,
    },
    /// A request was told to come back.
    Deferred {
        /// The host, or the group of hosts.
        scope: &'a str,
        /// In this time.
        wait: Duration,
        /// For this reason.
        reason: &'a DeferReason,
    },
    /// A host is held, or its hold is extended.
    Held {
        /// The host.
        scope: &'a str,
        /// So long from now.
        lasts: Duration,
        /// For this reason.
        cause: BackoffCause,
    },
    /// A host could not be reached several times in a row and is left alone.
    BreakerOpened {
        /// The host.
        scope: &'a str,
        /// So long from now.
        lasts: Duration,
        /// The last fault.
        fault: Failure,
    },
    /// A body has been open for long. Told once each: after 60 s when its host is asked for something else or the body ends, and after five
    /// minutes in any case.
    BodyOpen {
        /// The host.
        scope: &'a str,
        /// So long.
        open: Duration,
    },
    /// The shared store has stopped answering. Told once an outage.
    StoreDown {
        /// What it said.
        reason: &'a str,
    },
    /// The shared store answers again.
    StoreBack,
    /// More hosts are owed something than the table should hold. Told once.
    Overgrown {
        /// How many hosts are known.
        hosts: usize,
    },
    /// This host is crawled less considerately than the default. Told once, at the start.
    Exception {
        /// The host, or `every host`.
        scope: &'a str,
        /// The delay between its requests.
        gap: Duration,
        /// How many may be in flight.
        max_in_flight: u16,
    },
}

/// Hears of every [`PaceEvent`]. It is called in the middle of requests: count, and return. A panic in it is caught.
pub trait PaceObserver: fmt::Debug + Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &PaceEvent<'_>);
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn trace(_event: &PaceEvent<'_>) {}

/// The names are listed in `docs/observability.md`.
#[cfg(feature = "tracing")]
pub(crate) fn trace(event: &PaceEvent<'_>) {
    use tracing::{debug, info, trace, warn};
    match event {
        PaceEvent::Granted { scope, waited } => {
            trace!(name: "abide.pacing.granted", target: "abide::pacing", scope, ?waited, "it is our turn");
        }
        PaceEvent::Deferred { scope, wait, reason } => {
            debug!(name: "abide.pacing.deferred", target: "abide::pacing", scope, ?wait, ?reason, "deferred");
        }
        PaceEvent::Held { scope, lasts, cause } => {
            info!(name: "abide.pacing.held", target: "abide::pacing", scope, ?lasts, ?cause, "the host is held");
        }
        PaceEvent::BreakerOpened { scope, lasts, fault } => info!(
            name: "abide.pacing.breaker_opened", target: "abide::pacing", scope, ?lasts, %fault,
            "the host cannot be reached and is left alone"
        ),
        PaceEvent::BodyOpen { scope, open } => warn!(
            name: "abide.pacing.body_open", target: "abide::pacing", scope, ?open,
            "a response has been open for long: read its body to the end, or drop it"
        ),
        PaceEvent::StoreDown { reason } => warn!(
            name: "abide.pacing.store_down", target: "abide::pacing", ?reason,
            "the shared pacing store does not answer"
        ),
        PaceEvent::StoreBack => info!(
            name: "abide.pacing.store_back", target: "abide::pacing",
            "the shared pacing store answers again"
        ),
        PaceEvent::Overgrown { hosts } => warn!(
            name: "abide.pacing.overgrown", target: "abide::pacing", hosts,
            "more hosts are owed a delay than should be remembered; none is forgotten"
        ),
        PaceEvent::Exception { scope, gap, max_in_flight } => info!(
            name: "abide.pacing.exception", target: "abide::pacing", scope, ?gap, max_in_flight,
            "not paced by the polite default, as configured"
        ),
    }
}
