//! Irregular hooks: repeated, out of order, late, missing or invalid ones, and a server restart.

use recount_event::Code;
use serde_json::{Value, json};

use super::agent::{claude, event_of, events, post, post_all, runs, story, the, types, until};
use super::test_context::{TestContext, check_problem};

#[tokio::test]
async fn repeated_hooks_are_recorded_once() {
    let once = TestContext::memory().await;
    post_all(&once, "claude", &story()).await;
    let twice = TestContext::memory().await;
    for body in story() {
        post_all(&twice, "claude", &[body.clone(), body]).await;
    }
    // The whole session again, late.
    post_all(&twice, "claude", &story()[1..2]).await;
    let (one, two) = (runs(&once).await, runs(&twice).await);
    assert_eq!((one.len(), two.len()), (1, 1), "{two:?}");
    assert_eq!(events(&once, &one[0]).await, events(&twice, &two[0]).await);
}

#[tokio::test]
async fn hooks_that_overtake_each_other_give_the_same_account() {
    let context = TestContext::memory().await;
    let mut bodies = story();
    // The second piece before the first, the outcome before the call, the end before the outcome of another.
    bodies.swap(2, 3);
    bodies.swap(4, 5);
    let late = claude(
        "PostToolUse",
        Some("p-1"),
        json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_use_id": "toolu_02", "tool_response": "x"}),
    );
    let call = claude(
        "PreToolUse",
        Some("p-1"),
        json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_use_id": "toolu_02"}),
    );
    bodies.insert(6, call);
    bodies.push(late);
    post_all(&context, "claude", &bodies).await;
    let runs = runs(&context).await;
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("finished")), "{runs:?}");
    let all = events(&context, &runs[0]).await;
    let texts: Vec<&Value> = all
        .iter()
        .filter(|(kind, _)| kind == "assistant.text_complete")
        .map(|(_, data)| &data["text"])
        .collect();
    assert_eq!(texts, ["I will look.", "a and b"]);
    let done = all.iter().filter(|(kind, _)| kind == "tool.completed").count();
    assert_eq!(done, 2, "{:?}", types(&all));
    assert!(!types(&all).contains(&"ext.recount.gap"));
}

#[tokio::test]
async fn a_lost_end_is_reported_and_a_call_without_an_outcome_is_closed() {
    let context = TestContext::memory().await;
    let bodies = story();
    post_all(&context, "claude", &bodies[..4]).await;
    post_all(&context, "claude", &[claude("UserPromptSubmit", Some("p-2"), json!({"prompt": "next"}))]).await;
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "sleep"}, "tool_use_id": "t9"});
    post_all(
        &context,
        "claude",
        &[
            claude("PreToolUse", Some("p-2"), call),
            claude("Stop", Some("p-2"), json!({"stop_hook_active": false})),
        ],
    )
    .await;
    // Without further hooks the run ends by itself after a while.
    let runs = until("the second run has ended", async || {
        let runs = runs(&context).await;
        (runs.len() == 2 && runs[1]["status"] == "finished").then_some(runs)
    })
    .await;
    let first = events(&context, &runs[0]).await;
    assert_eq!(the(&first, "ext.recount.gap")["reason"], "stop_lost");
    assert_eq!(the(&first, "run.finished")["final_status"], "end_not_seen");
    let second = events(&context, &runs[1]).await;
    assert_eq!(the(&second, "tool.refused")["code"], "cancelled");
}

#[tokio::test]
async fn a_restarted_server_continues_the_run_and_reports_the_gap() {
    let data = tempfile::tempdir().unwrap();
    let bodies = story();
    for cut in [2, 3, 5, 6] {
        let folder = data.path().join(cut.to_string());
        std::fs::create_dir(&folder).unwrap();
        let context = TestContext::sqlite(&folder).await;
        post_all(&context, "claude", &bodies[..cut]).await;
        context.running.stop().await;
        let context = TestContext::sqlite(&folder).await;
        // The last one before is sent again, as a client does that got no answer.
        post_all(&context, "claude", &bodies[cut - 1..]).await;
        let runs = runs(&context).await;
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("finished")), "cut at {cut}: {runs:?}");
        let all = events(&context, &runs[0]).await;
        assert_eq!(the(&all, "ext.recount.gap")["reason"], "recorder_restarted");
        let count = |kind: &str| all.iter().filter(|(known, _)| known == kind).count();
        assert_eq!(
            (count("user.message"), count("tool.completed"), count("assistant.text_complete")),
            (1, 1, 2),
            "cut at {cut}: {:?}",
            types(&all)
        );
        context.running.stop().await;
    }
}

