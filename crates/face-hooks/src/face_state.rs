//! Keeps the sessions in memory: finds or starts the task of a hook's session, within limits.
//!
//! The state in memory can be rebuilt from the log, so a session can be dropped at the cost of a read. Start with
//! [`FaceState::record`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_engine::{EngineInstance, RequestContext};
use recount_event::Code;
use recount_record::claude_telemetry::TelemetryEvent;
use recount_record::hooks::{Hook, Seen};
use recount_world::Kind;
use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::otlp_state::{OtlpFigures, OtlpState, busy};
use crate::session::{Incoming, PermissionHold, Report, Session, SessionName};

/// What the face keeps between requests. Cheap to clone.
#[derive(Clone, Default)]
pub struct FaceState {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: Mutex<Sessions>,
    queued_bytes: Arc<AtomicUsize>,
    held_permissions: Arc<AtomicUsize>,
    /// Whether agents of a tenant report tokens by OpenTelemetry.
    reporting: Mutex<HashMap<EngineInstance, Arc<AtomicBool>>>,
    otlp: OtlpState,
}

#[derive(Default)]
struct Sessions {
    live: HashMap<Key, LiveSession>,
    /// Digests of sessions that this process has seen.
    seen: HashSet<u64>,
}

type Key = (EngineInstance, &'static str, String);

struct LiveSession {
    inbox: mpsc::Sender<Incoming>,
    used: Instant,
    /// The number of permissions that it holds open.
    held_permissions: Arc<AtomicUsize>,
}

impl FaceState {
    pub(crate) fn otlp(&self) -> &OtlpState {
        &self.inner.otlp
    }

    /// What was taken by OTLP since the server started.
    pub fn otlp_figures(&self) -> OtlpFigures {
        self.inner.otlp.figures()
    }

    /// Records a hook in the order of its session and returns the reply to the agent.
    pub(crate) async fn record(
        &self,
        visitor: RequestContext,
        hook: Hook,
        permission_wait: Option<Duration>,
        bytes: usize,
    ) -> Result<Value, Refusal> {
        let busy = |what: &str| Refusal::new(Code::StoreBusy, format!("{what}; the hook was not recorded"));
        let Some(queued) = Counted::within(&self.inner.queued_bytes, bytes, limits::QUEUED_BYTES_MAX) else {
            return Err(busy("too many hooks are waiting to be recorded"));
        };
        let is_permission = matches!(hook.seen, Seen::Permission { .. });
        let wait = permission_wait.filter(|_| is_permission && hook.agent != "gemini");
        // Above the limit the agent's own dialog decides.
        let held = wait.and_then(|_| Counted::within(&self.inner.held_permissions, 1, limits::ASKING_MAX));
        let hold = wait
            .zip(held)
            .map(|(wait, held)| PermissionHold { until: recount_world::moment() + wait, _held: held });
        let waits = limits::RECORD_WAIT + wait.filter(|_| hold.is_some()).unwrap_or_default();
        let (agent, session) = (hook.agent, hook.session.clone());
        let answer =
            self.deliver(&visitor, (agent, session), Report::Hook { hook: Box::new(hook), hold }, queued)?;
        match tokio::time::timeout(waits, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(busy("the server is shutting down")),
            // The append continues; the agent does not wait for a slow disk.
            Err(_) => Ok(Value::Null),
        }
    }

    /// Queues events of Claude Code's telemetry, which belong to one session. The result comes when they are durable.
    pub(crate) fn record_telemetry(
        &self,
        visitor: &RequestContext,
        events: Vec<TelemetryEvent>,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Value, Refusal>>, Refusal> {
        let Some(queued) = Counted::within(&self.otlp().queued_bytes, bytes, limits::OTLP_QUEUED_BYTES_MAX)
        else {
            return Err(busy("too many events are waiting to be recorded"));
        };
        if events.iter().any(TelemetryEvent::is_usage) {
            self.reports_usage(visitor).store(true, Ordering::Relaxed);
        }
        let session = events.first().map(|first| first.session.clone()).unwrap_or_default();
        self.deliver(visitor, ("claude", session), Report::Telemetry(events), queued)
    }

    fn reports_usage(&self, visitor: &RequestContext) -> Arc<AtomicBool> {
        let mut reporting = self.inner.reporting.lock().unwrap_or_else(PoisonError::into_inner);
        reporting.entry(visitor.engine.instance()).or_default().clone()
    }

    /// Puts a report into the queue of its session; its result comes later.
    fn deliver(
        &self,
        visitor: &RequestContext,
        (agent, session): (&'static str, String),
        report: Report,
        queued: Counted,
    ) -> Result<oneshot::Receiver<Result<Value, Refusal>>, Refusal> {
        let full = || {
            let detail =
                "too many reports of this session are waiting to be recorded; this one was not recorded";
            Refusal::new(Code::StoreBusy, detail)
        };
        let (to, answer) = oneshot::channel();
        let inbox = self.inbox(visitor, agent, &session)?;
        let waiting = inbox.max_capacity() - inbox.capacity();
        if matches!(report, Report::Telemetry(_)) && waiting >= limits::TELEMETRY_QUEUE_MAX {
            return Err(full());
        }
        match inbox.try_send(Incoming { report, to, _queued: queued }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(full()),
            // The session has just left memory.
            Err(TrySendError::Closed(incoming)) => {
                self.inbox(visitor, agent, &session)?.try_send(incoming).map_err(|_| full())?;
            }
        }
        Ok(answer)
    }

    /// The inbox of a session, whose task is started if there is none.
    fn inbox(
        &self,
        visitor: &RequestContext,
        agent: &'static str,
        session: &str,
    ) -> Result<mpsc::Sender<Incoming>, Refusal> {
        let key: Key = (visitor.engine.instance(), agent, session.to_owned());
        let reports_usage = self.reports_usage(visitor);
        let now = recount_world::moment();
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = sessions.live.get_mut(&key)
            && !live.inbox.is_closed()
        {
            live.used = now;
            return Ok(live.inbox.clone());
        }
        sessions.live.retain(|_, live| !live.inbox.is_closed());
        if sessions.live.len() >= limits::SESSIONS_MAX {
            let waiting = |live: &LiveSession| live.held_permissions.load(Ordering::SeqCst) > 0;
            let oldest =
                sessions.live.iter().filter(|(_, live)| !waiting(live)).min_by_key(|(_, live)| live.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return Err(Refusal::new(Code::StoreBusy, "too many sessions are waiting for a permission"));
            };
            // Its task handles the rest of its inbox and ends.
            sessions.live.remove(&oldest);
        }
        let name = SessionName::of(agent, session);
        if sessions.seen.len() >= limits::SEEN_MAX {
            sessions.seen.clear();
        }
        let is_known = !sessions.seen.insert(name.short());
        let (inbox, receiver) = mpsc::channel(limits::QUEUE_MAX);
        let held_permissions = Arc::new(AtomicUsize::new(0));
        let session =
            Session::new(visitor.clone(), agent, name, is_known, held_permissions.clone(), reports_usage);
        visitor.engine.world().tasks.spawn(Kind::Effect, |shutdown| session.work(receiver, shutdown));
        sessions.live.insert(key, LiveSession { inbox: inbox.clone(), used: now, held_permissions });
        Ok(inbox)
    }
}
