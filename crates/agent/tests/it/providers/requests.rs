//! What providers are sent.

use std::sync::Arc;

use bytes::Bytes;
use recount_agent::model::{Call, CallResult, Message, Part, Request, Secret, ToolSpec};
use recount_playback::Seen;
use serde_json::{Value, json};

use crate::providers::stage::{KEY, drain, request, stage, user};

/// Asks once and answers what the provider saw.
async fn sent(api: &str, settings: &str, request: Request) -> Seen {
    let stage = stage(api, "text", settings).await;
    assert_eq!(drain(stage.model.begin(Arc::new(request))).await.1, None);
    stage.player.seen().remove(0)
}

fn image() -> Part {
    Part::Image { mime: "image/png".into(), bytes: Bytes::from_static(b"\x89PNG") }
}

fn conversation() -> Request {
    let call = |id: &str, input: Value| Call { id: id.into(), name: "look".into(), input };
    let result =
        |id: &str, parts: Vec<Part>, is_error: bool| CallResult { call_id: id.into(), parts, is_error };
    let said = |text: &str| Part::Text(text.into());
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
            Message::User(vec![said("What is this?"), image()]),
            Message::Assistant {
                text: Some("I look.".into()),
                calls: vec![call("c:1", json!({ "at": "a" })), call("c2", json!("no object"))],
            },
            Message::Results(vec![
                result("c:1", vec![said("here:"), image()], false),
                result("c2", vec![said("no such thing")], true),
            ]),
            user("And now?"),
            Message::Assistant { text: Some("A dot.".into()), calls: vec![] },
            user("Sure?"),
        ])
    }
}

#[tokio::test]
async fn a_conversation_in_the_messages_api() {
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
async fn a_conversation_in_chat_completions() {
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
            { "role": "user", "content": [text("What the call c:1 shows:"), png] },
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
    assert_eq!(seen.headers["authorization"], "Basic abc", "said by hand goes before the key");
}

#[tokio::test]
async fn thinking_is_asked_for_where_there_is_room_and_no_call_is_open() {
    let call = Call { id: "c".into(), name: "look".into(), input: json!({}) };
    let result = CallResult { call_id: "c".into(), parts: vec![], is_error: false };
    let in_calls = vec![
        user("hello"),
        Message::Assistant { text: None, calls: vec![call] },
        Message::Results(vec![result]),
    ];
    for (messages, most, thinking) in [
        (vec![user("hello")], 8192, json!({ "type": "enabled", "budget_tokens": 3000 })),
        (vec![user("hello")], 4000, json!({ "type": "enabled", "budget_tokens": 2000 })),
        (vec![user("hello")], 2000, Value::Null),
        (in_calls, 8192, Value::Null),
    ] {
        let asked = Request { max_output_tokens: most, ..request(messages) };
        let seen = sent("anthropic", "thinking_tokens = 3000", asked).await;
        assert_eq!(seen.body["thinking"], thinking, "{:?}", seen.body["messages"]);
    }
}

/// Chat completions take messages of one role in a row; the Messages API gets one message with a block for each.
#[tokio::test]
async fn messages_in_a_row_are_not_fused() {
    let messages = vec![user("one"), user("two")];
    let seen = sent("openai", "", request(messages.clone())).await;
    let said = |text: &str| json!({ "role": "user", "content": text });
    assert_eq!(seen.body["messages"], json!([said("one"), said("two")]));
    let seen = sent("anthropic", "cache = false", request(messages)).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(seen.body["messages"], json!([{ "role": "user", "content": [text("one"), text("two")] }]));
}

/// What is empty is left out, or said as nothing, as each protocol wants it.
#[tokio::test]
async fn nothing_said_is_no_reason_to_be_refused() {
    let nothing = || Part::Text(" ".into());
    let messages = vec![
        user("hello"),
        Message::Assistant { text: Some(String::new()), calls: vec![] },
        Message::User(vec![nothing(), Part::Text("again".into())]),
    ];
    let seen = sent("anthropic", "cache = false", request(messages.clone())).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(seen.body["messages"], json!([{ "role": "user", "content": [text("hello"), text("again")] }]));
    let seen = sent("openai", "", request(messages)).await;
    assert_eq!(seen.body["messages"][1], json!({ "role": "assistant", "content": "" }));
}

#[tokio::test]
async fn a_picture_at_an_address_is_left_to_the_provider() {
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
async fn a_request_with_a_key_of_its_own_is_sent_under_that() {
    for (api, settings, header, value) in [
        ("anthropic", "", "x-api-key", "another"),
        ("openai", "", "authorization", "Bearer another"),
        ("openai", "headers = { api-key = 'of the house' }", "api-key", "another"),
    ] {
        let asked = Request { key: Some(Secret::new("another")), ..request(vec![user("hello")]) };
        let seen = sent(api, settings, asked).await;
        assert_eq!(seen.headers[header], value);
    }
    let stage = stage("openai", "text", "").await;
    let asked = Request { key: Some(Secret::new("no\nheader")), ..request(vec![user("hello")]) };
    let failure = drain(stage.model.begin(Arc::new(asked))).await.1.unwrap();
    assert_eq!((failure.code, failure.retriable), ("model_unauthorized", false));
    assert!(stage.player.seen().is_empty() && !failure.message.contains("header\n"), "{failure}");
}

/// Names that nobody offered, and pictures of what failed, would cost the whole conversation.
#[tokio::test]
async fn what_a_provider_would_refuse_of_earlier_calls_is_put_otherwise() {
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
