//! Successful responses, in both protocols and in the dialects of compatible servers.

use recount_agent::model::Piece;
use recount_event::family::turn::StopReason::{EndTurn, MaxTokens, Refusal, ToolUse};

use crate::providers::recorded::{APIS, call, drain, finish, finish_with, play, request, text, user};

fn hello() -> Vec<Piece> {
    vec![text("Good "), text("morning, "), text("friend.")]
}

fn with(mut pieces: Vec<Piece>, end: Piece) -> Vec<Piece> {
    pieces.push(end);
    pieces
}

async fn check(api: &str, recording: &str, settings: &str, expected: Vec<Piece>) {
    let (pieces, failure) = play(api, recording, settings).await.receive().await;
    assert_eq!(failure, None, "{api} {recording}");
    assert_eq!(pieces, expected, "{api} {recording}");
}

#[tokio::test]
async fn both_protocols_return_the_same_pieces() {
    let thinking = || vec![Piece::Thinking("A greeting ".into()), Piece::Thinking("is due.".into())];
    for api in APIS {
        // Each protocol has ids of its own shape.
        let id = |letter: char| {
            if api == "anthropic" { format!("toolu_01{letter}") } else { format!("call_{letter}") }
        };
        let thinking_setting = if api == "anthropic" { "thinking_tokens = 2048" } else { "" };
        let scenarios = [
            ("text", "", with(hello(), finish(EndTurn))),
            ("bytes", "", with(vec![text("Grüße, "), text("日本 "), text("🌍!")], finish(EndTurn))),
            ("cached", "", with(hello(), finish_with(EndTurn, 1000, 12, 900))),
            ("thinking", thinking_setting, with([thinking(), hello()].concat(), finish(EndTurn))),
            (
                "call",
                "",
                vec![
                    text("Let me look."),
                    call(&id('A'), "read_file", r#"{"path": "notes.md"}"#),
                    finish(ToolUse),
                ],
            ),
            (
                "calls",
                "",
                vec![
                    call(&id('A'), "read_file", r#"{"path": "a"}"#),
                    call(&id('B'), "read_file", r#"{"path": "b"}"#),
                    call(&id('C'), "git_status", "{}"),
                    finish(ToolUse),
                ],
            ),
            ("broken_input", "", vec![call(&id('A'), "read_file", r#"{"path": "no"#), finish(MaxTokens)]),
            ("no_last_word", "", with(hello(), finish(EndTurn))),
            ("refusal", "", vec![text("I cannot help with that."), finish(Refusal)]),
            ("length", "", vec![text("Good "), text("mor"), finish(MaxTokens)]),
            ("pause_turn", "", with(hello(), finish(EndTurn))),
            ("unknown_events", "", with(hello(), finish(EndTurn))),
            // Slower in total than the timeout, which applies to each piece.
            ("slow", "silence_timeout_ms = 1500", with(hello(), finish(EndTurn))),
        ];
        for (recording, settings, expected) in scenarios {
            check(api, recording, settings, expected).await;
        }
    }
}

#[tokio::test]
async fn thinking_is_returned_only_if_requested() {
    check("anthropic", "thinking", "", with(hello(), finish(EndTurn))).await;
}

#[tokio::test]
async fn dialects_of_chat_completions_are_read() {
    let thinking = Piece::Thinking("A greeting.".into());
    let read = |id: &str, path: &str| call(id, "read_file", &format!(r#"{{"path": "{path}"}}"#));
    let compact = |id: &str, path: &str| call(id, "read_file", &format!(r#"{{"path":"{path}"}}"#));
    for (recording, expected) in [
        ("filtered", vec![finish(Refusal)]),
        ("dialect_comments", with([vec![thinking], hello()].concat(), finish(EndTurn))),
        ("dialect_stop_with_calls", vec![read("call_1", "a"), read("call_2", "b"), finish(ToolUse)]),
        (
            "dialect_no_ids",
            vec![compact("call_1", "a"), compact("call_2", "b"), finish_with(ToolUse, 0, 0, 0)],
        ),
        ("dialect_repeated", vec![read("call_0", "a"), read("call_2", "b"), finish(ToolUse)]),
        ("dialect_index_zero", vec![read("call_1", "a"), read("call_2", "b"), finish(ToolUse)]),
        ("dialect_function_call", vec![read("call_1", "a"), finish(ToolUse)]),
        ("dialect_parts", vec![text("Good morning, friend."), finish_with(EndTurn, 0, 0, 0)]),
        ("dialect_no_usage", with(hello(), finish_with(EndTurn, 0, 0, 0))),
    ] {
        check("openai", recording, "", expected).await;
    }
}

#[tokio::test]
async fn a_connection_is_reused() {
    for api in APIS {
        let provider = play(api, "text", "").await;
        for _ in 0..3 {
            assert_eq!(provider.receive().await.1, None);
        }
        assert_eq!(provider.player.connections(), 1, "{api}");
    }
}

#[tokio::test]
async fn many_responses_are_received_concurrently() {
    for api in APIS {
        let provider = play(api, "calls", "").await;
        let one = |_| drain(provider.model.begin(std::sync::Arc::new(request(vec![user("hello")]))));
        let received = futures_util::future::join_all((0..50).map(one)).await;
        assert!(received.iter().all(|(pieces, failure)| failure.is_none() && pieces.len() == 4), "{api}");
    }
}
