//! Tool calls in several messages, as third-party agents send them: the next message completes the previous one.

use recount_record::Patch;
use recount_record::acp::{AcpStep, PromptRecording, SessionUsage, source};
use serde_json::{Value, json};

/// The events of a prompt in which the agent sends these updates, after the beginning of the run.
fn record(updates: &[Value]) -> Vec<(String, Value)> {
    let prompt = json!([{"type": "text", "text": "go on"}]);
    let mut recording = PromptRecording::begin(&source(None, 1), "/p", "s-1", &prompt);
    recording.drain();
    for update in updates {
        recording.update(update);
    }
    recording.stopped(Some("end_turn"), &json!({}));
    drafts(&mut recording)
}

fn drafts(recording: &mut PromptRecording) -> Vec<(String, Value)> {
    let draft = |step| match step {
        AcpStep::Draft(draft) => Some((draft.kind.into_owned(), draft.data)),
        AcpStep::Patch(_) | AcpStep::PatchStatus { .. } => None,
    };
    recording.drain().into_iter().filter_map(draft).collect()
}

fn one<'e>(events: &'e [(String, Value)], kind: &str) -> &'e Value {
    let mut of_kind = events.iter().filter(|(is, _)| is == kind);
    let (Some((_, data)), None) = (of_kind.next(), of_kind.next()) else {
        panic!("there is not one {kind}: {events:?}");
    };
    data
}

fn call(fields: &Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c-1"});
    for (name, value) in fields.as_object().expect("fields are an object") {
        update[name] = value.clone();
    }
    update
}

#[test]
fn input_that_comes_in_parts_is_recorded_when_the_call_begins() {
    let events = record(&[
        call(&json!({"sessionUpdate": "tool_call", "title": "bash", "kind": "execute", "status": "pending",
            "rawInput": {"cwd": "/p"}})),
        call(
            &json!({"title": "ls -l", "status": "in_progress", "rawInput": {"cwd": "/p", "command": "ls -l"}}),
        ),
        call(&json!({"status": "completed", "rawOutput": "total 0"})),
    ]);
    assert_eq!(
        one(&events, "assistant.tool_call_proposed")["input"],
        json!({"cwd": "/p", "command": "ls -l"})
    );
    assert_eq!(one(&events, "tool.invoked")["args_summary"], "ls -l");
    assert!(!events.iter().any(|(kind, _)| kind == "ext.acp.tool_call_input"), "{events:?}");
}

#[test]
fn a_permission_has_the_rest_of_its_calls_input() {
    let prompt = json!([{"type": "text", "text": "go on"}]);
    let mut recording = PromptRecording::begin(&source(None, 1), "/p", "s-1", &prompt);
    recording.update(&call(
        &json!({"sessionUpdate": "tool_call", "status": "pending", "rawInput": {"cwd": "/p"}}),
    ));
    assert!(recording.has_waiting());
    let about = json!({"toolCallId": "c-1", "title": "ls -l", "rawInput": {"command": "ls -l"}});
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let request =
        recording.permission("7", &json!({"toolCall": about, "options": options}), Some("appr-1"), None);
    assert!(request.is_some() && !recording.has_waiting());
    let events = drafts(&mut recording);
    assert_eq!(one(&events, "assistant.tool_call_proposed")["input"], json!({"command": "ls -l"}));
    assert_eq!(one(&events, "approval.requested")["tool_call_id"], "c-1");
}

#[test]
fn a_pending_call_is_recorded_as_known_and_its_input_when_it_arrives() {
    let prompt = json!([{"type": "text", "text": "go on"}]);
    let mut recording = PromptRecording::begin(&source(None, 1), "/p", "s-1", &prompt);
    recording.update(&call(
        &json!({"sessionUpdate": "tool_call", "status": "pending", "rawInput": {"cwd": "/p"}}),
    ));
    recording.settle_waiting();
    assert_eq!(one(&drafts(&mut recording), "assistant.tool_call_proposed")["input"], json!({"cwd": "/p"}));
    recording.update(&call(&json!({"status": "in_progress", "rawInput": {"command": "ls"}})));
    let events = drafts(&mut recording);
    assert_eq!(one(&events, "ext.acp.tool_call_input")["raw"]["rawInput"], json!({"command": "ls"}));
}

