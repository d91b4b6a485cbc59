//! One server that is spoken with: which protocol it speaks, what tools it has, and calls of them.
//!
//! There are two eras. Until 2025-11-25 a connection begins with `initialize` and may have a session; from 2026-07-28 on
//! it begins with `server/discover`, every request says who asks, and a call may take several rounds. The newer one is
//! tried first. Look at [`Connection`]. It must not know runs.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::era::{ProtocolEra, STATELESS, WITH_INITIALIZE};
use super::fault::{Fault, code};
use super::http::{Http, Subject};
use super::message;
use super::pipes::{Pipes, ReadQuota};
use super::server::{McpServer, McpTransport};
use crate::limits::NAMED_CHARS_MAX;
use crate::mcp::limits;
use crate::sandbox::Sandbox;

/// Errors by which a server of the newer era says no: another version, a capability that is missing, wrong headers.
const MODERN_REFUSALS: &[i64] = &[-32_022, -32_021, -32_020];

/// Where a server's process runs.
#[derive(Clone, Copy)]
pub(crate) struct ServerPlace<'a> {
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) no_network: Option<&'a str>,
    pub(crate) root: &'a Path,
}

enum Wire {
    Pipes(Box<Pipes>),
    Http(Box<Http>),
}

/// See the file's head.
pub(crate) struct Connection {
    wire: Wire,
    era: ProtocolEra,
    next_id: u64,
    /// The request under way, until its answer is read.
    open: Option<u64>,
    /// Whether the server says that its list of tools is another one.
    pub(crate) list_changed: bool,
}

impl Connection {
    /// Reaches a server and finds out which protocol it speaks.
    pub(crate) async fn open(
        server: &McpServer,
        place: ServerPlace<'_>,
        until: Instant,
    ) -> Result<Connection, Fault> {
        let wire = Wire::open(server, place).await?;
        let mut connection =
            Connection { wire, era: ProtocolEra::Stateless, next_id: 1, open: None, list_changed: false };
        if server.era.get() != Some(ProtocolEra::Initialize) {
            match connection.discover(until).await {
                Ok(()) => {
                    server.era.set(Some(ProtocolEra::Stateless));
                    return Ok(connection);
                }
                Err(fault) if !may_be_older(&fault) => return Err(fault),
                Err(fault) if fault.code == code::REFUSED => {}
                // It took no request before its handshake: what it makes of the next one on this line is not known.
                Err(_) => connection = Connection { wire: Wire::open(server, place).await?, ..connection },
            }
        }
        server.era.set(None);
        connection.initialize(until).await?;
        server.era.set(Some(ProtocolEra::Initialize));
        Ok(connection)
    }

    async fn discover(&mut self, until: Instant) -> Result<(), Fault> {
        self.set_era(ProtocolEra::Stateless, STATELESS);
        let until = until.min(recount_world::moment() + limits::MCP_DISCOVER_WAIT);
        let found = timeout_at(until, self.request("server/discover", Map::new(), None)).await;
        let found =
            found.map_err(|_| Fault::new(code::TIMEOUT, "the server did not answer server/discover"))??;
        let versions =
            found.get("supportedVersions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if versions.iter().any(|version| version == STATELESS) {
            return Ok(());
        }
        let said: Vec<&str> = versions.iter().filter_map(Value::as_str).take(WITH_INITIALIZE.len()).collect();
        if said.iter().any(|version| WITH_INITIALIZE.contains(version)) {
            return Err(Fault::refused(-32_601, "it speaks older versions", Value::Null));
        }
        Err(Fault::new(
            code::GARBLED,
            format!("the server speaks {said:?}, and this client {STATELESS} and {WITH_INITIALIZE:?}"),
        ))
    }

