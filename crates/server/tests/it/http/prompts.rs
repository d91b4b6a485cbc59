//! Clarifications and handoffs over the wire: lists, single ones, answers and refusals.

use recount_event::Code;
use serde_json::{Value, json};

use crate::http::access::request_as;
use crate::http::orders;
use crate::test_context::{TestContext, check_problem, text};

async fn request_prompts(context: &TestContext, name: &str) -> String {
    let run = context.new_run().await;
    let question = format!(
        r#"{{"clarification_id":"q-{name}","question":"which one?","context":"two fit","choices":["a", "b"],"default_response":"a","timeout_seconds":600}}"#
    );
    let handoff = format!(
        r#"{{"handoff_id":"h-{name}","reason":"too hard","target_kind":"escalation_queue","target_uri":"queue:x","summary_terse":"help","packaged_context":{{"b":1, "a":2}}}}"#
    );
    let events = [
        ("run.started", "{}"),
        ("clarification.requested", question.as_str()),
        ("handoff.requested", &handoff),
    ];
    context.report(&run, 0, &events).await;
    run
}

async fn ids(context: &TestContext, target: &str) -> Vec<String> {
    let reply = context.get(target).await;
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    reply.json()["data"].as_array().unwrap().iter().map(|row| text(&row["id"])).collect()
}

async fn last_event(context: &TestContext, run: &str) -> Value {
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    serde_json::from_str(events.last().unwrap()).unwrap()
}

