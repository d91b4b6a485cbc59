//! Recording: sessions of each agent become runs.

use serde_json::{Value, json};

use super::agent::{claude, events, post, post_all, runs, story, the, types};
use super::test_context::TestContext;

#[tokio::test]
async fn a_session_of_claude_code_is_a_session_with_a_run_for_each_prompt() {
    let context = TestContext::memory().await;
    post_all(&context, "claude", &story()).await;
    let second = [
        claude("UserPromptSubmit", Some("p-2"), json!({"prompt": "thanks\nand bye"})),
        claude("Stop", Some("p-2"), json!({"stop_hook_active": false, "last_assistant_message": "Bye."})),
        claude("SessionEnd", None, json!({"reason": "prompt_input_exit"})),
    ];
    post_all(&context, "claude", &second).await;
    let runs = runs(&context).await;
    assert_eq!(runs.len(), 2, "{runs:?}");
    let of = |run: &Value| (run["title"].clone(), run["status"].clone(), run["driver"].clone());
    assert_eq!(of(&runs[0]), (json!("list the files"), json!("finished"), json!("external")));
    assert_eq!(of(&runs[1]), (json!("thanks"), json!("finished"), json!("external")));
    assert_eq!(runs[0]["session_id"], runs[1]["session_id"]);
    let session =
        context.get(&format!("/v1/sessions/{}", runs[0]["session_id"].as_str().unwrap())).await.data();
    assert_eq!(session["title"], "claude-code in /home/ann/project · 11111111-2222-3333-4444-555555555555");

    let first = events(&context, &runs[0]).await;
    assert_eq!(
        types(&first),
        [
            "run.queued",
            "run.started",
            "ext.recount.source",
            "ext.recount.session",
            "ext.claude.session_start",
            "user.message",
            "turn.started",
            "assistant.text_delta",
            "assistant.text_delta",
            "assistant.text_complete",
            "assistant.tool_call_proposed",
            "tool.invoked",
            "tool.completed",
            "ext.claude.subagent_start",
            "ext.claude.subagent_stop",
            "ext.claude.pre_compact",
            "assistant.text_delta",
            "assistant.text_complete",
            "ext.claude.stop",
            "turn.completed",
            "run.finished",
        ]
    );
    assert_eq!(the(&first, "run.queued")["agent"]["name"], "claude-code");
    let source = the(&first, "ext.recount.source");
    assert_eq!(source["source"], "claude-code-hooks");
    assert!(source["does_not_show"].as_array().unwrap().contains(&json!("tokens and cost")));
    assert_eq!(
        the(&first, "ext.recount.session")["raw"]["session_id"],
        "11111111-2222-3333-4444-555555555555"
    );
    assert_eq!(*the(&first, "user.message"), json!({"message_id": "p-1", "text": "list the files"}));
    assert_eq!(the(&first, "tool.completed")["output"]["stdout"], "a b");
    assert_eq!(the(&first, "tool.completed")["duration_ms"], 12);
    assert_eq!(the(&first, "ext.claude.subagent_start")["raw"]["agent_type"], "Explore");
    assert_eq!(the(&first, "turn.completed")["tool_calls"], 1);
    let last = events(&context, &runs[1]).await;
    assert_eq!(the(&last, "assistant.text_complete")["text"], "Bye.");
}

#[tokio::test]
async fn failures_denials_and_unknown_events_are_recorded_as_what_they_are() {
    let context = TestContext::memory().await;
    let p = Some("p-1");
    let call = |n: &str| json!({"tool_name": "mcp__db__drop", "tool_input": {"table": n}, "tool_use_id": n});
    let with = |mut one: Value, more: Value| {
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    post_all(
        &context,
        "claude",
        &[
            claude("UserPromptSubmit", p, json!({"prompt": "go", "future_field": {"x": 1}})),
            claude("PreToolUse", p, call("a")),
            claude("PostToolUseFailure", p, with(call("a"), json!({"error": "no such table"}))),
            claude("PreToolUse", p, call("b")),
            claude(
                "PermissionRequest",
                p,
                json!({"tool_name": "mcp__db__drop", "tool_input": {"table": "b"}}),
            ),
            claude("PermissionDenied", p, with(call("b"), json!({"reason": "too risky"}))),
            claude("FutureEvent", p, json!({"big": 12345678901234567890_u64, "huge": "x".repeat(200_000)})),
            claude(
                "Notification",
                p,
                json!({"message": "Claude needs you", "notification_type": "idle_prompt"}),
            ),
            claude("StopFailure", p, json!({"error": "rate_limit"})),
        ],
    )
    .await;
    let runs = runs(&context).await;
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("failed")));
    let all = events(&context, &runs[0]).await;
    assert_eq!(the(&all, "tool.failed")["error"], "no such table");
    assert_eq!(the(&all, "tool.failed")["mcp_server"], "db");
    assert_eq!(the(&all, "tool.refused")["message"], "too risky");
    assert_eq!(the(&all, "ext.claude.user_prompt_submit")["raw"], json!({"future_field": {"x": 1}}));
    assert_eq!(the(&all, "ext.claude.permission_request")["raw"]["tool_name"], "mcp__db__drop");
    let future = the(&all, "ext.claude.future_event");
    assert_eq!(future["truncated"], true);
    assert!(future["raw_text"].as_str().unwrap().contains("12345678901234567890"));
    assert_eq!(the(&all, "ext.claude.notification")["raw"]["message"], "Claude needs you");
    assert_eq!(the(&all, "run.failed")["message"], "rate_limit");
}