    async fn initialize(&mut self, until: Instant) -> Result<(), Fault> {
        self.era = ProtocolEra::Initialize;
        if let Wire::Http(http) = &mut self.wire {
            (http.version, http.names_methods) = (None, false);
        }
        let mut params = Map::new();
        params.insert("protocolVersion".into(), WITH_INITIALIZE[0].into());
        params.insert("capabilities".into(), json!({}));
        params.insert("clientInfo".into(), client_info());
        let began = timeout_at(until, self.request("initialize", params, None)).await;
        let began = began
            .map_err(|_| Fault::new(code::TIMEOUT, "the server did not answer initialize in time"))??;
        let version = began.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let Some(version) = WITH_INITIALIZE.iter().find(|known| **known == version) else {
            let version: String = version.chars().take(NAMED_CHARS_MAX).collect();
            return Err(Fault::new(
                code::GARBLED,
                format!(
                    "the server speaks version {version:?} of the protocol, and this client {WITH_INITIALIZE:?}"
                ),
            ));
        };
        self.set_era(ProtocolEra::Initialize, version);
        let sent = self.notify("notifications/initialized", json!({}));
        timeout_at(until, sent)
            .await
            .map_err(|_| Fault::new(code::TIMEOUT, "the server did not take the handshake in time"))?
    }

    fn set_era(&mut self, era: ProtocolEra, version: &'static str) {
        self.era = era;
        if let Wire::Http(http) = &mut self.wire {
            http.version = Some(version);
            http.names_methods = era == ProtocolEra::Stateless;
        }
    }

    /// The tools that the server has, as it describes them.
    pub(crate) async fn tools(&mut self) -> Result<Vec<Value>, Fault> {
        self.list_changed = false;
        let mut tools = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..limits::MCP_PAGES_MAX {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), cursor)));
            let mut page = self.request("tools/list", params, None).await?;
            let Some(Value::Array(listed)) = page.get_mut("tools").map(Value::take) else {
                return Err(Fault::new(code::GARBLED, "the server's list of tools is no list"));
            };
            tools.extend(listed);
            cursor = page.get_mut("nextCursor").map(Value::take).filter(Value::is_string);
            if cursor.is_none() || tools.len() > limits::MCP_TOOLS_MAX {
                break;
            }
        }
        Ok(tools)
    }

    /// Calls a tool. What the server wants to know before it answers is declined, in as many rounds as may be.
    pub(crate) async fn call(&mut self, tool: &str, input: &Value) -> Result<Value, Fault> {
        let mut params = Map::new();
        params.insert("name".into(), tool.into());
        params.insert("arguments".into(), input.clone());
        for _ in 0..limits::MCP_ROUNDS_MAX {
            let mut result = self.request("tools/call", params.clone(), Some(tool)).await?;
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            let asked = result.get("inputRequests").and_then(Value::as_object);
            let answers = asked.map(declined).transpose()?.unwrap_or_default();
            params.remove("inputResponses");
            if !answers.is_empty() {
                params.insert("inputResponses".into(), Value::Object(answers));
            }
            params.remove("requestState");
            params.extend(
                result.get_mut("requestState").map(|state| ("requestState".to_owned(), state.take())),
            );
        }
        let most = limits::MCP_ROUNDS_MAX;
        Err(Fault::new(
            code::INPUT_REQUIRED,
            format!("the server asked for more input {most} times; it was not asked again"),
        ))
    }

    /// Takes what has come since the last request.
    pub(crate) fn drain(&mut self) -> Result<(), Fault> {
        let Wire::Pipes(pipes) = &mut self.wire else { return Ok(()) };
        let mut changed = false;
        let drained = pipes.drain(&mut |method| changed |= is_list_changed(method));
        self.list_changed |= changed;
        drained
    }

    /// Tells the server that the answer to the open request is not waited for.
    pub(crate) async fn give_up(&mut self, reason: &str) {
        let Some(id) = self.open.take() else { return };
        if self.era == ProtocolEra::Stateless && matches!(self.wire, Wire::Http(_)) {
            // That nobody listens any more says it.
            return;
        }
        let told = self.notify("notifications/cancelled", json!({ "requestId": id, "reason": reason }));
        // A server that takes nothing is ended anyway.
        tokio::time::timeout(limits::MCP_FAREWELL_WAIT, told).await.ok();
    }

    /// Whether the last request was answered, so that another can be sent.
    pub(crate) fn is_usable(&self) -> bool {
        self.open.is_none()
    }

    pub(crate) async fn close(self) {
        match self.wire {
            Wire::Pipes(pipes) => pipes.close().await,
            Wire::Http(http) => {
                tokio::time::timeout(limits::MCP_FAREWELL_WAIT, http.close()).await.ok();
            }
        }
    }

    async fn request(
        &mut self,
        method: &str,
        mut params: Map<String, Value>,
        name: Option<&str>,
    ) -> Result<Value, Fault> {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == ProtocolEra::Stateless {
            params.insert("_meta".into(), meta());
        }
        let body = message::request(id, method, &Value::Object(params));
        self.open = Some(id);
        let mut changed = false;
        let mut heard = |method: &str| changed |= is_list_changed(method);
        let mut quota = ReadQuota::new();
        let answered = match &mut self.wire {
            Wire::Pipes(pipes) => {
                pipes.send(&body);
                pipes.answer(id, &mut quota, &mut heard).await
            }
            Wire::Http(http) => {
                http.exchange(id, Subject { method, name }, body, &mut quota, &mut heard).await
            }
        };
        self.list_changed |= changed;
        let answer = answered?;
        self.open = None;
        answer
    }

    async fn notify(&mut self, method: &str, params: Value) -> Result<(), Fault> {
        let body = message::notification(method, &params);
        match &mut self.wire {
            Wire::Pipes(pipes) => {
                pipes.send(&body);
                pipes.flush().await
            }
            Wire::Http(http) => http.send(method, body).await,
        }
    }
}

