//! Records the messages between a client and a server of MCP, the Model Context Protocol, line by line.
//!
//! Calls of tools become calls of the run, with their results and errors; every other message is kept as it is. It must
//! not know processes or sockets. Entry point: [`McpRecording`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::draft::{Draft, Fields};
use crate::kept::cut;
use crate::limits;
use crate::recording::{CallStart, Ending, How, Outcome, Recording};
use crate::source::Source;
use crate::transcript::text;

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpSide {
    Client,
    Server,
}

impl McpSide {
    fn word(self) -> &'static str {
        match self {
            McpSide::Client => "client",
            McpSide::Server => "server",
        }
    }
}

/// A message that is too long to be read: what is known of all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LongMessage {
    /// As JSON text.
    pub id: Option<String>,
    pub method: Option<String>,
    /// It is an error, or a result that is marked as one.
    pub is_error: bool,
    pub size_bytes: u64,
}

/// Binary content of a result, to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultData {
    /// Our id of the call.
    call: String,
    /// Such as `audio`, or the address of a resource.
    name: String,
    pub mime: String,
    pub base64: String,
}

impl ResultData {
    fn of(call: &str, block: &Value) -> Option<Self> {
        let (of, data, name) = match text(block, "type")? {
            kind @ ("image" | "audio") => (block, text(block, "data")?, kind),
            "resource" => {
                let resource = block.get("resource")?;
                (resource, text(resource, "blob")?, text(resource, "uri").unwrap_or("resource"))
            }
            _ => return None,
        };
        let mime = text(of, "mimeType").filter(|mime| !mime.is_empty()).unwrap_or("application/octet-stream");
        Some(ResultData {
            call: call.to_owned(),
            name: cut(name, limits::NAME_BYTES_MAX).0.to_owned(),
            mime: cut(mime, limits::NAME_BYTES_MAX).0.to_owned(),
            base64: data.to_owned(),
        })
    }

    /// The event that names it, once it is uploaded. It belongs directly after the outcome of its call.
    pub fn stored(&self, artifact_id: &str, hash: Option<String>, size_bytes: u64) -> Draft {
        let fields = Fields::new()
            .put("artifact_id", artifact_id)
            .put("kind", "tool_result_blob")
            .put("mime", self.mime.as_str())
            .put("summary", self.name.as_str())
            .put("size_bytes", size_bytes)
            .maybe("hash", hash)
            .put("tool_call_id", self.call.as_str());
        Draft::new("artifact.created", fields.done())
    }

    /// The event for data that could not be uploaded.
    pub fn not_stored(&self, reason: &str) -> Draft {
        let fields = Fields::new()
            .put("tool_call_id", self.call.as_str())
            .put("mime", self.mime.as_str())
            .put("summary", self.name.as_str())
            .put("reason", cut(reason, limits::SENTENCE_BYTES_MAX).0);
        Draft::new("ext.mcp.data_not_stored", fields.done())
    }

    /// Whether this event is the outcome of its call.
    pub fn belongs_after(&self, draft: &Draft) -> bool {
        matches!(&*draft.kind, "tool.completed" | "tool.failed" | "tool.cancelled")
            && text(&draft.data, "tool_call_id") == Some(&self.call)
    }
}

/// The recording of one connection.
#[derive(Debug)]
pub struct McpRecording {
    recording: Recording,
    /// The server's own name once it has sent it, else that of its command.
    server: String,
    is_named: bool,
    client: Option<(String, Option<String>)>,
    /// Requests of the client without an answer, by their id as JSON.
    open: BTreeMap<String, Request>,
    calls: u64,
    /// Tools that the server declares as destructive. If it is full, every tool counts as one.
    destructive: BTreeSet<String>,
    unjudged: Vec<UnjudgedCall>,
    data: Vec<ResultData>,
}

/// A call that has no verdict yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnjudgedCall {
    id: String,
    pub server: String,
    pub tool: String,
    pub destructive: bool,
}

/// The verdict of a policy on a call. It has no effect on the call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallVerdict {
    /// `allow`, `ask`, `block`, or `unknown` if no policy was available.
    pub verdict: String,
    pub risk_level: Option<String>,
    pub irreversible: Option<bool>,
    pub policy_id: Option<String>,
    pub reason: Option<String>,
    pub policy_digest: Option<String>,
}