#[test]
fn the_output_of_a_terminal_of_the_agent_is_the_output_of_the_call() {
    let begin = json!({"sessionUpdate": "tool_call", "status": "in_progress", "kind": "execute", "rawInput": {"command": "ls"},
        "content": [{"type": "terminal", "terminalId": "c-1"}], "_meta": {"terminal_info": {"terminal_id": "c-1"}}});
    let piece =
        |name: &str, text: &str| call(&json!({"_meta": {name: {"terminal_id": "c-1", "data": text}}}));
    let exit = json!({"terminal_exit": {"terminal_id": "c-1", "exit_code": 2, "signal": null}});
    let end = call(&json!({"status": "completed", "_meta": exit}));
    let whole = json!({"terminal_output": "one\ntwo\n", "exit_code": 2, "signal": null});
    for pieces in [
        [piece("terminal_output_delta", "one\n"), piece("terminal_output_delta", "two\n")],
        [piece("terminal_output", "one\n"), piece("terminal_output", "two\n")],
        // All of it again.
        [piece("terminal_output", "one\n"), piece("terminal_output", "one\ntwo\n")],
    ] {
        let updates = [vec![call(&begin)], pieces.to_vec(), vec![end.clone()]].concat();
        assert_eq!(one(&record(&updates), "tool.failed")["output"], whole);
    }
    // A long output is cut, with a note.
    let long = "x".repeat(300_000);
    let events = record(&[
        call(&begin),
        piece("terminal_output_delta", &long),
        piece("terminal_output_delta", "y"),
        end,
    ]);
    let output = &one(&events, "tool.failed")["output"];
    assert!(output["truncated"] == true || output.is_string(), "{}", output.to_string().len());
}

#[test]
fn fields_without_a_typed_event_are_recorded_once() {
    let place = json!([{"path": "/p/a.rs", "line": 3}]);
    let events = record(&[
        call(
            &json!({"sessionUpdate": "tool_call", "status": "pending", "rawInput": {"path": "a.rs"}, "locations": []}),
        ),
        call(&json!({"status": "in_progress", "locations": place, "_meta": {"maker": {"tool": "Read"}}})),
        call(&json!({"status": "completed", "locations": place, "_meta": {"maker": {"tool": "Read"}}})),
    ]);
    let kept = &one(&events, "ext.acp.tool_call_fields")["raw"];
    assert_eq!(*kept, json!({"toolCallId": "c-1", "locations": place, "_meta": {"maker": {"tool": "Read"}}}));
}

fn started() -> PromptRecording {
    let prompt = json!([{"type": "text", "text": "go on"}]);
    PromptRecording::begin(&source(None, 1), "/p", "s-1", &prompt)
}

fn options() -> Value {
    json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ])
}

fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(kind, _)| kind.as_str()).collect()
}

