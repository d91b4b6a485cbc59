//! `recount mcp`: a client and a server of MCP see the bytes of each other, and the calls are in a run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// A server that lists its tools and executes calls.
const LISTING: &str = r#"
while IFS= read -r line; do
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"version":"1","name":"files"}}}\n' ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"wipe","annotations":{"destructiveHint":true}}]}}\n' ;;
    *) printf '{"jsonrpc":"2.0","id":2,"result":{"content":[]}}\n' ;;
  esac
done
"#;

const POLICY: &str = r#"
[[rules]]
id = "no-secrets"
tool = "mcp__files__read_secret"
action = "block"
reason = "secrets are not for agents"
recorded = true

[[rules]]
id = "files"
tool = "mcp__files__*"
action = "allow"
recorded = true
"#;

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
    // As clients do, what comes after the first message waits for its answer.
    let (first, rest) = sent.split_at(sent.find('\n').unwrap() + 1);
    let mut input = child.stdin.take().unwrap();
    input.write_all(first.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_until(b'\n', &mut answer).unwrap();
    // A server that has ended reads nothing any more.
    drop(input.write_all(rest.as_bytes()));
    drop(input);
    output.read_to_end(&mut answer).unwrap();
    Output { stdout: answer, ..child.wait_with_output().unwrap() }
}

fn only_run(server: &Server) -> (Value, Vec<Value>) {
    let listed: Value = serde_json::from_str(&server.ask(&["ls", "--json"]).good()).unwrap();
    let shown = server.ask(&["show", "--json", listed["id"].as_str().unwrap()]).good();
    (listed, shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn both_see_each_others_bytes_and_the_calls_are_recorded() {
    let server = Server::fresh();
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
    let server = Server::fresh();
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
    crate::server::CommandOutput::of(&mut missing).bad(2, "/no/such/server");
}

#[test]
fn without_a_server_of_ours_the_connection_works_as_ever() {
    let mut server = Server::fresh();
    let url = server.url();
    server.kill();
    let folder = tempfile::tempdir().unwrap();
    let answered = record(&url, &script(folder.path()), REQUESTS);
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(String::from_utf8(answered.stdout).unwrap(), ANSWERS);
    let words = String::from_utf8(answered.stderr).unwrap();
    assert!(words.contains("not recorded: the server did not respond"), "{words}");
}

/// The server's policy is evaluated for each call, and nothing is delayed or blocked.
#[test]
fn each_call_is_recorded_with_its_policy_verdict() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (policy, server_script) = (folder.path().join("policy.toml"), folder.path().join("listing"));
    std::fs::write(&server_script, LISTING).unwrap();
    let serve = |data: &Path| {
        let mut serve = recount();
        serve.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(data).arg("--policy").arg(&policy);
        serve
    };
    // A rule about a server that is neither configured nor declared as recorded may be a typing error.
    for (rules, expected) in [
        (
            POLICY.replace("recorded = true", ""),
            "rule `no-secrets`: `tool` is `mcp__files__read_secret`, which is not a tool",
        ),
        (
            POLICY.replace("mcp__files__*", "*"),
            "rule `files`: `tool` is ``; use `recorded` with tools of one MCP server",
        ),
    ] {
        std::fs::write(&policy, rules).unwrap();
        crate::server::CommandOutput::of(&mut serve(data.path())).bad(2, expected);
    }
    std::fs::write(&policy, POLICY).unwrap();
    let server = Server::of(&mut serve(data.path())).listening();
    let call = |name: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{name}"}}}}"#)
    };
    let sent = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
        call("read"),
        call("read_secret"),
        call(&"x".repeat(300)),
    ];
    let answered = record(&server.url(), &server_script, &(sent.join("\n") + "\n"));
    assert!(answered.status.success(), "{answered:?}");
    let (_, events) = only_run(&server);
    let of = |event: &Value| (event["type"].as_str().unwrap().to_owned(), event["data"].clone());
    let recorded: Vec<(String, Value)> = events.iter().map(of).collect();
    let verdicts: Vec<&Value> = recorded
        .iter()
        .filter(|(kind, _)| kind == "ext.recount.policy_verdict")
        .map(|(_, data)| data)
        .collect();
    let digest = &verdicts[0]["policy_digest"];
    assert_eq!(
        verdicts[..2],
        [
            &serde_json::json!({
                "tool_call_id": "mcp-1", "verdict": "allow", "enforced": false, "mcp_server": "files", "mcp_tool": "read",
                "risk_level": "medium", "irreversible": false, "policy_digest": digest,
            }),
            &serde_json::json!({
                "tool_call_id": "mcp-2", "verdict": "block", "enforced": false, "mcp_server": "files",
                "mcp_tool": "read_secret", "risk_level": "medium", "irreversible": false, "policy_id": "no-secrets",
                "reason": "secrets are not for agents", "policy_digest": digest,
            }),
        ]
    );
    assert!(digest.as_str().is_some_and(|digest| !digest.is_empty()), "{digest}");
    // A call with a name that is too long for the request is recorded, too.
    assert_eq!(verdicts[2]["verdict"], "unknown");
    assert!(
        verdicts[2]["reason"].as_str().unwrap().contains("mcp_tool has 256 characters"),
        "{:?}",
        verdicts[2]
    );
    // Each verdict is right behind its call.
    for (place, (kind, data)) in recorded.iter().enumerate().filter(|(_, (kind, _))| kind == "tool.invoked") {
        let (next, verdict) = &recorded[place + 1];
        assert_eq!(next, "ext.recount.policy_verdict", "{kind}");
        assert_eq!(verdict["tool_call_id"], data["tool_call_id"]);
    }
    let policy_check =
        |tool: &str, more: &[&str]| server.ask(&[&["policy", "check", "files", tool], more].concat());
    assert_eq!(policy_check("read", &[]).good(), "allow (medium risk)\n");
    let expected = "block by no-secrets: secrets are not for agents (medium risk)\n";
    assert_eq!(policy_check("read_secret", &[]).good(), expected);
    let grave = "ask: the policy rule `files` allows it, but calls that cannot be undone always need approval (medium risk, cannot be undone)\n";
    assert_eq!(policy_check("read", &["--destructive"]).good(), grave);
    assert!(policy_check("read", &["--json"]).good().contains("\"verdict\":\"allow\""));
    let words = server.ask(&["show", events[0]["run_id"].as_str().unwrap()]).good();
    let expected = "the policy would block read_secret of files: secrets are not for agents";
    assert!(words.contains(expected), "{words}");
}