impl UnjudgedCall {
    /// The verdict as an event, to be appended directly after the call's `tool.invoked`.
    pub fn judged(&self, verdict: CallVerdict) -> Draft {
        let fields = Fields::new()
            .put("tool_call_id", self.id.as_str())
            .put("verdict", verdict.verdict)
            .put("enforced", false)
            .put("mcp_server", self.server.as_str())
            .put("mcp_tool", self.tool.as_str())
            .maybe("risk_level", verdict.risk_level)
            .maybe("irreversible", verdict.irreversible)
            .maybe("policy_id", verdict.policy_id)
            .maybe(
                "reason",
                verdict.reason.map(|reason| cut(&reason, limits::SENTENCE_BYTES_MAX).0.to_owned()),
            )
            .maybe("policy_digest", verdict.policy_digest);
        Draft::new("ext.recount.policy_verdict", fields.done())
    }

    /// Whether this event is that of the call.
    pub fn is_started_by(&self, draft: &Draft) -> bool {
        draft.kind == "tool.invoked" && text(&draft.data, "tool_call_id") == Some(&self.id)
    }
}

#[derive(Debug)]
enum Request {
    /// A call of a tool, by our name for it.
    Call(String),
    Other,
}

impl McpRecording {
    /// `server` is its name until it names itself; `wire` is `mcp-stdio` or `mcp-http`.
    pub fn begin(server: &str, wire: &str) -> Self {
        let shows = ["tool calls", "results", "errors", "policy verdicts", "other messages unchanged"];
        let does_not_show = ["messages of people", "tokens", "cost"];
        let source = Source::new("mcp", wire, &shows, &does_not_show);
        McpRecording {
            recording: Recording::begin(&source),
            server: cut(server, limits::NAME_BYTES_MAX).0.to_owned(),
            is_named: false,
            client: None,
            open: BTreeMap::new(),
            calls: 0,
            destructive: BTreeSet::new(),
            unjudged: Vec::new(),
            data: Vec::new(),
        }
    }

