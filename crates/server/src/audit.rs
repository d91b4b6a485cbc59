//! The audit trail: what was done to the server itself, as events of runs that can be followed like any other.
//!
//! It has a store of its own, so no list, feed or search of a tenant shows it. Each start of the server is one run. A
//! change is recorded before its client is answered; refused requests are counted and recorded together. It must never
//! make a request fail: what cannot be recorded is logged and counted. See [`Audit`] and `docs/decisions/0034`.

mod refusals;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recount_engine::{Engine, Error, ListQuery, NewRun, Redactor, Triple};
use recount_event::door::draft;
use recount_event::family::run::{Queued, RunKind};
use recount_event::{ForeignId, RunId};
use recount_face_aep::SseFraming;
use recount_log_sqlite::SqliteStore;
use recount_world::{Kind, World};
use serde_json::{Value, json};

use self::refusals::Refusals;
use crate::home::Home;
use crate::tenant_folder::folder_within;
use crate::{StartError, limits};

/// The folder of its store, next to those of tenants. No tenant may have this name.
pub(crate) const TENANT: &str = "recount-audit";

/// Where the trail is read, before the paths of the native face.
pub(crate) const PREFIX: &str = "/audit";

/// The producer of the events.
const PRODUCER: &str = "recount";

/// The producer that ends a run which a killed server left open.
const SUCCESSOR: &str = "recount-next-start";

/// What may be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditKind {
    ServerStarted,
    ServerStopped,
    TokenCreated,
    TokenRevoked,
    AccessRefused,
    /// A request that took something away, or changed how long something is kept.
    Removed,
    /// A listener tried to answer a prompt, to extend one, or to cancel a run.
    ReplyReceived,
}

impl AuditKind {
    fn event_type(self) -> &'static str {
        match self {
            AuditKind::ServerStarted => "ext.recount.server_started",
            AuditKind::ServerStopped => "ext.recount.server_stopped",
            AuditKind::TokenCreated => "ext.recount.token_created",
            AuditKind::TokenRevoked => "ext.recount.token_revoked",
            AuditKind::AccessRefused => "ext.recount.access_refused",
            AuditKind::Removed => "ext.recount.removed",
            AuditKind::ReplyReceived => "ext.recount.reply_received",
        }
    }
}

/// One start of the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit(Arc<Inner>);

struct Inner {
    engine: Engine,
    run: RunId,
    /// The number of the next batch: one at a time is appended.
    next: tokio::sync::Mutex<u64>,
    refusals: Refusals,
    lost: AtomicU64,
}

impl Audit {
    /// Opens the trail in a data folder and begins the run of this start.
    pub(crate) async fn open(
        home: &Home,
        world: World,
        redactor: Arc<Redactor>,
        facts: Value,
    ) -> Result<Self, StartError> {
        let failed = |why: &dyn std::fmt::Display| {
            StartError::failed(format!("the audit trail cannot be used: {why}"))
        };
        let store = SqliteStore::open(home.options(folder(&home.data))).map_err(|why| failed(&why))?;
        let engine = Engine::open_with_key(Arc::new(store), world, Arc::new(SseFraming), redactor, None)
            .await
            .map_err(|why| failed(&why))?;
        let audit = Audit::begin(engine).await.map_err(|why| failed(&why))?;
        audit.append(AuditKind::ServerStarted, &facts).await.map_err(|why| failed(&why))?;
        audit.keep_counting_refusals();
        Ok(audit)
    }

