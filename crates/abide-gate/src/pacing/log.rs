//! What the pacer says in `tracing` (feature).

use crate::event::Event;

#[cfg(not(feature = "tracing"))]
pub(crate) fn trace(_event: &Event<'_>) {}

/// The names are listed in `docs/observability.md`.
#[cfg(feature = "tracing")]
pub(crate) fn trace(event: &Event<'_>) {
    use tracing::{debug, info, trace, warn};
    match event {
        Event::Granted { scope, waited } => {
            trace!(name: "abide.pacing.granted", target: "abide::pacing", scope, ?waited, "it is our turn");
        }
        Event::Deferred { scope, wait, reason } => {
            debug!(name: "abide.pacing.deferred", target: "abide::pacing", scope, ?wait, ?reason, "deferred");
        }
        Event::BackedOff { scope, lasts, cause } => {
            info!(name: "abide.pacing.backed_off", target: "abide::pacing", scope, ?lasts, ?cause, "the host is held");
        }
        Event::BreakerOpened { scope, lasts, failure } => info!(
            name: "abide.pacing.breaker_opened", target: "abide::pacing", scope, ?lasts, fault = %failure,
            "the host cannot be reached and is left alone"
        ),
        Event::RateLimitIgnored { scope, field } => debug!(
            name: "abide.pacing.rate_limit_ignored", target: "abide::pacing", scope, field,
            "the field has an absurd value and is ignored"
        ),
        Event::BodyOpen { scope, open } => warn!(
            name: "abide.pacing.body_open", target: "abide::pacing", scope, ?open,
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
            "more hosts are owed a delay than should be remembered; none is forgotten"
        ),
        Event::Exception { scope, delay, max_in_flight } => info!(
            name: "abide.pacing.exception", target: "abide::pacing", scope, ?delay, max_in_flight,
            "not paced by the polite default, as configured"
        ),
        // The rest is reported elsewhere.
        _ => {}
    }
}
