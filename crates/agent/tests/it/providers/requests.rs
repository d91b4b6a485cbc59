//! Requests that providers receive.

use std::sync::Arc;

use bytes::Bytes;
use recount_agent::model::{Call, CallResult, Message, Part, Request, Secret, ToolSpec};
use recount_playback::Seen;
use serde_json::{Value, json};

use crate::providers::recorded::{KEY, drain, play, request, user};

/// Sends a request and returns what the provider received.
async fn sent(api: &str, settings: &str, request: Request) -> Seen {
    let provider = play(api, "text", settings).await;
    assert_eq!(drain(provider.model.begin(Arc::new(request))).await.1, None);
    provider.player.seen().remove(0)
}

fn image() -> Part {
    Part::Image { mime: "image/png".into(), bytes: Bytes::from_static(b"\x89PNG") }
}

fn conversation() -> Request {
    let call = |id: &str, input: Value| Call { id: id.into(), name: "look".into(), input };
    let result =
        |id: &str, parts: Vec<Part>, is_error: bool| CallResult { call_id: id.into(), parts, is_error };
    let text = |text: &str| Part::Text(text.into());
    Request {
        system: Some("Be brief.".into()),
        tools: ["look", "ask"]
            .map(|name| ToolSpec {
                name: name.into(),
                description: format!("to {name}"),
                schema: json!({ "type": "object", "properties": {} }),
            })
            .into(),
        ..request(vec![
            Message::User(vec![text("What is this?"), image()]),
            Message::Assistant {
                text: Some("I look.".into()),
                calls: vec![call("c:1", json!({ "at": "a" })), call("c2", json!("no object"))],
            },
            Message::Results(vec![
                result("c:1", vec![text("here:"), image()], false),
                result("c2", vec![text("no such thing")], true),
            ]),
            user("And now?"),
            Message::Assistant { text: Some("A dot.".into()), calls: vec![] },
            user("Sure?"),
        ])
    }
}

