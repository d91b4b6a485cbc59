//! Table tests of the functions that evaluate conversations.

use serde_json::json;

use super::*;
use crate::conformance::transcript::LineOrigin;

fn received(value: Value) -> Line {
    Line::new(0, 0, LineOrigin::Received, value.to_string())
}

fn event(kind: &str, more: Value) -> Line {
    let mut value =
        json!({"type": format!("aaep:agent.{kind}"), "session_id": "sess_1", "event_id": "evt_1"});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    received(value)
}

fn prompt() -> Line {
    event(
        "awaiting.confirmation",
        json!({"reply_token": "rpl_1", "extra_context": {"tool": "pay", "tool_call_id": "call_1"}}),
    )
}

fn moved(from: &str, to: &str) -> Line {
    event("state.changed", json!({"from_state": from, "to_state": to}))
}

fn call(id: &str) -> Line {
    event("tool.invoked", json!({"tool": "pay", "tool_call_id": id}))
}

fn other() -> Line {
    event("tool.invoked", json!({"tool": "look_up", "tool_call_id": "call_9"}))
}

///
#[test]
fn a_prompt_is_settled_by_its_call_or_the_first_step_after_it() {
    let table: [(Vec<Line>, PromptStatus); 7] = [
        (vec![prompt()], PromptStatus::Open),
        (vec![prompt(), moved("thinking", "awaiting_input")], PromptStatus::Open),
        (vec![prompt(), moved("awaiting_input", "thinking")], PromptStatus::Passed(1)),
        (vec![prompt(), moved("awaiting_input", "calling_tool"), call("call_1")], PromptStatus::Done(2)),
        (vec![prompt(), other(), moved("calling_tool", "thinking")], PromptStatus::Passed(2)),
        (vec![prompt(), moved("awaiting_input", "deciding"), call("call_2")], PromptStatus::Done(2)),
        (vec![prompt(), event("session.completed", json!({}))], PromptStatus::Passed(1)),
    ];
    for (lines, expected) in table {
        assert_eq!(prompt_status(&lines, 0), expected, "{lines:#?}");
    }
    let mut elsewhere = call("call_1");
    elsewhere.json["session_id"] = "sess_2".into();
    assert_eq!(prompt_status(&[prompt(), elsewhere], 0), PromptStatus::Open, "the call of another session");
}

///
#[test]
fn output_and_calls_under_an_open_prompt_sound_done() {
    let output = event("output.streaming", json!({"chunk": "It is done."}));
    let progress = event("progress.updated", json!({}));
    assert!(sounds_done(&[prompt(), progress.clone(), output.clone()], 0, 3).is_some());
    assert!(sounds_done(&[prompt(), call("call_1")], 0, 2).is_some());
    assert!(sounds_done(&[prompt(), other(), progress], 0, 3).is_none(), "other work goes on");
    assert!(sounds_done(&[prompt(), moved("awaiting_input", "thinking"), output], 0, 1).is_none());
}

///
#[test]
fn calls_and_departures_are_counted_after_the_prompt_only() {
    let lines = [
        call("call_1"),
        moved("awaiting_input", "thinking"),
        prompt(),
        moved("awaiting_input", "calling_tool"),
        call("call_1"),
        moved("awaiting_input", "thinking"),
        call("call_1"),
    ];
    assert_eq!(calls_of(&lines, 2), [4, 6]);
    assert_eq!(departures(&lines, 2), [3, 5]);
}

fn piece(chunk: &str, position: u64, hint: &str) -> Line {
    event(
        "output.streaming",
        json!({"chunk": chunk, "position": position, "coalesce_hint": hint, "output_id": "out_1"}),
    )
}

