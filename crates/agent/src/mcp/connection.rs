//! A connection to one MCP server: detects its protocol version, lists its tools and calls them.
//!
//! There are two eras. Until version 2025-11-25 a connection begins with `initialize` and may have a session. From
//! 2026-07-28 on it begins with `server/discover`, every request names its client, and a call may take several rounds.
//! The newer era is tried first. Start at [`Connection`]. The module must not depend on runs.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::era::{ProtocolEra, STATELESS, WITH_INITIALIZE};
use super::fault::{Fault, code};
use super::http::{Http, Subject};
use super::message;
use super::pipes::Pipes;
use super::quota::ReadQuota;
use super::server::{McpServer, McpTransport};
use crate::limits::NAMED_CHARS_MAX;
use crate::mcp::limits;
use crate::sandbox::Sandbox;

/// Error codes of a server of the newer era: unsupported version, missing capability, wrong headers.
const MODERN_REFUSALS: &[i64] = &[-32_022, -32_021, -32_020];

/// Where the process of a server runs.
#[derive(Clone, Copy)]
pub(crate) struct ProcessContext<'a> {
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) no_network: Option<&'a str>,
    pub(crate) root: &'a Path,
}

enum Wire {
    Pipes(Box<Pipes>),
    Http(Box<Http>),
}

/// A connection to one server.
pub(crate) struct Connection {
    wire: Wire,
    era: ProtocolEra,
    next_id: u64,
    /// The id of the open request, until its response is read.
    open: Option<u64>,
    /// Whether the server announced that its list of tools changed.
    pub(crate) list_changed: bool,
}

