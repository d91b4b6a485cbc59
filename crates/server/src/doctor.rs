//! Health checks: what each found, and what to do about it.
//!
//! [`Server`] checks a running server; [`offline`] checks a data folder that no server holds, and [`offline_database`] a
//! database. A new check is a new function that adds to the list.

mod database;
mod export;
mod folder;

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use recount_api::admin::{Check, Checkup};
use recount_api::reply::One;
use recount_engine::{Engine, EngineStats, Error, MissingBlob, Policy};
use recount_event::{Code, codec};
use recount_face_aep::Refusal;
use recount_log::Integrity;

pub use self::database::offline_database;
pub use self::folder::offline;
use crate::admin_json::json;
use crate::config::{Config, Options};
use crate::metrics::Sources;
use crate::spread;
use crate::stores::{Durability, Stores};
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::Tenants;
use crate::{Files, StartError, boxed, limits};

/// The state that the checks of a running server use.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) sources: Sources,
    pub(crate) stores: Stores,
}

/// With `full=true` every event's bytes are read.
pub(crate) async fn checkup(
    State(server): State<Server>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let full = match query.as_deref() {
        None | Some("" | "full=false") => false,
        Some("full=true") => true,
        Some(other) => {
            let shown: String = other.chars().take(80).collect();
            let detail = format!("invalid query {shown:?}; only full=true is allowed");
            return Err(Refusal::new(Code::ParameterInvalid, detail));
        }
    };
    let reply = One::new("checkup", Checkup { checks: server.checks(full).await });
    Ok(json(StatusCode::OK, &reply))
}

/// Checks the stores that a server with the configuration of this user would use.
#[boxed]
pub async fn offline_default(full: bool) -> Result<Vec<Check>, StartError> {
    let config = Config::settle(Options::default(), |name| std::env::var(name).ok())?;
    match &config.store {
        Some(_) => Ok(database::of_config(&config, full).await),
        None => Ok(offline(&config.data, full)),
    }
}

impl Server {
    async fn checks(&self, full: bool) -> Vec<Check> {
        let tenants = &self.sources.tenants;
        let mut checks = Vec::new();
        let (stores, in_folder) = (&self.stores, self.stores.database().is_none());
        let advice = if in_folder { folder::ADVICE } else { database::ADVICE };
        versions(&mut checks, &stores.engine_words());
        checks.push(Check::fine("tenants", tenants.count().to_string()));
        of_tenants(&mut checks, tenants, full, advice).await;
        spread::add_checks(&mut checks, tenants, full).await;
        match stores.durability() {
            Some(kept) => durability(&mut checks, kept),
            None => {
                let world = tenants.default_engine().world();
                database::settings(&mut checks, stores.wait_for(world, Stores::warnings).await);
            }
        }
        retention(&mut checks, tenants.retention());
        if in_folder {
            priority(&mut checks);
        }
        files(&mut checks, Files::now());
        let (open, most) = (self.sources.connections.open(), self.sources.connections.places_max());
        checks.push(Check::fine("connections", format!("{open} open, at most {most}")));
        main_limits(&mut checks);
        if let Some(exporter) = tenants.exporter() {
            export::add(&mut checks, exporter, tenants).await;
        }
        if let Some(pool) = tenants.agents() {
            pool.checks(&mut checks, tenants.default_engine().world()).await;
        }
        self.sources.webhooks.checks(&mut checks, tenants).await;
        if in_folder {
            folder::leftovers(&mut checks, stores.data());
        }
        folder::disk(&mut checks, stores.data());
        folder::permissions(&mut checks, stores.data());
        checks
    }
}