#[tokio::test]
async fn codex_and_gemini_are_recorded_the_same_way() {
    let context = TestContext::memory().await;
    let codex = |event: &str, fields: Value| {
        let mut body = json!({"session_id": "c-1", "cwd": "/w", "hook_event_name": event, "model": "gpt-5",
            "permission_mode": "default", "transcript_path": null, "turn_id": "turn-1"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    post_all(
        &context,
        "codex",
        &[
            codex("UserPromptSubmit", json!({"prompt": "list"})),
            codex("PreToolUse", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "call_1"})),
            codex(
                "PostToolUse",
                json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "call_1", "tool_response": "a"}),
            ),
            codex("Stop", json!({"stop_hook_active": false, "last_assistant_message": "There is a."})),
        ],
    )
    .await;
    let gemini = |event: &str, at: u32, fields: Value| {
        let mut body = json!({"session_id": "g-1", "cwd": "/w", "hook_event_name": event, "transcript_path": "/t",
            "timestamp": format!("2026-11-20T08:00:{at:02}.000Z")});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let ls = json!({"tool_name": "run_shell_command", "tool_input": {"command": "ls"}});
    let done = |response: Value| {
        let mut body = ls.clone();
        body["tool_response"] = response;
        body
    };
    post_all(
        &context,
        "gemini",
        &[
            gemini("SessionStart", 0, json!({"source": "startup"})),
            gemini("BeforeAgent", 1, json!({"prompt": "list"})),
            gemini("BeforeModel", 2, json!({"llm_request": {"model": "gemini-3"}})),
            gemini("BeforeTool", 3, ls.clone()),
            gemini("AfterTool", 4, done(json!({"llmContent": "a"}))),
            gemini("BeforeTool", 5, ls.clone()),
            gemini("AfterTool", 6, done(json!({"error": "missing"}))),
            gemini("AfterAgent", 7, json!({"prompt": "list", "prompt_response": "There is a."})),
        ],
    )
    .await;
    let runs = runs(&context).await;
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!((&run["title"], &run["status"]), (&json!("list"), &json!("finished")), "{run}");
        let all = events(&context, run).await;
        assert_eq!(the(&all, "assistant.text_complete")["text"], "There is a.");
        the(&all, "tool.completed");
    }
    let all = events(&context, &runs[1]).await;
    assert_eq!(the(&all, "tool.failed")["error"], "missing");
    assert_eq!(the(&all, "ext.gemini.before_model")["raw"]["llm_request"]["model"], "gemini-3");
    // A Gemini hook cannot be answered with an approval, so no approval is requested.
    let more = gemini("BeforeTool", 9, ls);
    assert_eq!(post(&context, "gemini", "?ask=1&wait_seconds=1", &more).await.text(), "{}");
}

#[tokio::test]
async fn secrets_are_masked_in_raw_data_too() {
    let context = TestContext::memory().await;
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    post_all(
        &context,
        "claude",
        &[
            claude("UserPromptSubmit", Some("p"), json!({"prompt": format!("use {secret}")})),
            claude("Future", Some("p"), json!({"token": secret})),
            claude("PreToolUse", Some("p"), json!({"tool_name": "Bash", "tool_input": {"command": secret}, "tool_use_id": "t"})),
            claude(
                "PostToolUse",
                Some("p"),
                json!({"tool_name": "Bash", "tool_input": {"command": secret}, "tool_use_id": "t", "tool_response": secret}),
            ),
        ],
    )
    .await;
    let run = runs(&context).await.remove(0);
    let all = context.envelopes(&format!("/v1/runs/{}/events", run["id"].as_str().unwrap())).await.join("\n");
    assert!(!all.contains(&secret) && all.contains("redacted_paths"), "{all}");
}

#[tokio::test]
async fn a_change_that_claude_code_made_is_a_patch_with_its_place() {
    let context = TestContext::memory().await;
    let call = json!({"tool_name": "Edit", "tool_use_id": "toolu_1",
        "tool_input": {"file_path": "/home/ann/project/a.py", "old_string": "x = 0", "new_string": "x = 1"}});
    let mut ended = call.clone();
    ended["tool_response"] = json!({"filePath": "/home/ann/project/a.py", "structuredPatch":
        [{"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 1, "lines": ["-x = 0", "+x = 1"]}]});
    let ended = claude("PostToolUse", Some("p-1"), ended);
    let bodies = [
        claude("UserPromptSubmit", Some("p-1"), json!({"prompt": "count from one"})),
        claude("PreToolUse", Some("p-1"), call),
        ended.clone(),
        ended,
        claude("Stop", Some("p-1"), json!({})),
    ];
    post_all(&context, "claude", &bodies).await;
    let all = events(&context, &runs(&context).await[0]).await;
    let patch = the(&all, "artifact.created");
    assert_eq!(
        [&patch["kind"], &patch["path"], &patch["tool_call_id"], &patch["additions"], &patch["hunks"]],
        [&json!("patch"), &json!("a.py"), &json!("toolu_1"), &json!(1), &json!(1)]
    );
    assert_eq!(the(&all, "artifact.updated")["new_value"], "applied");
    let id = patch["artifact_id"].as_str().unwrap();
    assert_eq!(context.get(&format!("/v1/artifacts/{id}")).await.data()["status"], "applied");
}
