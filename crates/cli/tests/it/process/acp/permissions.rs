//! Permissions: requested in the editor and in Recount; the first valid answer wins, and the other side is informed.

use recount_client::request::{ResolveApproval, Verdict};
use recount_client::{Client, Listing, reply};
use serde_json::{Value, json};

use super::editor::{Editor, Setting, events, eventually, of_type, runs};
use super::tool_call;
use crate::server::Server;

fn request(call: &str) -> Value {
    let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
    json!({
        "toolCall": {"toolCallId": call, "title": format!("Run {call}"), "rawInput": {"command": "ls"}},
        "options": [option("yes", "allow_once"), option("ever", "allow_always"), option("no", "reject_once")],
    })
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

fn answer(id: u64, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Waits for so many open approvals: their ids by the title of their call.
async fn pending(client: &Client, count: usize) -> Vec<(String, String)> {
    eventually(async || {
        let listing = Listing { status: Some("pending".into()), ..Listing::default() };
        let page = client.list_prompts::<reply::Approval>(&listing).await.unwrap();
        let mut found: Vec<_> =
            page.data.into_iter().map(|approval| (approval.summary, approval.id)).collect();
        found.sort();
        (found.len() == count).then_some(found)
    })
    .await
}

/// The response to a request that the agent reports.
fn got(editor: &mut Editor, id: u64) -> Value {
    let text = |message: &Value| message["params"]["update"]["content"]["text"].as_str().map(str::to_owned);
    let parsed = |message: &Value| serde_json::from_str::<Value>(&text(message)?).ok();
    let (_, response) = editor.until(|message| parsed(message).is_some_and(|response| response[0] == id));
    parsed(&response).unwrap()[1].clone()
}

#[tokio::test]
async fn the_editor_may_be_first_and_recount_may_be_first() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let calls = ["a", "b", "c", "d"];
    let proposed = |call: &str| {
        json!(["update", tool_call(call, &json!({"status": "pending", "rawInput": {"command": "ls"}}))])
    };
    let mut steps: Vec<Value> = calls.iter().map(|call| proposed(call)).collect();
    let requests: Vec<Value> =
        calls.iter().enumerate().map(|(n, call)| json!([101 + n, request(call)])).collect();
    steps.push(json!(["ask", requests]));
    for (call, status) in [("a", "completed"), ("b", "completed"), ("c", "failed"), ("d", "failed")] {
        steps.push(
            json!(["update", {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}]),
        );
    }
    let prompt = editor.prompt(&session, &json!(steps));
    for _ in calls {
        editor.until(|message| message["method"] == "session/request_permission");
    }
    let open = pending(&client, 4).await;
    let id =
        |call: &str| open.iter().find(|(summary, _)| *summary == format!("Run {call}")).unwrap().1.clone();

    // a: the editor says yes. b: Recount says yes. c: Recount says no. d: the editor says no.
    editor.send(&answer(101, &selected("yes")));
    editor.send(&answer(104, &selected("no")));
    assert_eq!(pending(&client, 2).await.len(), 2, "what the editor decided is withdrawn");
    server.ask(&["approve", &id("a")]).bad(1, "approval_not_pending");
    server.ask(&["approve", &id("b"), "--yes"]).good();
    let (_, withdrawn) = editor.until(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"], json!({"requestId": 102}));
    server.ask(&["deny", &id("c"), "--yes"]).good();
    // The agent may continue before the editor is informed.
    let is_withdrawal = |message: &Value| message["params"] == json!({"requestId": 103});
    let is_answer = |message: &Value| message["id"] == prompt && message["method"].is_null();
    let mut seen = Vec::new();
    while !(seen.iter().any(is_withdrawal) && seen.iter().any(is_answer)) {
        seen.push(editor.message());
    }
    // The editor answers what was taken from it, each in its way: neither reaches the agent.
    editor.send(&answer(102, &selected("no")));
    editor.send(&json!({"jsonrpc": "2.0", "id": 103, "error": {"code": -32800, "message": "cancelled"}}));
    let response = |message: &Value| {
        let text = message["params"]["update"]["content"]["text"].as_str()?;
        Some(serde_json::from_str::<Value>(text).ok()?[1].clone())
    };
    let results: Vec<Value> = seen.iter().filter_map(response).collect();
    assert_eq!(results, [selected("yes"), selected("yes"), selected("no"), selected("no")]);
    let (_, _, words) = editor.end();

    let run = &runs(&client).await[0];
    assert_eq!(run.status, "finished", "{words:?}");
    let recorded = events(&client, &run.id).await;
    let resolved = of_type(&recorded, "approval.resolved");
    let of = |call: &str| *resolved.iter().find(|data| data["tool_call_id"] == call).unwrap();
    assert_eq!((&of("a")["by"], &of("a")["decided_elsewhere"]), (&json!("editor"), &json!("approved")));
    assert_eq!((&of("d")["by"], &of("d")["decided_elsewhere"]), (&json!("editor"), &json!("rejected")));
    assert_eq!((&of("b")["decision"], &of("c")["decision"]), (&json!("approved"), &json!("rejected")));
    let ended = |kind: &str| -> Vec<Value> {
        of_type(&recorded, kind).iter().map(|data| data["tool_call_id"].clone()).collect()
    };
    assert_eq!(
        (ended("tool.completed"), ended("tool.refused")),
        (vec![json!("a"), json!("b")], vec![json!("c"), json!("d")])
    );
    server.ask(&["verify", &run.id]).good();
}

#[tokio::test]
async fn both_may_answer_in_one_instant() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    for round in 0..20_u64 {
        let call = format!("c{round}");
        let steps = json!([
            ["ask", [[round + 200, request(&call)]]],
            ["update", {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed"}],
        ]);
        let prompt = editor.prompt(&session, &steps);
        editor.until(|message| message["method"] == "session/request_permission");
        let approval = pending(&client, 1).await[0].1.clone();
        let verdict =
            ResolveApproval { decision: Verdict::Reject, comment: None, remember: None, shown_digest: None };
        let both = async {
            editor.send(&answer(round + 200, &selected("yes")));
        };
        let (ours, ()) = tokio::join!(client.answer_prompt(&approval, &verdict), both);
        let result = got(&mut editor, round + 200);
        editor.answer(prompt);
        // One answer reached the agent, and it is one that was given.
        assert!(result == selected("yes") || (result == selected("no") && ours.is_ok()), "{result}");
    }
    editor.end();
    for run in runs(&client).await {
        assert_eq!(run.status, "finished", "{:?}", events(&client, &run.id).await);
        server.ask(&["verify", &run.id]).good();
    }
}

#[tokio::test]
async fn without_the_editor_a_timeout_rejects_and_never_cancels() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let options = ["--ask", "recount", "--ask-seconds", "1"];
    let (mut editor, session) = Setting { options: &options, ..Setting::of(&server) }.with_session();
    let prompt = editor.prompt(&session, &json!([["ask", [[7, request("a")]]]]));
    let (before, _) = editor.answer(prompt);
    assert!(before.iter().all(|message| message["method"] != "session/request_permission"), "{before:?}");
    let response = before.last().unwrap()["params"]["update"]["content"]["text"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&response).unwrap()[1], selected("no"));
    editor.end();
    let recorded = events(&client, &runs(&client).await[0].id).await;
    assert_eq!(of_type(&recorded, "approval.timed_out").len(), 1);
}

#[tokio::test]
async fn without_a_server_the_editor_gets_the_permission() {
    let options = ["--ask", "recount"];
    let setting = Setting { url: "http://127.0.0.1:9".into(), options: &options, ..Setting::default() };
    let (mut editor, session) = setting.with_session();
    let prompt = editor.prompt(&session, &json!([["ask", [[7, request("a")]]]]));
    editor.until(|message| message["method"] == "session/request_permission");
    editor.send(&answer(7, &selected("yes")));
    assert_eq!(got(&mut editor, 7), selected("yes"));
    editor.answer(prompt);
    let (_, status, words) = editor.end();
    assert_eq!(status, 0, "{words:?}");
    assert!(words.iter().any(|line| line.contains("not recorded in time")), "{words:?}");
}

#[tokio::test]
async fn a_cancelled_prompt_and_an_editor_without_a_dialog() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let options = ["--ask", "recount"];
    let (mut editor, session) = Setting { options: &options, ..Setting::of(&server) }.with_session();
    let prompt = editor.prompt(&session, &json!([["ask", [[7, request("a")]]], ["stop", "cancelled"]]));
    pending(&client, 1).await;
    editor.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(got(&mut editor, 7), json!({"outcome": {"outcome": "cancelled"}}));
    editor.answer(prompt);
    editor.end();
    let run = &runs(&client).await[0];
    assert_eq!((&*run.status, run.ending.as_deref()), ("cancelled", Some("operator")));

    let (mut editor, session) = Setting::of(&server).with_session();
    let prompt = editor.prompt(&session, &json!([["ask", [[8, request("a")]]]]));
    editor.until(|message| message["method"] == "session/request_permission");
    let approval = pending(&client, 1).await[0].1.clone();
    editor.send(&json!({"jsonrpc": "2.0", "id": 8, "error": {"code": -32601, "message": "no dialog"}}));
    server.ask(&["approve", &approval, "--yes"]).good();
    assert_eq!(got(&mut editor, 8), selected("yes"), "the error was no answer");
    editor.answer(prompt);
    editor.end();
}

