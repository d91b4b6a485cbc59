//! Bodies of hooks, read and recorded without a server: the documented ones, and any others.

use proptest::prelude::*;
use recount_event::door;
use recount_record::hooks::{self, Unreadable};
use recount_record::{Answer, Ending, Recording};
use serde_json::{Value, json};

/// The kinds of the drafts that bodies give in one run; each draft is one that the log takes.
fn kinds(agent: &str, bodies: &[(&str, Value)]) -> Vec<String> {
    let mut recording = Recording::begin(&hooks::source(agent, None));
    for (event, body) in bodies {
        if let Ok(hook) = hooks::read(agent, event, body.clone()) {
            hook.record(&mut recording, true);
            hook.ask(&mut recording, "appr_1", 60);
        }
    }
    recording.end(Ending::Finished { status: "completed".into() });
    let drafts = recording.drain();
    for draft in &drafts {
        let taken = door::draft(&draft.kind, &draft.data.to_string());
        assert!(taken.is_ok(), "{taken:?}: {draft:?}");
    }
    drafts.iter().skip(2).map(|draft| draft.kind.to_string()).collect()
}

fn with_session(mut fields: Value) -> Value {
    fields["session_id"] = json!("s");
    fields
}

#[test]
fn bodies_become_typed_events_and_their_other_fields_stay() {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"});
    assert_eq!(
        kinds(
            "claude",
            &[
                ("UserPromptSubmit", with_session(json!({"prompt": "go", "prompt_id": "p"}))),
                ("PreToolUse", with_session(call.clone())),
                ("PostToolUse", with_session(call)),
                (
                    "MessageDisplay",
                    with_session(json!({"message_id": "m", "index": 0, "final": true, "delta": "hi"}))
                ),
                ("MessageDisplay", with_session(json!({"message_id": "m", "index": 0, "delta": 7}))),
                ("Stop", with_session(json!({"stop_hook_active": false}))),
            ]
        ),
        [
            "user.message",
            "turn.started",
            "assistant.tool_call_proposed",
            "tool.invoked",
            "tool.completed",
            "assistant.text_delta",
            "assistant.text_complete",
            "ext.claude.message_display",
            "ext.claude.stop",
            "turn.completed",
            "run.finished",
        ]
    );
}

#[test]
fn a_body_that_is_not_a_hook_is_refused() {
    let read = |agent: &str, body: Value| hooks::read(agent, "Stop", body).map(|hook| hook.event);
    assert_eq!(read("cursor", json!({"session_id": "s"})), Err(Unreadable::UnknownAgent));
    assert_eq!(read("claude", json!([1])), Err(Unreadable::NotAnObject));
    for nameless in [json!({}), json!({"session_id": 7}), json!({"session_id": ""})] {
        assert_eq!(read("claude", nameless), Err(Unreadable::NoSession));
    }
    let other = json!({"session_id": "s", "hook_event_name": "PreCompact"});
    assert_eq!(
        read("claude", other).as_deref(),
        Ok("PreCompact"),
        "the body's own name goes before the address"
    );
}

#[test]
fn only_a_clear_answer_decides() {
    let decision = |agent, answer| {
        hooks::permission_answer(agent, answer, None)["hookSpecificOutput"]["decision"].clone()
    };
    for agent in ["claude", "codex"] {
        assert_eq!(decision(agent, Some(Answer::Approved)), json!({"behavior": "allow"}));
        assert_eq!(decision(agent, Some(Answer::Rejected))["behavior"], "deny");
        assert_eq!(hooks::permission_answer(agent, Some(Answer::TimedOut), None), json!({}));
        assert_eq!(hooks::permission_answer(agent, None, Some("x")), json!({}));
    }
    assert_eq!(hooks::permission_answer("gemini", Some(Answer::Approved), None), json!({}));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_body_panics_or_gives_what_the_log_refuses(
        agent in 0..3_usize,
        bodies in prop::collection::vec((0..12_usize, prop::collection::btree_map(0..14_usize, any_json(), 0..8)), 0..8),
    ) {
        let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
            "PermissionRequest", "MessageDisplay", "BeforeTool", "AfterTool", "BeforeAgent", "Notification", "é/x"];
        let fields = ["prompt", "prompt_id", "turn_id", "tool_name", "tool_input", "tool_use_id", "tool_response", "error",
            "message_id", "index", "final", "delta", "duration_ms", "hook_event_name"];
        let bodies: Vec<(&str, Value)> = bodies
            .into_iter()
            .map(|(event, given)| {
                let given = given.into_iter().map(|(name, value)| (fields[name].to_owned(), value));
                (events[event], with_session(Value::Object(given.collect())))
            })
            .collect();
        kinds(hooks::AGENTS[agent], &bodies);
    }
}

#[test]
fn a_command_that_failed_is_a_failed_call_where_codex_shows_its_status() {
    for (response, kind) in [
        (json!({"output": "no", "metadata": {"exit_code": 2}}), "tool.failed"),
        (json!({"exit_code": 2, "stdout": ""}), "tool.failed"),
        (json!("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno"), "tool.failed"),
        (
            json!("Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno"),
            "tool.failed",
        ),
        (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "tool.failed"),
        (json!("Exit code: 0\nOutput:\nExit code: 2"), "tool.completed"),
        (json!("no"), "tool.completed"),
    ] {
        let call = json!({"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t1"});
        let mut ended = with_session(call);
        ended["tool_response"] = response.clone();
        let kinds = kinds("codex", &[("PostToolUse", ended)]);
        assert!(kinds.iter().any(|is| is == kind), "{response}: {kinds:?}");
    }
    let lists = hooks::source("codex", None).does_not_show.join("; ");
    assert!(lists.contains("whether a command failed"), "{lists}");
}
