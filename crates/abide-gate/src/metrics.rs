//! Counts for the facade `metrics`. No label holds a host, so their number is bounded;
//! `docs/observability.md` lists them.
//!
//! An observer like any other: the crate does not depend on the facade without the feature.

use metrics::{counter, gauge, histogram};

use crate::Failure;
use crate::event::Event;
use crate::gate::Gate;
use crate::pacing::{BackoffCause, DeferReason};
use crate::robots_cache::Source;

/// Counts an event with the recorder that the program has installed: an observer.
///
/// ```
/// use std::sync::Arc;
/// use abide_gate::{Gate, record_metrics};
///
/// let settings = Gate::builder().observer(Arc::new(record_metrics));
/// ```
pub fn record_metrics(event: &Event<'_>) {
    match event {
        Event::RobotsAttempted { took, .. } => histogram!("abide_robots_seconds").record(*took),
        Event::RobotsAnswered { entry } => {
            counter!("abide_robots_total", "outcome" => outcome(entry.source())).increment(1);
            if entry.source() == Source::LastGood {
                // How old the copy was when it was asked for again and could not be had.
                let age = entry.age(entry.asked_at()).unwrap_or_default();
                histogram!("abide_robots_last_good_age_seconds").record(age);
            }
        }
        Event::RobotsChanged { .. } => counter!("abide_robots_changes_total").increment(1),
        Event::RobotsStoreFailed { .. } => {
            counter!("abide_store_faults_total", "store" => "robots").increment(1)
        }
        Event::Granted { waited, .. } => histogram!("abide_wait_seconds").record(*waited),
        Event::Deferred { reason, .. } => {
            counter!("abide_deferrals_total", "reason" => why(reason)).increment(1);
        }
        Event::BackedOff { cause, lasts, .. } => {
            counter!("abide_backoffs_total", "cause" => backed_off_by(*cause)).increment(1);
            histogram!("abide_backoff_seconds").record(*lasts);
        }
        Event::BreakerOpened { failure, .. } => {
            counter!("abide_breaker_openings_total", "fault" => fault_name(*failure)).increment(1);
        }
        Event::Refusing { by, lasts, .. } => {
            let by = by.map_or("unknown", |by| by.by());
            counter!("abide_refusal_holds_total", "by" => by).increment(1);
            histogram!("abide_refusal_hold_seconds").record(*lasts);
        }
        Event::BodyOpen { .. } => counter!("abide_bodies_open_long_total").increment(1),
        Event::StoreDown { .. } => counter!("abide_store_faults_total", "store" => "pacing").increment(1),
        Event::RateLimitIgnored { .. } => counter!("abide_rate_limits_ignored_total").increment(1),
        Event::StoreBack | Event::Overgrown { .. } | Event::FasterThanDefault { .. } => {}
        Event::Checked { verdict, .. } => {
            let decision = if verdict.is_allowed() { "allow" } else { "disallow" };
            counter!("abide_decisions_total", "decision" => decision).increment(1);
        }
        Event::Overridden { .. } => counter!("abide_decisions_total", "decision" => "override").increment(1),
        Event::Refused { denied, hop } => {
            let at = if *hop == 0 { "request" } else { "redirect" };
            counter!("abide_refusals_total", "refusal" => denied.name(), "at" => at).increment(1);
        }
    }
}

/// Sets the gauges: what is in flight, waiting, backed off and known at this moment. Call it every few
/// seconds.
pub fn sample_metrics(gate: &Gate) {
    let stats = gate.stats();
    for (name, count) in [
        ("abide_hosts", stats.hosts),
        ("abide_hosts_backed_off", stats.backed_off),
        ("abide_hosts_refusing", stats.refusing),
        ("abide_in_flight", stats.in_flight),
        ("abide_waiting", stats.waiting),
        ("abide_robots_in_flight", stats.robots_in_flight),
    ] {
        gauge!(name).set(count as f64);
    }
}

fn outcome(source: Source) -> &'static str {
    match source {
        Source::Fresh => "fetched",
        Source::Revalidated => "confirmed",
        Source::Unavailable(_) | Source::TooManyRedirects => "unavailable",
        Source::Unreachable(_) => "unreachable",
        Source::LastGood => "last_good",
        Source::LongOutage => "long_outage",
    }
}

fn why(reason: &DeferReason) -> &'static str {
    match reason {
        DeferReason::Backoff { .. } => "backoff",
        DeferReason::Delay { .. } => "delay",
        DeferReason::InFlight { .. } => "in_flight",
        DeferReason::Breaker { .. } => "breaker",
        DeferReason::RateLimit => "rate_limit",
        DeferReason::Redirect { .. } => "redirect",
        DeferReason::Robots => "robots",
        DeferReason::OtherProcess => "other_process",
        DeferReason::Store { .. } => "store",
    }
}

fn backed_off_by(cause: BackoffCause) -> &'static str {
    match cause {
        BackoffCause::Answer { status: 403, .. } => "403",
        BackoffCause::Answer { status: 429, .. } => "429",
        BackoffCause::Answer { status: 503, .. } => "503",
        BackoffCause::Answer { .. } => "other_status",
        BackoffCause::EnhanceYourCalm => "enhance_your_calm",
        BackoffCause::Operator => "operator",
        BackoffCause::Shared => "shared",
        BackoffCause::Refusing { .. } => "refusing",
    }
}

fn fault_name(fault: Failure) -> &'static str {
    match fault {
        Failure::Refused | Failure::Connect => "refused",
        Failure::Timeout => "timeout",
        Failure::Reset => "reset",
        Failure::Protocol | Failure::HeadTooLarge => "protocol",
        Failure::EnhanceYourCalm => "enhance_your_calm",
        Failure::Dns => "name_not_found",
        Failure::NoRoute => "no_route",
        Failure::Status(_) => "server_error",
        _ if fault.is_tls() => "certificate",
        _ => "other",
    }
}
