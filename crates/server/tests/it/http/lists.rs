//! Filtered lists of runs and tasks, page by page, while runs change.

use recount_event::Code;

use crate::test_context::{STORY, TestContext, check_problem, text};

const APPROVAL: &str = r#"{"approval_id":"appr:1","tool_call_id":"c1","kind":"shell","summary":"rm a file"}"#;

/// The ids of all pages of a list; checks that cursors only move on.
async fn ids(context: &TestContext, target: &str, limit: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let joint = if target.contains('?') { '&' } else { '?' };
        let reply = context.get(&format!("{target}{joint}limit={limit}&after={after}")).await;
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        let page = reply.json();
        all.extend(page["data"].as_array().unwrap().iter().map(|row| text(&row["id"])));
        if page["has_more"] == false {
            return all;
        }
        let next = text(&page["next"]);
        assert_ne!(next, after, "{target}: the cursor does not move");
        after = next;
    }
}

/// A task with a run whose title is the task's own.
async fn task(context: &TestContext, title: &str) -> (String, String) {
    let made = context.post("/v1/tasks", &format!(r#"{{"title":"{title}","kind":"external"}}"#)).await.data();
    (text(&made["id"]), text(&made["latest_run_id"]))
}

#[tokio::test]
async fn filtered_lists_are_newest_first_at_any_page_size() {
    let context = TestContext::memory().await;
    let (done_task, done) = task(&context, "Tidy the HOUSE").await;
    context.report(&done, 0, STORY).await;
    let (waiting_task, waiting) = task(&context, "wash the car").await;
    context.report(&waiting, 0, &[("run.started", "{}"), ("approval.requested", APPROVAL)]).await;
    let (failed_task, failed) = task(&context, "paint").await;
    let failing = r#"{"code":"no_paint","message":"the house has no paint","retriable":false}"#;
    context.report(&failed, 0, &[("run.started", "{}"), ("run.failed", failing)]).await;
    let idle_task = text(&context.post("/v1/tasks", r#"{"title":"some day"}"#).await.data()["id"]);
    for limit in [1, 2, 200] {
        for (target, expected) in [
            ("/v1/runs?needs_attention=true", vec![&waiting]),
            ("/v1/runs?needs_attention=false", vec![&failed, &done]),
            ("/v1/runs?status=failed", vec![&failed]),
            ("/v1/runs?text=house", vec![&failed, &done]),
            ("/v1/runs?text=house&status=finished", vec![&done]),
            ("/v1/runs?kind=external", vec![&failed, &waiting, &done]),
            ("/v1/runs?kind=shell", vec![]),
            ("/v1/tasks?needs_attention=true", vec![&waiting_task]),
            ("/v1/tasks?status=idle", vec![&idle_task]),
            ("/v1/tasks?status=failed", vec![&failed_task]),
            ("/v1/tasks?text=house", vec![&done_task]),
            ("/v1/tasks?text=nothing%20like%20that", vec![]),
        ] {
            let found = ids(&context, target, limit).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{target} by {limit}");
        }
        let of_task =
            ids(&context, &format!("/v1/tasks/{waiting_task}/runs?needs_attention=true"), limit).await;
        assert_eq!(of_task, std::slice::from_ref(&waiting));
    }
    for bad in [
        "needs_attention=yes",
        "kind=agent",
        "status=done",
        &format!("text={}", "x".repeat(201)),
        &format!("agent={}", "x".repeat(201)),
    ] {
        check_problem(&context.get(&format!("/v1/runs?{bad}")).await, Code::ParameterInvalid, bad);
    }
    check_problem(&context.get("/v1/tasks?status=done").await, Code::ParameterInvalid, "a status of no task");
}

#[tokio::test]
async fn runs_are_listed_by_their_agent_and_name_their_source() {
    let context = TestContext::memory().await;
    let make = async |agent: &str| {
        let body = format!(r#"{{"kind":"external"{agent}}}"#);
        text(&context.post("/v1/runs", &body).await.data()["id"])
    };
    let claude = make(r#","agent":{"name":"Claude-Code","version":"2.1.330"}"#).await;
    let codex = make(r#","agent":{"name":"codex"}"#).await;
    make("").await;
    let source =
        r#"{"source":"claude-code-hooks","version":"2.1.330","shows":[],"does_not_show":["tokens"]}"#;
    let priced = r#"{"turn_index":0,"stop_reason":"end_turn","cost_micros_usd":0}"#;
    context
        .report(
            &claude,
            0,
            &[
                ("run.started", "{}"),
                ("ext.recount.source", source),
                ("ext.recount.source", r#"{"source":"another"}"#),
                ("turn.started", r#"{"turn_index":0}"#),
                ("turn.completed", priced),
                ("turn.started", r#"{"turn_index":1}"#),
                ("turn.completed", r#"{"turn_index":1,"stop_reason":"end_turn"}"#),
            ],
        )
        .await;
    for limit in [1, 200] {
        for (target, expected) in [
            ("/v1/runs?agent=claude", vec![&claude]),
            ("/v1/runs?agent=c", vec![&codex, &claude]),
            ("/v1/runs?agent=dex", vec![]),
            ("/v1/runs?agent=CODEX&kind=external", vec![&codex]),
            ("/v1/runs?agent=codex&kind=shell", vec![]),
            ("/v1/runs?source=CLAUDE-code", vec![&claude]),
            ("/v1/runs?source=hooks", vec![]),
            ("/v1/runs?source=claude&agent=codex", vec![]),
        ] {
            let found = ids(&context, target, limit).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{target} by {limit}");
        }
    }
    let run = context.get(&format!("/v1/runs/{claude}")).await.data();
    assert_eq!(
        [&run["agent_name"], &run["agent_version"], &run["source"], &run["unpriced_turns"]],
        [&"Claude-Code".into(), &"2.1.330".into(), &"claude-code-hooks".into(), &serde_json::Value::from(1)]
    );
    context.report(&claude, 1, &[("run.finished", r#"{"final_status":"completed"}"#)]).await;
    // Pruning removes the event that named the source; the agent stays.
    let pruned = context.post(&format!("/v1/runs/{claude}/prune"), "{}").await;
    assert_eq!(pruned.status, 200, "{}", pruned.text());
    let run = context.get(&format!("/v1/runs/{claude}")).await.data();
    assert_eq!(
        [&run["agent_name"], &run["source"]],
        [&serde_json::Value::from("Claude-Code"), &serde_json::Value::Null]
    );
}

#[tokio::test]
async fn new_items_neither_repeat_nor_hide_others_while_a_list_is_read() {
    let context = TestContext::memory().await;
    let mut there = Vec::new();
    for _ in 0..10 {
        there.push(context.new_run().await);
    }
    there.reverse();
    let first = context.get("/v1/runs?limit=4").await.json();
    let mut seen: Vec<String> =
        first["data"].as_array().unwrap().iter().map(|run| text(&run["id"])).collect();
    context.new_run().await;
    context.post(&format!("/v1/runs/{}/cancel", there[5]), "{}").await;
    let after = text(&first["next"]);
    let rest = context.get(&format!("/v1/runs?limit=200&after={after}")).await.json();
    seen.extend(rest["data"].as_array().unwrap().iter().map(|run| text(&run["id"])));
    assert_eq!(seen, there);
}