/// The checks of the tenants that this server serves.
async fn of_tenants(checks: &mut Vec<Check>, tenants: &Tenants, full: bool, advice: DamageAdvice) {
    for (name, engine) in tenants.all() {
        let mut of_tenant = Vec::new();
        store_answers(&mut of_tenant, &engine).await;
        integrity(&mut of_tenant, &engine, full, advice).await;
        if let Ok(stats) = engine.admin().stats().await {
            sizes(&mut of_tenant, &stats);
            failed_commits(&mut of_tenant, &stats);
        }
        clock(&mut of_tenant, &engine).await;
        if name != TENANT_DEFAULT {
            of_tenant.iter_mut().for_each(|check| check.name = format!("{} of {name}", check.name));
        }
        checks.extend(of_tenant);
    }
}

/// The checks of tenants that another server has handed over.
pub(crate) async fn of_hosted(tenants: &Tenants, full: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    of_tenants(&mut checks, tenants, full, database::ADVICE).await;
    checks
}

/// What to do about damage, which depends on the engine.
#[derive(Clone, Copy)]
struct DamageAdvice {
    damage: &'static str,
    /// About missing bytes of artifacts.
    lost: &'static str,
}

fn versions(checks: &mut Vec<Check>, engine: &str) {
    checks.push(Check::fine("version", format!("recount {}, {engine}", env!("CARGO_PKG_VERSION"))));
}

async fn store_answers(checks: &mut Vec<Check>, engine: &Engine) {
    const NAME: &str = "store";
    checks.push(match engine.admin().ready().await {
        Ok(()) => Check::fine(NAME, "reads and writes"),
        Err(error) => Check::problem(NAME, error.to_string(), error.code().row().remedy),
    });
}

async fn integrity(checks: &mut Vec<Check>, engine: &Engine, full: bool, advice: DamageAdvice) {
    const NAME: &str = "integrity";
    if !full {
        let scrubbed = engine.admin().scrub_report();
        checks.extend(scrubbed.findings.iter().map(|found| Check::problem(NAME, found, advice.damage)));
        if scrubbed.more > 0 {
            let value = format!("and {} more; the server's log names them", scrubbed.more);
            checks.push(Check::problem(NAME, value, advice.damage));
        }
        if scrubbed.findings.is_empty() {
            let (rounds, events) = (scrubbed.rounds, scrubbed.events);
            let value = format!(
                "no damage found; since the server started, the scrub has read {events} events in {rounds} \
                 complete rounds"
            );
            checks.push(Check::fine(NAME, value));
        }
        return;
    }
    let found = engine.admin().integrity().await;
    integrity_of(checks, found, engine.admin().missing_blobs().await, advice);
}

/// Reports the result of reading every event's bytes.
fn integrity_of(
    checks: &mut Vec<Check>,
    found: Result<Integrity, Error>,
    missing: Result<Vec<MissingBlob>, Error>,
    advice: DamageAdvice,
) {
    const NAME: &str = "integrity";
    match found {
        Ok(found) => {
            checks.extend(found.problems.iter().map(|problem| Check::problem(NAME, problem, advice.damage)));
            if found.problems.is_empty() {
                let (runs, events) = (found.readable_streams, found.readable_records);
                checks
                    .push(Check::fine(NAME, format!("{runs} runs with {events} events match their digests")));
            }
        }
        Err(error) => checks.push(Check::problem(NAME, error.to_string(), error.code().row().remedy)),
    }
    match missing {
        Ok(missing) => {
            checks.extend(missing.iter().map(|blob| Check::problem(NAME, blob.to_string(), advice.lost)))
        }
        Err(error) => checks.push(Check::problem(NAME, error.to_string(), error.code().row().remedy)),
    }
}

fn sizes(checks: &mut Vec<Check>, stats: &EngineStats) {
    let store = &stats.store;
    checks.push(Check::fine(
        "size",
        format!(
            "{} runs; {} events hot with {}, {} sealed with {}; database {}, write-ahead log {}",
            store.streams,
            store.hot_records,
            bytes(store.hot_bytes),
            store.sealed_records,
            bytes(store.sealed_bytes),
            bytes(store.database_bytes),
            bytes(store.wal_bytes),
        ),
    ));
}