/// As Mistral Vibe does: calls are reported as running, one after the other, and each request names only the id of its call.
#[tokio::test]
async fn calls_that_are_reported_as_running_before_their_permission_are_shown_with_their_input() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let started = |call: &str| {
        let input = json!({"command": format!("rm -r {call}")}).to_string();
        let more = json!({"title": "", "kind": "execute", "status": "in_progress", "rawInput": input});
        json!(["update", tool_call(call, &more)])
    };
    let bare = |call: &str| json!({"toolCall": {"toolCallId": call}, "options": request(call)["options"]});
    let steps = json!([
        started("a"), started("b"),
        ["ask", [[101, bare("a")]]],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"}],
        ["ask", [[102, bare("b")]]],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "failed"}],
    ]);
    let prompt = editor.prompt(&session, &steps);
    for (call, verb) in [("a", "approve"), ("b", "deny")] {
        // The answer to the first lets the second one follow at once, so there may be no moment without one.
        let shown = format!("rm -r {call}");
        let of_call = async || pending(&client, 1).await.into_iter().find(|(title, _)| *title == shown);
        let (_, approval) = eventually(of_call).await;
        server.ask(&[verb, &approval, "--yes"]).good();
    }
    pending(&client, 0).await;
    editor.answer(prompt);
    editor.end();
    let run = &runs(&client).await[0];
    let recorded = events(&client, &run.id).await;
    let kinds: Vec<(&str, &str)> = recorded
        .iter()
        .filter(|(kind, _)| {
            kind.starts_with("tool.") || kind.starts_with("approval.") || kind.ends_with("proposed")
        })
        .map(|(kind, data)| (&**kind, data["tool_call_id"].as_str().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("assistant.tool_call_proposed", "a"),
            ("assistant.tool_call_proposed", "b"),
            ("approval.requested", "a"),
            ("approval.resolved", "a"),
            ("tool.invoked", "a"),
            ("tool.completed", "a"),
            ("approval.requested", "b"),
            ("approval.resolved", "b"),
            ("tool.refused", "b"),
        ]
    );
    assert_eq!(of_type(&recorded, "turn.completed")[0]["tool_calls"], 2);
}