#[tokio::test]
async fn a_conversation_is_encoded_for_the_messages_api() {
    let seen = sent("anthropic", "", conversation()).await;
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(seen.headers["x-api-key"], KEY);
    assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
    assert_eq!(seen.headers["accept"], "text/event-stream");
    let mark = json!({ "type": "ephemeral" });
    let png = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw==" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let schema = json!({ "type": "object", "properties": {} });
    let expected = json!({
        "model": "recorded-1",
        "max_tokens": 1000,
        "stream": true,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": mark }],
        "tools": [
            { "name": "look", "description": "to look", "input_schema": schema },
            { "name": "ask", "description": "to ask", "input_schema": schema, "cache_control": mark },
        ],
        "messages": [
            { "role": "user", "content": [text("What is this?"), png] },
            { "role": "assistant", "content": [
                text("I look."),
                { "type": "tool_use", "id": "c_1", "name": "look", "input": { "at": "a" } },
                { "type": "tool_use", "id": "c2", "name": "look", "input": { "raw": "no object" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c_1", "content": [text("here:"), png] },
                { "type": "tool_result", "tool_use_id": "c2", "content": [text("no such thing")], "is_error": true },
                text("And now?"),
            ] },
            { "role": "assistant", "content": [text("A dot.")] },
            { "role": "user", "content": [{ "type": "text", "text": "Sure?", "cache_control": mark }] },
        ],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_conversation_is_encoded_for_chat_completions() {
    let seen = sent("openai", "", conversation()).await;
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    let png = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw==" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let tool = |name: &str| {
        let schema = json!({ "type": "object", "properties": {} });
        let function = json!({ "name": name, "description": format!("to {name}"), "parameters": schema });
        json!({ "type": "function", "function": function })
    };
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": arguments } });
    let expected = json!({
        "model": "recorded-1",
        "max_tokens": 1000,
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": [tool("look"), tool("ask")],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [text("What is this?"), png] },
            { "role": "assistant", "content": "I look.", "tool_calls": [
                call("c:1", r#"{"at":"a"}"#),
                call("c2", r#"{"raw":"no object"}"#),
            ] },
            { "role": "tool", "tool_call_id": "c:1", "content": "here:" },
            { "role": "tool", "tool_call_id": "c2", "content": "no such thing" },
            { "role": "user", "content": [text("Image returned by the call c:1:"), png] },
            { "role": "user", "content": "And now?" },
            { "role": "assistant", "content": "A dot." },
            { "role": "user", "content": "Sure?" },
        ],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn settings_change_what_is_sent() {
    let plain = || request(vec![user("hello")]);
    let seen = sent(
        "anthropic",
        "cache = false\nheaders = { anthropic-version = \"x\", x-team = \"blue\" }",
        plain(),
    )
    .await;
    assert_eq!(
        seen.body["messages"],
        json!([{ "role": "user", "content": [{ "type": "text", "text": "hello" }] }])
    );
    assert_eq!((seen.headers["anthropic-version"].as_str(), seen.headers["x-team"].as_str()), ("x", "blue"));
    let seen = sent("openai", "ask_usage = false", plain()).await;
    assert_eq!(seen.body.get("stream_options"), None);
    let seen = sent("openai", "headers = { authorization = \"Basic abc\" }", plain()).await;
    assert_eq!(seen.headers["authorization"], "Basic abc", "a configured header overrides the key");
}

#[tokio::test]
async fn thinking_is_requested_if_the_output_limit_allows_and_no_call_is_open() {
    let call = Call { id: "c".into(), name: "look".into(), input: json!({}) };
    let result = CallResult { call_id: "c".into(), parts: vec![], is_error: false };
    let in_calls = vec![
        user("hello"),
        Message::Assistant { text: None, calls: vec![call] },
        Message::Results(vec![result]),
    ];
    for (messages, max_tokens, thinking) in [
        (vec![user("hello")], 8192, json!({ "type": "enabled", "budget_tokens": 3000 })),
        (vec![user("hello")], 4000, json!({ "type": "enabled", "budget_tokens": 2000 })),
        (vec![user("hello")], 2000, Value::Null),
        (in_calls, 8192, Value::Null),
    ] {
        let request = Request { max_output_tokens: max_tokens, ..request(messages) };
        let seen = sent("anthropic", "thinking_tokens = 3000", request).await;
        assert_eq!(seen.body["thinking"], thinking, "{:?}", seen.body["messages"]);
    }
}

/// Chat completions accept consecutive messages of one role; the Messages API gets one message with a block for each.
#[tokio::test]
async fn consecutive_messages_stay_separate() {
    let messages = vec![user("one"), user("two")];
    let seen = sent("openai", "", request(messages.clone())).await;
    let message = |text: &str| json!({ "role": "user", "content": text });
    assert_eq!(seen.body["messages"], json!([message("one"), message("two")]));
    let seen = sent("anthropic", "cache = false", request(messages)).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(seen.body["messages"], json!([{ "role": "user", "content": [text("one"), text("two")] }]));
}

/// Empty content is left out or sent as an empty text, as each protocol requires.
#[tokio::test]
async fn empty_content_is_sent_as_each_protocol_requires() {
    let blank = || Part::Text(" ".into());
    let messages = vec![
        user("hello"),
        Message::Assistant { text: Some(String::new()), calls: vec![] },
        Message::User(vec![blank(), Part::Text("again".into())]),
    ];
    let seen = sent("anthropic", "cache = false", request(messages.clone())).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(seen.body["messages"], json!([{ "role": "user", "content": [text("hello"), text("again")] }]));
    let seen = sent("openai", "", request(messages)).await;
    assert_eq!(seen.body["messages"][1], json!({ "role": "assistant", "content": "" }));
}

#[tokio::test]
async fn an_image_url_is_passed_to_the_provider() {
    let url = "https://example.com/p.png";
    let parts = vec![Part::Text("Here:".into()), Part::ImageUrl(url.into())];
    for (api, image) in [
        ("anthropic", json!({ "type": "image", "source": { "type": "url", "url": url } })),
        ("openai", json!({ "type": "image_url", "image_url": { "url": url } })),
    ] {
        let seen = sent(api, "", request(vec![Message::User(parts.clone())])).await;
        let mut content = seen.body["messages"][0]["content"][1].clone();
        content.as_object_mut().unwrap().remove("cache_control");
        assert_eq!(content, image);
    }
}

#[tokio::test]
async fn the_key_of_a_request_replaces_the_configured_key() {
    for (api, settings, header, value) in [
        ("anthropic", "", "x-api-key", "another"),
        ("openai", "", "authorization", "Bearer another"),
        ("openai", "headers = { api-key = 'configured' }", "api-key", "another"),
    ] {
        let request = Request { key: Some(Secret::new("another")), ..request(vec![user("hello")]) };
        let seen = sent(api, settings, request).await;
        assert_eq!(seen.headers[header], value);
    }
    let provider = play("openai", "text", "").await;
    let request = Request { key: Some(Secret::new("no\nheader")), ..request(vec![user("hello")]) };
    let failure = drain(provider.model.begin(Arc::new(request))).await.1.unwrap();
    assert_eq!((failure.code, failure.retriable), ("model_unauthorized", false));
    assert!(provider.player.seen().is_empty() && !failure.message.contains("header\n"), "{failure}");
}

/// Unknown tool names, and pictures in failed results, would fail the whole conversation.
#[tokio::test]
async fn earlier_calls_are_changed_where_a_provider_would_reject_them() {
    let long = format!("fs.read file{}", "x".repeat(80));
    let conversation = || {
        let call = Call { id: "c".into(), name: long.clone(), input: json!({}) };
        let result = CallResult { call_id: "c".into(), parts: vec![image()], is_error: true };
        request(vec![
            user("go"),
            Message::Assistant { text: None, calls: vec![call] },
            Message::Results(vec![result]),
        ])
    };
    let plain = format!("fs_read_file{}", "x".repeat(52));
    let body = sent("anthropic", "", conversation()).await.body;
    assert_eq!(body["messages"][1]["content"][0]["name"], plain);
    assert_eq!(body["messages"][2]["content"][0].get("is_error"), None);
    let body = sent("openai", "", conversation()).await.body;
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], plain);
}