impl Connection {
    /// Connects to a server and detects its protocol version.
    pub(crate) async fn open(
        server: &McpServer,
        context: ProcessContext<'_>,
        until: Instant,
    ) -> Result<Connection, Fault> {
        let wire = Wire::open(server, context).await?;
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
                // The server accepts no request before its handshake, so the state of this connection is unknown.
                Err(_) => connection = Connection { wire: Wire::open(server, context).await?, ..connection },
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
        let found = found
            .map_err(|_| Fault::new(code::TIMEOUT, "the server did not respond to server/discover"))??;
        let versions =
            found.get("supportedVersions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if versions.iter().any(|version| version == STATELESS) {
            return Ok(());
        }
        let supported: Vec<&str> =
            versions.iter().filter_map(Value::as_str).take(WITH_INITIALIZE.len()).collect();
        if supported.iter().any(|version| WITH_INITIALIZE.contains(version)) {
            return Err(Fault::refused(-32_601, "it supports only older versions", Value::Null));
        }
        Err(Fault::new(
            code::GARBLED,
            format!(
                "the server supports the protocol versions {supported:?}; this client supports {STATELESS} \
                     and {WITH_INITIALIZE:?}"
            ),
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
        let response = timeout_at(until, self.request("initialize", params, None)).await;
        let response = response
            .map_err(|_| Fault::new(code::TIMEOUT, "the server did not respond to initialize in time"))??;
        let version = response.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let Some(version) = WITH_INITIALIZE.iter().find(|known| **known == version) else {
            let version: String = version.chars().take(NAMED_CHARS_MAX).collect();
            return Err(Fault::new(
                code::GARBLED,
                format!(
                    "the server supports protocol version {version:?}; this client supports \
                     {WITH_INITIALIZE:?}"
                ),
            ));
        };
        self.set_era(ProtocolEra::Initialize, version);
        let sent = self.notify("notifications/initialized", json!({}));
        timeout_at(until, sent)
            .await
            .map_err(|_| Fault::new(code::TIMEOUT, "the server did not complete the handshake in time"))?
    }

    fn set_era(&mut self, era: ProtocolEra, version: &'static str) {
        self.era = era;
        if let Wire::Http(http) = &mut self.wire {
            http.version = Some(version);
            http.names_methods = era == ProtocolEra::Stateless;
        }
    }

    /// Lists the tools of the server, as it describes them.
    pub(crate) async fn tools(&mut self) -> Result<Vec<Value>, Fault> {
        self.list_changed = false;
        let mut tools = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..limits::MCP_PAGES_MAX {
            let mut params = Map::new();
            params.extend(cursor.take().map(|cursor| ("cursor".to_owned(), cursor)));
            let mut page = self.request("tools/list", params, None).await?;
            let Some(Value::Array(listed)) = page.get_mut("tools").map(Value::take) else {
                return Err(Fault::new(code::GARBLED, "the server's list of tools is not a JSON array"));
            };
            tools.extend(listed);
            cursor = page.get_mut("nextCursor").map(Value::take).filter(Value::is_string);
            if cursor.is_none() || tools.len() > limits::MCP_TOOLS_MAX {
                break;
            }
        }
        Ok(tools)
    }

    /// Calls a tool. Declines requests of the server for more input, up to the maximum number of rounds.
    pub(crate) async fn call(&mut self, tool: &str, input: &Value) -> Result<Value, Fault> {
        let mut params = Map::new();
        params.insert("name".into(), tool.into());
        params.insert("arguments".into(), input.clone());
        for _ in 0..limits::MCP_ROUNDS_MAX {
            let mut result = self.request("tools/call", params.clone(), Some(tool)).await?;
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            let requested = result.get("inputRequests").and_then(Value::as_object);
            let declines = requested.map(decline).transpose()?.unwrap_or_default();
            params.remove("inputResponses");
            if !declines.is_empty() {
                params.insert("inputResponses".into(), Value::Object(declines));
            }
            params.remove("requestState");
            params.extend(
                result.get_mut("requestState").map(|state| ("requestState".to_owned(), state.take())),
            );
        }
        let most = limits::MCP_ROUNDS_MAX;
        Err(Fault::new(
            code::INPUT_REQUIRED,
            format!("the server requested more input {most} times, which is the limit"),
        ))
    }

    /// Processes the notifications since the last request.
    pub(crate) fn drain(&mut self) -> Result<(), Fault> {
        let Wire::Pipes(pipes) = &mut self.wire else { return Ok(()) };
        let mut changed = false;
        let drained = pipes.drain(&mut |method| changed |= is_list_changed(method));
        self.list_changed |= changed;
        drained
    }

    /// Cancels the open request.
    pub(crate) async fn give_up(&mut self, reason: &str) {
        let Some(id) = self.open.take() else { return };
        if self.era == ProtocolEra::Stateless && matches!(self.wire, Wire::Http(_)) {
            // Closing the HTTP response cancels the request.
            return;
        }
        let sent = self.notify("notifications/cancelled", json!({ "requestId": id, "reason": reason }));
        // A server that does not read is ended anyway.
        tokio::time::timeout(limits::MCP_CLOSE_WAIT, sent).await.ok();
    }

    /// Whether the last request has its response, so that another can be sent.
    pub(crate) fn is_usable(&self) -> bool {
        self.open.is_none()
    }

    pub(crate) async fn close(self) {
        match self.wire {
            Wire::Pipes(pipes) => pipes.close().await,
            Wire::Http(http) => {
                tokio::time::timeout(limits::MCP_CLOSE_WAIT, http.close()).await.ok();
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
        let mut on_notification = |method: &str| changed |= is_list_changed(method);
        let mut quota = ReadQuota::new();
        let received = match &mut self.wire {
            Wire::Pipes(pipes) => {
                pipes.send(&body);
                pipes.exchange(id, &mut quota, &mut on_notification).await
            }
            Wire::Http(http) => {
                http.exchange(id, Subject { method, name }, body, &mut quota, &mut on_notification).await
            }
        };
        self.list_changed |= changed;
        let response = received?;
        self.open = None;
        response
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
    async fn open(server: &McpServer, context: ProcessContext<'_>) -> Result<Wire, Fault> {
        match &server.transport {
            McpTransport::Url(endpoint) => Ok(Wire::Http(Box::new(Http::new(endpoint.clone())))),
            McpTransport::Command { argv, environment, network } => {
                let unreachable = |why: String| Fault::new(code::UNREACHABLE, why);
                let Some(sandbox) = context.sandbox else {
                    return Err(unreachable(
                        "no sandbox works on this machine, so the server cannot be started; `recount doctor` \
                         shows the reason"
                            .into(),
                    ));
                };
                if let Some(why) = context.no_network.filter(|_| *network) {
                    return Err(unreachable(format!("the server cannot get network access: {why}")));
                }
                let started = Pipes::start(sandbox, argv, environment, context.root, *network).await;
                let pipes =
                    started.map_err(|why| unreachable(format!("the server cannot be started: {why}")))?;
                Ok(Wire::Pipes(Box::new(pipes)))
            }
        }
    }
}

/// Whether a server that rejected `server/discover` may support only an older version.
fn may_be_older(fault: &Fault) -> bool {
    match (&fault.refusal, fault.code) {
        (Some((number, data)), code::REFUSED) => {
            let supported = data.get("supported").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let speaks_older = || {
                supported.iter().filter_map(Value::as_str).any(|version| WITH_INITIALIZE.contains(&version))
            };
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

/// The client information and version of a stateless request. No capabilities are offered.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Builds the responses that decline requests for input: no form, no folders, no model.
fn decline(requests: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
    let response = |(key, request): (&String, &Value)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let response = match method {
            "elicitation/create" => json!({ "action": "decline" }),
            "roots/list" => json!({ "roots": [] }),
            other => {
                let other: String = other.chars().take(NAMED_CHARS_MAX).collect();
                let why = format!("the server requested {other:?}, which this client does not support");
                return Err(Fault::new(code::INPUT_REQUIRED, why));
            }
        };
        Ok((key.clone(), response))
    };
    requests.iter().map(response).collect()
}
