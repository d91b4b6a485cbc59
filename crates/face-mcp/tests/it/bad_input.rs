//! Input that no client should send: everything is refused with a reason, and the next request is served.

use recount_engine::Caller;
use serde_json::{Value, json};

use crate::test_context::{TestContext, story};

#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let context = TestContext::new().await;
    let json = ("content-type", "application/json");
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
    let large = [&ping[..], &[b' '; 1 << 20]].concat();
    for (headers, body, status) in [
        (vec![json], b"".to_vec(), 400),
        (vec![json], b"\xff\xfe".to_vec(), 400),
        (vec![json], b"[]".to_vec(), 400),
        (vec![json], [b"[", &ping[..], b"]"].concat(), 400),
        (vec![json], vec![b'['; 1 << 19], 400),
        (vec![json], large, 413),
        (vec![], ping.clone(), 415),
        (vec![("content-type", "text/plain")], ping.clone(), 415),
        (vec![json, ("content-encoding", "gzip")], ping.clone(), 415),
        (vec![json, ("mcp-protocol-version", "1999-01-01")], ping.clone(), 400),
        (vec![json, ("mcp-protocol-version", "2025-11-25")], ping.clone(), 200),
    ] {
        let reply = context.send(Some(Caller::operator()), ("POST", "/mcp"), &headers, body).await;
        assert_eq!(reply.status.as_u16(), status, "{headers:?}");
        let message = reply.json();
        assert_eq!(message["jsonrpc"], "2.0");
        assert_eq!(message.get("error").is_some(), status != 200, "{message}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_tool_errors_that_name_what_to_send() {
    let context = TestContext::new().await;
    let run = context.run("t", &story()).await;
    let long = "x".repeat(100_000);
    for (tool, arguments, code, part) in [
        ("get_run", json!({}), "parameter_invalid", "run is missing"),
        ("get_run", json!({ "run": "" }), "parameter_invalid", "run is empty"),
        ("get_run", json!({ "run": "../tasks" }), "run_not_found", ""),
        ("get_run", json!({ "run": "run_1?limit=1" }), "run_not_found", ""),
        ("get_run", json!({ "run": "\u{0}" }), "run_not_found", ""),
        ("get_run", json!({ "run": long }), "parameter_invalid", "at most 300"),
        ("get_run", json!([run]), "parameter_invalid", "not an object"),
        ("get_run", json!({ "run": run, "messages": 21 }), "parameter_invalid", "from 0 to 20"),
        ("read_events", json!({ "run": run, "after": -1 }), "parameter_invalid", "from 0"),
        ("read_events", json!({ "run": run, "after": 1u64 << 53 }), "parameter_invalid", "from 0"),
        ("read_events", json!({ "run": run, "after": 999 }), "cursor_ahead", "999"),
        ("read_events", json!({ "run": run, "limit": 0 }), "parameter_invalid", "from 1 to 200"),
        ("search_runs", json!({ "since": "yesterday" }), "parameter_invalid", "UTC"),
        ("search_runs", json!({ "status": "done" }), "parameter_invalid", "finished"),
        ("search_runs", json!({ "cursor": "x" }), "cursor_foreign", ""),
        ("search_runs", json!({ "task": run, "session": run }), "parameter_invalid", ""),
        ("search_runs", json!({ "query": "x" }), "parameter_invalid", "known arguments"),
        ("search_runs", json!({ "text": long }), "parameter_invalid", "at most 200"),
        ("diff_run", json!({ "run": run, "offset": 5 }), "parameter_invalid", "diff: true"),
        ("list_prompts", json!({ "cursor": "x" }), "parameter_invalid", "cursor"),
        ("list_prompts", json!({ "run": "run_x" }), "run_not_found", ""),
    ] {
        let (found, detail) = context.failure(Caller::operator(), tool, arguments.clone()).await;
        assert_eq!(
            found,
            code,
            "{tool} {}: {detail}",
            &arguments.to_string()[..arguments.to_string().len().min(80)]
        );
        assert!(detail.contains(part) && detail.len() < 1_000, "{tool}: {detail}");
    }
}

#[tokio::test]
async fn wrong_parameters_of_methods_are_errors_of_the_protocol() {
    let context = TestContext::new().await;
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 7 })),
        ("tools/call", json!({ "name": "delete_run", "arguments": {} })),
        ("tools/call", json!({ "name": "x".repeat(100_000) })),
        ("resources/read", json!({})),
        ("resources/read", json!({ "uri": "file:///etc/passwd" })),
        ("resources/read", json!({ "uri": "recount://runs/" })),
        ("resources/list", json!({ "cursor": 7 })),
        ("resources/list", json!({ "cursor": "x" })),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params });
        let reply = context.message(&message).await.json();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(9), &json!(-32602)), "{method} {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().len() < 1_000);
    }
}

#[tokio::test]
async fn secrets_in_wrong_input_are_not_repeated() {
    let context = TestContext::new().await;
    let secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    for (method, params) in [
        (secret, Value::Null),
        ("tools/call", json!({ "name": secret })),
        ("tools/call", json!({ "name": "get_run", "arguments": { "run": secret } })),
        ("tools/call", json!({ "name": "get_run", "arguments": { secret: 1 } })),
    ] {
        let mut message = json!({ "jsonrpc": "2.0", "id": 9, "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        let reply = context.message(&message).await;
        assert!(!String::from_utf8(reply.body).unwrap().contains(&secret[..30]), "{method}");
    }
}
