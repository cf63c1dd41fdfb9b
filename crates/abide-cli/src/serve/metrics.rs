//! Metrics as Prometheus reads them: those of the library (`docs/observability.md`), and two of the permits
//! that clients hold.
//!
//! Recorded for the whole process, because the library reports to the facade `metrics`, which has one
//! recorder.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::calls::Service;
use super::first;

/// Makes this process record metrics.
pub(crate) fn install() -> anyhow::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new().set_buckets(&SECONDS)?.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    Ok(handle)
}

pub(crate) fn render(service: &Service) -> String {
    if let Some(abide) = first(&service.crawlers) {
        // All crawlers pace hosts together.
        abide_gate::sample_metrics(abide.gate());
    }
    metrics::gauge!("abide_serve_permits").set(service.ledger.len() as f64);
    service.metrics.render()
}

/// Sums up what was recorded, so that it takes no more memory where it is never asked for.
pub(crate) async fn upkeep(service: Arc<Service>) {
    loop {
        tokio::time::sleep(EVERY).await;
        service.metrics.run_upkeep();
    }
}

const EVERY: Duration = Duration::from_secs(5);

/// Of all histograms, which are in seconds: from a free host to a backoff of a day.
const SECONDS: [f64; 14] =
    [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0];