/// Reports failed commits since the server started.
fn failed_commits(checks: &mut Vec<Check>, stats: &EngineStats) {
    const NAME: &str = "commits";
    let failed = stats.store.commits_failed;
    checks.push(match failed {
        0 => Check::fine(NAME, "none failed since the server started"),
        _ => Check::note(
            NAME,
            format!(
                "{failed} failed since the server started; {} appends failed because the disk was full",
                stats.appends_full
            ),
            "no acknowledged event is lost; see the server's log for the cause",
        ),
    });
}

/// Compares the clock with the newest event. Times never fall within a run, so a clock that went back delays them.
async fn clock(checks: &mut Vec<Check>, engine: &Engine) {
    let now = engine.world().clock.now_ms();
    let newest = match engine.read().last_position().await {
        Ok(last) if last > 0 => engine.read().read_feed(Some(last - 1), 1).await.ok(),
        _ => None,
    };
    let newest = newest.and_then(|(events, _)| events.into_iter().next());
    let newest = newest.and_then(|(_, bytes)| codec::decode(&bytes).ok()).map(|event| event.occurred_ms);
    checks.push(clock_check(now, newest));
}

fn clock_check(now: u64, newest: Option<u64>) -> Check {
    const NAME: &str = "clock";
    let shown = recount_event::time::format_ms(now);
    if now < limits::CLOCK_EARLIEST_MS {
        return Check::problem(NAME, format!("{shown}, which is in the past"), "set the machine's clock");
    }
    match newest {
        Some(newest) if newest > now + limits::CLOCK_AHEAD_MS_MAX => {
            let newest = recount_event::time::format_ms(newest);
            let value = format!("{shown}, but the newest event has the time {newest}");
            Check::problem(
                NAME,
                value,
                "set the machine's clock; until then new events get the time of the newest event",
            )
        }
        _ => Check::fine(NAME, shown),
    }
}

fn durability(checks: &mut Vec<Check>, durability: Durability) {
    const NAME: &str = "durability";
    checks.push(match durability {
        Durability::Strict => Check::fine(NAME, "strict: acknowledged events survive a power failure"),
        Durability::Relaxed => Check::note(
            NAME,
            "relaxed: a power failure may lose the last moments",
            "set store.durability to strict to prevent that",
        ),
    });
}

