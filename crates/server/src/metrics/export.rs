//! Figures of the export of traces. See [`write_to`].

use recount_otel::Exporter;

use super::text::{Kind, MetricsPage};

/// `last_position`: the sum over all tenants, if the stores respond.
pub(super) fn write_to(page: &mut MetricsPage, exporter: &Exporter, last_position: Option<u64>, now_ms: u64) {
    let figures: Vec<_> = exporter.figures().into_values().collect();
    let sum = |of: fn(&recount_otel::ExportFigures) -> u64| figures.iter().map(of).sum::<u64>();
    page.family(
        "recount_otel_spans",
        Kind::Counter,
        None,
        "Spans that the OpenTelemetry endpoint took, or rejected for good.",
    );
    page.sample("_total", &[("outcome", "exported")], sum(|figures| figures.spans) as f64);
    page.sample("_total", &[("outcome", "rejected")], sum(|figures| figures.rejected) as f64);
    page.counter(
        "recount_otel_runs",
        None,
        "Runs that were exported as traces.",
        sum(|figures| figures.runs),
    );
    page.counter(
        "recount_otel_requests_failed",
        None,
        "Requests that the OpenTelemetry endpoint did not take; they are repeated.",
        sum(|figures| figures.failed_requests),
    );
    if let Some(last) = last_position {
        page.gauge(
            "recount_otel_lag_events",
            None,
            "Events after the last one up to which ended runs were exported.",
            last.saturating_sub(sum(|figures| figures.exported_to)) as f64,
        );
    }
    let failing = figures.iter().filter_map(|figures| Some(figures.failing.as_ref()?.since_ms)).min();
    page.gauge(
        "recount_otel_failing_seconds",
        Some("seconds"),
        "How long the OpenTelemetry endpoint has not taken a request; 0 if it takes them.",
        failing.map_or(0.0, |since| now_ms.saturating_sub(since) as f64 / 1e3),
    );
}
