//! Figures of the export by OpenTelemetry, and of what is received by OTLP. See [`write_to`] and [`received`].

use recount_face_hooks::OtlpFigures;
use recount_otel::{ExportFigures, Exporter, Signal, SignalFigures};

use super::text::{Kind, MetricsPage};

/// The names of the families about one signal.
struct Names {
    items: (&'static str, &'static str),
    requests_failed: (&'static str, &'static str),
    lag: (&'static str, &'static str),
    failing: (&'static str, &'static str),
}

const TRACES: Names = Names {
    items: ("recount_otel_spans", "Spans that the OpenTelemetry endpoint took, or rejected for good."),
    requests_failed: (
        "recount_otel_requests_failed",
        "Requests that the OpenTelemetry endpoint did not take; they are repeated.",
    ),
    lag: ("recount_otel_lag_events", "Events after the last one up to which ended runs were exported."),
    failing: (
        "recount_otel_failing_seconds",
        "How long the OpenTelemetry endpoint has not taken a request; 0 if it takes them.",
    ),
};

const LOGS: Names = Names {
    items: (
        "recount_otel_log_records",
        "Log records that the OpenTelemetry endpoint took, or rejected for good.",
    ),
    requests_failed: (
        "recount_otel_logs_requests_failed",
        "Requests with logs that the OpenTelemetry endpoint did not take; they are repeated.",
    ),
    lag: ("recount_otel_logs_lag_events", "Events after the last one that was exported as a log record."),
    failing: (
        "recount_otel_logs_failing_seconds",
        "How long the OpenTelemetry endpoint has not taken a request with logs; 0 if it takes them.",
    ),
};

/// `last_position`: the sum over all tenants, if the stores respond.
pub(super) fn write_to(page: &mut MetricsPage, exporter: &Exporter, last_position: Option<u64>, now_ms: u64) {
    let figures: Vec<_> = exporter.figures().into_values().collect();
    if exporter.endpoint(Signal::Traces).is_some() {
        runs(page, &figures);
    }
    for (signal, names) in [(Signal::Traces, TRACES), (Signal::Logs, LOGS)] {
        if exporter.endpoint(signal).is_some() {
            let figures: Vec<_> = figures.iter().map(|figures| figures.of(signal)).collect();
            sent(page, &names, &figures, last_position, now_ms);
        }
    }
}

fn sent(
    page: &mut MetricsPage,
    names: &Names,
    figures: &[&SignalFigures],
    last_position: Option<u64>,
    now_ms: u64,
) {
    let sum = |of: fn(&SignalFigures) -> u64| figures.iter().map(|figures| of(figures)).sum::<u64>();
    page.family(names.items.0, Kind::Counter, None, names.items.1);
    page.sample("_total", &[("outcome", "exported")], sum(|figures| figures.sent) as f64);
    page.sample("_total", &[("outcome", "rejected")], sum(|figures| figures.rejected) as f64);
    let (name, help) = names.requests_failed;
    page.counter(name, None, help, sum(|figures| figures.failed_requests));
    if let Some(last) = last_position {
        let lag = last.saturating_sub(sum(|figures| figures.exported_to));
        page.gauge(names.lag.0, None, names.lag.1, lag as f64);
    }
    let failing = figures.iter().filter_map(|figures| Some(figures.failing.as_ref()?.since_ms)).min();
    let failing = failing.map_or(0.0, |since| now_ms.saturating_sub(since) as f64 / 1e3);
    page.gauge(names.failing.0, Some("seconds"), names.failing.1, failing);
}

/// What exported runs used.
fn runs(page: &mut MetricsPage, figures: &[ExportFigures]) {
    let sum = |of: fn(&ExportFigures) -> u64| figures.iter().map(of).sum::<u64>();
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
