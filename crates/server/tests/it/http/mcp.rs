//! The MCP face behind the guard: pages, hosts, tokens, tenants, and the counters of requests.

use recount_event::Code;
use serde_json::{Value, json};

use crate::http::access::{context_with_token, make_token, new_tenant_run};
use crate::test_context::{TestContext, check_problem};
use crate::wire::Reply;

async fn send(context: &TestContext, headers: &[(&str, &str)], method: &str, params: Value) -> Reply {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let headers = [&[("content-type", "application/json")], headers].concat();
    context.request("POST", "/mcp", &headers, Some(message.as_bytes())).await
}

#[tokio::test]
async fn pages_of_other_sites_and_foreign_hosts_are_refused() {
    let context = TestContext::memory().await;
    for (headers, code) in [
        (vec![("origin", "https://evil.example")], Code::OriginRefused),
        (vec![("sec-fetch-site", "cross-site")], Code::OriginRefused),
        (vec![("host", "evil.example")], Code::HostRefused),
    ] {
        check_problem(&send(&context, &headers, "ping", json!({})).await, code, "ping");
    }
    let own = format!("http://{}", context.address);
    assert_eq!(send(&context, &[("origin", &own)], "ping", json!({})).await.json()["result"], json!({}));
    check_problem(&context.get("/mcp").await, Code::MethodNotAllowed, "GET");
    context.run_with_story().await;
    let found = send(&context, &[], "tools/call", json!({ "name": "search_runs" })).await.json();
    assert_eq!(found["result"]["structuredContent"]["runs"][0]["status"], "finished", "{found}");
    let metrics = context.get("/metrics").await;
    assert!(metrics.text().contains(r#"method="POST",route="/mcp",status="2xx""#), "{}", metrics.text());
}

#[tokio::test]
async fn a_client_reads_only_its_own_tenant_and_needs_its_scopes() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    check_problem(&send(&context, &[], "ping", json!({})).await, Code::TokenMissing, "no token");
    let token = |body: &'static str| make_token(&context, Some(&admin), body);
    let all = r#"{"name":"a","tenant":"acme","scopes":["read","ingest"]}"#;
    let (ours, theirs) = (token(all).await, token(r#"{"name":"z","tenant":"zeta","scopes":["read"]}"#).await);
    let run = new_tenant_run(&context, &ours).await;
    for (token, runs, code) in [(&ours, 1, Value::Null), (&theirs, 0, json!("run_not_found"))] {
        let bearer = format!("Bearer {token}");
        let call = async |name: &str, arguments: Value| {
            let params = json!({ "name": name, "arguments": arguments });
            let reply = send(&context, &[("authorization", &bearer)], "tools/call", params).await;
            reply.json()["result"]["structuredContent"].clone()
        };
        let found = call("search_runs", json!({})).await;
        assert_eq!(found["runs"].as_array().unwrap().len(), runs, "{found}");
        assert_eq!(call("get_run", json!({ "run": run })).await["error"]["code"], code);
        let answer = json!({ "kind": "approval", "id": "a", "shown_digest": "d", "decision": "reject" });
        assert_eq!(call("answer_prompt", answer).await["error"]["code"], "scope_missing");
    }
}

#[tokio::test]
async fn a_client_polls_for_the_events_of_its_own_tenant() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let token = |body: &'static str| make_token(&context, Some(&admin), body);
    let all = r#"{"name":"a","tenant":"acme","scopes":["read","ingest"]}"#;
    let (ours, theirs) = (token(all).await, token(r#"{"name":"z","tenant":"zeta","scopes":["read"]}"#).await);
    let run = new_tenant_run(&context, &ours).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (token, expected) in [(&ours, json!([run])), (&theirs, json!([]))] {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", &*bearer),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "events/poll"),
        ];
        let params = json!({ "name": "run.finished", "cursor": "0", "_meta": meta });
        let result = send(&context, &headers, "events/poll", params).await.json()["result"].clone();
        let events = result["events"].as_array().unwrap();
        let runs: Value = events.iter().map(|event| event["data"]["run"].clone()).collect();
        assert_eq!(runs, expected, "{result}");
    }
}
