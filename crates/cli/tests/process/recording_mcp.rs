//! `recount mcp`: a client and a server of MCP see the bytes of each other, and the calls are in a run.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::server::{Server, recount};

/// A server that answers with spaces and orders of its own.
const SERVER: &str = r#"
while IFS= read -r line; do
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"version":"1","name":"files"}}}\n' ;;
    *'"name":"read"'*) printf '{ "id":1, "jsonrpc":"2.0",  "result":{"content":[{"type":"text","text":"h\\u00e9"}]} }\r\n' ;;
    *'"name":"write"'*) printf '{"jsonrpc":"2.0","id":"2","error":{"code":-32000,"message":"read only"}}\n' ;;
    *die*) exit 3 ;;
  esac
done
printf 'bye'
"#;

const REQUESTS: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"editor","version":"7"}}}"#,
    "\n",
    r#"{"jsonrpc": "2.0", "method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"path":"a.txt"}}}"#,
    "\n",
    r#"{"method":"tools/call","jsonrpc":"2.0","id":"2","params":{"name":"write","arguments":{}}}"#,
    "\n",
);

const ANSWERS: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"version":"1","name":"files"}}}"#,
    "\n",
    r#"{ "id":1, "jsonrpc":"2.0",  "result":{"content":[{"type":"text","text":"h\u00e9"}]} }"#,
    "\r\n",
    r#"{"jsonrpc":"2.0","id":"2","error":{"code":-32000,"message":"read only"}}"#,
    "\nbye",
);

fn script(folder: &Path) -> PathBuf {
    let path = folder.join("files-server");
    std::fs::write(&path, SERVER).unwrap();
    path
}

/// Runs the recorder with everything that the client sends, to its end.
fn record(url: &str, script: &Path, sent: &str) -> Output {
    let mut child = recount()
        .args(["--url", url, "mcp", "--", "sh"])
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn only_run(server: &Server) -> (Value, Vec<Value>) {
    let listed: Value = serde_json::from_str(&server.ask(&["ls", "--json"]).good()).unwrap();
    let shown = server.ask(&["show", "--json", listed["id"].as_str().unwrap()]).good();
    (listed, shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn both_see_each_others_bytes_and_the_calls_are_recorded() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let folder = tempfile::tempdir().unwrap();
    let answered = record(&server.url(), &script(folder.path()), REQUESTS);
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(String::from_utf8(answered.stdout).unwrap(), ANSWERS);

    let (run, events) = only_run(&server);
    assert_eq!([&run["agent_name"], &run["agent_version"], &run["source"]], ["editor", "7", "mcp-stdio"]);
    assert_eq!(run["status"], "finished");
    let calls: Vec<(&str, &Value)> = events
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("tool."))
        .map(|event| (event["type"].as_str().unwrap(), &event["data"]))
        .collect();
    let kinds: Vec<&str> = calls.iter().map(|(kind, _)| *kind).collect();
    let completed = calls.iter().find(|(kind, _)| *kind == "tool.completed").unwrap().1;
    assert_eq!(
        [&completed["mcp_server"], &completed["mcp_tool"], &completed["kind"]],
        ["files", "read", "mcp"]
    );
    assert_eq!(completed["output"]["content"][0]["text"], "hé");
    let failed = calls.iter().find(|(kind, _)| *kind == "tool.failed").unwrap().1;
    assert_eq!([&failed["error"], &failed["code"]], ["read only", "jsonrpc_-32000"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool.invoked").count(), 2, "{kinds:?}");
    let proposed = events.iter().find(|event| event["type"] == "assistant.tool_call_proposed").unwrap();
    assert_eq!(proposed["data"]["input"], serde_json::json!({"path": "a.txt"}));
    // What is no call is there as it was.
    let raw = |kind: &str| {
        events.iter().find(|event| event["type"] == kind).map(|event| &event["data"]["raw_text"])
    };
    let initialized = raw("ext.mcp.client_notifications_initialized").unwrap();
    assert_eq!(initialized, r#"{"jsonrpc": "2.0", "method":"notifications/initialized"}"#);
    let gap = events.iter().find(|event| event["type"] == "ext.recount.gap").unwrap();
    assert_eq!(gap["data"]["reason"], "message_invalid", "the last bytes are no message");
    server.ask(&["verify", "--all"]).good();
}

#[test]
fn a_server_that_fails_ends_the_run_as_failed() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let folder = tempfile::tempdir().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"die"}}"#;
    let answered = record(&server.url(), &script(folder.path()), &format!("{call}\n"));
    assert_eq!(answered.status.code(), Some(1), "{answered:?}");
    let words = String::from_utf8(answered.stderr).unwrap();
    assert!(words.contains("the MCP server ended with status 3"), "{words}");
    let (run, events) = only_run(&server);
    assert_eq!([&run["status"], &run["ending"]], ["failed", "server_ended"]);
    let cancelled = events.iter().find(|event| event["type"] == "tool.cancelled").unwrap();
    assert_eq!(cancelled["data"]["code"], "outcome_unknown");
    let mut missing = recount();
    missing.args(["--url", &server.url(), "mcp", "--", "/no/such/server"]);
    crate::server::Answer::of(&mut missing).bad(2, "/no/such/server");
}

#[test]
fn without_a_server_of_ours_the_connection_works_as_ever() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let url = server.url();
    server.kill();
    let folder = tempfile::tempdir().unwrap();
    let answered = record(&url, &script(folder.path()), REQUESTS);
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(String::from_utf8(answered.stdout).unwrap(), ANSWERS);
    let words = String::from_utf8(answered.stderr).unwrap();
    assert!(words.contains("events were not recorded"), "{words}");
}