#[tokio::test]
async fn invalid_hooks_are_refused_by_name_and_record_nothing() {
    let context = TestContext::memory().await;
    let json_type = [("content-type", "application/json")];
    let body = claude("Stop", None, json!({})).to_string();
    let nameless = r#"{"hook_event_name":"Stop"}"#;
    for (target, body, code) in [
        ("/hooks/claude/Stop", "{", Code::BodyMalformed),
        ("/hooks/claude/Stop", "[]", Code::BodyMalformed),
        ("/hooks/claude/Stop", nameless, Code::BodyMalformed),
        ("/hooks/unknown/Stop", body.as_str(), Code::BodyMalformed),
        ("/hooks/claude/Stop?ask=2", body.as_str(), Code::ParameterInvalid),
        ("/hooks/claude/Stop?wait_seconds=0", body.as_str(), Code::ParameterInvalid),
        ("/hooks/claude/Stop?asks=1", body.as_str(), Code::ParameterInvalid),
    ] {
        let reply = context.request("POST", target, &json_type, Some(body.as_bytes())).await;
        check_problem(&reply, code, target);
    }
    let plain = context
        .request("POST", "/hooks/claude/Stop", &[("content-type", "text/plain")], Some(body.as_bytes()))
        .await;
    check_problem(&plain, Code::MediaTypeUnsupported, "a type that pages may send");
    assert!(runs(&context).await.is_empty());
}

#[tokio::test]
async fn a_hook_costs_little_more_than_an_empty_handler() {
    let context = TestContext::memory().await;
    let mut took = Vec::new();
    for n in 0..60 {
        let body = claude(
            "MessageDisplay",
            Some("p"),
            json!({"message_id": "m", "index": n, "final": false, "delta": "x"}),
        );
        let target = format!("/hooks/claude/{}", event_of(&body));
        let text = body.to_string();
        let start = recount_world::moment();
        assert_eq!(context.get("/healthz").await.status, 200);
        let empty = start.elapsed();
        let start = recount_world::moment();
        assert_eq!(context.post(&target, &text).await.status, 200);
        took.push(start.elapsed().saturating_sub(empty));
    }
    took.sort();
    println!("a hook beyond an empty handler: median {:?}, p99 {:?} of {}", took[30], took[58], took.len());
    let all = events(&context, &runs(&context).await[0]).await;
    assert_eq!(all.iter().filter(|(kind, _)| kind == "assistant.text_delta").count(), 60);
    let doubled = claude(
        "MessageDisplay",
        Some("p"),
        json!({"message_id": "m", "index": 3, "final": false, "delta": "x"}),
    );
    assert_eq!(post(&context, "claude", "", &doubled).await.text(), "{}");
}

#[tokio::test]
async fn late_hooks_of_an_ended_prompt_join_the_next_run() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &story()).await;
    let late = claude("SubagentStop", Some("p-1"), json!({"agent_id": "sub-9", "agent_type": "Explore"}));
    post_all(&context, "claude", &[late.clone(), late]).await;
    assert_eq!(runs(&context).await.len(), 1, "no run without a prompt");
    let next = claude("UserPromptSubmit", Some("p-2"), json!({"prompt": "and now?"}));
    post_all(&context, "claude", &[next]).await;
    let all = runs(&context).await;
    assert_eq!(all.len(), 2);
    let newest = all.iter().find(|run| run["title"] == "and now?").unwrap();
    let recorded = events(&context, newest).await;
    let ends: Vec<_> = recorded.iter().filter(|(kind, _)| kind == "ext.claude.subagent_stop").collect();
    assert_eq!(ends.len(), 1, "{recorded:?}");
    assert_eq!(ends[0].1["raw"]["agent_id"], "sub-9");
}
