//! Serves `/metrics`: the figures of the server as OpenMetrics text. See [`page`].
//!
//! It must not know names: no run id, requested path or event text gets here, and every label has few values, known
//! beforehand.

mod export;
mod process;
mod requests;
mod text;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use recount_engine::EngineStats;
use recount_face_aep::FaceState;
use recount_log::Stats;
use tokio::time::Instant;

pub(crate) use self::requests::{Requests, count};
use self::text::{Kind, MetricsPage, Scale};
use crate::connection_limits::ConnectionLimits;
use crate::spread;
use crate::stores::Stores;
use crate::tenants::Tenants;
use crate::webhooks::WebhookService;

/// The sources of the figures.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) connections: Arc<ConnectionLimits>,
    pub(crate) places: FaceState,
    pub(crate) turns: recount_face_aap::FaceState,
    pub(crate) listeners: recount_face_aaep::FaceState,
    pub(crate) recorders: recount_face_hooks::FaceState,
    pub(crate) requests: Arc<Requests>,
    pub(crate) webhooks: Arc<WebhookService>,
    pub(crate) started: Instant,
    pub(crate) started_ms: u64,
}

pub(crate) async fn metrics(State(sources): State<Sources>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(text::MEDIA_TYPE)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, read(&sources).await).into_response()
}

/// The page with current figures.
pub(crate) async fn read(sources: &Sources) -> String {
    let stats = match sources.tenants.stats().await {
        Ok(stats) => Some(stats),
        Err(error) => {
            tracing::warn!(%error, "cannot read the statistics of the store");
            None
        }
    };
    spread::add_metrics(page(sources, stats.as_ref()), &sources.tenants).await
}

/// The whole page. If the store does not respond, its figures are omitted.
fn page(sources: &Sources, stats: Option<&EngineStats>) -> String {
    let mut page = MetricsPage::default();
    page.family(
        "recount_build",
        Kind::Info,
        None,
        "The version of the program, and of its SQLite or PostgreSQL.",
    );
    let engine =
        sources.tenants.stores().map_or(("sqlite", recount_log_sqlite::sqlite_version()), Stores::engine);
    let build = [("version", env!("CARGO_PKG_VERSION")), engine];
    page.sample("_info", &build, 1.0);
    page.gauge(
        "recount_uptime_seconds",
        Some("seconds"),
        "Time since the server started.",
        sources.started.elapsed().as_secs_f64(),
    );
    page.gauge(
        "recount_store_answers",
        None,
        "Whether the store answered this request: 1 or 0.",
        f64::from(u8::from(stats.is_some())),
    );
    if let Some(stats) = stats {
        log(&mut page, stats);
        store(&mut page, &stats.store);
        scrub(&mut page, stats);
        readers(&mut page, stats);
        waits(&mut page, stats);
    }
    connections(&mut page, &sources.connections);
    if let Some(audit) = sources.tenants.audit() {
        let lost = "Events of the audit trail that could not be recorded; they are in the log.";
        page.counter("recount_audit_events_lost", None, lost, audit.lost());
    }
    if let Some(exporter) = sources.tenants.exporter() {
        let last = stats.map(|stats| stats.store.last_position);
        export::write_to(&mut page, exporter, last, sources.tenants.default_engine().world().clock.now_ms());
    }
    export::received(&mut page, sources.recorders.otlp_figures());
    places(&mut page, sources);
    listeners(&mut page, sources);
    webhooks(&mut page, sources);
    sources.requests.write_to(&mut page);
    process::write_to(&mut page, sources.started_ms);
    page.finish()
}

