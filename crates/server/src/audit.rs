//! The audit trail: records administrative actions as events of runs, which clients read like any other.
//!
//! It has a store of its own, so no list, feed or search of a tenant shows it. Each start of the server is one run. A
//! change is recorded before its client is answered; refused requests are counted and recorded together. It must never
//! make a request fail: what cannot be recorded is logged and counted. See [`Audit`] and `docs/decisions/0034`.

mod refusals;
mod relay;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recount_engine::{BatchId, Engine, Error, ListQuery, NewRun, ReadResult as _, Redactor};
use recount_event::door::draft;
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, RunId};
use recount_face_aep::SseFraming;
use recount_world::{Kind, World};
use serde_json::{Value, json};

use self::refusals::Refusals;
pub(crate) use self::relay::{Relay, RelayRequest, RelayedEvents};
use crate::peer::PeerId;
use crate::stores::Stores;
use crate::{StartError, limits};

/// The name of its store, next to those of tenants. No tenant may have this name.
pub(crate) const TENANT: &str = "recount-audit";

/// Where the trail is read, before the paths of the native face.
pub(crate) const PREFIX: &str = "/audit";

/// The producer of the events.
const PRODUCER: &str = "recount";

/// The producer that ends a run which a killed server left open.
const SUCCESSOR: &str = "recount-next-start";

/// The kinds of recorded events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditKind {
    ServerStarted,
    ServerStopped,
    /// A store was opened without the end of its log.
    LogEndDropped,
    TokenCreated,
    TokenRevoked,
    SigningKeyRotated,
    AccessRefused,
    /// A request removed something, or changed how long something is kept.
    Removed,
    /// A listener tried to answer a prompt, to extend one, or to cancel a run.
    ReplyReceived,
    /// A decision link answered a prompt.
    DecisionLinkUsed,
    /// A dead letter or a test message of a webhook was sent on request.
    WebhookDelivery,
    /// A person got a token by signing in.
    SignedIn,
}

impl AuditKind {
    const ALL: [AuditKind; 12] = [
        AuditKind::ServerStarted,
        AuditKind::ServerStopped,
        AuditKind::LogEndDropped,
        AuditKind::TokenCreated,
        AuditKind::TokenRevoked,
        AuditKind::SigningKeyRotated,
        AuditKind::AccessRefused,
        AuditKind::Removed,
        AuditKind::ReplyReceived,
        AuditKind::DecisionLinkUsed,
        AuditKind::WebhookDelivery,
        AuditKind::SignedIn,
    ];

    fn event_type(self) -> &'static str {
        match self {
            AuditKind::ServerStarted => "ext.recount.server_started",
            AuditKind::ServerStopped => "ext.recount.server_stopped",
            AuditKind::LogEndDropped => "ext.recount.log_end_dropped",
            AuditKind::TokenCreated => "ext.recount.token_created",
            AuditKind::TokenRevoked => "ext.recount.token_revoked",
            AuditKind::SigningKeyRotated => "ext.recount.signing_key_rotated",
            AuditKind::AccessRefused => "ext.recount.access_refused",
            AuditKind::Removed => "ext.recount.removed",
            AuditKind::ReplyReceived => "ext.recount.reply_received",
            AuditKind::DecisionLinkUsed => "ext.recount.decision_link_used",
            AuditKind::WebhookDelivery => "ext.recount.webhook_delivery_requested",
            AuditKind::SignedIn => "ext.recount.signed_in",
        }
    }
}

/// One start of the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Audit(Arc<Inner>);

struct Inner {
    engine: Engine,
    /// The content of the first event; `None` when no server starts.
    facts: Option<Value>,
    opened_ms: u64,
    /// One batch at a time is appended.
    run: tokio::sync::Mutex<AuditRun>,
    refusals: Refusals,
    lost: AtomicU64,
    /// Takes the events instead, where another server has the trail.
    relay: Option<Arc<Relay>>,
}

