//! An editor for tests: starts the agent and speaks with it, message by message.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::server::{PATIENCE, Server, lines_of, recount};

pub(super) struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    last: u64,
    /// Messages that came while another was waited for.
    kept: Vec<Value>,
}

impl Editor {
    pub(super) fn start(server: &Server, more: &[&str]) -> Self {
        Editor::at(&server.url(), "assistant", more)
    }

    pub(super) fn at(url: &str, agent: &str, more: &[&str]) -> Self {
        let mut command = recount();
        command.args(["--url", url, "acp", "--agent", agent]).args(more);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = lines_of(child.stdout.take().unwrap());
        let input = child.stdin.take();
        Editor { child, input, output, last: 0, kept: Vec::new() }
    }

    pub(super) fn line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends a request; its id is the answer.
    pub(super) fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = json!(self.last);
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    pub(super) fn next(&mut self) -> Value {
        let line = self.output.recv_timeout(PATIENCE).expect("a message comes");
        serde_json::from_str(&line).unwrap()
    }

    /// Reads up to the answer of a request: what came before it, and the answer.
    pub(super) fn until(&mut self, id: &Value) -> (Vec<Value>, Value) {
        self.find(|message| message.get("method").is_none() && message["id"] == *id)
    }

    /// Reads up to a message: what came before it, and the message.
    pub(super) fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut before = std::mem::take(&mut self.kept);
        loop {
            let message = self.next();
            if wanted(&message) {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// The same, and keeps what came before it for the next that is waited for.
    pub(super) fn next_request(&mut self, method: &str) -> Value {
        let (before, message) = self.find(|message| message["method"] == method);
        self.kept = before;
        message
    }

    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let (before, answer) = self.until(&id);
        self.kept = before;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(super) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let (before, answer) = self.until(&id);
        self.kept = before;
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].clone()
    }

    pub(super) fn initialize(&mut self, capabilities: Value) -> Value {
        self.call("initialize", json!({"protocolVersion": 2, "clientCapabilities": capabilities}))
    }

    pub(super) fn session(&mut self, cwd: &Path) -> String {
        let made = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(made["modes"]["currentModeId"], "policy", "{made}");
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub(super) fn send_prompt(&mut self, session: &str, words: &str) -> Value {
        let prompt = json!([{"type": "text", "text": words}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    pub(super) fn prompt(&mut self, session: &str, words: &str) -> (Vec<Value>, Value) {
        let id = self.send_prompt(session, words);
        self.until(&id)
    }

    pub(super) fn answer(&mut self, request: &Value, result: Value) {
        let id = &request["id"];
        self.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    /// Answers a permission.
    pub(super) fn choose(&mut self, request: &Value, option: &str) {
        self.answer(request, json!({"outcome": {"outcome": "selected", "optionId": option}}));
    }

    /// Closes the input, and waits until it ends.
    pub(super) fn end(mut self) -> i32 {
        self.input.take();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // It may have ended before, which is just as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The updates of one kind.
pub(super) fn updates(messages: &[Value], kind: &str) -> Vec<Value> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
}

/// The text of the chunks of one kind.
pub(super) fn text(messages: &[Value], kind: &str) -> String {
    updates(messages, kind).iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}