/// A server whose result is larger than the recorder reads.
const LARGE: &str = r#"
while IFS= read -r line; do
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"version":"1","name":"files"}}}\n' ;;
    *'"tools/call"'*)
      printf '{"result":{"content":[{"type":"text","text":"'
      head -c 9000000 /dev/zero | tr '\0' x
      printf '"}]},"jsonrpc":"2.0","id":1}\n' ;;
  esac
done
"#;

#[test]
fn a_result_that_is_too_large_to_read_is_the_outcome_of_its_call() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large-server");
    std::fs::write(&path, LARGE).unwrap();
    let sent: String = REQUESTS.lines().take(3).map(|line| format!("{line}\n")).collect();
    let answered = record(&server.url(), &path, &sent);
    assert!(answered.status.success());
    assert!(answered.stdout.len() > 9_000_000);
    let (_, events) = only_run(&server);
    let outcomes: Vec<&Value> = events
        .iter()
        .filter(|event| {
            matches!(event["type"].as_str(), Some("tool.completed" | "tool.failed" | "tool.cancelled"))
        })
        .collect();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0]["type"], "tool.completed", "it was delivered");
    let output = &outcomes[0]["data"]["output"];
    assert_eq!(output["truncated"], true);
    assert!(output["size_bytes"].as_u64().unwrap() > 9_000_000, "{output}");
    assert!(
        output["text"].as_str().unwrap().starts_with(r#"{"result":{"content":[{"type":"text","text":"xxx"#)
    );
}

/// A server whose result has a sound.
const SOUND: &str = r#"
while IFS= read -r line; do
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"version":"1","name":"files"}}}\n' ;;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio","mimeType":"audio/wav","data":"BAUG"}]}}\n' ;;
  esac
done
"#;

#[test]
fn the_data_of_a_result_is_an_artifact() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sound-server");
    std::fs::write(&path, SOUND).unwrap();
    let sent: String = REQUESTS.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert!(record(&server.url(), &path, &sent).status.success());
    let (_, events) = only_run(&server);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let created = kinds.iter().position(|kind| *kind == "artifact.created").expect("the sound is stored");
    assert_eq!(kinds[created - 1], "tool.completed", "{kinds:?}");
    let sound = &events[created]["data"];
    assert_eq!(
        [&sound["kind"], &sound["mime"], &sound["summary"]],
        ["tool_result_blob", "audio/wav", "audio"]
    );
    assert_eq!([&sound["size_bytes"], &sound["tool_call_id"]], [&Value::from(3), &Value::from("mcp-1")]);
    let stored = server.ask(&[
        "artifact",
        "get",
        sound["artifact_id"].as_str().unwrap(),
        "--output",
        folder.path().join("sound").to_str().unwrap(),
    ]);
    stored.good();
    assert_eq!(std::fs::read(folder.path().join("sound")).unwrap(), [4, 5, 6]);
}