    async fn begin(engine: Engine) -> Result<Self, Error> {
        end_what_was_left(&engine).await?;
        let mut queued = Queued::new(RunKind::External);
        queued.title = Some("Audit trail".to_owned());
        queued.requested_by = Some(PRODUCER.to_owned());
        let (run, _) = engine
            .write()
            .create_run(NewRun { queued, task: None, session: None, resumed_from: None })
            .await?;
        let refusals = Refusals::default();
        let inner =
            Inner { engine, run, next: tokio::sync::Mutex::new(0), refusals, lost: AtomicU64::new(0) };
        let audit = Audit(Arc::new(inner));
        audit.append_all(&[("run.started", json!({}))]).await?;
        Ok(audit)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Records what happened; returns when it is durable, or when it is known that it will not be.
    pub(crate) async fn record(&self, what: AuditKind, facts: Value) {
        tracing::info!(target: "audit", event = what.event_type(), %facts);
        if let Err(error) = self.append(what, &facts).await {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(target: "audit", event = what.event_type(), %facts, %error, "not recorded in the audit trail");
        }
    }

    /// Counts a refused request. It is recorded soon, together with others of the same peer and code.
    pub(crate) fn refused(&self, code: &'static str, peer: Option<std::net::IpAddr>) {
        self.0.refusals.count(code, peer);
    }

    /// Events that could not be recorded since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Records the end of this start.
    pub(crate) async fn end(&self) {
        self.record_refusals().await;
        self.record(AuditKind::ServerStopped, json!({})).await;
        let ending = [("run.finished", json!({"final_status": "completed"}))];
        if let Err(error) = self.append_all(&ending).await {
            tracing::error!(%error, "the run of the audit trail stays open until the next start");
        }
    }

    async fn append(&self, what: AuditKind, facts: &Value) -> Result<(), Error> {
        self.append_all(&[(what.event_type(), facts.clone())]).await
    }

    async fn append_all(&self, events: &[(&str, Value)]) -> Result<(), Error> {
        let Inner { engine, run, next, .. } = &*self.0;
        let mut next = next.lock().await;
        ingest(engine, *run, PRODUCER, *next, events).await?;
        *next += 1;
        Ok(())
    }

    fn keep_counting_refusals(&self) {
        let audit = self.clone();
        self.0.engine.world().tasks.spawn(Kind::Service, |mut shutdown| async move {
            loop {
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = audit.0.refusals.some() => {}
                }
                audit.record_refusals().await;
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = tokio::time::sleep(limits::AUDIT_REFUSALS_EVERY) => {}
                }
            }
        });
    }

    async fn record_refusals(&self) {
        for facts in self.0.refusals.take() {
            self.record(AuditKind::AccessRefused, facts).await;
        }
    }
}

/// The folder of the trail's store within a data folder.
pub(crate) fn folder(data: &Path) -> std::path::PathBuf {
    folder_within(data, TENANT)
}

/// Ends the runs of starts that were not ended by a shutdown.
async fn end_what_was_left(engine: &Engine) -> Result<(), Error> {
    let active = ListQuery { after: None, limit: limits::AUDIT_RUNS_LEFT_MAX, status: None };
    for row in engine.catalogue().list_runs(&active).await?.items {
        if row.ended_at.is_some() {
            continue;
        }
        let message = "the server ended without a shutdown: it was killed, or the machine stopped";
        let failed = json!({"code": "server_died", "message": message, "retriable": false});
        ingest(engine, row.id, SUCCESSOR, 0, &[("run.failed", failed)]).await?;
    }
    Ok(())
}

async fn ingest(
    engine: &Engine,
    run: RunId,
    producer: &str,
    seq: u64,
    events: &[(&str, Value)],
) -> Result<(), Error> {
    let producer = ForeignId::parse(producer).expect("the name is one of ours");
    let drafts = events.iter().map(|(event_type, facts)| draft(event_type, &facts.to_string()));
    let drafts =
        drafts.collect::<Result<Vec<_>, _>>().expect("facts are small objects, and the types are ours");
    engine.write().ingest(run, Triple { producer, epoch: 0, seq }, drafts).await.map(drop)
}

/// Records one thing in the trail of a data folder that no server holds, as a run of its own.
pub(crate) async fn record_offline(data: &Path, what: AuditKind, facts: Value) -> Result<(), StartError> {
    let failed =
        |why: &dyn std::fmt::Display| StartError::failed(format!("the audit trail cannot be used: {why}"));
    let options = recount_log_sqlite::SqliteOptions::new(folder(data));
    let store = SqliteStore::open(options).map_err(|why| failed(&why))?;
    let engine = Engine::open(Arc::new(store), World::real(), Arc::new(SseFraming))
        .await
        .map_err(|why| failed(&why))?;
    let audit = Audit::begin(engine).await.map_err(|why| failed(&why))?;
    let events = [(what.event_type(), facts), ("run.finished", json!({"final_status": "completed"}))];
    let recorded = audit.append_all(&events).await.map_err(|why| failed(&why));
    audit.0.engine.shutdown().await;
    recorded
}