    /// The client's name and version, as far as they are known.
    pub fn client(&self) -> Option<(&str, Option<&str>)> {
        self.client.as_ref().map(|(name, version)| (name.as_str(), version.as_deref()))
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether the server has sent its own name.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Takes what is to be appended, in order.
    pub fn drain(&mut self) -> Vec<Draft> {
        self.recording.drain()
    }

    /// Takes the drained calls that need a verdict.
    pub fn take_unjudged(&mut self) -> Vec<UnjudgedCall> {
        std::mem::take(&mut self.unjudged)
    }

    /// Takes the data of the drained outcomes.
    pub fn take_data(&mut self) -> Vec<ResultData> {
        std::mem::take(&mut self.data)
    }

    /// A line that was forwarded.
    pub fn line(&mut self, from: McpSide, line: &str) {
        match serde_json::from_str::<Value>(line) {
            // A batch, as one revision has them.
            Ok(Value::Array(messages)) => {
                messages.iter().for_each(|message| self.message(from, message, &message.to_string()));
            }
            Ok(message @ Value::Object(_)) => self.message(from, &message, line),
            Ok(_) => self.unreadable(from, line, "it is not a JSON object"),
            Err(why) => self.unreadable(from, line, &why.to_string()),
        }
    }

    /// Something was forwarded that could not be recorded.
    pub fn lost(&mut self, reason: &str, what: &str) {
        self.recording.gap(reason, what);
    }

    /// A line that was forwarded and is too long to be read; its beginning. The outcome of a call is recorded as an
    /// outcome, with that beginning.
    pub fn too_long(&mut self, from: McpSide, beginning: &str, bytes_max: usize, long: &LongMessage) {
        let what = format!(
            "a message of the {} with more than {bytes_max} bytes, except its beginning",
            from.word()
        );
        self.recording.gap("message_too_long", &what);
        let part = json!({ "text": beginning, "truncated": true, "size_bytes": long.size_bytes });
        match (from, long.method.as_deref(), &long.id) {
            (McpSide::Client, Some("tools/call"), Some(id)) => {
                let tool = named_tool(beginning).unwrap_or_default();
                return self.call_of(id.clone(), tool, part);
            }
            (McpSide::Client, Some(_), Some(id)) => self.remember(id.clone(), Request::Other),
            (McpSide::Server, None, Some(id)) => {
                if let Some(Request::Call(call)) = self.open.remove(id) {
                    let how = if long.is_error { How::Failed } else { How::Completed };
                    let error = long.is_error.then(|| "the tool reported an error".to_owned());
                    return self
                        .recording
                        .call_end(&call, Outcome { output: Some(part), error, ..Outcome::of(how) });
                }
            }
            _ => {}
        }
        self.recording.raw_text(&format!("{}.long_message", from.word()), beginning, None);
    }

    pub fn end(&mut self, ending: Ending) {
        self.recording.end(ending);
    }

    fn unreadable(&mut self, from: McpSide, line: &str, why: &str) {
        self.recording.gap("message_invalid", &format!("a message of the {}: {why}", from.word()));
        self.recording.raw_text(&format!("{}.invalid_message", from.word()), line, None);
    }

    fn message(&mut self, from: McpSide, message: &Value, raw: &str) {
        let id = message.get("id").filter(|id| !id.is_null()).map(Value::to_string);
        match (from, text(message, "method"), id) {
            (McpSide::Client, Some("tools/call"), Some(id)) => self.call(id, message),
            (McpSide::Client, Some(method), id) => {
                self.learn_client(message);
                if let Some(id) = id {
                    self.remember(id, Request::Other);
                }
                if method == "notifications/cancelled" {
                    self.cancelled(message);
                }
                self.keep(from, method, raw);
            }
            (McpSide::Server, None, Some(id)) => match self.open.remove(&id) {
                Some(Request::Call(call)) => self.answer(&call, message),
                Some(Request::Other) => {
                    self.learn_server(message);
                    self.learn_tools(message);
                    self.keep(from, "answer", raw);
                }
                None => self.keep(from, "answer_without_request", raw),
            },
            (from, Some(method), _) => self.keep(from, method, raw),
            (from, None, _) => self.keep(from, "answer", raw),
        }
    }

    fn keep(&mut self, from: McpSide, name: &str, raw: &str) {
        self.recording.raw_text(&format!("{}.{name}", from.word()), raw, None);
    }

    /// Of more requests than the bound the answers are kept without their request.
    fn remember(&mut self, id: String, request: Request) {
        if self.open.len() < limits::MCP_REQUESTS_OPEN_MAX {
            self.open.insert(id, request);
        }
    }

    fn call(&mut self, id: String, message: &Value) {
        let parameters = message.get("params").unwrap_or(&Value::Null);
        let tool = text(parameters, "name").unwrap_or_default().to_owned();
        let input = parameters.get("arguments").cloned().unwrap_or_else(|| json!({}));
        self.call_of(id, tool, input);
    }

    fn call_of(&mut self, id: String, tool: String, input: Value) {
        self.calls += 1;
        let call = format!("mcp-{}", self.calls);
        let named = cut(&tool, limits::NAME_BYTES_MAX).0;
        self.unjudged.push(UnjudgedCall {
            id: call.clone(),
            server: self.server.clone(),
            tool: named.to_owned(),
            destructive: self.destructive.contains(named)
                || self.destructive.len() >= limits::MCP_TOOLS_DESTRUCTIVE_MAX,
        });
        self.recording.call(CallStart {
            foreign_id: call.clone(),
            name: tool.clone(),
            input,
            summary: None,
            kind: Some("mcp".to_owned()),
            mcp: Some((self.server.clone(), tool)),
        });
        self.recording.call_running(&call);
        self.remember(id, Request::Call(call));
    }

    fn answer(&mut self, call: &str, message: &Value) {
        let outcome = match (message.get("result"), message.get("error")) {
            (Some(result), None) => {
                let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
                let data = blocks.filter_map(|block| ResultData::of(call, block));
                self.data.extend(data.take(limits::MCP_RESULT_DATA_MAX));
                let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
                let error = is_error.then(|| plain(result));
                let how = if is_error { How::Failed } else { How::Completed };
                Outcome { output: Some(result.clone()), error, ..Outcome::of(how) }
            }
            (_, Some(error)) => Outcome {
                output: Some(error.clone()),
                error: Some(text(error, "message").unwrap_or("an error without a message").to_owned()),
                code: error.get("code").map(|code| format!("jsonrpc_{code}")),
                ..Outcome::of(How::Failed)
            },
            (None, None) => Outcome {
                error: Some("the response has neither a result nor an error".to_owned()),
                code: Some("answer_invalid".to_owned()),
                ..Outcome::of(How::Failed)
            },
        };
        self.recording.call_end(call, outcome);
    }

    /// The client does not wait for the answer any more.
    fn cancelled(&mut self, message: &Value) {
        let Some(id) = message.pointer("/params/requestId").map(Value::to_string) else { return };
        let Some(Request::Call(call)) = self.open.get(&id) else { return };
        let reason = message.pointer("/params/reason").and_then(Value::as_str);
        let error = format!("cancelled by the client: {}", reason.unwrap_or("no reason given"));
        let call = call.clone();
        self.recording.call_end(&call, Outcome { error: Some(error), ..Outcome::of(How::Cancelled) });
    }

    fn learn_client(&mut self, message: &Value) {
        let about = message.pointer("/params/clientInfo");
        if let (None, Some(about)) = (&self.client, about)
            && let Some(name) = text(about, "name").filter(|name| !name.is_empty())
        {
            let short = |name: &str| cut(name, limits::NAME_BYTES_MAX).0.to_owned();
            self.client = Some((short(name), text(about, "version").map(short)));
        }
    }

    /// Reads the annotations of the tools in a list.
    fn learn_tools(&mut self, message: &Value) {
        let tools = message.pointer("/result/tools").and_then(Value::as_array);
        for tool in tools.into_iter().flatten() {
            let Some(name) = text(tool, "name").map(|name| cut(name, limits::NAME_BYTES_MAX).0) else {
                continue;
            };
            let hint = |hint: &str| tool.pointer(&format!("/annotations/{hint}")) == Some(&Value::Bool(true));
            if !hint("destructiveHint") || hint("readOnlyHint") {
                self.destructive.remove(name);
            } else if self.destructive.len() < limits::MCP_TOOLS_DESTRUCTIVE_MAX {
                self.destructive.insert(name.to_owned());
            }
        }
    }

    fn learn_server(&mut self, message: &Value) {
        let name = message.pointer("/result/serverInfo/name").and_then(Value::as_str);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.server = cut(name, limits::NAME_BYTES_MAX).0.to_owned();
            self.is_named = true;
        }
    }
}