#[tokio::test]
async fn an_allowance_is_granted_listed_and_revoked() {
    let context = orders::context_with_worker().await;
    let approval = orders::pending_approval(&context, None).await;
    assert_eq!(approval["can_be_remembered"], true);
    let target = format!("/v1/approvals/{}/resolve", text(&approval["id"]));
    let no = context.post(&target, r#"{"decision":"reject","remember":"run"}"#).await;
    check_problem(&no, Code::AllowanceRefused, "what is no such decision");
    let no = context.post(&target, r#"{"decision":"approve","remember":"session"}"#).await;
    check_problem(&no, Code::AllowanceRefused, "what is no such decision");
    let no = context.post(&target, r#"{"decision":"approve","remember":"ever"}"#).await;
    check_problem(&no, Code::BodyMalformed, "what is no such decision");
    let given = context.post(&target, r#"{"decision":"approve","remember":"run"}"#).await.data();
    assert_eq!((&given["status"], &given["allowance_scope"]), (&json!("approved"), &json!("run")));
    let id = text(&given["allowance_id"]);

    let listed = context.get("/v1/allowances").await.json();
    let expected = json!({
        "id": id, "scope": "run", "run_id": approval["run_id"], "approval_id": approval["id"], "kind": "shell_exec",
        "summary": "ask", "preview": "ask", "given_by": "operator", "given_at": given["decided_at"],
    });
    assert_eq!(listed["data"], json!([expected]));
    let of_run = format!("/v1/allowances?run_id={}", text(&approval["run_id"]));
    assert_eq!(ids(&context, &of_run).await, std::slice::from_ref(&id));
    assert_eq!(ids(&context, "/v1/allowances?scope=session").await, [""; 0]);
    check_problem(&context.get("/v1/allowances?scope=ever").await, Code::ParameterInvalid, "a scope");
    check_problem(&context.get("/v1/allowances?session_id=").await, Code::SessionNotFound, "no session");
    check_problem(&context.get("/v1/allowances?run_id=x").await, Code::RunNotFound, "no run");

    let target = format!("/v1/allowances/{id}");
    assert_eq!(request_as(&context, None, "DELETE", &target, None).await.data(), expected);
    check_problem(
        &request_as(&context, None, "DELETE", &target, None).await,
        Code::AllowanceNotFound,
        "it was revoked",
    );
    assert_eq!(ids(&context, "/v1/allowances").await, [""; 0]);
}

#[tokio::test]
async fn a_clarification_is_requested_and_answered() {
    let context = TestContext::memory().await;
    let run = request_prompts(&context, "1").await;
    let shown = context.get("/v1/clarifications/q-1").await.data();
    let expected = json!({
        "id": "q-1", "run_id": run, "question": "which one?", "context": "two fit", "choices": ["a", "b"],
        "default_response": "a", "status": "pending", "requested_at": shown["requested_at"],
        "expires_at": shown["expires_at"], "shown_digest": shown["shown_digest"],
    });
    assert_eq!(shown, expected);
    assert!(shown["expires_at"].as_str() > shown["requested_at"].as_str(), "{shown}");
    let of_run = context.get(&format!("/v1/runs/{run}")).await.data();
    assert_eq!(of_run["needs_attention"], true);
    assert_eq!(of_run["pending_clarifications"], json!(["q-1"]));
    assert_eq!(of_run["pending_handoffs"], json!(["h-1"]));
    assert_eq!(of_run["pending_approvals"], json!([]));

    let path = "/v1/clarifications/q-1/answer";
    let answered = context.post(path, r#"{"response": {"pick": [ 1.50 ], "why": null}}"#).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert!(answered.text().contains(r#""response":{"pick":[1.50],"why":null}"#), "{}", answered.text());
    let answered = answered.data();
    assert_eq!((&answered["status"], &answered["answered_by"]), (&json!("answered"), &json!("operator")));
    assert_eq!(context.get("/v1/clarifications/q-1").await.data(), answered);
    let event = last_event(&context, &run).await;
    assert_eq!(event["type"], "clarification.answered");
    assert_eq!(event["data"]["response"], json!({"pick": [1.50], "why": null}));

    let again = context.post(path, r#"{"response":"b"}"#).await;
    let problem = check_problem(&again, Code::ClarificationNotPending, "twice");
    assert!(problem["detail"].as_str().unwrap().contains("operator"), "{problem}");
    assert_eq!(ids(&context, "/v1/clarifications?status=pending").await, [""; 0]);
    assert_eq!(ids(&context, "/v1/clarifications?status=answered").await, ["q-1"]);
}

#[tokio::test]
async fn a_clarification_is_extended_within_limits() {
    let context = TestContext::memory().await;
    let run = request_prompts(&context, "1").await;
    let path = "/v1/clarifications/q-1/extend";
    let before = context.get("/v1/clarifications/q-1").await.data();
    let extended = context.post(path, r#"{"seconds":90}"#).await;
    assert_eq!(extended.status, 200, "{}", extended.text());
    let extended = extended.data();
    let ms = |row: &Value| recount_event::time::parse_ms(&text(&row["expires_at"])).unwrap();
    assert_eq!(ms(&extended), ms(&before) + 90_000);
    assert_eq!((&extended["status"], &extended["id"]), (&json!("pending"), &json!("q-1")));
    assert_eq!(context.get("/v1/clarifications/q-1").await.data(), extended);
    let event = last_event(&context, &run).await;
    assert_eq!(event["type"], "clarification.extended");
    assert_eq!(
        event["data"],
        json!({"clarification_id": "q-1", "expires_at": extended["expires_at"], "seconds": 90, "by": "operator"})
    );

    let refused = |body: &'static str, code: Code| {
        let context = &context;
        async move { check_problem(&context.post(path, body).await, code, body) }
    };
    for body in ["", "{}", r#"{"seconds":-1}"#, r#"{"seconds":1.5}"#, r#"{"seconds":1,"by":"eve"}"#] {
        refused(body, Code::BodyMalformed).await;
    }
    refused(r#"{"seconds":0}"#, Code::ExtensionRefused).await;
    let problem = refused(r#"{"seconds":86400}"#, Code::LimitReached).await;
    assert!(text(&problem["detail"]).contains("send at most 86310"), "{problem}");
    let endless = context.post("/v1/handoffs/h-1/extend", r#"{"seconds":9}"#).await;
    check_problem(&endless, Code::ExtensionRefused, "a handoff without a deadline");
    check_problem(
        &context.post("/v1/approvals/none/extend", r#"{"seconds":9}"#).await,
        Code::ApprovalNotFound,
        "no approval",
    );
    context.post("/v1/clarifications/q-1/answer", r#"{"response":"a"}"#).await;
    refused(r#"{"seconds":9}"#, Code::ClarificationNotPending).await;
}

#[tokio::test]
async fn an_answer_must_be_unambiguous_json() {
    let context = TestContext::memory().await;
    let run = request_prompts(&context, "1").await;
    let path = "/v1/clarifications/q-1/answer";
    for body in [
        "",
        "{}",
        "[]",
        r#"{"response":}"#,
        r#"{"response":"a","more":1}"#,
        r#"{"response":"a","response":"b"}"#,
        r#"{"response":{"a":1,"a":2}}"#,
        r#"{"response":"\ud800"}"#,
        r#"{"response":9007199254740992}"#,
        r#"{"answer":"a"}"#,
    ] {
        check_problem(&context.post(path, body).await, Code::BodyMalformed, body);
    }
    let long = |bytes: usize| format!(r#"{{"response":"{}"}}"#, "x".repeat(bytes - 2));
    check_problem(&context.post(path, &long((256 << 10) + 1)).await, Code::LimitReached, "a long answer");
    check_problem(&context.post(path, &long(300 << 10)).await, Code::BodyTooLarge, "a longer one");
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), 4);
    let reply = context.post(path, &long(256 << 10)).await;
    assert_eq!(reply.status, 200, "{:.300}", reply.text());
}

#[tokio::test]
async fn a_null_is_an_answer() {
    let context = TestContext::memory().await;
    request_prompts(&context, "1").await;
    let reply = context.post("/v1/clarifications/q-1/answer", r#"{"response":null}"#).await;
    assert_eq!(reply.data().get("response"), Some(&Value::Null), "{}", reply.text());
    assert_eq!(context.get("/v1/clarifications/q-1").await.data()["response"], Value::Null);
}

#[tokio::test]
async fn a_handoff_is_taken_or_refused_once() {
    let context = TestContext::memory().await;
    for (name, verb, body, status, comment, event) in [
        ("1", "acknowledge", r#"{"comment":"mine"}"#, "acknowledged", Some("mine"), "handoff.acknowledged"),
        ("2", "acknowledge", "", "acknowledged", None, "handoff.acknowledged"),
        ("3", "reject", r#"{"reason":"not ours"}"#, "rejected", Some("not ours"), "handoff.rejected"),
        ("4", "reject", "", "rejected", None, "handoff.rejected"),
    ] {
        let run = request_prompts(&context, name).await;
        let path = format!("/v1/handoffs/h-{name}");
        let shown = context.get(&path).await;
        assert!(shown.text().contains(r#""packaged_context":{"b":1,"a":2}"#), "{}", shown.text());
        assert_eq!(
            (&shown.data()["status"], &shown.data()["target_uri"]),
            (&json!("pending"), &json!("queue:x"))
        );
        let listed = context.get("/v1/handoffs?status=pending").await.json();
        assert_eq!(listed["data"][0]["id"], format!("h-{name}"));
        assert_eq!(listed["data"][0].get("packaged_context"), None, "lists omit it");
        let body = (!body.is_empty()).then_some(body.as_bytes());
        let reply = context.request("POST", &format!("{path}/{verb}"), &[], body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let done = reply.data();
        assert_eq!((&done["status"], &done["answered_by"]), (&json!(status), &json!("operator")));
        assert_eq!(done.get("comment").and_then(Value::as_str), comment);
        assert_eq!(last_event(&context, &run).await["type"], event);
        for verb in ["acknowledge", "reject"] {
            let again = context.post(&format!("{path}/{verb}"), "{}").await;
            check_problem(&again, Code::HandoffNotPending, verb);
        }
        let of_run = context.get(&format!("/v1/runs/{run}")).await.data();
        assert_eq!(of_run["pending_handoffs"], json!([]));
    }
    for (verb, body) in [
        ("acknowledge", r#"{"reason":"x"}"#),
        ("reject", r#"{"comment":"x"}"#),
        ("acknowledge", "[]"),
        ("reject", r#"{"reason":7}"#),
    ] {
        request_prompts(&context, &format!("bad-{}", body.len())).await;
        let path = format!("/v1/handoffs/h-bad-{}/{verb}", body.len());
        check_problem(&context.post(&path, body).await, Code::BodyMalformed, body);
        let long = format!(
            r#"{{"{}":"{}"}}"#,
            if verb == "reject" { "reason" } else { "comment" },
            "x".repeat(20_000)
        );
        check_problem(&context.post(&path, &long).await, Code::LimitReached, verb);
        context.post(&path, "{}").await;
    }
}

#[tokio::test]
async fn unknown_prompts_are_not_found() {
    let context = TestContext::memory().await;
    request_prompts(&context, "1").await;
    for id in ["unknown", "h-1", "%2F", "a%20b", "%ff", "q-", &"x".repeat(129)] {
        for (method, tail) in [("GET", ""), ("POST", "/answer")] {
            let target = format!("/v1/clarifications/{id}{tail}");
            let reply = context.request(method, &target, &[], None).await;
            let code = if id == "%ff" { Code::RouteNotFound } else { Code::ClarificationNotFound };
            check_problem(&reply, code, &target);
        }
    }
    for id in ["unknown", "q-1", "h"] {
        for (method, tail) in [("GET", ""), ("POST", "/acknowledge"), ("POST", "/reject")] {
            let target = format!("/v1/handoffs/{id}{tail}");
            check_problem(&context.request(method, &target, &[], None).await, Code::HandoffNotFound, &target);
        }
    }
}

#[tokio::test]
async fn lists_go_from_the_newest_and_their_pages_join() {
    let context = TestContext::memory().await;
    for name in ["m", "a", "z", "b"] {
        request_prompts(&context, name).await;
    }
    for (list, prefix) in [("clarifications", "q"), ("handoffs", "h")] {
        let expected: Vec<String> =
            ["b", "z", "a", "m"].iter().map(|name| format!("{prefix}-{name}")).collect();
        for limit in 1..6 {
            for status in ["", "&status=pending"] {
                let (mut listed, mut after) = (Vec::new(), String::new());
                loop {
                    let target = format!("/v1/{list}?limit={limit}{status}&after={after}");
                    let page = context.get(&target).await.json();
                    listed.extend(page["data"].as_array().unwrap().iter().map(|row| text(&row["id"])));
                    if page["has_more"] == false {
                        break;
                    }
                    after = text(&page["next"]);
                }
                assert_eq!(listed, expected, "{list} by {limit}{status}");
            }
        }
    }
}

#[tokio::test]
async fn an_id_that_is_taken_is_refused_with_the_batch() {
    let context = TestContext::memory().await;
    request_prompts(&context, "1").await;
    let run = context.new_run().await;
    for (name, data) in [
        ("clarification.requested", r#"{"clarification_id":"q-1","question":"?"}"#),
        ("handoff.requested", r#"{"handoff_id":"h-1","reason":"r","target_kind":"human"}"#),
    ] {
        let reply = context.append(&run, 0, &[("run.started", "{}"), (name, data)]).await;
        check_problem(&reply, Code::IdTaken, name);
    }
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), 1);
}

/// A run with one prompt of each kind.
async fn prompts_of_each_kind(context: &TestContext, tag: &str) {
    let run = context.new_run().await;
    let approval =
        format!(r#"{{"approval_id":"a-{tag}","tool_call_id":"c","kind":"shell","summary":"{tag}"}}"#);
    let question = format!(r#"{{"clarification_id":"q-{tag}","question":"{tag}"}}"#);
    let handoff = format!(
        r#"{{"handoff_id":"h-{tag}","reason":"{tag}","target_kind":"human","packaged_context":{{"tag":"{tag}"}}}}"#
    );
    let call = r#"{"turn_index":0,"tool_call_id":"c","tool_name":"shell","input":{}}"#;
    let events = [
        ("run.started", "{}"),
        ("turn.started", r#"{"turn_index":0}"#),
        ("assistant.tool_call_proposed", call),
        ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use"}"#),
        ("approval.requested", &approval),
        ("clarification.requested", &question),
        ("handoff.requested", &handoff),
    ];
    assert_eq!(context.append(&run, 0, &events).await.status, 200);
}

#[tokio::test]
async fn an_answer_to_a_prompt_that_differs_from_the_one_shown_is_refused() {
    let context = TestContext::memory().await;
    prompts_of_each_kind(&context, "one").await;
    prompts_of_each_kind(&context, "two").await;
    for (path, prefix, verb, answer) in [
        ("approvals", "a", "resolve", json!({"decision": "approve"})),
        ("clarifications", "q", "answer", json!({"response": "yes"})),
        ("handoffs", "h", "acknowledge", json!({})),
        ("handoffs", "h", "reject", json!({})),
    ] {
        let of = async |tag: &str| context.get(&format!("/v1/{path}/{prefix}-{tag}")).await.data();
        let shown = text(&of("one").await["shown_digest"]);
        assert_ne!(shown, text(&of("two").await["shown_digest"]));
        let with = |digest: &str| {
            let mut answer = answer.clone();
            answer["shown_digest"] = json!(digest);
            answer.to_string()
        };
        let target = format!("/v1/{path}/{prefix}-two/{verb}");
        let refused = context.post(&target, &with(&shown)).await;
        check_problem(&refused, Code::PromptChanged, &format!("the digest of another prompt, {path}"));
        assert_eq!(of("two").await["status"], "pending");
        // A longer deadline is no other prompt.
        context.post(&format!("/v1/{path}/{prefix}-one/extend"), r#"{"seconds":60}"#).await;
        assert_eq!(text(&of("one").await["shown_digest"]), shown);
        if verb != "reject" {
            let target = format!("/v1/{path}/{prefix}-one/{verb}");
            assert_eq!(context.post(&target, &with(&shown)).await.status, 200, "{path}");
            assert_eq!(
                text(&of("one").await["shown_digest"]),
                shown,
                "the outcome is not part of what was shown"
            );
        }
    }
}