/// Reports the retention policy, for people who cannot read the configuration.
fn retention(checks: &mut Vec<Check>, kept: Option<(Policy, Duration)>) {
    let Some((policy, every)) = kept else { return };
    let bounds = [
        policy.max_age.map(|age| format!("for {}", time(age))),
        policy.max_events.map(|most| format!("at most {most} events")),
        policy.max_bytes.map(|most| format!("at most {} of events", bytes(most))),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    let value = match bounds.as_slice() {
        [] => "off: nothing is pruned".to_owned(),
        several => format!("ended runs are kept {}; checked every {}", several.join(", "), time(every)),
    };
    checks.push(Check::fine("retention", value));
}

/// A length of time in its largest whole unit, as the configuration writes it.
fn time(length: Duration) -> String {
    let seconds = length.as_secs();
    let unit = [(86_400, "d"), (3_600, "h"), (60, "m")]
        .into_iter()
        .find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    match unit {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// The store's writer requests a priority at start, and continues without it if refused.
fn priority(checks: &mut Vec<Check>) {
    const NAME: &str = "priority";
    let niceness = recount_log_sqlite::limits::WRITER_NICENESS;
    checks.push(if can_raise_priority(niceness) {
        Check::fine(NAME, format!("the store's writer may use {niceness}"))
    } else {
        Check::note(
            NAME,
            "the store's writer runs at normal priority",
            format!(
                "latency rises when the machine is busy; allow a nice limit of {niceness} \
                 (LimitNICE={niceness})"
            ),
        )
    });
}

/// Tries to raise the priority, on a thread of its own that ends afterwards.
#[cfg(target_os = "linux")]
fn can_raise_priority(niceness: i32) -> bool {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let raised = Arc::new(AtomicBool::new(false));
    let outcome_flag = raised.clone();
    let tried = recount_world::thread("recount-doctor", move || {
        let outcome = rustix::process::setpriority_process(None, niceness);
        outcome_flag.store(outcome.is_ok(), Ordering::SeqCst);
    });
    tried.join().is_ok() && raised.load(Ordering::SeqCst)
}

#[cfg(not(target_os = "linux"))]
fn can_raise_priority(_: i32) -> bool {
    false
}

fn files(checks: &mut Vec<Check>, files: Files) {
    const NAME: &str = "open files";
    let (soft, hard) = (crate::files::limit_text(files.soft), crate::files::limit_text(files.hard));
    let raised = if soft == hard { String::new() } else { format!(", can be raised to {hard}") };
    let value = format!("at most {soft}{raised}; enough for {} connections", files.connections_max());
    let wanted = limits::CONNECTIONS_MAX + limits::FILES_KEPT;
    checks.push(if files.connections_max() < limits::CONNECTIONS_MAX {
        Check::note(
            NAME,
            value,
            format!("for {} connections allow {wanted} (LimitNOFILE={wanted})", limits::CONNECTIONS_MAX),
        )
    } else {
        Check::fine(NAME, value)
    });
}

/// The limits that people meet most; docs/limits.md has more.
fn main_limits(checks: &mut Vec<Check>) {
    let bounds = [
        ("connections", limits::CONNECTIONS_MAX),
        ("streams", recount_face_aep::limits::STREAMS_MAX),
        ("events a batch", recount_engine::limits::BATCH_EVENTS_MAX),
        ("bytes a batch", recount_face_aep::limits::BATCH_BODY_BYTES_MAX),
        ("runs awake", recount_engine::limits::AWAKE_MAX),
        ("appends waiting", recount_log::limits::APPENDS_WAITING_MAX),
        ("bytes waiting", recount_log::limits::APPENDS_WAITING_BYTES_MAX),
        ("bytes of an imported run", recount_engine::limits::IMPORT_BYTES_MAX),
    ];
    let words: Vec<String> = bounds.iter().map(|(name, most)| format!("{name} {most}")).collect();
    checks.push(Check::fine("limits", words.join(", ")));
}

/// Bytes for people.
fn bytes(count: u64) -> String {
    match count {
        0..=9_999 => format!("{count} bytes"),
        10_000..=9_999_999 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_api::admin::Status;

    #[test]
    fn the_retention_policy_is_reported() {
        let values = |kept| {
            let mut checks = Vec::new();
            retention(&mut checks, kept);
            checks.into_iter().map(|check| check.value).collect::<Vec<_>>()
        };
        let every = Duration::from_secs(600);
        assert!(values(None).is_empty());
        assert_eq!(values(Some((Policy::default(), every))), ["off: nothing is pruned"]);
        let policy = Policy {
            max_age: Some(Duration::from_secs(30 * 86_400)),
            max_events: Some(5),
            max_bytes: Some(5 << 30),
        };
        assert_eq!(
            values(Some((policy, every))),
            ["ended runs are kept for 30d, at most 5 events, at most 5120 MiB of events; checked every 10m"]
        );
        assert_eq!(
            (time(Duration::from_secs(90)), time(Duration::ZERO)),
            ("90s".to_owned(), "0s".to_owned())
        );
    }

    #[test]
    fn a_clock_that_went_back_is_reported() {
        let now = limits::CLOCK_EARLIEST_MS * 2;
        for (now, newest, status) in [
            (now, None, Status::Fine),
            (now, Some(now - 1), Status::Fine),
            (now, Some(now + limits::CLOCK_AHEAD_MS_MAX), Status::Fine),
            (now, Some(now + limits::CLOCK_AHEAD_MS_MAX + 1), Status::Problem),
            (0, None, Status::Problem),
        ] {
            assert_eq!(clock_check(now, newest).status, status, "{now} {newest:?}");
        }
    }
}