/// As Mistral Vibe does: the call is reported as running, then the request names only its id.
#[test]
fn a_permission_that_names_only_its_call_shows_the_input_of_that_call() {
    for input in [json!({"command": "rm -r build"}), json!(r#"{"command":"rm -r build"}"#)] {
        let mut recording = started();
        recording.update(&call(&json!({"sessionUpdate": "tool_call", "title": "", "kind": "execute",
            "status": "in_progress", "rawInput": input})));
        let request = json!({"toolCall": {"toolCallId": "c-1"}, "options": options()});
        let requested = recording.permission("7", &request, Some("appr-1"), None);
        assert_eq!(requested.map(|requested| requested.approval_id).as_deref(), Some("appr-1"));
        let events = drafts(&mut recording);
        let prompt = one(&events, "approval.requested");
        assert_eq!(
            [&prompt["tool_call_id"], &prompt["summary"], &prompt["preview"], &prompt["preview_kind"]],
            ["c-1", "rm -r build", "rm -r build", "command"]
        );
        assert_eq!(one(&events, "assistant.tool_call_proposed")["input"], input);
        assert!(!kinds(&events).contains(&"tool.invoked"), "{events:?}");
        // The call starts with the permission.
        let selected = json!({"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}});
        assert!(recording.permission_answered("7", &selected));
        let events = drafts(&mut recording);
        assert_eq!(kinds(&events), ["approval.resolved", "tool.invoked"]);
        recording.update(&call(&json!({"status": "completed", "rawOutput": "done"})));
        recording.stopped(Some("end_turn"), &json!({}));
        let events = drafts(&mut recording);
        assert_eq!(kinds(&events)[0], "tool.completed");
        assert_eq!(one(&events, "turn.completed")["tool_calls"], 1);
    }
}

#[test]
fn a_call_that_is_denied_after_it_was_reported_as_running_was_not_invoked() {
    let mut recording = started();
    for id in ["c-1", "c-2"] {
        let mut start = call(&json!({"sessionUpdate": "tool_call", "title": id, "status": "in_progress",
            "content": [{"type": "diff", "path": "/p/a.txt", "oldText": null, "newText": "one\n"}]}));
        start["toolCallId"] = json!(id);
        recording.update(&start);
    }
    let request = json!({"toolCall": {"toolCallId": "c-1"}, "options": options()});
    recording.permission("7", &request, Some("appr-1"), None);
    let selected = json!({"result": {"outcome": {"outcome": "selected", "optionId": "no"}}});
    recording.permission_answered("7", &selected);
    recording.update(&call(&json!({"status": "failed"})));
    recording.stopped(Some("end_turn"), &json!({}));
    let events = drafts(&mut recording);
    let prompt = one(&events, "approval.requested");
    assert_eq!([&prompt["summary"], &prompt["preview_kind"]], ["c-1", "diff"]);
    assert!(prompt["preview"].as_str().unwrap().contains("+one"), "{prompt}");
    assert_eq!(one(&events, "tool.refused")["tool_call_id"], "c-1");
    // The other one was reported as running, and nothing contradicts that.
    assert_eq!(one(&events, "tool.invoked")["tool_call_id"], "c-2");
    assert_eq!(one(&events, "tool.cancelled")["code"], "outcome_unknown");
}

/// As qwen-code does: the status of the command is only in the text of `content`.
#[test]
fn a_command_that_failed_is_a_failed_call() {
    let start = call(&json!({"sessionUpdate": "tool_call", "kind": "execute", "status": "in_progress",
        "rawInput": {"command": "false"}}));
    let text = "Command: false\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 3\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 7";
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    for end in [
        json!({"status": "completed", "rawOutput": "(empty)", "content": content}),
        json!({"status": "completed", "rawOutput": {"output": "", "metadata": {"exit": 3}}}),
        json!({"status": "completed", "rawOutput": r#"{"stdout":"","returncode":3}"#}),
        json!({"status": "completed", "_meta": {"terminal_exit": {"exit_code": 3, "signal": null}}}),
    ] {
        let events = record(&[start.clone(), call(&end)]);
        let failed = one(&events, "tool.failed");
        assert_eq!([&failed["code"], &failed["error"]], ["exit_status", "exit status 3"], "{end}");
    }
    // What the command printed is no status, and an edit that prints one did not fail.
    let printed = json!({"status": "completed", "rawOutput": "x\nExit Code: 3\nmore"});
    one(&record(&[start, call(&printed)]), "tool.completed");
    let edit = call(&json!({"sessionUpdate": "tool_call", "kind": "edit", "status": "in_progress"}));
    one(
        &record(&[edit, call(&json!({"status": "completed", "rawOutput": {"exit_code": 3}}))]),
        "tool.completed",
    );
}

#[test]
fn a_cancelled_prompt_has_a_cancelled_turn() {
    let mut recording = started();
    recording
        .update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}));
    recording.cancel();
    recording.stopped(Some("cancelled"), &json!({}));
    let events = drafts(&mut recording);
    let failed = one(&events, "turn.failed");
    assert_eq!([&failed["code"], &failed["message"]], ["cancelled", "cancelled in the editor"]);
    assert!(!kinds(&events).contains(&"turn.completed"), "{events:?}");
}

#[test]
fn the_usage_of_a_prompt_result_is_the_usage_of_its_turn() {
    let mut recording = started();
    recording
        .update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}));
    let usage = json!({"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 40, "totalTokens": 160});
    let result = json!({"stopReason": "end_turn", "usage": usage});
    recording.used(SessionUsage::of_new_session().result("an agent", &result).unwrap());
    recording.answered(&json!({"result": result}));
    let events = drafts(&mut recording);
    let turn = one(&events, "turn.completed");
    assert_eq!(
        [&turn["input_tokens"], &turn["cached_input_tokens"], &turn["output_tokens"]],
        [140, 40, 20],
        "what was read from the cache is part of the total, so it counts as input"
    );
    let tick = one(&events, "cost.tick");
    assert_eq!([&tick["cumulative_input_tokens"], &tick["cumulative_output_tokens"]], [140, 20]);
    // What the source showed is known at the end, and all that the agent sent is kept.
    let source = one(&events[4..], "ext.recount.source");
    assert!(source["shows"].as_array().unwrap().contains(&json!("tokens")), "{source}");
    assert!(source["does_not_show"].as_array().unwrap().contains(&json!("cost")), "{source}");
    assert_eq!(one(&events, "ext.acp.prompt_result")["raw"]["usage"], usage);
}

/// The patches of a prompt with these updates, and what became of each.
fn patches(updates: &[Value]) -> Vec<(Patch, Option<&'static str>)> {
    let mut recording = started();
    updates.iter().for_each(|update| recording.update(update));
    recording.stopped(Some("end_turn"), &json!({}));
    let mut found: Vec<(Patch, Option<&'static str>)> = Vec::new();
    for step in recording.drain() {
        match step {
            AcpStep::Draft(_) => {}
            AcpStep::Patch(patch) => found.push((patch, None)),
            AcpStep::PatchStatus { key, status } => {
                found.iter_mut().find(|(patch, _)| patch.key() == key).expect("it came before").1 =
                    Some(status);
            }
        }
    }
    found
}

fn edit(input: Value, content: Value, more: Value) -> Value {
    let mut update = call(&json!({"sessionUpdate": "tool_call", "kind": "edit", "status": "in_progress",
        "rawInput": input, "content": content}));
    update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    update
}

#[test]
fn a_part_of_a_file_is_a_patch_only_with_its_place() {
    let part = json!([{"type": "diff", "path": "/p/a.txt", "oldText": "two\n", "newText": "2\n"}]);
    let input = json!({"file_path": "/p/a.txt", "old_string": "two\n", "new_string": "2\n"});
    let done = call(&json!({"status": "completed", "content": part}));
    // The model wrote the old text, so it is a part of the file; where it is is not known.
    let found = patches(&[edit(input.clone(), part.clone(), json!({})), done]);
    assert_eq!(found.len(), 1, "shown twice, it is one: {found:?}");
    assert_eq!((found[0].0.is_fragment, found[0].1), (true, None));
    assert!(found[0].0.text.contains("@@ place not known @@\n-two\n+2\n"), "{}", found[0].0.text);
    // Claude's agent sends the line when the edit is made.
    let meta = json!({"claudeCode": {"toolName": "Edit"}});
    let hunk = json!([{"type": "diff", "path": "/p/a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n"}]);
    let place = json!([{"path": "/p/a.txt", "line": 41}]);
    let done = call(&json!({"status": "completed", "content": hunk, "locations": place, "_meta": meta}));
    let found = patches(&[
        edit(input, part.clone(), json!({"_meta": meta, "locations": [{"path": "/p/a.txt"}]})),
        done,
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0.is_fragment, found[0].1), (false, Some("applied")));
    assert!(found[0].0.text.contains("@@ -41,2 +41,2 @@\n one\n-two\n+2\n"), "{}", found[0].0.text);
    // Otherwise the texts are those of the whole file, as the protocol has them.
    for (status, became) in [("completed", Some("applied")), ("failed", None)] {
        let found = patches(&[
            edit(json!({"path": "a.txt"}), part.clone(), json!({})),
            call(&json!({"status": status})),
        ]);
        assert_eq!((found.len(), found[0].0.is_fragment, found[0].1), (1, false, became), "{status}");
    }
}

fn permission_of(recording: &mut PromptRecording, about: &Value) -> Vec<(String, Value)> {
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    recording.permission("7", &json!({"toolCall": about, "options": options}), Some("appr-1"), None);
    drafts(recording)
}

#[test]
fn a_terminal_that_is_shown_before_the_permission_does_not_start_the_call() {
    let mut recording = started();
    recording.update(&call(
        &json!({"sessionUpdate": "tool_call", "status": "in_progress", "kind": "execute",
        "rawInput": {"command": "ls"}, "content": [{"type": "terminal", "terminalId": "c-1"}],
        "_meta": {"terminal_info": {"terminal_id": "c-1"}}}),
    ));
    let events = permission_of(&mut recording, &json!({"toolCallId": "c-1", "rawInput": {"command": "ls"}}));
    assert_eq!(one(&events, "approval.requested")["tool_call_id"], "c-1");
    assert!(!events.iter().any(|(kind, _)| kind == "tool.invoked"), "{events:?}");
}

#[test]
fn a_call_without_input_waits_for_the_input_of_its_permission() {
    for input in [json!(null), json!({})] {
        let mut recording = started();
        let begin = json!({"sessionUpdate": "tool_call", "status": "pending", "rawInput": input});
        recording.update(&call(&begin));
        recording
            .update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""},
            "_meta": {"usage": {"inputTokens": 100}}}));
        recording.update(&json!({"sessionUpdate": "session_info_update", "title": "Numbers"}));
        assert!(!recording.has_waiting());
        recording.settle_known();
        let about = json!({"toolCallId": "c-1", "rawInput": {"command": "ls"}});
        let events = permission_of(&mut recording, &about);
        assert_eq!(one(&events, "assistant.tool_call_proposed")["input"], json!({"command": "ls"}));
    }
    // It does not wait for ever.
    let mut recording = started();
    recording.update(&call(&json!({"sessionUpdate": "tool_call", "status": "pending"})));
    assert_eq!(recording.starting(), Some(false));
    recording.settle_starting();
    one(&drafts(&mut recording), "assistant.tool_call_proposed");
}

#[test]
fn a_change_that_is_shown_as_a_new_file_first_is_applied_once() {
    let diff = |change: Value| call(&json!({"status": "pending", "content": [change]}));
    let whole = json!({"type": "diff", "path": "/p/a", "oldText": "one\n", "newText": "two\n"});
    let found = patches(&[
        call(&json!({"sessionUpdate": "tool_call", "kind": "edit", "status": "pending"})),
        diff(json!({"type": "diff", "path": "/p/a", "newText": "two\n"})),
        diff(whole),
        call(&json!({"status": "completed"})),
    ]);
    let statuses: Vec<_> = found.iter().map(|(patch, status)| (&*patch.text, *status)).collect();
    assert!(matches!(statuses[..], [.., (text, Some("applied"))] if text.contains("-one")), "{statuses:?}");
    assert!(
        statuses[..statuses.len() - 1].iter().all(|(_, status)| *status == Some("rejected")),
        "{statuses:?}"
    );
}
