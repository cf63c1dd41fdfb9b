//! Metrics that the stories of `tests/it` do not reach have the labels and values of `docs/observability.md`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{DAY, built, clock, origin};
use abide_gate::{Event, Failure, Gate, record_metrics};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tokio::time::sleep;

/// Writes down each count and each number with its name and labels.
#[derive(Debug, Clone, Default)]
struct Sheet(Arc<Mutex<Vec<(String, f64)>>>);

struct Line(Sheet, String);

impl Sheet {
    fn line(&self, key: &Key) -> Arc<Line> {
        let labels: String =
            key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
        Arc::new(Line(self.clone(), format!("{}{labels}", key.name())))
    }

    fn of(&self, name: &str) -> Vec<(String, f64)> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|(line, _)| line.starts_with(name)).cloned().collect()
    }
}

impl Line {
    fn write(&self, value: f64) {
        self.0.0.lock().unwrap().push((self.1.clone(), value));
    }
}

impl CounterFn for Line {
    fn increment(&self, value: u64) {
        self.write(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.write(value as f64);
    }
}

impl HistogramFn for Line {
    fn record(&self, value: f64) {
        self.write(value);
    }
}

impl Recorder for Sheet {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.line(key))
    }
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
        let sheet = Sheet::default();
        let event = Event::BreakerOpened { scope: "a.example", lasts: Duration::from_secs(60), failure };
        metrics::with_local_recorder(&sheet, || record_metrics(&event));
        assert_eq!(sheet.of(""), [(format!("abide_breaker_openings_total fault={word}"), 1.0)]);
        assert!(row.contains(word), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_last_good_copy_is_that_of_its_confirmation() {
    let sheet = Sheet::default();
    let _guard = metrics::set_default_local_recorder(&sheet);
    let fetch = ScriptedFetch::in_turn([Scripted::text("User-agent: *"), Scripted::status(503)]);
    let gate = built(Gate::builder().clock(clock()).observer(Arc::new(record_metrics)), &fetch);
    gate.answer(&origin()).await.unwrap();
    assert_eq!(sheet.of("abide_robots_last_good"), []);
    sleep(3 * DAY).await;
    gate.answer(&origin()).await.unwrap();
    let ages = sheet.of("abide_robots_last_good_age_seconds");
    assert!(matches!(ages[..], [(_, age)] if (age - 3.0 * DAY.as_secs_f64()).abs() < 5.0), "{ages:?}");
}
