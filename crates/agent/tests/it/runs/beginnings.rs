//! Sessions that begin with what was said elsewhere, and requests of content blocks: what a provider is sent of them.

use recount_engine::{NewSetup, Order};
use recount_event::{Json, SessionId};
use recount_playback::Recording;
use serde_json::{Value, json};

use crate::runs::applications::{answer, call_of, client_tool, output};
use crate::runs::pictures::{as_url, pictures, upload_png};
use crate::runs::providers::{Playing, playing, recording};
use crate::runs::scene::{Scene, count, first, types};

/// A session of an application that begins with these messages.
pub(crate) async fn seeded(scene: &Scene, seed: &[Value]) -> SessionId {
    let seed = seed.iter().map(|message| Json::of(message).unwrap()).collect();
    let new = NewSetup { seed, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

/// The messages of a request, without what they say of a system.
pub(crate) fn messages(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] != "system").cloned().collect()
}

fn blocks(blocks: &[Value]) -> Vec<Json> {
    blocks.iter().map(|block| Json::of(block).unwrap()).collect()
}

/// A recording that makes one call before it answers with a text.
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

/// P-069, P-070: what was said before is sent first, and calls without a result get one that says so.
#[tokio::test]
async fn a_session_goes_on_from_what_was_said_before_it_began() {
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
    let order = Order { system: Some("You are a clerk.".into()), tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for("And now?", order.clone(), None, Some(session)).await;
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
            json!({ "role": "user", "content": [{ "type": "text", "text": "What the call x-1 shows:" }, shown] }),
            json!({ "role": "assistant", "content": null, "tool_calls": [call("call_2", "{}")] }),
            json!({ "role": "tool", "tool_call_id": "call_2", "content": "nothing is known of what became of this call" }),
            json!({ "role": "user", "content": "And now?" }),
        ]
    );
    // The next request goes on from there, after a restart, too.
    scene.restart().await;
    let run = scene.ask_for("And then?", order, None, Some(session)).await;
    scene.ended(run).await;
    let then = messages(&player.seen()[1].body);
    assert_eq!(then[..7], messages(body)[..]);
    assert_eq!(then[8], json!({ "role": "user", "content": "And then?" }));
}

#[tokio::test]
async fn a_request_of_blocks_is_told_as_it_stands_and_shows_each_picture_once() {
    let Playing { scene, player } = playing(recording("text"), "").await;
    let picture = upload_png(&scene).await;
    let asked = [
        json!({ "type": "text", "text": "Here" }),
        json!({ "type": "image", "artifact_id": picture.artifact_id, "mime": "image/png" }),
        json!({ "type": "text", "text": "and there" }),
        json!({ "type": "image", "url": "https://example.com/p.png" }),
    ];
    let order = Order { blocks: blocks(&asked), attachments: vec![picture], ..Order::default() };
    let run = scene.ask_for("Here\nand there", order, None, None).await;
    let events = scene.ended(run).await;
    let message = first!(events, UserMessage);
    assert_eq!(message.text, "Here\nand there");
    assert_eq!(message.blocks.unwrap(), blocks(&asked));
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
async fn a_model_without_pictures_is_told_that_there_is_one_at_an_address() {
    let Playing { scene, player } = playing(recording("text"), "models = { '*' = { images = false } }").await;
    let asked = [json!({ "type": "image", "url": "https://example.com/p.png" })];
    let order = Order { blocks: blocks(&asked), ..Order::default() };
    let run = scene.ask_for("", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "error.model_capability_missing"), 1, "{:?}", types(&events));
    let body = &player.seen()[0].body;
    assert_eq!(pictures(body), Vec::<String>::new());
    assert!(messages(body)[0]["content"].as_str().unwrap().contains("https://example.com/p.png"));
}

#[tokio::test]
async fn pictures_in_the_result_of_an_application_are_shown() {
    let Playing { scene, player } = playing(calling("camera", "call_A"), "").await;
    let order = Order { client_tools: vec![client_tool("camera")], tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for("look", order, None, None).await;
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

/// P-041: what a provider calls its calls names nothing here, and goes back to it once each.
#[tokio::test]
async fn a_provider_that_repeats_the_ids_of_its_calls_gets_each_back_once() {
    let mut recorded = calling("todo_write", "call_1");
    let asks = recorded.answer[0].clone();
    recorded.answer.insert(0, asks);
    let Playing { scene, player } = playing(recorded, "").await;
    let run = scene.ask("go").await;
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
