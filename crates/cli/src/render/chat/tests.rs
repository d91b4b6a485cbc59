//! What turns and histories look like.

use recount_client::aap::wire::{Block, Content, HistoryMessage};
use recount_client::aap::{OpenCall, Retraction, Stop, StopReason, TurnEvent, TurnFailure};
use serde_json::{Value, json};

use super::{TurnPrinter, history, stopped, usage};
use crate::render::live::{Paint, Prompt};

fn text(piece: &str) -> TurnEvent {
    TurnEvent::TextDelta(piece.into())
}

fn thought(piece: &str) -> TurnEvent {
    TurnEvent::ThinkingDelta(piece.into())
}

fn open(id: &str, name: &str, input: Value) -> OpenCall {
    OpenCall { tool_call_id: id.into(), name: name.into(), input }
}

fn call(id: &str, name: &str, input: Value) -> TurnEvent {
    TurnEvent::ToolCall(open(id, name, input))
}

fn result(id: &str, content: &str) -> TurnEvent {
    TurnEvent::ToolResult { tool_call_id: id.into(), content: Content::Text(content.into()) }
}

fn stop(reason: StopReason) -> Stop {
    Stop { reason, error: None, usage: None, awaiting: None }
}

fn print(coloured: bool, events: &[TurnEvent]) -> String {
    let mut printer = TurnPrinter::new(Paint(coloured));
    events.iter().map(|event| printer.event(event)).collect()
}

#[test]
fn a_turn_is_printed_as_it_comes_and_is_readable_without_colours() {
    let events = [
        TurnEvent::Start,
        thought("first this,\nth"),
        thought("en that"),
        text("Let me "),
        text("look.\r"),
        text("\nYes."),
        call("c1", "lookup", json!({"key": "a\u{1b}[2J"})),
        call("c2", "now", json!({})),
        result("c1", "one\ntwo\nthree\nfour\nfive\nsix\nseven"),
        result("gone", "x\u{7}y"),
        text("Done."),
        TurnEvent::Stop(stop(StopReason::EndTurn)),
    ];
    let expected = "thinking: first this,\nthinking: then that\nLet me look.\nYes.\n\
                    ▸ call lookup  {\"key\":\"a\\u001b[2J\"}\n▸ call now\n\
                    ◂ result of lookup: one\n    two\n    three\n    four\n    five\n    (2 more lines)\n\
                    ◂ result of gone: x\\u{7}y\nDone.\n";
    assert_eq!(print(false, &events), expected);
    let whole = [
        TurnEvent::Thinking("first this,\nthen that".into()),
        TurnEvent::Text("Let me look.\r\nYes.".into()),
        TurnEvent::Text("Done.".into()),
    ];
    assert_eq!(
        print(false, &whole),
        "thinking: first this,\nthinking: then that\nLet me look.\nYes.\nDone.\n"
    );
}

#[test]
fn an_abandoned_answer_is_marked_as_it_comes_and_in_the_history() {
    let note = "\n\n[The response was cut off here and starts again.]\n\n";
    let cut = |chars| Retraction { chars, note: note.into() };
    let events = [
        thought("hm"),
        text("The contract ends"),
        TurnEvent::ThinkingRetracted(cut(2)),
        TurnEvent::TextRetracted(cut(17)),
        text("It ends in June."),
        TurnEvent::Stop(stop(StopReason::EndTurn)),
    ];
    assert_eq!(
        print(false, &events),
        "thinking: hm\nThe contract ends\nthinking: [The response was cut off here and starts again.]\n\
         [The response was cut off here and starts again.]\nIt ends in June.\n"
    );
    let block = |text: &str, status: &str| Block::Text { text: text.into(), status: Some(status.into()) };
    let blocks = vec![
        block("It", "abandoned"),
        block(note, "abandoned"),
        Block::text("It ends".into()),
        block("in", "aborted"),
    ];
    let past = [HistoryMessage::Assistant { content: Content::Blocks(blocks) }];
    assert_eq!(
        history(&past, 1),
        [
            "agent (abandoned): It",
            "agent (abandoned): [The response was cut off here and starts again.]",
            "agent: It ends",
            "agent (cut off): in"
        ]
    );
}

#[test]
fn what_the_server_sends_cannot_steer_the_terminal() {
    let hostile = "\u{1b}]0;x\u{7}\u{202e}\u{9b}2J";
    let events = [
        text(hostile),
        thought(hostile),
        call(hostile, hostile, json!({ hostile: hostile })),
        result(hostile, hostile),
        TurnEvent::Text(hostile.into()),
        TurnEvent::TextRetracted(Retraction { chars: 1, note: hostile.into() }),
    ];
    let out = print(false, &events);
    assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{out:?}");
    let coloured = print(true, &events);
    let left = coloured.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "").replace("\u{1b}[2m", "");
    assert_eq!(left, out, "colours add nothing but themselves");
    let call = open("1", hostile, json!({ hostile: hostile }));
    let prompt_text = Prompt::of_call(&call, hostile).all_lines().join("\n");
    let failed = Stop {
        error: Some(TurnFailure { code: hostile.into(), message: hostile.into(), retryable: false }),
        ..stop(StopReason::Error)
    };
    let used = usage(&json!({ hostile: 1 })).unwrap();
    let past = history(&[HistoryMessage::User { content: Content::Text(hostile.into()) }], 1).join("\n");
    for words in [prompt_text, stopped(&failed).unwrap(), used, past] {
        assert!(!words.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{words:?}");
    }
}

