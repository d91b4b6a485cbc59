//! Who may trust a tool: only a caller that could allow its calls one by one.

use http::Method;
use recount_engine::{Narrowing, Scope};
use serde_json::{Value, json};

use crate::http::stage::{Stage, user_message};

const CALL: &str =
    "[[turn]]\ncall = [{ name = \"lookup\", input = { key = \"a\" } }]\n[[turn]]\ntext = \"Done.\"\n";

fn agent(tools: &Value) -> Value {
    json!({ "name": "clerk", "tools": tools })
}

/// Each form of trust, with the scopes of each caller.
#[tokio::test]
async fn trust_needs_the_scope_to_approve() {
    use Scope::{Admin, Approve, Ingest, Read, Run};
    let trusted = json!([{ "name": "lookup", "trust": true }]);
    let listed = json!([{ "name": "lookup", "trust": false }, { "name": "gate" }]);
    // An application needs no trust in the tools that it brings itself.
    let own = json!([{ "name": "lookup" }, { "name": "weather", "trust": true }]);
    let weather = json!([{ "name": "weather", "description": "", "parameters": { "type": "object" } }]);
    for (scopes, may) in [
        (&[Run, Read][..], false),
        (&[Run, Ingest, Read, Admin], false),
        (&[Run, Approve], true),
        (&[Run, Read, Approve], true),
    ] {
        for (tools, needs) in [(&trusted, true), (&listed, false), (&own, false)] {
            let stage = Stage::with(CALL).await;
            let (caller, _revoke) = stage.caller(scopes, Narrowing::default());
            let ask = |path: String, body: Value| {
                let (stage, caller) = (&stage, caller.clone());
                async move { stage.ask_as(caller, Method::POST, &path, &[], body.to_string()).await }
            };
            let refused = needs && !may;
            let expected = if refused { 403 } else { 201 };
            let reply = ask("/sessions".into(), json!({ "agent": agent(tools), "tools": weather })).await;
            assert_eq!(reply.status, expected, "{scopes:?} {tools}");
            if refused {
                assert_eq!(reply.refused().await, (403, "scope_missing".into()));
            }

            let session = stage.session(json!({ "agent": { "name": "clerk" }, "tools": weather })).await;
            let mut turn = user_message("go", "delta");
            turn["agent"] = json!({ "tools": tools });
            let reply = ask(format!("/sessions/{session}/turns"), turn).await;
            if refused {
                assert_eq!(reply.refused().await, (403, "scope_missing".into()), "{scopes:?} {tools}");
                // Nothing was started, and nothing lasts.
                assert!(stage.runs(&session).await.is_empty());
            } else {
                let output = reply.into_turn_stream().await;
                let reason = if needs { "end_turn" } else { "tool_use" };
                assert_eq!(output.reason(), reason, "{scopes:?} {tools}");
            }
            assert_eq!(stage.toys.lookups(), usize::from(needs && may), "{scopes:?} {tools}");
        }
    }
}

/// With an answer it would let the rest of the run's calls through.
#[tokio::test]
async fn an_answer_that_trusts_a_tool_needs_it_too() {
    let stage = Stage::with(CALL).await;
    let session = stage.session(json!({ "agent": agent(&json!([{ "name": "lookup" }])) })).await;
    let output = stage.send_message(&session, "go").await;
    let call = output.calls("lookup").pop().unwrap();
    let answer = json!({
        "messages": [{ "role": "tool_permission", "toolCallId": call, "granted": false }],
        "agent": { "tools": [{ "name": "lookup", "trust": true }] },
    });
    let (caller, _revoke) = stage.caller(&[Scope::Run, Scope::Read], Narrowing::default());
    let path = format!("/sessions/{session}/turns");
    let reply = stage.ask_as(caller, Method::POST, &path, &[], answer.to_string()).await;
    assert_eq!(reply.refused().await, (403, "scope_missing".into()));
    let (_, shown) = stage.get(&format!("/sessions/{session}")).await.json().await;
    assert_eq!(
        (&shown["status"], &shown["agent"]["tools"]),
        (&json!("waiting"), &json!([{ "name": "lookup" }]))
    );
}
