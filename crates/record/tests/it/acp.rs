//! Tool calls in several messages, as third-party agents send them: the next message completes the previous one.

use recount_record::acp::{AcpStep, PromptRecording, source};
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
        AcpStep::Patch(_) => None,
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
        assert_eq!(one(&record(&updates), "tool.completed")["output"], whole);
    }
    // A long output is cut, with a note.
    let long = "x".repeat(300_000);
    let events = record(&[
        call(&begin),
        piece("terminal_output_delta", &long),
        piece("terminal_output_delta", "y"),
        end,
    ]);
    let output = &one(&events, "tool.completed")["output"];
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