fn log(page: &mut MetricsPage, stats: &EngineStats) {
    let store = &stats.store;
    page.counter("recount_events_committed", None, "Events that became durable.", stats.events_committed);
    page.histogram(
        "recount_append_seconds",
        Scale::Micros,
        "Time from queueing an append to its result, including rejected appends.",
        &store.append_micros,
    );
    page.histogram(
        "recount_sync_seconds",
        Scale::Micros,
        "Time to sync one commit to disk.",
        &store.sync_micros,
    );
    page.histogram(
        "recount_commit_appends",
        Scale::Whole,
        "Appends that shared a commit.",
        &store.group_appends,
    );
    page.counter("recount_commits_failed", None, "Commits that failed.", store.commits_failed);
    page.counter(
        "recount_appends_without_space",
        None,
        "Appends that were rejected because the disk is full.",
        stats.appends_full,
    );
    page.gauge("recount_runs_awake", None, "Runs with an active writer.", stats.runs_awake as f64);
    page.gauge("recount_runs_at_work", None, "Own runs with a worker.", stats.runs_at_work as f64);
    page.gauge("recount_runs_in_line", None, "Own runs that wait for a worker.", stats.runs_in_line as f64);
}

/// The progress and findings of the scrub.
fn scrub(page: &mut MetricsPage, stats: &EngineStats) {
    let scrubbed = &stats.scrub;
    page.counter("recount_scrub_rounds", None, "Completed rounds of the scrub.", scrubbed.rounds);
    page.counter("recount_scrub_events", None, "Events that the scrub has read.", scrubbed.events);
    page.gauge(
        "recount_damage_found",
        None,
        "Damage found at startup, by reads and by the scrub; recount doctor lists it.",
        scrubbed.findings.len() as f64 + scrubbed.more as f64,
    );
}

fn store(page: &mut MetricsPage, store: &Stats) {
    let bytes = Some("bytes");
    page.gauge(
        "recount_last_position",
        None,
        "The position of the newest event.",
        store.last_position as f64,
    );
    page.gauge("recount_runs", None, "Runs that were ever created.", store.streams as f64);
    page.gauge("recount_hot_events", None, "Events that are not sealed yet.", store.hot_records as f64);
    page.gauge("recount_hot_bytes", bytes, "Bytes of these events.", store.hot_bytes as f64);
    page.gauge("recount_sealed_events", None, "Sealed events.", store.sealed_records as f64);
    page.gauge("recount_sealed_bytes", bytes, "Bytes of these events.", store.sealed_bytes as f64);
    page.gauge("recount_database_bytes", bytes, "Size of the database file.", store.database_bytes as f64);
    page.gauge("recount_wal_bytes", bytes, "Size of the write-ahead log.", store.wal_bytes as f64);
}

fn readers(page: &mut MetricsPage, stats: &EngineStats) {
    let readers = stats.readers;
    let by_source = [
        ("live", readers.open - readers.from_store, readers.events_live),
        ("store", readers.from_store, readers.events_stored),
    ];
    page.family(
        "recount_readers",
        Kind::Gauge,
        None,
        "Readers that follow a run or the feed, by the source of their newest events: the live list, or the store for a slow reader.",
    );
    for (source, open, _) in by_source {
        page.sample("", &[("source", source)], open as f64);
    }
    page.family("recount_reader_events", Kind::Counter, None, "Events sent to following readers.");
    for (source, _, events) in by_source {
        page.sample("_total", &[("source", source)], events as f64);
    }
    page.gauge(
        "recount_reader_lag_events",
        None,
        "Events that the slowest reader has not received yet.",
        readers.lag_max as f64,
    );
}

fn waits(page: &mut MetricsPage, stats: &EngineStats) {
    if stats.prompt_waits.is_empty() {
        return;
    }
    page.family(
        "recount_human_wait_seconds",
        Kind::Histogram,
        Some("seconds"),
        "Time that approvals, clarifications and handoffs waited for a person, by kind and outcome.",
    );
    for ((kind, outcome), values) in &stats.prompt_waits {
        let labels = [("kind", kind.as_str()), ("outcome", outcome.as_str())];
        page.histogram_of(&labels, Scale::Millis, values);
    }
}

