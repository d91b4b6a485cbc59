//! Handles each message of the toy server. Start at [`ToyServer::answers`].

use std::io::Write as _;

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ToyEra {
    Old,
    Strict,
    New,
    Mute,
}

pub(crate) struct ToyServer {
    era: ToyEra,
    initialized: bool,
    renamed: bool,
    /// The call that waits for responses of the client, and the responses so far.
    pending_call: Option<(Value, Vec<String>)>,
}

/// A picture of one pixel.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

impl ToyServer {
    pub(crate) fn new(era: ToyEra) -> Self {
        ToyServer { era, initialized: false, renamed: false, pending_call: None }
    }

    pub(crate) fn answers(&mut self, message: &Value) -> Vec<Value> {
        let id = message["id"].clone();
        let params = &message["params"];
        match (self.era, message["method"].as_str()) {
            (ToyEra::Mute, _) => Vec::new(),
            (_, None) => self.receive_response(message),
            (ToyEra::Strict, Some(method)) if !self.initialized && method != "initialize" => {
                std::process::exit(3)
            }
            (ToyEra::New, Some("server/discover")) => vec![result(
                &id,
                json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                    "ttlMs": 0, "cacheScope": "private",
                }),
            )],
            (ToyEra::New, Some(_))
                if params["_meta"]["io.modelcontextprotocol/protocolVersion"] != "2026-07-28" =>
            {
                vec![error(&id, -32_602, "the request has no version")]
            }
            (ToyEra::Old | ToyEra::Strict, Some("initialize")) => {
                self.initialized = true;
                vec![result(
                    &id,
                    json!({
                        "protocolVersion": "2025-06-18", "capabilities": { "tools": { "listChanged": true } },
                        "serverInfo": { "name": "toy", "version": "1" },
                    }),
                )]
            }
            (_, Some("notifications/cancelled")) => {
                std::fs::write("cancelled", params.to_string()).ok();
                Vec::new()
            }
            (_, Some(method)) if method.starts_with("notifications/") => Vec::new(),
            (_, Some("tools/list")) => vec![self.list(&id, params)],
            (_, Some("tools/call")) => self.call(&id, params),
            (_, Some(method)) => vec![error(&id, -32_601, &format!("there is no {method}"))],
        }
    }

    /// Lists the tools in two pages.
    fn list(&self, id: &Value, params: &Value) -> Value {
        let text =
            json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let none = json!({ "type": "object" });
        let echo = if self.renamed { "echo_anew" } else { "echo" };
        if params["cursor"].is_null() {
            let tools = json!([
                { "name": echo, "description": "Says it again.", "inputSchema": text },
                { "name": "drop.all", "inputSchema": none, "annotations": { "destructiveHint": true } },
            ]);
            return result(id, json!({ "tools": tools, "nextCursor": "more" }));
        }
        let others = [
            "whoami", "fail", "dot", "die", "hang", "flood", "garble", "rename", "asks", "rounds", "big",
            "twice.a", "twice_a",
        ];
        let tools: Vec<Value> =
            others.iter().map(|name| json!({ "name": name, "inputSchema": none })).collect();
        result(id, json!({ "tools": tools }))
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Value> {
        let name = params["name"].as_str().unwrap_or_default();
        // Records each call that was executed.
        let mut calls = std::fs::OpenOptions::new().create(true).append(true).open("calls").ok();
        calls.iter_mut().for_each(|calls| writeln!(calls, "{name}").expect("the folder takes it"));
        match name {
            "echo" | "echo_anew" | "drop.all" => {
                vec![text_result(id, params["arguments"]["text"].as_str().unwrap_or_default())]
            }
            "whoami" => {
                let names: Vec<String> =
                    std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                let folder = std::env::current_dir().unwrap_or_default();
                vec![text_result(id, &format!("{}\n{}", folder.display(), names.join("\n")))]
            }
            "fail" => vec![result(
                id,
                json!({ "content": [{ "type": "text", "text": "no such page" }], "isError": true }),
            )],
            "dot" => vec![result(
                id,
                json!({ "content": [
                { "type": "text", "text": "a dot" },
                { "type": "image", "mimeType": "image/png", "data": DOT },
                { "type": "resource_link", "uri": "file:///dot.png", "name": "dot.png" },
            ] }),
            )],
            "die" => {
                eprintln!("the toy breaks");
                std::process::exit(7)
            }
            "hang" => Vec::new(),
            "flood" => loop {
                println!(
                    "{}",
                    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "x".repeat(4096) } })
                );
            },
            "garble" => {
                (0..100).for_each(|number| println!("this is no message: {number}"));
                Vec::new()
            }
            "rename" => {
                self.renamed = true;
                vec![
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
                    text_result(id, "renamed"),
                ]
            }
            "asks" => {
                self.pending_call = Some((id.clone(), Vec::new()));
                let ask =
                    |method: &str| json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": {} });
                ["ping", "roots/list", "sampling/createMessage", "elicitation/create"].map(ask).to_vec()
            }
            "rounds" => vec![round(id, params)],
            "big" => vec![text_result(id, &"é".repeat(1 << 20))],
            _ => vec![error(id, -32_602, "there is no such tool")],
        }
    }

    /// Handles the client's response to a request of the server.
    fn receive_response(&mut self, message: &Value) -> Vec<Value> {
        let Some((id, responses)) = &mut self.pending_call else { return Vec::new() };
        responses.push(format!(
            "{}: {}",
            message["id"],
            message.get("error").map_or(&message["result"], |error| &error["code"])
        ));
        if responses.len() < 4 {
            return Vec::new();
        }
        let answer = text_result(id, &responses.join("\n"));
        self.pending_call = None;
        vec![answer]
    }
}

/// Requests input twice before it returns, and returns the received input.
fn round(id: &Value, params: &Value) -> Value {
    let requests = json!({ "name": { "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": {} } },
        "folders": { "method": "roots/list" } });
    match params["requestState"].as_str() {
        None => result(
            id,
            json!({ "resultType": "input_required", "requestState": "first", "inputRequests": requests }),
        ),
        Some("first") => {
            let state = params["inputResponses"].to_string();
            result(id, json!({ "resultType": "input_required", "requestState": state }))
        }
        Some(state) => text_result(id, state),
    }
}

fn text_result(id: &Value, text: &str) -> Value {
    result(id, json!({ "content": [{ "type": "text", "text": text }] }))
}

pub(crate) fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
