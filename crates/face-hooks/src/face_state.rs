//! Keeps the sessions in memory: finds or starts the task of a hook's session, within limits.
//!
//! The state in memory can be rebuilt from the log, so a session can be dropped at the cost of a read. Start with
//! [`FaceState::record`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_engine::{EngineInstance, RequestContext};
use recount_event::Code;
use recount_record::hooks::{Hook, Seen};
use recount_world::Kind;
use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::session::{Incoming, PermissionHold, Session, SessionName};

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
        let hold = wait.zip(held).map(|(wait, held)| PermissionHold { wait, _held: held });
        let (to, mut answer) = oneshot::channel();
        let waits = hold.as_ref().map_or(limits::RECORD_WAIT, |hold| hold.wait + limits::RECORD_WAIT);
        let inbox = self.inbox(&visitor, &hook)?;
        let full = || busy("too many hooks of this session are waiting to be recorded");
        match inbox.try_send(Incoming { hook, hold, to, _queued: queued }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(full()),
            // The session has just left memory.
            Err(TrySendError::Closed(incoming)) => {
                self.inbox(&visitor, &incoming.hook)?.try_send(incoming).map_err(|_| full())?;
            }
        }
        drop(inbox);
        match tokio::time::timeout(waits, &mut answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(busy("the server is shutting down")),
            // The append continues; the agent does not wait for a slow disk.
            Err(_) => Ok(Value::Null),
        }
    }

    /// The inbox of a session, whose task is started if there is none.
    fn inbox(&self, visitor: &RequestContext, hook: &Hook) -> Result<mpsc::Sender<Incoming>, Refusal> {
        let key: Key = (visitor.engine.instance(), hook.agent, hook.session.clone());
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
        let name = SessionName::of(hook.agent, &hook.session);
        if sessions.seen.len() >= limits::SEEN_MAX {
            sessions.seen.clear();
        }
        let is_known = !sessions.seen.insert(name.short());
        let (inbox, receiver) = mpsc::channel(limits::QUEUE_MAX);
        let held_permissions = Arc::new(AtomicUsize::new(0));
        let session = Session::new(visitor.clone(), hook.agent, name, is_known, held_permissions.clone());
        visitor.engine.world().tasks.spawn(Kind::Effect, |shutdown| session.work(receiver, shutdown));
        sessions.live.insert(key, LiveSession { inbox: inbox.clone(), used: now, held_permissions });
        Ok(inbox)
    }
}