fn places(page: &mut MetricsPage, sources: &Sources) {
    page.family(
        "recount_streams_refused",
        Kind::Counter,
        None,
        "Streams that were rejected because a tenant had reached its limit, by face.",
    );
    let refused = [("aep", sources.places.streams_refused()), ("aap", sources.turns.streams_refused())];
    for (face, refused) in refused {
        page.sample("_total", &[("face", face)], refused as f64);
    }
    page.counter(
        "recount_artifacts_refused",
        None,
        "Artifact transfers that were rejected because a tenant had reached its limit.",
        sources.places.artifacts_refused(),
    );
}

fn listeners(page: &mut MetricsPage, sources: &Sources) {
    let figures = sources.listeners.figures();
    let bytes = Some("bytes");
    page.gauge(
        "recount_aaep_subscriptions",
        None,
        "Subscriptions of accessibility tools.",
        figures.subscriptions as f64,
    );
    page.gauge(
        "recount_aaep_projected_bytes",
        bytes,
        "Events in memory that all streams of accessibility tools share.",
        figures.projected_bytes as f64,
    );
    page.family(
        "recount_aaep_events",
        Kind::Counter,
        None,
        "Events for accessibility tools: sent, omitted by a filter, merged into another, or sent faster than \
         the agreed rate because the buffer was full.",
    );
    let counts = figures.counts;
    let outcomes = [
        ("sent", counts.sent),
        ("filtered", counts.filtered),
        ("merged", counts.merged),
        ("ahead", counts.ahead),
    ];
    for (outcome, count) in outcomes {
        page.sample("_total", &[("outcome", outcome)], count as f64);
    }
}

/// Webhooks by their configured names.
fn webhooks(page: &mut MetricsPage, sources: &Sources) {
    let statuses = sources.webhooks.statuses();
    if statuses.is_empty() {
        return;
    }
    let now_ms = sources.tenants.default_engine().world().clock.now_ms();
    let states: Vec<_> = statuses.iter().map(|status| (&*status.webhook.name, status.state())).collect();
    page.family(
        "recount_webhook_events",
        Kind::Counter,
        None,
        "Events of a webhook since it was configured: delivered, or given up.",
    );
    for (name, state) in &states {
        let outcomes = [("delivered", state.row.delivered), ("given_up", state.row.given_up)];
        for (outcome, count) in outcomes {
            page.sample("_total", &[("webhook", name), ("outcome", outcome)], count as f64);
        }
    }
    page.family(
        "recount_webhook_failing_seconds",
        Kind::Gauge,
        Some("seconds"),
        "Time since the deliveries of a webhook fail; 0 if they succeed.",
    );
    for (name, state) in &states {
        let failing = state.failing.as_ref().map_or(0, |failing| now_ms.saturating_sub(failing.since_ms));
        page.sample("", &[("webhook", name)], failing as f64 / 1_000.0);
    }
    page.family(
        "recount_webhook_disabled",
        Kind::Gauge,
        None,
        "Whether the receiver of a webhook ended the deliveries with status 410: 1 or 0.",
    );
    for (name, state) in &states {
        page.sample("", &[("webhook", name)], f64::from(u8::from(state.row.disabled.is_some())));
    }
}

fn connections(page: &mut MetricsPage, connections: &ConnectionLimits) {
    page.gauge("recount_connections", None, "Open connections.", connections.open() as f64);
    page.gauge(
        "recount_connections_max",
        None,
        "The limit of open connections.",
        connections.places_max() as f64,
    );
    page.counter(
        "recount_connections_accepted",
        None,
        "Connections that were accepted.",
        connections.accepted(),
    );
    page.counter(
        "recount_connections_refused",
        None,
        "Connections that were rejected at the limit.",
        connections.refused(),
    );
    page.counter(
        "recount_connections_stalled",
        None,
        "Connections that were closed because their peer accepted no data for too long.",
        connections.stalled(),
    );
}
