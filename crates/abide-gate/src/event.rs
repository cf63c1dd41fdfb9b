//! What the gate reports: to observers, for metrics, and to `tracing` (feature).
//!
//! One enum for all receivers, so that they cannot disagree. No lock is held while one runs, because it may
//! ask the gate for something.
//!
//! Observers are the user's: a panic in one loses the event for it, and nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::denied::Denied;
use crate::gate::Verdict;
use crate::pacing::{BackoffCause, DeferReason};
use crate::robots_cache::{GoodCopy, RobotsEntry};
use crate::{Failure, Origin, Refusal, StoreError, caught};

/// Something that happened, for observers. Events of pacing name hosts only: no URL and no path.
///
/// ```
/// use abide_gate::Event;
///
/// fn observe(event: &Event<'_>) {
///     match event {
///         Event::BackedOff { key, lasts, .. } => println!("{key} is backed off for {lasts:?}"),
///         Event::Refused { denied, .. } => println!("{denied}"),
///         _ => {}
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt to fetch a robots.txt ended.
    RobotsAttempted {
        /// Whose robots.txt it was.
        origin: &'a Origin,
        /// From its beginning to its end, waits and redirects included.
        took: Duration,
    },
    /// An attempt to fetch a robots.txt ended with this result. If it failed, the last good copy may apply
    /// ([`Source::LastGood`](crate::robots_cache::Source::LastGood)).
    RobotsAnswered {
        /// What is known now.
        entry: &'a Arc<RobotsEntry>,
    },
    /// The text of a robots.txt changed: a new one, the first one (`old` is `None`), or none, because the
    /// server has removed it.
    RobotsChanged {
        /// What it said.
        old: Option<&'a GoodCopy>,
        /// What is known now.
        entry: &'a Arc<RobotsEntry>,
    },
    /// The store of robots.txt records failed; the decision was made from memory and network.
    RobotsStoreFailed {
        /// Whose record it was.
        origin: &'a Origin,
        /// What the store said.
        error: &'a StoreError,
    },
    /// A request got its permit after this long.
    Granted {
        /// The host.
        key: &'a str,
        /// Zero if it could go at once.
        waited: Duration,
    },
    /// A request was deferred.
    Deferred {
        /// The host, or the name of the group of hosts.
        key: &'a str,
        /// How long from now.
        wait: Duration,
        /// Why.
        reason: &'a DeferReason,
    },
    /// A host is backed off, or its backoff is extended.
    BackedOff {
        /// The host.
        key: &'a str,
        /// How long from now.
        lasts: Duration,
        /// Why.
        cause: BackoffCause,
    },
    /// A response has a `RateLimit` or `X-RateLimit` field that no server can mean, such as a time below
    /// zero. It is ignored.
    RateLimitIgnored {
        /// The host.
        key: &'a str,
        /// Which field.
        field: &'static str,
    },
    /// A host could not be reached several times in a row, and nothing is sent to it for a while.
    BreakerOpened {
        /// The host.
        key: &'a str,
        /// How long from now.
        lasts: Duration,
        /// The last failure.
        failure: Failure,
    },
    /// A host has refused so many requests in a row that it is held: nothing is sent to it for a while.
    Refusing {
        /// The host.
        key: &'a str,
        /// How long from now.
        lasts: Duration,
        /// Who refuses, if that was recognised.
        by: Option<Refusal>,
        /// How many refusals in a row.
        responses: u32,
        /// The last status.
        status: u16,
    },
    /// A body has been open for 60 s. Reported once per body.
    BodyOpen {
        /// The host.
        key: &'a str,
        /// How long.
        open: Duration,
    },
    /// The shared store of hosts does not respond. Reported once an outage.
    StoreDown {
        /// What it said.
        reason: &'a str,
    },
    /// The shared store of hosts responds again.
    StoreBack,
    /// More hosts are in use than the table should hold. Reported once.
    Overgrown {
        /// How many hosts are known.
        hosts: usize,
    },
    /// A host is crawled faster than by default, as configured. Reported once, at the start.
    FasterThanDefault {
        /// The host, or `every host`.
        key: &'a str,
        /// The delay between its requests.
        delay: Duration,
        /// How many may be in flight.
        max_in_flight: u16,
    },
    /// A URL of this origin was checked against robots.txt.
    Checked {
        /// The origin.
        origin: &'a Origin,
        /// Allowed or not, and why.
        verdict: &'a Verdict,
    },
    /// robots.txt was overridden.
    Overridden {
        /// The origin.
        origin: &'a Origin,
        /// The reason that was given.
        reason: &'a str,
    },
    /// A request through a client ended with a refusal.
    Refused {
        /// Which.
        denied: &'a Denied,
        /// Which hop of the redirect chain it was; 0 is the request itself.
        hop: usize,
    },
}

