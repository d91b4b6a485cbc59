//! Figures of the export of traces, and of what is received by OTLP. See [`write_to`] and [`received`].

use recount_face_hooks::OtlpFigures;
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
        "recount_otel_runs_failed",
        None,
        "Exported runs that failed.",
        sum(|figures| figures.runs_failed),
    );
    page.family(
        "recount_otel_tokens",
        Kind::Counter,
        None,
        "Tokens that exported runs used, as far as they report them.",
    );
    page.sample("_total", &[("direction", "input")], sum(|figures| figures.input_tokens) as f64);
    page.sample("_total", &[("direction", "output")], sum(|figures| figures.output_tokens) as f64);
    page.family(
        "recount_otel_cost_usd",
        Kind::Counter,
        Some("usd"),
        "Cost of exported runs in US dollars, as far as they report it.",
    );
    page.sample("_total", &[], sum(|figures| figures.cost_micros_usd) as f64 / 1e6);
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

pub(super) fn received(page: &mut MetricsPage, figures: OtlpFigures) {
    let family = "Log records and spans that were received by OTLP: taken, or rejected for good.";
    page.family("recount_otlp_received", Kind::Counter, None, family);
    for (signal, outcome, count) in [
        ("logs", "taken", figures.records),
        ("logs", "rejected", figures.records_rejected),
        ("traces", "taken", figures.spans),
        ("traces", "rejected", figures.spans_rejected),
    ] {
        page.sample("_total", &[("signal", signal), ("outcome", outcome)], count as f64);
    }
}
