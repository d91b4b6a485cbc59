//! Tests which bodies are accepted and refused, and that both directions agree.

use recount_event::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) -> T {
    let value: T = read(text.as_bytes()).unwrap_or_else(|why| panic!("{text}: {why}"));
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
    value
}

/// P-001 to P-004.
#[test]
fn agents_are_encoded_as_the_protocol_defines() {
    let meta: MetaResponse = check(
        r#"{"version":3,"agents":[{"name":"clerk","title":"Clerk","version":"1.0.0","description":"files","tools":[{"name":"read_file","description":"reads","parameters":{"type":"object"}}],"options":[{"type":"text","name":"tone","default":""},{"type":"secret","name":"key","title":"Key","default":""},{"type":"select","options":["a","b"],"name":"model","description":"which","default":"a"}],"capabilities":{"history":{"compacted":{},"full":{}},"stream":{"delta":{},"message":{},"none":{}},"application":{"tools":{}},"image":{"data":{}}}}]}"#,
    );
    assert_eq!(meta.version, VERSION);
    let capabilities = meta.agents[0].capabilities.clone().unwrap();
    assert!(capabilities.image.is_some_and(|image| image.http.is_none() && image.data.is_some()));
}

#[test]
fn requests_are_read_and_written_alike() {
    let turn: PostSessionTurnRequest = check(
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","url":"https://x.example/y.png"}]}],"stream":"delta","agent":{"tools":[{"name":"read_file","trust":true}],"options":{"tone":"dry"}},"tools":[]}"#,
    );
    assert_eq!((turn.stream, turn.tools), (StreamMode::Delta, Some(vec![])));
    let answers: PostSessionTurnRequest = check(
        r#"{"messages":[{"role":"tool","toolCallId":"call_1","content":"rain"},{"role":"tool_permission","toolCallId":"call_2","granted":false,"reason":"no"},{"role":"tool_permission","toolCallId":"call_3","granted":true}],"stream":"none"}"#,
    );
    assert_eq!(answers.messages.len(), 3);
    let plain: PostSessionTurnRequest = read(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    assert_eq!(plain.stream, StreamMode::None);
    let _: SessionInfo = check(
        r#"{"sessionId":"chat_1","agent":{"name":"clerk","options":{"key":"***"}},"title":"t","createdAt":"x","updatedAt":"y","status":"waiting","usage":{"inputTokens":1,"outputTokens":2,"cachedInputTokens":0,"costMicrosUsd":3}}"#,
    );
    let _: PostSessionTurnResponse = check(
        r#"{"stopReason":"end_turn","messages":[{"role":"tool","toolCallId":"c","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"u"},{"type":"tool_use","toolCallId":"d","name":"n","input":{}}]}],"usage":{"inputTokens":1,"outputTokens":2,"cachedInputTokens":0},"error":{"code":"c","message":"m","retryable":true},"awaiting":{"kind":"clarification","id":"clar_1","question":"q","choices":[1]}}"#,
    );
}

/// P-066: seed messages are returned exactly as they were sent.
#[test]
fn seed_messages_keep_their_text() {
    let messages = [
        r#"{"role":"system","content":"be kind"}"#,
        r#"{"content":"hi","role":"user","of_a_later_client":[1,2.50]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"f","input":{"b":1,"a":[1e2]},"more":null}]}"#,
        r#"{"role":"tool","toolCallId":"c1","content":[{"type":"image","url":"data:image/png;base64,AA=="}]}"#,
    ];
    let body = format!(
        r#"{{"agent":{{"name":"clerk","later":1}},"messages":[{}],"later":{{}}}}"#,
        messages.join(" ,\n")
    );
    let request: PostSessionsRequest = read(body.as_bytes()).unwrap();
    let texts: Vec<&str> = request.messages.iter().map(|message| message.json().text()).collect();
    assert_eq!(texts, messages);
    let HistoryMessage::Assistant { content: Content::Blocks(blocks) } = request.messages[2].value() else {
        panic!("{:?}", request.messages[2]);
    };
    let input = Json::parse(r#"{"b":1,"a":[1e2]}"#).unwrap();
    let call = ContentBlock::ToolUse { tool_call_id: "c1".into(), name: "f".into(), input };
    assert_eq!(*blocks, [call]);
    assert_eq!(AsSent::parse(request.messages[3].json().clone()).as_ref(), Ok(&request.messages[3]));
}

/// P-012, P-030, P-077.
#[test]
fn a_refusal_names_the_place() {
    fn no<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
        read::<T>(body.as_bytes()).unwrap_err().to_string()
    }
    let turn = no::<PostSessionTurnRequest>;
    let session = no::<PostSessionsRequest>;
    for (why, expected) in [
        (turn(""), "body: invalid JSON"),
        (turn("{"), "body: invalid JSON"),
        (turn("[[],\"none\"]"), "body: expected an object"),
        (turn("null"), "body: expected an object"),
        (turn(r#"{"messages":[],"messages":[]}"#), "body: invalid JSON"),
        (turn("{}"), "body: missing field `messages`"),
        (turn(r#"{"messages":"hi"}"#), "messages: invalid type: string \"hi\", expected a sequence"),
        (turn(r#"{"messages":[1]}"#), "messages[0]: invalid type: integer `1`"),
        (turn(r#"{"messages":[{"role":"user"}]}"#), "messages[0]: content is missing for type \"user\""),
        (turn(r#"{"messages":[{"content":"x"}]}"#), "messages[0]: missing field `role`"),
        (turn(r#"{"messages":[{"role":"system","content":"x"}]}"#), "messages[0]: role is \"system\""),
        (
            turn(r#"{"messages":[{"role":"user","content":1}]}"#),
            "messages[0].content: invalid type: integer `1`",
        ),
        (
            turn(r#"{"messages":[{"role":"user","content":[{"type":"text","text":null}]}]}"#),
            "messages[0].content[0]: text is missing for type \"text\"",
        ),
        (
            turn(r#"{"messages":[{"role":"user","content":[{"type":"text","text":[]}]}]}"#),
            "messages[0].content[0].text: invalid type: sequence",
        ),
        (
            turn(r#"{"messages":[{"role":"user","content":[{"type":"video"}]}]}"#),
            "messages[0].content[0]: type is \"video\"",
        ),
        (
            turn(r#"{"messages":[{"role":"tool","content":"x"}]}"#),
            "messages[0]: toolCallId is missing for type \"tool\"",
        ),
        (
            turn(r#"{"messages":[{"role":"tool_permission","toolCallId":"c","granted":"yes"}]}"#),
            "messages[0].granted: invalid type: string \"yes\"",
        ),
        (turn(r#"{"messages":[],"stream":"fast"}"#), "stream: unknown variant `fast`"),
        (
            turn(r#"{"messages":[],"agent":{"options":{"a":1}}}"#),
            "agent.options.a: invalid type: integer `1`",
        ),
        (
            turn(r#"{"messages":[],"tools":[{"name":"f","description":"d","parameters":"x"}]}"#),
            "tools[0].parameters: expected an object",
        ),
        (
            turn(r#"{"messages":[],"tools":[{"name":"f","parameters":{}}]}"#),
            "tools[0]: missing field `description`",
        ),
        (session("{}"), "body: missing field `agent`"),
        (session(r#"{"agent":{}}"#), "agent: missing field `name`"),
        (
            session(
                r#"{"agent":{"name":"a"},"messages":[{"role":"user","content":[{"type":"text","text":5}]}]}"#,
            ),
            "messages[0]: content[0].text: invalid type: integer `5`",
        ),
        (
            session(
                r#"{"agent":{"name":"a"},"messages":[{"role":"tool_permission","toolCallId":"c","granted":true}]}"#,
            ),
            "messages[0]: role is \"tool_permission\"",
        ),
    ] {
        assert!(why.starts_with(expected), "{why}\n{expected}");
        assert!(!why.contains(" at line "), "{why}");
    }
}

#[test]
fn responses_are_never_nested_too_deeply_to_parse() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        format!(r#"{{"messages":{deep}}}"#),
        format!(r#"{{"messages":[],"later":{deep}}}"#),
        format!(r#"{{"messages":[{{"role":"user","content":{deep}}}]}}"#),
        deep.clone(),
    ] {
        assert!(read::<PostSessionTurnRequest>(body.as_bytes()).is_err());
    }
    assert!(read::<PostSessionTurnRequest>(b"{\"messages\":\xff}").is_err());
}

#[test]
fn events_of_a_stream_are_read_as_they_are_written() {
    for (name, data) in [
        ("turn_start", r#"{}"#),
        ("text_delta", r#"{"delta":"a"}"#),
        ("thinking_delta", r#"{"delta":"a"}"#),
        ("text", r#"{"text":"a"}"#),
        ("thinking", r#"{"thinking":"a"}"#),
        ("tool_call", r#"{"toolCallId":"c","name":"n","input":{"x":1.50}}"#),
        ("tool_result", r#"{"toolCallId":"c","content":"x"}"#),
        ("tool_result", r#"{"toolCallId":"c","content":[{"type":"text","text":"x"}]}"#),
        ("turn_stop", r#"{"stopReason":"max_tokens"}"#),
        (
            "turn_stop",
            r#"{"stopReason":"error","usage":{"inputTokens":1,"outputTokens":2,"cachedInputTokens":3,"costMicrosUsd":4},"error":{"code":"c","message":"m","retryable":false}}"#,
        ),
        (
            "turn_stop",
            r#"{"stopReason":"end_turn","awaiting":{"kind":"handoff","id":"h","reason":"r","targetKind":"human"}}"#,
        ),
    ] {
        let event = TurnEvent::read(name, data).unwrap().unwrap();
        assert_eq!((event.name(), serde_json::to_string(&event).unwrap().as_str()), (name, data));
    }
    assert_eq!(TurnEvent::read("later", r#"{"delta":1.0e0}"#).ok(), None);
    assert_eq!(TurnEvent::read("later", "{}"), Ok(None));
    assert!(TurnEvent::read("text", "{}").unwrap_err().to_string().contains("text"));
}
