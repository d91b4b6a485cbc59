//! `recount mcp ADDRESS`: a client on standard input and output, and a server that is reached over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::server::{CommandOutput, Server, recount};

/// The server of `mcp_server.py`, and the requests that it received.
struct McpServer {
    child: Child,
    address: String,
    log: tempfile::NamedTempFile,
}

impl McpServer {
    fn start() -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/process/mcp_server.py");
        let mut child =
            Command::new("python3").arg(script).arg(log.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        McpServer { child, address: address.trim().to_owned(), log }
    }

    fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An MCP client on the standard input and output of `recount mcp`.
pub(super) struct McpClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl McpClient {
    /// One with the recorder for its server.
    fn start(recount_url: &str, address: &str, token: &str) -> Self {
        let mut command = recount();
        command.args(["--url", recount_url, "mcp", "--token-env", "TICKETS_TOKEN", address]);
        McpClient::of(command.env("TICKETS_TOKEN", token))
    }

    pub(super) fn of(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        McpClient { child, input, output }
    }

    pub(super) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(super) fn message(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the recorder says no more");
        serde_json::from_str(&line).unwrap()
    }

    /// What comes up to the answer of a request, the answer last.
    pub(super) fn ask(&mut self, id: u64, method: &str, params: &Value) -> Vec<Value> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut all = Vec::new();
        loop {
            let message = self.message();
            let is_answer = message["id"] == id;
            all.push(message);
            if is_answer {
                return all;
            }
        }
    }

    /// Ends the input; the exit status, and the words on standard error.
    pub(super) fn end(mut self) -> (i32, String) {
        drop(self.input.take());
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        (self.child.wait().unwrap().code().unwrap(), words)
    }
}

const INITIALIZE: &str = r#"{"clientInfo":{"name":"editor","version":"7"},"capabilities":{}}"#;

#[test]
fn a_server_over_http_is_forwarded_and_recorded() {
    let data = tempfile::tempdir().unwrap();
    let (server, tickets) = (Server::start(data.path()), McpServer::start());
    let mut client = McpClient::start(&server.url(), &tickets.address, "secret");
    let initialized = client.ask(0, "initialize", &serde_json::from_str(INITIALIZE).unwrap());
    assert_eq!(initialized[0]["result"]["serverInfo"]["name"], "tickets");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // What the server sends by itself.
    assert_eq!(client.message()["method"], "notifications/tools/list_changed");
    let answered = client.ask(1, "tools/call", &json!({"name": "book", "arguments": {"seats": 2}}));
    assert_eq!(answered[0]["method"], "notifications/progress");
    assert_eq!(answered[1]["result"]["content"][0]["text"], "ticket 42");
    let failed = client.ask(2, "tools/call", &json!({"name": "fail", "arguments": {}}));
    let why = failed[0]["error"]["message"].as_str().unwrap();
    assert!(why.contains("127.0.0.1: status 500") && why.ends_with("out of tickets"), "{why}");
    let broken = client.ask(3, "tools/call", &json!({"name": "break", "arguments": {}}));
    let why = broken[0]["error"]["message"].as_str().unwrap();
    assert!(why.contains("its response ended before the result"), "{why}");
    let (status, words) = client.end();
    assert_eq!(status, 0, "{words}");

    let requests = tickets.requests();
    let of = |verb: &str| requests.iter().filter(|request| request["verb"] == verb).collect::<Vec<_>>();
    assert!(
        requests.iter().all(|request| request["headers"]["authorization"] == "Bearer secret"),
        "{requests:?}"
    );
    assert!(requests[0]["headers"]["mcp-session-id"].is_null());
    for later in &requests[1..] {
        assert_eq!(later["headers"]["mcp-session-id"], "s-7", "{later}");
        assert_eq!(later["headers"]["mcp-protocol-version"], "2025-11-25", "{later}");
    }
    assert_eq!((of("GET").len(), of("DELETE").len(), of("POST").len()), (1, 1, 5));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "book", "arguments": {"seats": 2}}});
    assert_eq!(of("POST")[2]["body"], call.to_string(), "posted as it was");

    let run: Value = serde_json::from_str(&server.ask(&["ls", "--json"]).good()).unwrap();
    assert_eq!([&run["agent_name"], &run["source"], &run["status"]], ["editor", "mcp-http", "finished"]);
    assert_eq!(run["title"], "MCP server tickets");
    let id = run["id"].as_str().unwrap();
    let shown = server.ask(&["show", "--json", id]).good();
    assert!(!shown.contains("secret"), "the token is nowhere");
    let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!((kinds("tool.completed").len(), kinds("tool.failed").len()), (1, 2));
    assert_eq!(kinds("tool.completed")[0]["data"]["mcp_server"], "tickets");
    assert_eq!(kinds("ext.mcp.server_notifications_progress").len(), 1);
    server.ask(&["verify", id]).good();
}

#[test]
fn a_server_that_refuses_or_is_away_is_an_error_of_each_request() {
    let data = tempfile::tempdir().unwrap();
    let (server, tickets) = (Server::start(data.path()), McpServer::start());
    let mut client = McpClient::start(&server.url(), &tickets.address, "wrong");
    let refused = client.ask(0, "initialize", &serde_json::from_str(INITIALIZE).unwrap());
    assert!(refused[0]["error"]["message"].as_str().unwrap().contains("status 401"), "{refused:?}");
    let address = tickets.address.clone();
    drop(tickets);
    // A request on the connection that the server left open meets its end; the next one opens a new connection.
    let is_unreachable = |id| {
        let away = client.ask(id, "ping", &json!({}));
        away[0]["error"]["message"].as_str().unwrap().contains("unreachable")
    };
    assert!((1..=5).any(is_unreachable), "a server that has ended is unreachable");
    let (status, words) = client.end();
    assert!(status == 0 && words.contains("status 401") && words.contains("unreachable"), "{words}");

    let bad = |arguments: &[&str], words: &str| {
        let mut command = recount();
        command.args(["--url", &server.url(), "mcp"]).args(arguments).env_remove("NO_SUCH_TOKEN");
        CommandOutput::of(&mut command).bad(2, words);
    };
    bad(&["ftp://tickets.example"], "use a URL such as https://");
    bad(&["http://user:hidden@tickets.example/mcp"], "without a password");
    bad(&["--token-env", "NO_SUCH_TOKEN", &address], "NO_SUCH_TOKEN");
}
