//! Clients with a handshake and without, and what HTTP adds to their messages.

use recount_engine::Caller;
use serde_json::json;

use crate::test_context::{STATELESS, TestContext, stateless};

#[tokio::test]
async fn a_handshake_agrees_on_a_version() {
    let context = TestContext::new().await;
    for (requested, agreed) in [
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2024-01-01"), "2025-11-25"),
        (json!(STATELESS), "2025-11-25"),
        (json!(7), "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": requested, "capabilities": {}, "clientInfo": {} });
        let result = context.result(Caller::operator(), "initialize", params).await;
        assert_eq!(result["protocolVersion"], agreed, "{requested}");
        assert_eq!(result["serverInfo"]["name"], "recount");
        assert_eq!(result["capabilities"], json!({ "tools": {}, "resources": {} }));
        assert!(result["instructions"].as_str().unwrap().contains("untrusted"));
    }
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let reply = context.message(&initialized).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0));
    assert!(!reply.headers.contains_key("mcp-session-id"));
    assert_eq!(context.result(Caller::operator(), "ping", json!({})).await, json!({}));
    let listed = context.result(Caller::operator(), "tools/list", json!({})).await;
    assert!(listed.get("resultType").is_none(), "{listed}");
}

#[tokio::test]
async fn a_client_without_a_handshake_discovers_the_server() {
    let context = TestContext::new().await;
    let reply = stateless(&context, "server/discover", json!({})).await;
    let result = &reply.json()["result"];
    assert_eq!(reply.status.as_u16(), 200);
    assert_eq!(result["supportedVersions"][0], STATELESS);
    for (key, value) in [
        ("resultType", json!("complete")),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
        (
            "capabilities",
            json!({
                "tools": {},
                "resources": {},
                "extensions": { "io.modelcontextprotocol/events": { "listChanged": false } },
                "events": {},
            }),
        ),
    ] {
        assert_eq!(result[key], value, "{key}");
    }
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "recount");
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        let reply = stateless(&context, method, json!({})).await.json();
        assert_eq!(
            (&reply["id"], &reply["result"]["cacheScope"]),
            (&json!("a-1"), &json!("private")),
            "{reply}"
        );
    }
    let called = stateless(&context, "tools/call", json!({ "name": "search_runs" })).await.json();
    assert_eq!(
        (&called["result"]["isError"], &called["result"]["resultType"]),
        (&json!(false), &json!("complete"))
    );
    assert!(called["result"].get("ttlMs").is_none());
}

#[tokio::test]
async fn methods_that_do_not_exist_are_refused_as_each_era_expects() {
    let context = TestContext::new().await;
    for method in
        ["initialize", "ping", "prompts/list", "events/subscribe", "subscriptions/listen", "", "Tools/List"]
    {
        let reply = stateless(&context, method, json!({})).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["code"]),
            (404, &json!(-32601)),
            "{method}"
        );
    }
    for method in [
        "server/discover",
        "prompts/list",
        "events/list",
        "events/poll",
        "logging/setLevel",
        "resources/subscribe",
        "tools/lists",
    ] {
        let reply = context.message(&json!({ "jsonrpc": "2.0", "id": 4, "method": method })).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["code"]),
            (200, &json!(-32601)),
            "{method}"
        );
        assert_eq!(reply.json()["id"], 4);
    }
}

#[tokio::test]
async fn a_missing_resource_has_the_code_of_its_era() {
    let context = TestContext::new().await;
    let uri = "recount://runs/run_01JZZZZZZZZZZZZZZZZZZZZZZZ";
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": uri } });
    let error = context.message(&message).await.json()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32002), &json!("run_not_found")));
    let error = stateless(&context, "resources/read", json!({ "uri": uri })).await.json()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32602), &json!("run_not_found")));
}

#[tokio::test]
async fn only_posts_with_a_token_are_served() {
    let context = TestContext::new().await;
    for method in ["GET", "DELETE", "PUT"] {
        let reply = context.send(Some(Caller::operator()), (method, "/mcp"), &[], Vec::new()).await;
        assert_eq!(reply.status.as_u16(), 405, "{method}");
        assert_eq!(reply.headers["allow"], "POST");
    }
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
    let json = [("content-type", "application/json")];
    assert_eq!(context.send(None, ("POST", "/mcp"), &json, ping).await.status.as_u16(), 401);
}