/// The tool that the beginning of a call names.
fn named_tool(beginning: &str) -> Option<String> {
    let (_, rest) = beginning.split_once("\"name\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    serde_json::Deserializer::from_str(value).into_iter::<String>().next()?.ok()
}

/// The text of a result.
fn plain(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
    if texts.is_empty() { "the tool reported an error".to_owned() } else { texts.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lines: &[(McpSide, &str)]) -> Vec<(String, Value)> {
        let mut recording = McpRecording::begin("server.py", "mcp-stdio");
        lines.iter().for_each(|(from, line)| recording.line(*from, line));
        recording.end(Ending::Finished { status: "completed".into() });
        recording.drain().into_iter().map(|draft| (draft.kind.into_owned(), draft.data)).collect()
    }

    #[test]
    fn a_policy_judges_each_call_by_the_annotations_of_its_tool() {
        use McpSide::{Client, Server};
        let mut recording = McpRecording::begin("server.py", "mcp-stdio");
        for (from, line) in [
            (Client, r#"{"id":0,"method":"initialize","params":{}}"#),
            (Server, r#"{"id":0,"result":{"serverInfo":{"name":"files"}}}"#),
            (Client, r#"{"id":1,"method":"tools/call","params":{"name":"delete"}}"#),
            (Client, r#"{"id":2,"method":"tools/list"}"#),
            (
                Server,
                r#"{"id":2,"result":{"tools":[{"name":"delete","annotations":{"destructiveHint":true}},
                {"name":"read","annotations":{"destructiveHint":true,"readOnlyHint":true}}, {"name":"x"}, 7]}}"#,
            ),
            (Client, r#"{"id":3,"method":"tools/call","params":{"name":"delete"}}"#),
            (Client, r#"{"id":4,"method":"tools/call","params":{"name":"read"}}"#),
        ] {
            recording.line(from, line);
        }
        let drafts = recording.drain();
        let calls = recording.take_unjudged();
        let judged: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), call.destructive)).collect();
        assert_eq!(judged, [("delete", false), ("delete", true), ("read", false)]);
        assert!(calls.iter().all(|call| call.server == "files") && recording.take_unjudged().is_empty());
        let started: Vec<usize> = calls
            .iter()
            .filter_map(|call| drafts.iter().position(|draft| call.is_started_by(draft)))
            .collect();
        assert!(started.is_sorted() && started.len() == 3, "{started:?}");
        // A tool beyond the limit is never treated as harmless.
        let tools: Vec<Value> = (0..=limits::MCP_TOOLS_DESTRUCTIVE_MAX)
            .map(|at| json!({"name": format!("t{at}"), "annotations": {"destructiveHint": true}}))
            .collect();
        recording.line(Client, r#"{"id":5,"method":"tools/list"}"#);
        recording.line(Server, &json!({"id": 5, "result": {"tools": tools}}).to_string());
        recording.line(Client, r#"{"id":6,"method":"tools/call","params":{"name":"t1000"}}"#);
        assert!(recording.take_unjudged()[0].destructive);
        let verdict = CallVerdict { verdict: "allow".to_owned(), ..CallVerdict::default() };
        assert_eq!(
            calls[1].judged(verdict).data,
            json!({"tool_call_id": "mcp-2", "verdict": "allow", "enforced": false, "mcp_server": "files", "mcp_tool": "delete"})
        );
    }

    #[test]
    fn an_outcome_is_an_outcome_however_large() {
        use McpSide::{Client, Server};
        let mut recording = McpRecording::begin("server.py", "mcp-stdio");
        for id in 1..4 {
            let call =
                json!({"id": id, "method": "tools/call", "params": {"name": "read", "arguments": {"n": id}}});
            recording.line(Client, &call.to_string());
        }
        let long = |id: &str, method: Option<&str>, is_error| LongMessage {
            id: Some(id.to_owned()),
            method: method.map(str::to_owned),
            is_error,
            size_bytes: 9_000_000,
        };
        recording.too_long(Server, r#"{"result":{"content":[{"text":"aaa"#, 8, &long("1", None, false));
        recording.too_long(Server, r#"{"result":{"content":[{"text":"bbb"#, 8, &long("2", None, true));
        let beginning = r#"{"method":"tools/call","params":{"name" : "write","arguments":{"text":"cc"#;
        recording.too_long(Client, beginning, 8, &long("4", Some("tools/call"), false));
        recording.line(Server, r#"{"id":4,"result":{"content":[]}}"#);
        recording.end(Ending::Finished { status: "completed".into() });
        let drafts = recording.drain();
        let calls: Vec<(&str, &Value, &Value)> = drafts
            .iter()
            .filter(|draft| draft.kind.starts_with("tool.") && draft.kind != "tool.invoked")
            .map(|draft| (&*draft.kind, &draft.data["tool_call_id"], &draft.data["tool_name"]))
            .collect();
        let ids: Vec<Value> = (1..=4).map(|n| format!("mcp-{n}").into()).collect();
        let (read, write) = (json!("read"), json!("write"));
        assert_eq!(
            calls,
            [
                ("tool.completed", &ids[0], &read),
                ("tool.failed", &ids[1], &read),
                ("tool.completed", &ids[3], &write),
                ("tool.cancelled", &ids[2], &read),
            ]
        );
        let completed = drafts.iter().find(|draft| draft.kind == "tool.completed").unwrap();
        assert_eq!(completed.data["output"]["size_bytes"], 9_000_000);
        assert_eq!(completed.data["output"]["truncated"], true);
    }

    #[test]
    fn calls_are_recorded_with_their_results_and_errors() {
        use McpSide::{Client, Server};
        let events = record(&[
            (
                Client,
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"c","version":"1"}}}"#,
            ),
            (Server, r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"files"}}}"#),
            (
                Client,
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"p":1}}}"#,
            ),
            (Client, r#"{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"write"}}"#),
            (Server, r#"{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no"}}"#),
            (
                Server,
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"bad"}],"isError":true}}"#,
            ),
            // An id that is used again is another call.
            (Client, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#),
            (Server, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#),
            (Client, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}"#),
            (Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#),
            (Client, r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"read"}}"#),
            (Server, "{"),
        ]);
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
        let calls: Vec<(&str, &Value)> = events
            .iter()
            .filter(|(kind, _)| kind.starts_with("tool."))
            .map(|(kind, data)| (kind.as_str(), &data["tool_call_id"]))
            .collect();
        let id = |n: u64| Value::from(format!("mcp-{n}"));
        let ids: Vec<Value> = (1..=5).map(id).collect();
        assert_eq!(
            calls,
            [
                ("tool.invoked", &ids[0]),
                ("tool.invoked", &ids[1]),
                ("tool.failed", &ids[1]),
                ("tool.failed", &ids[0]),
                ("tool.invoked", &ids[2]),
                ("tool.completed", &ids[2]),
                ("tool.invoked", &ids[3]),
                ("tool.cancelled", &ids[3]),
                ("tool.invoked", &ids[4]),
                ("tool.cancelled", &ids[4]),
            ],
            "{kinds:?}"
        );
        let failed: Vec<&Value> =
            events.iter().filter(|(kind, _)| kind == "tool.failed").map(|(_, data)| data).collect();
        assert_eq!([&failed[0]["code"], &failed[0]["error"]], ["jsonrpc_-32602", "no"]);
        assert_eq!(
            [&failed[1]["error"], &failed[1]["mcp_server"], &failed[1]["mcp_tool"]],
            ["bad", "files", "read"]
        );
        assert!(
            kinds.contains(&"ext.mcp.client_initialize") && kinds.contains(&"ext.recount.gap"),
            "{kinds:?}"
        );
        assert_eq!(kinds.last(), Some(&"run.finished"));
    }
}