#[cfg(feature = "tracing")]
impl Event<'_> {
    /// Says the events of pacing, and what came of a request, in `tracing` (feature). The names are listed in
    /// `docs/observability.md`. What happens to a robots.txt is said there.
    fn trace(&self) {
        use tracing::{debug, info, trace, warn};
        match self {
            Event::Granted { key, waited } => {
                trace!(name: "abide.pacing.granted", target: "abide::pacing", key, ?waited, "permit granted");
            }
            Event::Deferred { key, wait, reason } => {
                debug!(name: "abide.pacing.deferred", target: "abide::pacing", key, ?wait, ?reason, "deferred");
            }
            Event::BackedOff { key, lasts, cause } => {
                info!(name: "abide.pacing.backed_off", target: "abide::pacing", key, ?lasts, ?cause, "the host is backed off");
            }
            Event::RateLimitIgnored { key, field } => debug!(
                name: "abide.pacing.rate_limit_ignored", target: "abide::pacing", key, field,
                "the field has an absurd value and is ignored"
            ),
            Event::BreakerOpened { key, lasts, failure } => info!(
                name: "abide.pacing.breaker_opened", target: "abide::pacing", key, ?lasts, fault = %failure,
                "the host can't be reached; no requests are sent to it for now"
            ),
            Event::Refusing { key, lasts, by, responses, status } => warn!(
                name: "abide.pacing.refusing", target: "abide::pacing", key, ?lasts, by = by.map(|by| by.by()), responses, status,
                "the host refuses this crawler; no requests are sent to it for now"
            ),
            Event::BodyOpen { key, open } => warn!(
                name: "abide.pacing.body_open", target: "abide::pacing", key, ?open,
                "a response has been open for long: read its body to the end, or drop it"
            ),
            Event::StoreDown { reason } => warn!(
                name: "abide.pacing.store_down", target: "abide::pacing", ?reason,
                "the shared pacing store does not answer"
            ),
            Event::StoreBack => info!(
                name: "abide.pacing.store_back", target: "abide::pacing",
                "the shared pacing store answers again"
            ),
            Event::Overgrown { hosts } => warn!(
                name: "abide.pacing.overgrown", target: "abide::pacing", hosts,
                "more hosts are in use than the table should hold; all are kept"
            ),
            Event::FasterThanDefault { key, delay, max_in_flight } => info!(
                name: "abide.pacing.faster_than_default", target: "abide::pacing", key, ?delay, max_in_flight,
                "not paced by the polite default, as configured"
            ),
            Event::Overridden { origin, reason } => warn!(
                name: "abide.robots.overridden", target: "abide::robots", %origin, ?reason,
                "robots.txt is passed over"
            ),
            Event::Refused { denied, hop } => {
                let origin = Origin::of(denied.url()).ok();
                let origin = origin.as_ref().map(tracing::field::display);
                debug!(name: "abide.request.refused", target: "abide::request", origin, hop, refusal = denied.name(), "refused");
            }
            // The rest is reported elsewhere.
            _ => {}
        }
    }
}

pub(crate) type Observer = dyn Fn(&Event<'_>) + Send + Sync;

/// The observers of a gate, a cache or a pacer. Often none.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<[Arc<Observer>]>);

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<Observer>>) -> Self {
        Self(observers.into())
    }

    /// Reports what happened, never under a lock. Calls foreign code, and survives it.
    pub(crate) fn notify(&self, event: &Event<'_>) {
        #[cfg(feature = "tracing")]
        event.trace();
        for observer in self.0.iter() {
            if caught(|| observer(event)).is_none() {
                #[cfg(feature = "tracing")]
                tracing::error!(
                    name: "abide.observer_panicked", target: "abide",
                    "an observer panicked; the event was lost for it"
                );
            }
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.len())
    }
}
