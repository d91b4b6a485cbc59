//! Batches of producers and decisions of operators.

use recount_event::Code;
use serde_json::{Value, json};

use crate::test_context::{STORY, TestContext, batch, check_problem, text};

const APPROVAL: &str = r#"{"approval_id":"a1","tool_call_id":"c9","kind":"shell","summary":"rm -r build","risk_level":"high","irreversible":true,"default_decision":"reject","timeout_seconds":600}"#;

#[tokio::test]
async fn a_repeated_batch_counts_once() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let note = |text: &str| format!(r#"{{"text":"{text}"}}"#);
    let send = async |producer: &str, epoch, seq, text: &str| {
        let note = note(text);
        let events = [("user.message", note.as_str()), ("user.message", note.as_str())];
        context.post(&path, &batch(producer, epoch, seq, &events)).await
    };
    let receipt =
        |first: u64| json!({"first_sequence": first, "last_sequence": first + 1, "position": first + 2});
    // The first batch is number 0.
    check_problem(&send("p", 1, 1, "a").await, Code::ProducerGap, "1 before 0");
    assert_eq!(send("p", 1, 0, "a").await.data(), receipt(1));
    assert_eq!(send("p", 1, 0, "a").await.data(), receipt(1), "again");
    assert_eq!(send("p", 1, 1, "b").await.data(), receipt(3));
    assert_eq!(send("p", 1, 0, "a").await.data(), receipt(1), "an old one again");
    check_problem(&send("p", 1, 0, "other").await, Code::ProducerReused, "other words, same number");
    let problem = check_problem(&send("p", 1, 3, "d").await, Code::ProducerGap, "3 before 2");
    assert!(problem["detail"].as_str().unwrap().contains("batch 2"), "{problem}");
    // Other producers have their own numbers.
    assert_eq!(send("q", 7, 0, "a").await.data(), receipt(5));
    // A new instance takes over and fences the old one.
    check_problem(&send("p", 2, 1, "x").await, Code::ProducerGap, "an epoch begins with 0");
    assert_eq!(send("p", 2, 0, "x").await.data(), receipt(7));
    check_problem(&send("p", 1, 2, "y").await, Code::ProducerFenced, "the old instance");
    check_problem(&send("p", 1, 0, "a").await, Code::ProducerFenced, "and what it sent before");
    assert_eq!(context.envelopes(&path).await.len(), 9);
    // White space does not change the identity of a batch.
    let loose =
        batch("p", 2, 0, &[("user.message", r#"{ "text" : "x" }"#), ("user.message", "{\"text\":\n\"x\"}")]);
    assert_eq!(context.post(&path, &loose).await.data(), receipt(7));
}

#[tokio::test]
async fn a_batch_counts_once_over_a_restart_and_when_sent_twice_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let body = batch("p", 1, 0, STORY);
    let twice = futures_util::future::join_all((0..8).map(|_| context.post(&path, &body))).await;
    let receipts: Vec<Value> = twice.iter().map(|reply| reply.data()).collect();
    assert_eq!(receipts, vec![json!({"first_sequence": 1, "last_sequence": 14, "position": 15}); 8]);
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    assert_eq!(context.post(&path, &body).await.data(), receipts[0], "also when the run has ended");
    assert_eq!(context.envelopes(&path).await.len(), 15);
    context.running.stop().await;
}

/// Sends events of which the one at `index` must be refused by `rule`, and checks that nothing was stored.
async fn refused(context: &TestContext, run: &str, events: &[(&str, &str)], index: usize, rule: &str) {
    let path = format!("/v1/runs/{run}/events");
    let before = context.envelopes(&path).await;
    let reply = context.post(&path, &batch("r", 9, 0, events)).await;
    let about = format!("{events:?}");
    let problem = check_problem(&reply, Code::EventRefused, &about);
    assert_eq!(problem["index"], index, "{about}: {problem}");
    assert_eq!(problem["event_type"], events[index].0, "{about}: {problem}");
    assert_eq!(problem["rule"], rule, "{about}: {problem}");
    assert_eq!(context.envelopes(&path).await, before, "nothing of {about} was stored");
}

#[tokio::test]
async fn rule_violations_name_the_index_type_and_rule() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let check = async |events: &[(&str, &str)], index: usize, rule: &str| {
        refused(&context, &run, events, index, rule).await;
    };
    let start = ("run.started", "{}");
    let hello = ("user.message", r#"{"text":"hello"}"#);
    check(&[hello, ("turn.started", r#"{"turn_index":0}"#)], 1, "start.first").await;
    check(&[start, start], 1, "start.again").await;
    check(&[start, ("run.queued", r#"{"kind":"external"}"#)], 1, "append.runtime_only").await;
    context.report(&run, 0, &[start]).await;
    let done = ("run.finished", r#"{"final_status":"ok"}"#);
    check(&[hello, done, done], 2, "ending.once").await;
    check(&[done, hello], 1, "ending.last").await;
    check(&[done, ("run.failed", r#"{"code":"x","message":"m","retriable":false}"#)], 1, "ending.once").await;
    check(&[("tool.completed", r#"{"tool_call_id":"c1","tool_name":"ls"}"#)], 0, "call.open").await;
    check(&[("turn.completed", r#"{"turn_index":3,"stop_reason":"end_turn"}"#)], 0, "turn.named").await;
    check(&[("wrong", "{}")], 0, "event.well_formed").await;
    check(&[hello, ("Run.Started", "{}")], 1, "event.well_formed").await;
    check(&[("user.message", "{}")], 0, "event.well_formed").await;
    check(&[("user.message", r#"{"text":7}"#)], 0, "event.well_formed").await;
    check(&[("user.message", "[]")], 0, "event.well_formed").await;
    check(&[("user.message", "null")], 0, "event.well_formed").await;
    check(&[hello, ("foo.bar", "{}")], 1, "append.unknown_type").await;
    check(&[("ext.alone", "{}")], 0, "append.unknown_type").await;
    check(
        &[("assistant.image_block", r#"{"turn_index":0,"artifact_id":"a"}"#)],
        0,
        "append.experimental_off",
    )
    .await;
    context.report(&run, 1, &[("ext.a.b", r#"{"any":["thing"]}"#)]).await;
}

#[tokio::test]
async fn clients_cannot_report_server_events() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    context.report(&run, 0, &[("run.started", "{}"), ("approval.requested", APPROVAL)]).await;
    for (name, data) in [
        (
            "gap.events_pruned",
            r#"{"first_pruned_sequence":0,"last_pruned_sequence":0,"pruned_at":"2026-01-01T00:00:00.000Z","reason":"r"}"#,
        ),
        (
            "gap.run_disconnected",
            r#"{"since_sequence":0,"since_at":"2026-01-01T00:00:00.000Z","reason":"r"}"#,
        ),
        ("policy.tool_blocked", r#"{"tool_name":"ls","reason":"r"}"#),
        ("policy.model_rewrote", r#"{"from_model":"a","to_model":"b","reason":"r"}"#),
        ("run.queued", r#"{"kind":"external"}"#),
        ("run.waiting", r#"{"for":[]}"#),
        ("run.continued", r#"{"by":"operator"}"#),
        ("run.checkpoint_saved", r#"{"checkpoint_id":"k"}"#),
        ("run.throttled", r#"{"reason":"r","place":1}"#),
        ("approval.resolved", r#"{"approval_id":"a1","decision":"approved","by":"the agent itself"}"#),
        ("approval.timed_out", r#"{"approval_id":"a1","after_seconds":1,"decision":"approved"}"#),
    ] {
        refused(&context, &run, &[(name, data)], 0, "append.runtime_only").await;
    }
    let approval = context.get("/v1/approvals/a1").await.data();
    assert_eq!(approval["status"], "pending");
    // The run does not continue without the answer.
    let invoked = [("tool.invoked", r#"{"tool_call_id":"c9","tool_name":"shell"}"#)];
    refused(&context, &run, &invoked, 0, "approval.pending").await;
    // The id of an approval is unique in the whole store.
    let other = context.new_run().await;
    let reply = context.append(&other, 0, &[("run.started", "{}"), ("approval.requested", APPROVAL)]).await;
    check_problem(&reply, Code::IdTaken, "the same approval id in another run");
}

#[tokio::test]
async fn an_ended_run_takes_no_events() {
    let context = TestContext::memory().await;
    for cancelled in [false, true] {
        let run = if cancelled { context.new_run().await } else { context.run_with_story().await };
        if cancelled {
            assert_eq!(context.post(&format!("/v1/runs/{run}/cancel"), "").await.status, 200);
        }
        let path = format!("/v1/runs/{run}/events");
        let before = context.envelopes(&path).await;
        for (seq, event) in
            [("user.message", r#"{"text":"late"}"#), STORY[13], ("ext.a.b", "{}")].iter().enumerate()
        {
            let reply = context.post(&path, &batch("late", 1, 0, &[*event])).await;
            check_problem(&reply, Code::RunEnded, &format!("{seq} {event:?}"));
        }
        let reply = context.post(&format!("/v1/runs/{run}/cancel"), "{}").await;
        check_problem(&reply, Code::RunEnded, "cancelled again");
        assert_eq!(context.envelopes(&path).await, before);
    }
}

#[tokio::test]
async fn the_first_valid_answer_to_an_approval_wins() {
    let context = TestContext::memory().await;
    for (number, (decision, status)) in [("approve", "approved"), ("reject", "rejected")].iter().enumerate() {
        let run = context.new_run().await;
        let id = format!("ap:{number}.x_y-z");
        let approval = APPROVAL.replace("a1", &id);
        context.report(&run, 0, &[("run.started", "{}"), ("approval.requested", &approval)]).await;
        let one = format!("/v1/approvals/{id}");
        let pending = context.get(&one).await.data();
        assert_eq!(pending["status"], "pending");
        for (field, value) in [
            ("run_id", json!(run)),
            ("tool_call_id", json!("c9")),
            ("kind", json!("shell")),
            ("default_decision", json!("reject")),
            ("risk_level", json!("high")),
            ("irreversible", json!(true)),
        ] {
            assert_eq!(pending[field], value, "{field}");
        }
        assert!(pending["expires_at"].is_string() && pending.get("decision").is_none(), "{pending}");
        let listed = context.get("/v1/approvals?status=pending").await.json();
        assert_eq!(listed["data"], json!([pending]));
        assert_eq!(context.get(&format!("/v1/runs/{run}")).await.data()["pending_approvals"], json!([id]));
        assert_eq!(context.get(&format!("/v1/runs/{run}")).await.data()["needs_attention"], true);
        let resolve = format!("{one}/resolve");
        for (bad, code) in [
            ("{}", Code::BodyMalformed),
            (r#"{"decision":"approved"}"#, Code::BodyMalformed),
            (r#"{"decision":"maybe"}"#, Code::BodyMalformed),
            (r#"{"decision":"approve","decision":"reject"}"#, Code::BodyMalformed),
            (r#"{"decision":"approve","by":"me"}"#, Code::BodyMalformed),
            ("", Code::BodyMalformed),
        ] {
            check_problem(&context.post(&resolve, bad).await, code, bad);
        }
        let good = format!(r#"{{"decision":"{decision}","comment":"seen"}}"#);
        // Ten answers at the same time: one is accepted.
        let answers = futures_util::future::join_all((0..10).map(|_| context.post(&resolve, &good))).await;
        let taken: Vec<_> = answers.iter().filter(|reply| reply.status == 200).collect();
        assert_eq!(taken.len(), 1);
        let row = taken[0].data();
        assert_eq!((&row["status"], &row["decision"]), (&json!(status), &json!(status)));
        assert_eq!((&row["decided_by"], &row["comment"]), (&json!("operator"), &json!("seen")));
        for reply in answers.iter().filter(|reply| reply.status != 200) {
            check_problem(reply, Code::ApprovalNotPending, "a later answer");
        }
        let other = if *decision == "approve" { "reject" } else { "approve" };
        let reply = context.post(&resolve, &format!(r#"{{"decision":"{other}"}}"#)).await;
        check_problem(&reply, Code::ApprovalNotPending, "another answer");
        assert_eq!(context.get(&one).await.data(), row, "the answer stays");
        assert_eq!(context.get("/v1/approvals?status=pending").await.json()["data"], json!([]));
        let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
        let resolved = events.iter().filter(|event| event.contains(r#""type":"approval.resolved""#)).count();
        assert_eq!(resolved, 1);
        // An approved call may run, a rejected one may not.
        let invoked = [("tool.invoked", r#"{"tool_call_id":"c9","tool_name":"shell"}"#)];
        if *decision == "approve" {
            context.report(&run, 1, &invoked).await;
        } else {
            refused(&context, &run, &invoked, 0, "approval.denied").await;
        }
    }
    let all = context.get("/v1/approvals").await.json();
    let statuses: Vec<String> =
        all["data"].as_array().unwrap().iter().map(|row| text(&row["status"])).collect();
    assert_eq!(statuses, ["rejected", "approved"]);
    for path in ["/v1/approvals/unknown", "/v1/approvals/%20", "/v1/approvals/a%2Fb", "/v1/approvals/a%00"] {
        check_problem(&context.get(path).await, Code::ApprovalNotFound, path);
        let reply = context.post(&format!("{path}/resolve"), r#"{"decision":"approve"}"#).await;
        check_problem(&reply, Code::ApprovalNotFound, path);
    }
}

#[tokio::test]
async fn cancelling_closes_open_blocks_and_pending_prompts() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    context.report(&run, 0, &STORY[..5]).await;
    context.report(&run, 1, &[("approval.requested", APPROVAL)]).await;
    let reply = context.post(&format!("/v1/runs/{run}/cancel"), r#"{"reason":"lunch"}"#).await;
    let row = reply.data();
    assert_eq!(
        (reply.status, &row["status"], &row["ending"]),
        (200, &json!("cancelled"), &json!("operator"))
    );
    assert_eq!((&row["message"], &row["needs_attention"]), (&json!("lunch"), &json!(false)));
    assert_eq!(context.get("/v1/approvals/a1").await.data()["status"], "cancelled");
    let resolve = context.post("/v1/approvals/a1/resolve", r#"{"decision":"approve"}"#).await;
    check_problem(&resolve, Code::ApprovalNotPending, "after the cancel");
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    let names: Vec<String> =
        events.iter().map(|event| text(&serde_json::from_str::<Value>(event).unwrap()["type"])).collect();
    assert_eq!(names[7..], ["assistant.text_complete", "approval.resolved", "turn.failed", "run.cancelled"]);
}

#[tokio::test]
async fn a_task_has_one_active_run() {
    let context = TestContext::memory().await;
    let task = context.post("/v1/tasks", r#"{"title":"t","kind":"external"}"#).await.data();
    let (id, first) = (text(&task["id"]), text(&task["latest_run_id"]));
    assert_eq!((&task["status"], &task["runs"]), (&json!("queued"), &json!(1)));
    let runs = format!("/v1/tasks/{id}/runs");
    let body = r#"{"kind":"external"}"#;
    check_problem(&context.post(&runs, body).await, Code::TaskBusy, "a second run");
    let with_task = format!(r#"{{"kind":"external","task_id":"{id}"}}"#);
    check_problem(&context.post("/v1/runs", &with_task).await, Code::TaskBusy, "by the other path");
    assert_eq!(context.post(&format!("/v1/tasks/{id}/cancel"), "").await.data()["status"], "cancelled");
    check_problem(&context.post(&format!("/v1/tasks/{id}/cancel"), "").await, Code::RunEnded, "nothing left");
    // Of twenty concurrent requests, one succeeds.
    let next = futures_util::future::join_all((0..20).map(|_| context.post(&runs, body))).await;
    assert_eq!(next.iter().filter(|reply| reply.status == 201).count(), 1);
    for reply in next.iter().filter(|reply| reply.status != 201) {
        check_problem(reply, Code::TaskBusy, "one of twenty");
    }
    let shown = context.get(&format!("/v1/tasks/{id}")).await.data();
    assert_eq!((&shown["runs"], &shown["status"]), (&json!(2), &json!("queued")));
    assert_ne!(shown["latest_run_id"], json!(first));
    // A run that ends by itself frees the task too.
    let second = text(&shown["latest_run_id"]);
    context.report(&second, 0, STORY).await;
    assert_eq!(context.post(&runs, body).await.status, 201);
    let other = text(&context.post("/v1/tasks", "").await.data()["id"]);
    let reply = context.post(&format!("/v1/tasks/{other}/runs"), &with_task).await;
    check_problem(&reply, Code::BodyMalformed, "a body of another task");
    check_problem(
        &context.post(&format!("/v1/tasks/{other}/cancel"), "").await,
        Code::RunEnded,
        "an idle task",
    );
}
