//! `recount mcp serve`: a client on standard input and output reads the log of a server.

use serde_json::{Value, json};

use super::recording_mcp_http::McpClient;
use crate::server::{CommandOutput, Server, recount};

/// A client of `recount mcp serve` at this address, with these arguments before the verb.
fn connect(url: &str, arguments: &[&str]) -> McpClient {
    McpClient::of(recount().args(["--url", url]).args(arguments).args(["mcp", "serve"]))
}

fn tools(listed: &[Value]) -> Vec<&str> {
    let tools = listed[0]["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_client_of_either_era_reads_the_log() {
    let server = Server::fresh();
    let mut client = connect(&server.url(), &[]);
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    let initialized = client.ask(0, "initialize", &params);
    assert_eq!(initialized[0]["result"]["protocolVersion"], "2025-06-18");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert!(!tools(&client.ask(1, "tools/list", &json!({}))).contains(&"answer_prompt"));
    let found = client.ask(2, "tools/call", &json!({ "name": "search_runs", "arguments": {} }));
    assert_eq!(found[0]["result"]["structuredContent"]["runs"], json!([]), "{found:?}");
    // The same connection, without a handshake.
    let meta = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    let found = client.ask(3, "tools/call", &json!({ "name": "search_runs", "_meta": meta("2026-07-28") }));
    assert_eq!(found[0]["result"]["resultType"], "complete", "{found:?}");
    let named = json!({ "uri": "recount://runs/größe", "_meta": meta("2026-07-28") });
    let missing = client.ask(4, "resources/read", &named);
    assert_eq!(missing[0]["error"]["data"]["code"], "run_not_found", "{missing:?}");
    let refused = client.ask(5, "server/discover", &json!({ "_meta": meta("2027-01-01") }));
    assert_eq!(refused[0]["error"]["code"], -32_022, "{refused:?}");
    // A batch is answered, so that its client does not wait.
    client.send(&json!([{ "jsonrpc": "2.0", "id": 6, "method": "ping" }]));
    let refused = client.message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32_600)), "{refused}");
    let (status, words) = client.end();
    assert_eq!((status, &*words), (0, ""));
    // Reading the log adds nothing to it.
    assert_eq!(server.ask(&["ls", "--json"]).good(), "");
}

#[test]
fn the_token_decides_which_tools_a_client_has() {
    let server = Server::fresh();
    let token = |scope: &str| {
        let added = server.ask(&["token", "add", "review-bot", "--scope", scope, "--json"]).good();
        let added: Value = serde_json::from_str(&added).unwrap();
        added["secret"].as_str().unwrap().to_owned()
    };
    for (scope, expected) in [("read", false), ("read,approve", true), ("ingest", false)] {
        let mut client = connect(&server.url(), &["--token", &token(scope)]);
        let listed = client.ask(0, "tools/list", &json!({}));
        assert_eq!(tools(&listed).contains(&"answer_prompt"), expected, "{scope}");
        assert_eq!(tools(&listed).is_empty(), scope == "ingest");
        assert_eq!(client.end().0, 0);
    }
    let mut client = connect(&server.url(), &["--token", "wrong"]);
    let refused = client.ask(0, "tools/list", &json!({}));
    assert!(refused[0]["error"]["message"].as_str().unwrap().contains("status 401"), "{refused:?}");
    assert_eq!(client.end().0, 0);
    // The port of a server that has ended.
    let url = server.url();
    drop(server);
    let mut client = connect(&url, &[]);
    let away = client.ask(0, "initialize", &json!({}));
    assert!(away[0]["error"]["message"].as_str().unwrap().contains("unreachable"), "{away:?}");
    let port = url.rsplit(':').next().unwrap();
    let expected = format!("unreachable on port {port}: ");
    assert!(away[0]["error"]["message"].as_str().unwrap().contains(&expected), "{away:?}");
}

#[test]
fn a_program_never_acts_as_the_person_who_signed_in() {
    let server = Server::fresh();
    let added = server.ask(&["token", "add", "ada", "--scope", "approve", "--json"]).good();
    let added: Value = serde_json::from_str(&added).unwrap();
    let settings = tempfile::tempdir().unwrap();
    std::fs::create_dir(settings.path().join("recount")).unwrap();
    let login = json!({ "token": added["secret"], "name": "ada", "tenant": "default" });
    let logins = json!({ "logins": { server.url(): login } }).to_string();
    std::fs::write(settings.path().join("recount/logins.json"), logins).unwrap();
    let signed_in = || {
        let mut command = recount();
        command.env("XDG_CONFIG_HOME", settings.path()).args(["--url", &server.url()]);
        command
    };
    CommandOutput::of(signed_in().arg("ls")).bad(1, "read");
    let mut client = McpClient::of(signed_in().args(["mcp", "serve"]));
    let listed = client.ask(0, "tools/list", &json!({}));
    let tools = tools(&listed);
    assert!(tools.contains(&"search_runs") && !tools.contains(&"answer_prompt"), "{tools:?}");
    assert_eq!(client.end().0, 0);
}