/// The run of this start, and how much of it is recorded.
#[derive(Default)]
struct AuditRun {
    id: Option<RunId>,
    is_started: bool,
    /// The number of the next batch.
    next: u64,
}

impl Audit {
    /// Opens the trail and begins the run of this start.
    pub(crate) async fn open(
        stores: &Stores,
        world: World,
        redactor: Arc<Redactor>,
        facts: Value,
    ) -> Result<Self, StartError> {
        let failed =
            |why: &dyn std::fmt::Display| StartError::failed(format!("cannot use the audit trail: {why}"));
        let opened = stores.wait_for(&world, |stores| stores.open_when_given_back(TENANT)).await;
        let store = opened.map_err(|why| failed(&why))?;
        let engine = Engine::open_with_key(store, world, Arc::new(SseFraming), redactor, None)
            .await
            .map_err(|why| failed(&why))?;
        Audit::start(engine, facts).await.map_err(|why| failed(&why))
    }

    /// Begins the run of this start. Where the store takes no events now, the run begins when it does.
    async fn start(engine: Engine, facts: Value) -> Result<Self, Error> {
        let audit = Audit::new(engine, Some(facts), None);
        match audit.append_all(&[]).await {
            Ok(()) => {}
            Err(error) if matches!(error.code(), Code::StoreFull | Code::StoreBusy) => {
                let facts = audit.0.facts.as_ref().unwrap_or(&Value::Null);
                tracing::error!(
                    target: "audit",
                    %facts,
                    %error,
                    "cannot record the start in the audit trail; retrying"
                );
                audit.spawn_start_retry();
            }
            Err(error) => return Err(error),
        }
        audit.spawn_refusal_recorder();
        Ok(audit)
    }

    /// The trail of another server, which takes the events from the relay. `engine` is empty.
    pub(crate) fn of_another_server(engine: Engine, relay: Arc<Relay>) -> Self {
        let audit = Audit::new(engine, None, Some(relay));
        audit.spawn_refusal_recorder();
        audit
    }

    fn new(engine: Engine, facts: Option<Value>, relay: Option<Arc<Relay>>) -> Self {
        let opened_ms = engine.world().clock.now_ms();
        let (run, refusals) = (tokio::sync::Mutex::default(), Refusals::default());
        Audit(Arc::new(Inner { engine, facts, opened_ms, run, refusals, lost: AtomicU64::new(0), relay }))
    }

    /// Returns the run of this start; creates and starts it if necessary.
    async fn ensure_started(&self, run: &mut AuditRun) -> Result<RunId, Error> {
        let Inner { engine, facts, opened_ms, .. } = &*self.0;
        let id = match run.id {
            Some(id) => id,
            None => {
                end_unfinished_runs(engine).await?;
                let mut queued = Queued::new(RunKind::External);
                queued.title = Some("Audit trail".to_owned());
                queued.requested_by = Some(PRODUCER.to_owned());
                let new = NewRun { queued, task: None, session: None, resumed_from: None };
                *run.id.insert(engine.write().create_run(new).await?.0)
            }
        };
        if !run.is_started {
            let mut events = vec![("run.started", json!({}))];
            if let Some(facts) = facts {
                let mut facts = facts.clone();
                let late_ms = engine.world().clock.now_ms().saturating_sub(*opened_ms);
                if late_ms > limits::AUDIT_START_LATE_MS {
                    facts["started_at"] = json!(recount_event::time::format_ms(*opened_ms));
                }
                events.push((AuditKind::ServerStarted.event_type(), facts));
            }
            ingest(engine, id, PRODUCER, run.next, &events).await?;
            run.next += 1;
            run.is_started = true;
        }
        Ok(id)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Whether another server has the trail.
    pub(crate) fn is_relayed(&self) -> bool {
        self.0.relay.is_some()
    }

    /// Records an event; returns when it is durable or has failed.
    pub(crate) async fn record(&self, what: AuditKind, facts: Value) {
        tracing::info!(target: "audit", event = what.event_type(), %facts);
        let recorded = match &self.0.relay {
            Some(relay) => relay.add(what.event_type(), &facts).await.map_err(str::to_owned),
            None => self.append(what, &facts).await.map_err(|error| error.to_string()),
        };
        let Err(error) = recorded else { return };
        self.0.lost.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            target: "audit",
            event = what.event_type(),
            %facts,
            error,
            "cannot record an event in the audit trail"
        );
    }