///
#[test]
fn pieces_join_to_their_text_and_positions_count_characters() {
    let fine = [piece("É🌊 ", 0, "word"), piece("go", 3, "word")];
    let coarse = [piece("É🌊 go", 0, "sentence")];
    assert_eq!(joined(&fine), joined(&coarse));
    assert!(misplaced(&fine).is_none());
    let in_bytes = [piece("É🌊 ", 0, "word"), piece("go", 7, "word")];
    assert_eq!(misplaced(&in_bytes).map(|(_, expected)| expected), Some(3));
}

///
#[test]
fn the_busiest_second_slides() {
    assert_eq!(busiest_second(&[]), (0, 0));
    assert_eq!(busiest_second(&[0, 999, 1_000, 1_500, 1_998]), (4, 999));
    let at_the_edge: Vec<u64> = (0..10).map(|n| 990 + n).chain((0..10).map(|n| 1_000 + n)).collect();
    assert_eq!(busiest_second(&at_the_edge).0, 20, "a fixed window would have shown ten twice");
}

///
#[test]
fn hints_are_true_if_pieces_end_at_the_boundary() {
    let table = [
        ("One. ", "sentence", Some("Two."), true),
        ("He said \"no.\" ", "sentence", Some("Two."), true),
        ("One and", "sentence", Some(" two."), false),
        ("One ", "word", Some("two"), true),
        ("One", "word", Some(", two"), true),
        ("On", "word", Some("e"), false),
        ("One.\n\n", "paragraph", Some("Two."), true),
        ("One.", "paragraph", Some("\n\nTwo."), true),
        ("One. ", "paragraph", Some("Two."), false),
        ("One. ", "completion", Some("Two."), false),
        ("One", "completion", None, true),
        ("On", "none", Some("e"), true),
        ("On", "", Some("e"), true),
    ];
    for (chunk, hint, next, expected) in table {
        assert_eq!(hint_is_true(chunk, hint, false, next), expected, "{chunk:?} {hint} {next:?}");
    }
    let lines = [piece("One. ", 0, "sentence"), piece("Two and ", 5, "word"), piece("three", 13, "word")];
    assert_eq!(untrue_hints(&lines, &["sentence"]).len(), 2);
    assert_eq!(untrue_hints(&lines, &["word", "sentence"]).len(), 0);
}

///
#[test]
fn answers_are_unlike_in_status_or_body() {
    let answer = |status, body: &str| (String::new(), Answer { status, body: body.into() });
    assert!(unlike(&[answer(204, ""), answer(204, "")]).is_none());
    assert!(unlike(&[answer(204, ""), answer(404, "")]).is_some());
    assert!(unlike(&[answer(200, "late"), answer(200, "late"), answer(200, "unknown")]).is_some());
}

///
#[test]
fn a_secret_is_found_in_any_field() {
    let secret = ["sk-test-12345"];
    let call = event("tool.invoked", json!({"args_summary": "api_key=sk-test-12345"}));
    let deep = event("handoff.requested", json!({"packaged_context": {"key": ["sk-test-12345"]}}));
    assert_eq!(leaks(&[call], &secret).map(|(_, field)| field), Some("args_summary".into()));
    assert!(leaks(&[deep], &secret).is_some());
    assert!(leaks(&[event("tool.invoked", json!({"args_summary": "one argument"}))], &secret).is_none());
}

///
#[test]
fn decomposed_letters_are_found_and_marks_without_a_composed_letter_are_not() {
    assert!(decomposed(&[event("tool.invoked", json!({"summary_normal": "Cafe\u{301}"}))]).is_some());
    assert!(decomposed(&[event("tool.invoked", json!({"summary_normal": "Café ɔ\u{301}"}))]).is_none());
}

///
#[test]
fn events_that_another_subscription_lacks_are_missing() {
    let (first, mut second) = (event("state.changed", json!({})), event("state.changed", json!({})));
    second.json["event_id"] = "evt_2".into();
    assert_eq!(missing([&first, &second], &[&first]).len(), 1);
    assert_eq!(missing([&first, &second], &[&second, &first]).len(), 0);
}
