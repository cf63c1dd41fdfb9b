//! Metrics that the stories of `tests/it` do not reach have the labels and values of `docs/observability.md`.

use std::sync::Arc;
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, built, clock, origin};
use abide_gate::{Event, Failure, Gate, record_metrics};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;

/// Each count and each number with its name and labels.
fn written(recorder: &DebuggingRecorder) -> Vec<(String, f64)> {
    let lines = recorder.snapshotter().snapshot().into_vec().into_iter();
    let line = |(key, value): (metrics::Key, DebugValue)| {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => *value,
            DebugValue::Histogram(values) => *values[0],
        };
        (key.name().to_owned() + &labels.collect::<String>(), value)
    };
    lines.map(|(key, _, _, value)| line((key.key().clone(), value))).collect()
}

#[test]
fn the_failures_of_the_breaker_have_the_words_of_the_page() {
    let page = include_str!("../../../../../docs/observability.md");
    let row = page.lines().find(|row| row.contains("`abide_breaker_openings_total`")).unwrap();
    for (failure, word) in [
        (Failure::Refused, "refused"),
        (Failure::Timeout, "timeout"),
        (Failure::Reset, "reset"),
        (Failure::Protocol, "protocol"),
        (Failure::EnhanceYourCalm, "enhance_your_calm"),
        (Failure::Dns, "name_not_found"),
        (Failure::NoRoute, "no_route"),
        (Failure::CertificateUntrusted, "certificate"),
        (Failure::Other, "other"),
    ] {
        let recorder = DebuggingRecorder::new();
        let event = Event::BreakerOpened { key: "a.example", lasts: Duration::from_secs(60), failure };
        metrics::with_local_recorder(&recorder, || record_metrics(&event));
        assert_eq!(written(&recorder), [(format!("abide_breaker_openings_total fault={word}"), 1.0)]);
        assert!(row.contains(word), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_last_good_copy_is_that_of_its_confirmation() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let fetch = ScriptedFetch::in_turn([Scripted::text("User-agent: *"), Scripted::status(503)]);
    let gate = built(Gate::builder().clock(clock()).observer(Arc::new(record_metrics)), &fetch);
    gate.entry(&origin()).await.unwrap();
    assert!(!written(&recorder).iter().any(|(name, _)| name.starts_with("abide_robots_last_good")));
    sleep(3 * DAY).await;
    gate.entry(&origin()).await.unwrap();
    let written = written(&recorder);
    let ages = written.iter().filter(|(name, _)| name == "abide_robots_last_good_age_seconds");
    let ages: Vec<_> = ages.map(|(_, age)| (age / DAY.as_secs_f64()).round()).collect();
    assert_eq!(ages, [3.0], "{written:?}");
}
