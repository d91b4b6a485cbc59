//! The connection to one editor: output, pending requests, and work in progress.
//!
//! Everything runs on one task, so only the output has a lock. Must not depend on the rules of sessions. Start with
//! [`Connection`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use recount_client::aap::AapClient;
use recount_client::aap::wire::AgentInfo;
use recount_client::{Client, ClientError};
use recount_world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, Notify, oneshot};

use super::Options;
use super::session::Session;
use crate::accept::{EditorInfo, SessionFolder};
use crate::error::{INVALID_REQUEST, RpcError};
use crate::{limits, rpc};

type RpcResult = Result<Value, RpcError>;

/// An initialized editor and its agent.
pub(super) struct Introduced {
    pub(super) editor: EditorInfo,
    pub(super) agent: AgentInfo,
}

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) aap: AapClient,
    pub(super) world: World,
    pub(super) options: Options,
    note: Box<dyn Fn(&str)>,
    output: Mutex<Box<dyn AsyncWrite + Unpin>>,
    is_disconnected: Cell<bool>,
    introduced: RefCell<Option<Rc<Introduced>>>,
    /// Requests to the editor without a response.
    pending_requests: RefCell<HashMap<u64, oneshot::Sender<RpcResult>>>,
    last_request_id: Cell<u64>,
    sessions: RefCell<HashMap<String, Rc<Session>>>,
    spawned: RefCell<Vec<LocalBoxFuture<'static, ()>>>,
    wake: Notify,
    requests: Cell<usize>,
}

/// A request in progress, until it is dropped.
pub(super) struct InProgress(Rc<Connection>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get() - 1);
    }
}

impl Connection {
    pub(super) fn new(
        output: Box<dyn AsyncWrite + Unpin>,
        (client, aap): (Client, AapClient),
        world: World,
        options: Options,
        note: Box<dyn Fn(&str)>,
    ) -> Self {
        Connection {
            client,
            aap,
            world,
            options,
            note,
            output: Mutex::new(output),
            is_disconnected: Cell::new(false),
            introduced: RefCell::new(None),
            pending_requests: RefCell::default(),
            last_request_id: Cell::new(0),
            sessions: RefCell::default(),
            spawned: RefCell::default(),
            wake: Notify::new(),
            requests: Cell::new(0),
        }
    }

    pub(super) fn note(&self, words: &str) {
        (self.note)(words);
    }

    /// Reports the MCP servers of the editor that a session does not use.
    pub(super) fn leave_out(&self, folder: &SessionFolder) {
        if !folder.left_out.is_empty() {
            let names = folder.left_out.join(", ");
            self.note(&format!("the session does not use these MCP servers of the editor: {names}"));
        }
    }

    // Work in progress.

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push(work.boxed_local());
        self.wake.notify_one();
    }

    pub(super) fn take_spawned(&self) -> Vec<LocalBoxFuture<'static, ()>> {
        self.spawned.take()
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(super) fn begin(self: &Rc<Self>) -> InProgress {
        self.requests.set(self.requests.get() + 1);
        InProgress(self.clone())
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.get()
    }

    /// Whether the output to the editor is closed.
    pub(super) fn is_disconnected(&self) -> bool {
        self.is_disconnected.get()
    }

    // Messages to the editor.

    async fn send(&self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        let mut output = self.output.lock().await;
        let written = match output.write_all(line.as_bytes()).await {
            Ok(()) => output.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.is_disconnected.set(true);
            self.wake.notify_one();
        }
    }

    pub(super) async fn answer(&self, id: &Value, answer: RpcResult) {
        let message = match &answer {
            Ok(result) => rpc::result(id, result),
            Err(error) => rpc::error(id, error),
        };
        self.send(&message).await;
    }

    pub(super) async fn update(&self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.send(&rpc::notification("session/update", &params)).await;
    }

    /// Sends a request and waits for the response; `register` gets its id. A withdrawn request fails.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        register: impl FnOnce(u64),
    ) -> RpcResult {
        let id = self.last_request_id.get() + 1;
        self.last_request_id.set(id);
        let (send, receive) = oneshot::channel();
        self.pending_requests.borrow_mut().insert(id, send);
        register(id);
        self.send(&rpc::request(id, method, params)).await;
        receive.await.unwrap_or_else(|_| Err(RpcError::new(REQUEST_CANCELLED, "the request was withdrawn")))
    }

    /// Withdraws a request that has no response.
    pub(super) async fn withdraw(&self, id: u64) {
        let waits = self.pending_requests.borrow_mut().remove(&id).is_some();
        if waits {
            self.send(&rpc::notification("$/cancel_request", &json!({ "requestId": id }))).await;
        }
    }

    /// Takes a response of the editor. A response to a withdrawn or unknown request is ignored.
    pub(super) fn answered(&self, id: &Value, answer: RpcResult) {
        let pending = id.as_u64().and_then(|id| self.pending_requests.borrow_mut().remove(&id));
        if let Some(pending) = pending {
            // The requesting task may have ended.
            drop(pending.send(answer));
        }
    }

    // The editor and its sessions.

    pub(super) fn introduce(&self, introduced: Introduced) {
        *self.introduced.borrow_mut() = Some(Rc::new(introduced));
    }

    pub(super) fn introduced(&self) -> Result<Rc<Introduced>, RpcError> {
        let introduced = self.introduced.borrow().clone();
        introduced.ok_or_else(|| RpcError::new(INVALID_REQUEST, "send initialize first"))
    }

    pub(super) fn session(&self, id: &str) -> Result<Rc<Session>, RpcError> {
        let session = self.sessions.borrow().get(id).cloned();
        session.ok_or_else(|| {
            let error = RpcError::session_not_found(id);
            let message =
                format!("{}; open it with session/new, session/load or session/resume", error.message);
            RpcError { message, ..error }
        })
    }

    pub(super) fn sessions(&self) -> Vec<Rc<Session>> {
        self.sessions.borrow().values().cloned().collect()
    }

    /// Refuses a session other than `id` if too many are open.
    pub(super) fn has_room(&self, id: Option<&str>) -> Result<(), RpcError> {
        let sessions = self.sessions.borrow();
        let is_open = id.is_some_and(|id| sessions.contains_key(id));
        match sessions.len() < limits::SESSIONS_MAX || is_open {
            true => Ok(()),
            false => Err(RpcError::new(
                INVALID_REQUEST,
                format!(
                    "the limit of {} open sessions is reached; close one with session/close",
                    sessions.len()
                ),
            )),
        }
    }

    /// Returns the session that was open with the same id.
    pub(super) fn open(&self, session: Rc<Session>) -> Option<Rc<Session>> {
        self.sessions.borrow_mut().insert(session.id.clone(), session)
    }

    pub(super) fn close(&self, id: &str) -> Option<Rc<Session>> {
        self.sessions.borrow_mut().remove(id)
    }

    // Calls of the server.

    /// Repeats a call while the server does not respond, up to the limit. Only for idempotent calls.
    pub(super) async fn patiently<T>(
        &self,
        call: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut attempt = 1;
        loop {
            match call().await {
                Err(ClientError::Unreachable { .. }) if attempt < limits::CALL_ATTEMPTS_MAX => {
                    attempt += 1;
                    tokio::time::sleep(limits::CALL_RETRY_WAIT).await;
                }
                done => return done,
            }
        }
    }
}

/// The code of a request that was cancelled.
const REQUEST_CANCELLED: i64 = -32800;