    /// Records an event of another server; returns whether it is durable.
    pub(crate) async fn record_relayed(&self, event_type: &str, facts: Value) -> bool {
        match AuditKind::ALL.into_iter().find(|kind| kind.event_type() == event_type) {
            Some(kind) => {
                tracing::info!(target: "audit", event = event_type, %facts);
                let recorded = self.append(kind, &facts).await;
                recorded.inspect_err(|error| tracing::warn!(target: "audit", %error, "retrying")).is_ok()
            }
            None => {
                tracing::error!(target: "audit", event_type, %facts, "another server recorded an unknown event");
                true
            }
        }
    }

    /// Counts a refused request. It is recorded soon, together with others of the same peer and code.
    pub(crate) fn refused(&self, code: &'static str, peer: Option<PeerId>) {
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
            tracing::error!(
                %error,
                "cannot close the run of the audit trail; it is closed at the next start"
            );
        }
    }

    async fn append(&self, what: AuditKind, facts: &Value) -> Result<(), Error> {
        self.append_all(&[(what.event_type(), facts.clone())]).await
    }

    async fn append_all(&self, events: &[(&str, Value)]) -> Result<(), Error> {
        let mut run = self.0.run.lock().await;
        let id = self.ensure_started(&mut run).await?;
        if !events.is_empty() {
            ingest(&self.0.engine, id, PRODUCER, run.next, events).await?;
            run.next += 1;
        }
        Ok(())
    }

    /// Begins the run of this start as soon as the store takes events again.
    fn spawn_start_retry(&self) {
        let audit = self.clone();
        self.0.engine.world().tasks.spawn(Kind::Service, |mut shutdown| async move {
            loop {
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = tokio::time::sleep(limits::AUDIT_START_EVERY) => {}
                }
                match audit.append_all(&[]).await {
                    Ok(()) => {
                        tracing::info!(target: "audit", "the start is recorded in the audit trail");
                        return;
                    }
                    Err(error) => {
                        tracing::debug!(
                            target: "audit",
                            %error,
                            "cannot record the start in the audit trail; retrying"
                        );
                    }
                }
            }
        });
    }

    fn spawn_refusal_recorder(&self) {
        let audit = self.clone();
        self.0.engine.world().tasks.spawn(Kind::Service, |mut shutdown| async move {
            loop {
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = audit.0.refusals.wait_for_some() => {}
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

/// Ends the runs of starts that had no shutdown. Damaged runs stay as they are.
async fn end_unfinished_runs(engine: &Engine) -> Result<(), Error> {
    let active = ListQuery { after: None, limit: limits::AUDIT_RUNS_LEFT_MAX, status: None };
    let listed = engine.catalogue().list_runs(&active).await.readable()?;
    let listed = listed.whole_or(|error| {
        tracing::error!(target: "audit", %error, "cannot list unfinished runs of the audit trail");
    });
    for row in listed.into_iter().flat_map(|listed| listed.items) {
        if row.ended_at.is_some() {
            continue;
        }
        let message = "the server exited without a shutdown: it was killed, or the machine stopped";
        let failed = json!({"code": "server_died", "message": message, "retriable": false});
        let ended = ingest(engine, row.id, SUCCESSOR, 0, &[("run.failed", failed)]).await;
        ended.readable()?.whole_or(|error| {
            tracing::error!(target: "audit", run = %row.id, %error, "cannot close a damaged run of the audit trail");
        });
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
    let producer = ForeignId::parse(producer).expect("the producer name is valid");
    let drafts = events.iter().map(|(event_type, facts)| draft(event_type, &facts.to_string()));
    let drafts =
        drafts.collect::<Result<Vec<_>, _>>().expect("facts are small objects, and the types are valid");
    engine.write().ingest(run, BatchId { producer, epoch: 0, seq }, drafts).await.map(drop)
}

/// Records one event in the trail of stores that no server holds, as a run of its own.
pub(crate) async fn record_offline(stores: &Stores, what: AuditKind, facts: Value) -> Result<(), StartError> {
    let failed =
        |why: &dyn std::fmt::Display| StartError::failed(format!("cannot use the audit trail: {why}"));
    let store = stores.open(TENANT).map_err(|why| failed(&why))?;
    let engine =
        Engine::open(store, World::real(), Arc::new(SseFraming)).await.map_err(|why| failed(&why))?;
    let audit = Audit::new(engine, None, None);
    let events = [(what.event_type(), facts), ("run.finished", json!({"final_status": "completed"}))];
    let recorded = audit.append_all(&events).await.map_err(|why| failed(&why));
    audit.0.engine.shutdown().await;
    recorded
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use recount_event::codec;
    use recount_log_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    /// A store on a disk that is full while the flag is set.
    async fn on_a_disk(folder: &Path, is_full: &Arc<AtomicBool>) -> Engine {
        let mut options = SqliteOptions::new(folder);
        let gate = is_full.clone();
        options.reserve_gate = Some(Arc::new(move |_| match gate.load(Ordering::Relaxed) {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }));
        let store = SqliteStore::open(options).unwrap();
        Engine::open(Arc::new(store), World::real(), Arc::new(SseFraming)).await.unwrap()
    }

    /// The types of all events, and the bytes of the last start.
    async fn trail(audit: &Audit) -> (Vec<String>, String) {
        let (events, _) = audit.engine().read().read_feed(None, 100).await.unwrap();
        let names = events.iter().map(|(_, bytes)| codec::decode(bytes).unwrap().type_name().to_owned());
        let names: Vec<String> = names.collect();
        let started = names.iter().rposition(|name| name == "ext.recount.server_started");
        let started = started.map(|place| String::from_utf8_lossy(&events[place].1).into_owned());
        (names, started.unwrap_or_default())
    }

    #[tokio::test]
    async fn a_full_disk_delays_the_trail_but_not_the_start() {
        let (folder, is_full) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
        let audit =
            Audit::start(on_a_disk(folder.path(), &is_full).await, json!({"version": "1"})).await.unwrap();
        audit.record(AuditKind::TokenCreated, json!({"name": "lost"})).await;
        assert_eq!((trail(&audit).await.0, audit.lost()), (vec![], 1));

        is_full.store(false, Ordering::Relaxed);
        audit.record(AuditKind::TokenRevoked, json!({})).await;
        let (names, facts) = trail(&audit).await;
        let wanted = ["run.queued", "run.started", "ext.recount.server_started", "ext.recount.token_revoked"];
        assert_eq!((names, audit.lost()), (wanted.map(str::to_owned).to_vec(), 1));
        assert!(facts.contains(r#""version":"1""#), "{facts}");
        audit.engine().shutdown().await;
    }

    #[tokio::test]
    async fn an_unfinished_audit_run_is_ended_when_space_returns() {
        let (folder, is_full) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
        let audit = Audit::start(on_a_disk(folder.path(), &is_full).await, json!({})).await.unwrap();
        // Not ended by a shutdown.
        audit.engine().shutdown().await;
        std::fs::remove_file(folder.path().join("reserve")).unwrap();
        is_full.store(true, Ordering::Relaxed);
        let audit = Audit::start(on_a_disk(folder.path(), &is_full).await, json!({})).await.unwrap();
        assert_eq!(trail(&audit).await.0.len(), 3, "nothing is written on a full disk");
        is_full.store(false, Ordering::Relaxed);
        tokio::time::pause();
        while trail(&audit).await.0.len() < 7 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let wanted = ["run.failed", "run.queued", "run.started", "ext.recount.server_started"];
        assert_eq!(trail(&audit).await.0[3..], wanted);
        audit.engine().shutdown().await;
    }
}
