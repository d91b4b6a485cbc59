//! Figures of the export by OpenTelemetry, and of what is received by OTLP. See [`write_to`] and [`received`].

use recount_face_hooks::OtlpFigures;
use recount_otel::project::turns::{Instrument, TurnHistograms, page_label};
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
        turns(page, &figures);
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

/// The turns of exported runs, with the names of the GenAI conventions.
fn turns(page: &mut MetricsPage, figures: &[ExportFigures]) {
    let mut sum = TurnHistograms::default();
    figures.iter().for_each(|figures| sum.add_tenant(&figures.turns));
    for (instrument, unit, help) in [
        (
            Instrument::TokenUsage,
            None,
            "Tokens of the model turns of exported runs, as far as they report them.",
        ),
        (Instrument::OperationDuration, Some("seconds"), "Duration of the model turns of exported runs."),
    ] {
        if sum.of(instrument).is_empty() {
            continue;
        }
        page.family(instrument.page_name(), Kind::Histogram, unit, help);
        let scale = instrument.scale();
        for (set, values) in sum.of(instrument) {
            let names: Vec<String> = set.iter().map(|(attribute, _)| page_label(attribute)).collect();
            let labels = names.iter().zip(set).map(|(name, (_, value))| (name.as_str(), value.as_str()));
            let mut below = 0;
            let buckets = instrument.bounds().into_iter().zip(values.counts).map(|(bound, count)| {
                below += count;
                (bound as f64 / scale, below)
            });
            page.buckets(&labels.collect::<Vec<_>>(), buckets, values.count(), values.sum as f64 / scale);
        }
    }
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

#[cfg(test)]
mod tests {
    use recount_otel::project::turns::Turn;

    use super::*;

    #[test]
    fn sets_of_one_tenant_displace_none_of_another() {
        let of_tenant = |name: &str, models: usize| {
            let mut figures = ExportFigures::default();
            for at in 0..models {
                let model = format!("{name}{at}");
                let turn = Turn { model: Some(&model), duration_ms: Some(15), ..Turn::default() };
                figures.turns.note(&turn);
            }
            figures
        };
        let mut page = MetricsPage::default();
        turns(&mut page, &[of_tenant("a", 60), of_tenant("b", 60)]);
        let text = page.finish();
        for (name, at) in [("a", 0), ("a", 59), ("b", 0), ("b", 59)] {
            assert!(text.contains(&format!("gen_ai_request_model=\"{name}{at}\"")), "{name}{at}");
        }
        assert!(!text.contains("otel_metric_overflow"), "no tenant has too many");
    }

    #[test]
    fn turns_have_the_buckets_of_the_conventions() {
        let mut figures = ExportFigures::default();
        let turn = Turn { model: Some("m"), input_tokens: Some(5), duration_ms: Some(15), ..Turn::default() };
        figures.turns.note(&turn);
        let mut page = MetricsPage::default();
        turns(&mut page, &[figures.clone(), figures]);
        let text = page.finish();
        let chat = "gen_ai_operation_name=\"chat\",gen_ai_request_model=\"m\"";
        for line in [
            format!("gen_ai_client_token_usage_bucket{{{chat},gen_ai_token_type=\"input\",le=\"4.0\"}} 0"),
            format!("gen_ai_client_token_usage_bucket{{{chat},gen_ai_token_type=\"input\",le=\"16.0\"}} 2"),
            format!("gen_ai_client_token_usage_sum{{{chat},gen_ai_token_type=\"input\"}} 10"),
            "# UNIT gen_ai_client_operation_duration_seconds seconds".to_owned(),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{chat},le=\"0.01\"}} 0"),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{chat},le=\"0.02\"}} 2"),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{chat},le=\"81.92\"}} 2"),
            format!("gen_ai_client_operation_duration_seconds_sum{{{chat}}} 0.03"),
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
    }
}
