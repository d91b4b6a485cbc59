//! An editor that speaks through the recorder: what it sends and reads, byte for byte.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use recount_client::Client;
use serde_json::{Value, json};

use crate::server::{PATIENCE, Server, recount};

pub(crate) struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    words: Receiver<String>,
    next_id: u64,
    pub(crate) sent: Vec<u8>,
    pub(crate) read: Vec<u8>,
}

/// What the recorder and the agent are started with.
#[derive(Default)]
pub(crate) struct Setting<'s> {
    pub(crate) url: String,
    pub(crate) options: &'s [&'s str],
    pub(crate) log: Option<&'s Path>,
    pub(crate) result: Option<Value>,
    pub(crate) state: Option<&'s Path>,
}

impl Setting<'_> {
    pub(crate) fn of(server: &Server) -> Self {
        Setting { url: server.url(), ..Setting::default() }
    }

    pub(crate) fn start(&self) -> Editor {
        let mut command = recount();
        command.args(["--url", &self.url, "acp"]).args(self.options);
        command.env("RECOUNT_ACP_STATE", self.state.unwrap_or(Path::new("/dev/null/state")));
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/process/acp/agent.py");
        command.args(["--", "python3", agent]);
        if let Some(log) = self.log {
            command.env("ACP_LOG", log);
        }
        if let Some(result) = &self.result {
            command.env("ACP_RESULT", result.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the recorder starts");
        let (send, lines) = channel();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        recount_world::thread("editor", move || {
            loop {
                let mut line = Vec::new();
                let read = out.read_until(b'\n', &mut line).unwrap_or(0);
                if read == 0 || send.send(line).is_err() {
                    return;
                }
            }
        });
        let (send, words) = channel();
        let err = BufReader::new(child.stderr.take().expect("it is piped"));
        recount_world::thread("words", move || {
            for line in err.lines().map_while(Result::ok) {
                drop(send.send(line));
            }
        });
        let input = child.stdin.take();
        Editor { child, input, lines, words, next_id: 0, sent: Vec::new(), read: Vec::new() }
    }

    /// Initialized, with a session.
    pub(crate) fn with_session(&self) -> (Editor, String) {
        let mut editor = self.start();
        editor.initialize();
        let session = editor.new_session();
        (editor, session)
    }
}

impl Editor {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the recorder reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn line(&mut self) -> Vec<u8> {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line comes");
        self.read.extend_from_slice(&line);
        line
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_slice(&line)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&line)))
    }

    /// Reads until a message fits; what came before it, and it.
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let line = self.line();
            let message: Value = serde_json::from_slice(&line).unwrap_or(Value::Null);
            if fits(&message) {
                return (before, message);
            }
            before.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request, and what came before it.
    pub(crate) fn answer(&mut self, id: u64) -> (Vec<Value>, Value) {
        self.until(|message| message["id"] == id && message["method"].is_null())
    }

    pub(crate) fn initialize(&mut self) {
        let id = self.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        self.answer(id);
    }

    pub(crate) fn new_session(&mut self) -> String {
        let id = self.request("session/new", &json!({"cwd": "/home/me/project", "mcpServers": []}));
        let (_, answer) = self.answer(id);
        answer["result"]["sessionId"].as_str().expect("there is a session").to_owned()
    }

    /// Sends a prompt whose text is what the agent does.
    pub(crate) fn prompt(&mut self, session: &str, steps: &Value) -> u64 {
        let prompt = json!([{"type": "text", "text": steps.to_string()}]);
        self.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    pub(crate) fn run(&mut self, session: &str, steps: &Value) -> (Vec<Value>, Value) {
        let id = self.prompt(session, steps);
        self.answer(id)
    }

    /// Waits for words on standard error that contain these.
    pub(crate) fn words(&self, part: &str) -> String {
        loop {
            let line = self.words.recv_timeout(PATIENCE).expect("words come");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Ends the input, and waits until all has ended: what was not read yet, the exit status and the words.
    pub(crate) fn end(&mut self) -> (Vec<u8>, i32, Vec<String>) {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            rest.extend_from_slice(&line);
        }
        self.read.extend_from_slice(&rest);
        let status = self.child.wait().expect("it can be waited for");
        let words = self.words.iter().collect();
        (rest, status.code().unwrap_or(-1), words)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The types and data of a run's events.
pub(crate) async fn events(client: &Client, run: &str) -> Vec<(String, Value)> {
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let page = client.read_run_events(run, after, None).await.expect("the run can be read");
        for envelope in &page.data {
            let event: Value = serde_json::from_str(envelope.get()).expect("it is JSON");
            after = event["sequence"].as_u64();
            events.push((event["type"].as_str().unwrap_or("").to_owned(), event["data"].clone()));
        }
        if !page.has_more {
            return events;
        }
    }
}

/// The runs, oldest first.
pub(crate) async fn runs(client: &Client) -> Vec<recount_client::reply::Run> {
    let (mut runs, mut listing) = (Vec::new(), recount_client::Listing::default());
    loop {
        let page = client.list_runs(&listing).await.expect("runs can be listed");
        runs.extend(page.data);
        if !page.has_more {
            runs.reverse();
            return runs;
        }
        listing.after = page.next;
    }
}

/// Waits until something is so.
pub(crate) async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let until = recount_world::moment() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(recount_world::moment() < until, "it is never so");
        crate::server::look_again().await;
    }
}

/// The data of all events of a type.
pub(crate) fn of_type<'e>(events: &'e [(String, Value)], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|(is, _)| is == kind).map(|(_, data)| data).collect()
}
