//! Seed messages of sessions, and requests of content blocks: what the provider receives.

use recount_engine::{NewSetup, RunConfig};
use recount_event::{Json, SessionId};
use recount_playback::Recording;
use serde_json::{Value, json};

use crate::runs::applications::{answer, call_of, client_tool, output};
use crate::runs::pictures::{as_url, pictures, upload_png};
use crate::runs::providers::{Playing, playing, recording};
use crate::runs::scene::{Scene, count, first, types};

/// A session of an application with these seed messages.
pub(crate) async fn seeded(scene: &Scene, seed: &[Value]) -> SessionId {
    let seed = seed.iter().map(|message| Json::of(message).unwrap()).collect();
    let new = NewSetup { seed, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

/// The messages of a request, without system messages.
pub(crate) fn messages(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] != "system").cloned().collect()
}

fn blocks(blocks: &[Value]) -> Vec<Json> {
    blocks.iter().map(|block| Json::of(block).unwrap()).collect()
}

/// A recording that makes one call before its final text.
pub(crate) fn calling(name: &str, id: &str) -> Recording {
    let mut recorded = recording("text");
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let function = json!({ "name": name, "arguments": "{}" });
    let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
    let mut asks = recorded.answer[0].clone();
    asks.body = chunk(json!({ "tool_calls": [call] }), Value::Null)
        + &chunk(json!({}), json!("tool_calls"))
        + "data: [DONE]\n\n";
    recorded.answer.insert(0, asks);
    recorded
}

/// P-069, P-070: seed messages are sent first, and calls without a result get one that says so.
#[tokio::test]
async fn a_session_continues_its_seed_messages() {
    let Playing { mut scene, player } = playing(recording("text"), "").await;
    let seed = [
        json!({ "role": "system", "content": "Speak Dutch." }),
        json!({ "role": "user", "content": "What is this?" }),
        json!({ "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm" },
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "toolCallId": "x-1", "name": "look", "input": { "at": "a" } },
        ] }),
        json!({ "role": "tool", "toolCallId": "x-1", "content": [
            { "type": "text", "text": "a dot" }, { "type": "image", "url": as_url() },
        ] }),
        json!({ "role": "tool", "toolCallId": "nobody", "content": "made this call" }),
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "assistant", "content": [
            { "type": "tool_use", "toolCallId": "x-1", "name": "look", "input": {} },
        ] }),
    ];
    let session = seeded(&scene, &seed).await;
    let order =
        RunConfig { system: Some("You are a clerk.".into()), tools: Some(vec![]), ..RunConfig::default() };
    let run = scene.start_with("And now?", order.clone(), None, Some(session)).await;
    scene.ended(run).await;
    let body = &player.seen()[0].body;
    assert_eq!(body["messages"][0]["content"], "You are a clerk.\n\nSpeak Dutch.\n\nBe brief.");
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": arguments } });
    let shown = json!({ "type": "image_url", "image_url": { "url": as_url() } });
    assert_eq!(
        messages(body),
        [
            json!({ "role": "user", "content": "What is this?" }),
            json!({ "role": "assistant", "content": "I look.", "tool_calls": [call("x-1", r#"{"at":"a"}"#)] }),
            json!({ "role": "tool", "tool_call_id": "x-1", "content": "a dot" }),
            json!({ "role": "user", "content": [{ "type": "text", "text": "Image returned by the call x-1:" }, shown] }),
            json!({ "role": "assistant", "content": null, "tool_calls": [call("call_2", "{}")] }),
            json!({ "role": "tool", "tool_call_id": "call_2", "content": "the outcome of this call is unknown" }),
            json!({ "role": "user", "content": "And now?" }),
        ]
    );
    // The next request continues from there, also after a restart.
    scene.restart().await;
    let run = scene.start_with("And then?", order, None, Some(session)).await;
    scene.ended(run).await;
    let then = messages(&player.seen()[1].body);
    assert_eq!(then[..7], messages(body)[..]);
    assert_eq!(then[8], json!({ "role": "user", "content": "And then?" }));
}

#[tokio::test]
async fn a_request_of_blocks_is_sent_unchanged_with_each_image_once() {
    let Playing { scene, player } = playing(recording("text"), "").await;
    let picture = upload_png(&scene).await;
    let content = [
        json!({ "type": "text", "text": "Here" }),
        json!({ "type": "image", "artifact_id": picture.artifact_id, "mime": "image/png" }),
        json!({ "type": "text", "text": "and there" }),
        json!({ "type": "image", "url": "https://example.com/p.png" }),
    ];
    let order = RunConfig { blocks: blocks(&content), attachments: vec![picture], ..RunConfig::default() };
    let run = scene.start_with("Here\nand there", order, None, None).await;
    let events = scene.ended(run).await;
    let message = first!(events, UserMessage);
    assert_eq!(message.text, "Here\nand there");
    assert_eq!(message.blocks.unwrap(), blocks(&content));
    assert_eq!((count(&events, "user.attachment"), count(&events, "artifact.created")), (1, 1));
    let url = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    assert_eq!(
        messages(&player.seen()[0].body)[0]["content"],
        json!([
            { "type": "text", "text": "Here" },
            url(&as_url()),
            { "type": "text", "text": "and there" },
            url("https://example.com/p.png"),
        ])
    );
}

#[tokio::test]
async fn a_model_without_images_gets_a_note_about_an_image_url() {
    let Playing { scene, player } = playing(recording("text"), "models = { '*' = { images = false } }").await;
    let content = [json!({ "type": "image", "url": "https://example.com/p.png" })];
    let order = RunConfig { blocks: blocks(&content), ..RunConfig::default() };
    let run = scene.start_with("", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "error.model_capability_missing"), 1, "{:?}", types(&events));
    let body = &player.seen()[0].body;
    assert_eq!(pictures(body), Vec::<String>::new());
    assert!(messages(body)[0]["content"].as_str().unwrap().contains("https://example.com/p.png"));
}

#[tokio::test]
async fn images_in_the_result_of_a_client_call_are_shown() {
    let Playing { scene, player } = playing(calling("camera", "call_A"), "").await;
    let order =
        RunConfig { client_tools: vec![client_tool("camera")], tools: Some(vec![]), ..RunConfig::default() };
    let run = scene.start_with("look", order, None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let shot = json!([
        { "type": "text", "text": "a shot" },
        { "type": "image", "url": "https://example.com/shot.png" },
    ]);
    answer(&scene, run, vec![output(call_of(&events, "camera"), &shot.to_string())], None).await;
    scene.ended(run).await;
    let seen = player.seen();
    assert_eq!(seen[0].body["tools"][0]["function"]["name"], "camera");
    assert_eq!(pictures(&seen[1].body), ["https://example.com/shot.png"]);
    assert_eq!(messages(&seen[1].body)[2]["content"], "a shot");
}

/// P-041: the provider's call ids are not used as ids here, and each is returned once.
#[tokio::test]
async fn repeated_call_ids_of_a_provider_are_returned_once_each() {
    let mut recorded = calling("todo_write", "call_1");
    let asks = recorded.answer[0].clone();
    recorded.answer.insert(0, asks);
    let Playing { scene, player } = playing(recorded, "").await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    let body = &player.seen()[2].body;
    let calls: Vec<String> = messages(body)
        .iter()
        .filter_map(|message| message["tool_calls"][0]["id"].as_str().map(str::to_owned))
        .collect();
    let results: Vec<String> = messages(body)
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(calls, results);
    assert!(calls.len() == 2 && calls[0] == "call_1" && calls[1] != "call_1", "{calls:?}");
}