#[test]
fn a_permission_prompt_shows_the_whole_input() {
    let input = json!({"command": format!("echo {}; rm -r old", "x".repeat(400))});
    let lines = Prompt::of_call(&open("1", "shell", input), "Runs a command.").all_lines().join("\n");
    assert!(
        lines.starts_with("Permission requested: use shell\n    complete input:\n        {\n"),
        "{lines}"
    );
    assert!(lines.contains("rm -r old") && lines.ends_with("tool: Runs a command."), "{lines}");
    let huge = Prompt::of_call(&open("1", "shell", json!("y".repeat(100_000))), "").all_lines().join("\n");
    assert!(huge.contains(&"y".repeat(100_000)), "all of it is shown");
    let short = print(false, &[call("1", "shell", json!("y".repeat(1_000)))]);
    assert!(short.ends_with("…\n") && short.lines().count() == 1 && short.len() < 300, "{short}");
}

#[test]
fn endings_show_the_message_of_the_server() {
    let words = |reason| stopped(&stop(reason));
    assert_eq!(words(StopReason::EndTurn), None);
    assert_eq!(words(StopReason::ToolUse), None);
    assert!(words(StopReason::MaxTokens).unwrap().contains("max_tokens"));
    assert!(words(StopReason::Refusal).unwrap().contains("refusal"));
    assert_eq!(words(StopReason::Other("nap".into())).unwrap(), "stopped: nap");
    assert!(words(StopReason::Error).unwrap().contains("returned no reason"));
    let failure = TurnFailure { code: "model_cut".into(), message: "cut off".into(), retryable: true };
    let failed = Stop { error: Some(failure), ..stop(StopReason::Error) };
    let expected = "✗ the turn failed: model_cut: cut off; retry may succeed";
    assert_eq!(stopped(&failed).unwrap(), expected);
    let asking = Stop { awaiting: Some(json!({"kind": "clarification"})), ..stop(StopReason::EndTurn) };
    assert_eq!(stopped(&asking).unwrap(), "the agent waits for an answer");
    let waits = |awaiting| stopped(&Stop { awaiting: Some(awaiting), ..stop(StopReason::EndTurn) }).unwrap();
    let choices = json!({"kind": "clarification", "choices": ["red", {"label": "green", "value": 2}, 3]});
    assert_eq!(waits(choices), "the agent waits for an answer, such as red, green, 3");
    assert!(waits(json!({"kind": "handoff"})).contains("a person must take over"));
    let used = json!({"costMicrosUsd": 1_500, "inputTokens": 10, "of": {"x": 1}, "output_tokens": 2});
    assert_eq!(usage(&used).unwrap(), "usage: input tokens 10, output tokens 2, cost 0.0015 USD");
    assert_eq!(usage(&json!({})), None);
    assert_eq!(usage(&json!({"inputTokens": 0})), None);
}

#[test]
fn a_history_is_printed_from_its_end_with_the_speaker_of_each_message() {
    let used = Block::ToolUse { tool_call_id: "c".into(), name: "look".into(), input: json!({"a": 1}) };
    let picture = Block::Image { url: "data:image/png;base64,AAAA".into() };
    let blocks = |blocks| Content::Blocks(blocks);
    let messages = [
        HistoryMessage::System { content: Content::Text("Be brief.".into()) },
        HistoryMessage::User { content: blocks(vec![Block::text("look\nat it".into()), picture]) },
        HistoryMessage::Assistant {
            content: blocks(vec![Block::thinking("hm".into()), Block::text("ok".into()), used]),
        },
        HistoryMessage::Tool { tool_call_id: "c".into(), content: Content::Text("seen".into()) },
        HistoryMessage::Assistant { content: Content::Text("It is red.".into()) },
    ];
    let expected = [
        "(1 earlier message is not shown; /history shows all)",
        "you: look",
        "    at it",
        "    [image, image/png, 11 bytes encoded]",
        "thinking: hm",
        "agent: ok",
        "▸ call look  {\"a\":1}",
        "◂ result of look: seen",
        "agent: It is red.",
    ];
    assert_eq!(history(&messages, 4), expected);
    assert_eq!(history(&messages, 9)[0], "system: Be brief.");
    assert_eq!(history(&[], 4), Vec::<String>::new());
}