impl Wire {
    async fn open(server: &McpServer, place: ServerPlace<'_>) -> Result<Wire, Fault> {
        match &server.transport {
            McpTransport::Url(endpoint) => Ok(Wire::Http(Box::new(Http::new(endpoint.clone())))),
            McpTransport::Command { argv, environment, network } => {
                let unreachable = |why: String| Fault::new(code::UNREACHABLE, why);
                let Some(sandbox) = place.sandbox else {
                    return Err(unreachable(
                        "no sandbox works here, so the server cannot be started; recount doctor says why"
                            .into(),
                    ));
                };
                if let Some(why) = place.no_network.filter(|_| *network) {
                    return Err(unreachable(format!("the server cannot have the network: {why}")));
                }
                let started = Pipes::start(sandbox, argv, environment, place.root, *network).await;
                let pipes =
                    started.map_err(|why| unreachable(format!("the server could not be started: {why}")))?;
                Ok(Wire::Pipes(Box::new(pipes)))
            }
        }
    }
}

/// Whether a server that did not answer `server/discover` with a result may speak an older version.
fn may_be_older(fault: &Fault) -> bool {
    match (&fault.refusal, fault.code) {
        (Some((number, data)), code::REFUSED) => {
            let supported = data.get("supported").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let speaks_older =
                || supported.iter().filter_map(Value::as_str).any(|said| WITH_INITIALIZE.contains(&said));
            !MODERN_REFUSALS.contains(number) || speaks_older()
        }
        (Some((status, _)), code::UNREACHABLE) => matches!(status, 400 | 404 | 405 | 406 | 415 | 422),
        (None, code::TIMEOUT | code::ENDED | code::GARBLED) => true,
        _ => false,
    }
}

fn is_list_changed(method: &str) -> bool {
    method == "notifications/tools/list_changed"
}

fn client_info() -> Value {
    json!({ "name": "recount", "version": env!("CARGO_PKG_VERSION") })
}

/// Who asks, in which version, and that nothing is offered beside tools.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The answers to what a server wants to know: no form is filled in, no folder is named, and no model is asked for it.
fn declined(asked: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
    let answer = |(key, request): (&String, &Value)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let answer = match method {
            "elicitation/create" => json!({ "action": "decline" }),
            "roots/list" => json!({ "roots": [] }),
            other => {
                let other: String = other.chars().take(NAMED_CHARS_MAX).collect();
                let why = format!("the server wants {other:?} of this client, which does not offer it");
                return Err(Fault::new(code::INPUT_REQUIRED, why));
            }
        };
        Ok((key.clone(), answer))
    };
    asked.iter().map(answer).collect()
}
