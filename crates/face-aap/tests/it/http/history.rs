//! Histories: exact, in order, whole and shortened; and sessions that go on from a place in another one's.

use recount_engine::{Capabilities, Profile};
use serde_json::{Value, json};

use crate::http::stage::{Scenery, Stage, clerk, user_message};

const SCRIPT: &str = "[[turn]]\ntext = \"One.\"\n";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgo=";

async fn history(stage: &Stage, session: &str, kind: &str) -> Vec<Value> {
    let (status, body) = stage.get(&format!("/sessions/{session}/history?type={kind}")).await.json().await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["history"].as_object().unwrap().len(), 1);
    body["history"][kind].as_array().unwrap().clone()
}

fn text(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
}

fn seed() -> Vec<Value> {
    vec![
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": [{ "type": "text", "text": "before" }, { "type": "image", "url": PICTURE }] }),
        json!({ "role": "assistant", "content": "As you say.", "odd": [1.0, 1e2] }),
    ]
}

// P-066, P-069, P-071, P-072
#[tokio::test]
async fn a_history_has_all_messages_exactly_and_in_order() {
    let stage = Stage::with(SCRIPT).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" }, "messages": seed() })).await;
    assert_eq!(history(&stage, &session, "full").await, seed());
    let blocks = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "url": PICTURE },
        { "type": "image", "url": "https://example.org/a.png" },
        { "type": "text", "text": "here" },
    ]);
    let body = json!({ "messages": [{ "role": "user", "content": blocks }] });
    assert_eq!(stage.turn(&session, &body).await.json().await.1["stopReason"], "end_turn");
    stage.stream_turn(&session, &user_message("and \u{2028} now\u{0}", "message")).await;
    let mut expected = seed();
    expected.extend([
        json!({ "role": "user", "content": blocks }),
        text("One."),
        json!({ "role": "user", "content": "and \u{2028} now\u{0}" }),
        text("One."),
    ]);
    assert_eq!(history(&stage, &session, "full").await, expected);
    // P-067: nothing was shortened.
    assert_eq!(history(&stage, &session, "compacted").await, expected);
}

// P-068
#[tokio::test]
async fn an_undeclared_history_is_refused() {
    let agent = |name: &str, history_full: bool| Profile {
        name: name.into(),
        capabilities: Capabilities {
            history_full,
            history_compacted: !history_full,
            ..Capabilities::default()
        },
        ..clerk()
    };
    let scenery =
        Scenery { profiles: vec![agent("full", true), agent("compacted", false)], ..Scenery::default() };
    let stage = Stage::of(scenery).await;
    for (name, other) in [("full", "compacted"), ("compacted", "full")] {
        let session = stage.session(json!({ "agent": { "name": name } })).await;
        assert_eq!(history(&stage, &session, name).await, Vec::<Value>::new());
        let reply = stage.get(&format!("/sessions/{session}/history?type={other}")).await;
        assert_eq!(reply.refused().await, (404, "history_undeclared".into()));
        for query in ["", "?type=", "?type=all"] {
            let reply = stage.get(&format!("/sessions/{session}/history{query}")).await;
            assert_eq!(reply.refused().await, (400, "parameter_invalid".into()), "{query}");
        }
    }
}

// P-071
#[tokio::test]
async fn pictures_that_the_agent_does_not_take_are_refused() {
    let agent = |name: &str, images_data: bool| Profile {
        name: name.into(),
        capabilities: Capabilities { images_data, images_http: !images_data, ..Capabilities::default() },
        ..clerk()
    };
    let scenery = Scenery { profiles: vec![agent("data", true), agent("http", false)], ..Scenery::default() };
    let stage = Stage::of(scenery).await;
    for (name, url) in [
        ("data", "https://example.org/a.png"),
        ("http", PICTURE),
        ("http", "http://example.org/a.png"),
        ("data", "data:image/svg+xml;base64,AAAA"),
        ("http", "file:///etc/passwd"),
    ] {
        let session = stage.session(json!({ "agent": { "name": name } })).await;
        let message = json!({ "role": "user", "content": [{ "type": "image", "url": url }] });
        let reply = stage.turn(&session, &json!({ "messages": [message] })).await;
        assert_eq!(reply.refused().await, (400, "image_refused".into()), "{name} {url}");
        let reply =
            stage.post("/sessions", &json!({ "agent": { "name": name }, "messages": [message] })).await;
        assert_eq!(reply.refused().await, (400, "image_refused".into()), "{name} {url}");
    }
}

#[tokio::test]
async fn a_fork_continues_from_a_position_in_another_session() {
    let stage = Stage::with(SCRIPT).await;
    let agent = json!({ "name": "clerk", "options": { "language": "Dutch", "key": "hush" } });
    let session = stage.session(json!({ "agent": agent, "messages": seed(), "title": "First" })).await;
    stage.send_message(&session, "one").await;
    stage.send_message(&session, "two").await;
    let whole = history(&stage, &session, "full").await;
    let fork = |body: Value| {
        let (stage, session) = (&stage, &session);
        async move { stage.post(&format!("/sessions/{session}/fork"), &body).await }
    };
    let (status, made) = fork(json!({ "at": 5, "title": "Second" })).await.json().await;
    assert_eq!(status, 201, "{made}");
    let forked = made["sessionId"].as_str().unwrap();
    assert_eq!(history(&stage, forked, "full").await, whole[..5]);
    let (_, shown) = stage.get(&format!("/sessions/{forked}")).await.json().await;
    assert_eq!((&shown["title"], &shown["agent"]["options"]["key"]), (&json!("Second"), &json!("***")));
    // The fork continues on its own, and the original session stays unchanged.
    assert_eq!(stage.send_message(forked, "else").await.reason(), "end_turn");
    assert_eq!(history(&stage, forked, "full").await.len(), 7);
    assert_eq!(history(&stage, &session, "full").await, whole);
    let (_, made) = fork(json!({})).await.json().await;
    assert_eq!(history(&stage, made["sessionId"].as_str().unwrap(), "full").await, whole);
    let (status, code) = fork(json!({ "at": 99 })).await.refused().await;
    assert_eq!((status, code.as_str()), (400, "parameter_invalid"));
    assert_eq!(fork(json!({ "at": -1 })).await.refused().await, (400, "body_malformed".into()));
}

// P-067
#[tokio::test]
async fn a_compacted_history_keeps_the_system_prompt() {
    let long = "word ".repeat(400);
    let script = format!("[[turn]]\ntext = \"{long}\"\n");
    let profiles = vec![Profile { compact_above: Some(600), ..clerk() }];
    let stage = Stage::of(Scenery { script, profiles, ..Scenery::default() }).await;
    let session = stage.session(json!({ "agent": { "name": "clerk" }, "messages": seed() })).await;
    for _ in 0..6 {
        assert_eq!(stage.send_message(&session, "more").await.reason(), "end_turn");
    }
    let (full, compacted) =
        (history(&stage, &session, "full").await, history(&stage, &session, "compacted").await);
    assert_eq!(full.len(), 3 + 12);
    assert_eq!(full[..3], seed());
    assert!(compacted.len() < full.len(), "{compacted:?}");
    assert_eq!(compacted[0], seed()[0]);
    assert_eq!(compacted[1]["role"], "user");
    assert!(compacted.iter().all(|message| message["role"] != "tool"));
    assert_eq!(compacted.last(), full.last());
}
