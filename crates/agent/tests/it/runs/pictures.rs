//! Images in requests and in tool results, as they are shown to the model.

use bytes::Bytes;
use recount_engine::{Attachment, FoundArtifact, RunConfig, Upload};
use recount_event::ForeignId;
use serde_json::Value;

use crate::runs::providers::{Playing, playing, recording};
use crate::runs::scene::{Scene, count, first, types};

pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

async fn upload(scene: &Scene, kind: &str, mime: &str, bytes: &'static [u8]) -> Attachment {
    let bytes = Bytes::from_static(bytes);
    let (kind, mime, by) = (kind.to_owned(), mime.to_owned(), "ann".to_owned());
    let row = scene
        .engine
        .write()
        .upload(Upload { kind, mime: mime.clone(), name: Some("it".into()), bytes, by })
        .await
        .unwrap();
    Attachment { artifact_id: ForeignId::parse(&row.id).unwrap(), mime, name: row.name }
}

pub(crate) async fn upload_png(scene: &Scene) -> Attachment {
    upload(scene, "image", "image/png", PNG).await
}

/// The images in a request, by their data.
pub(crate) fn pictures(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    fn look(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| look(item, found)),
            Value::Object(fields) => {
                if let Some(url) = fields.get("image_url") {
                    found.push(url["url"].as_str().unwrap().to_owned());
                }
                fields.values().for_each(|field| look(field, found));
            }
            _ => {}
        }
    }
    look(body, &mut found);
    found
}

pub(crate) fn as_url() -> String {
    use base64::Engine as _;
    format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(PNG))
}

#[tokio::test]
async fn an_uploaded_image_is_shown_to_the_model_and_belongs_to_the_run() {
    let Playing { scene, player } = playing(recording("text"), "").await;
    let picture = upload(&scene, "image", "image/png", PNG).await;
    let note = upload(&scene, "file_snapshot", "text/plain", b"a note").await;
    let id = picture.artifact_id.clone();
    let order = RunConfig { attachments: vec![picture, note], ..RunConfig::default() };
    let run = scene.start_with("What is this?", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(
        types(&events)[..8],
        [
            "run.queued",
            "run.started",
            "user.message",
            "artifact.created",
            "user.attachment",
            "artifact.created",
            "user.attachment",
            "workspace.provisioned",
        ]
    );
    let attached = first!(events, UserAttachment);
    assert_eq!((attached.kind.as_str(), &attached.artifact_id), ("image", &id));
    assert_eq!(pictures(&player.seen()[0].body), [as_url()]);
    let rows = scene.engine.read().find_artifacts(&id).await.unwrap();
    let [FoundArtifact::OfRun(row)] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row.run_id, run);
    // An artifact that already belongs to a run is referenced by the next.
    let again = Attachment { artifact_id: id.clone(), mime: "image/png".into(), name: None };
    let order = RunConfig { attachments: vec![again], ..RunConfig::default() };
    let run = scene.start_with("And this?", order, None, None).await;
    let events = scene.ended(run).await;
    assert!(count(&events, "artifact.created") + count(&events, "artifact.referenced") == 1);
    assert_eq!(pictures(&player.seen()[1].body), [as_url()]);
}

#[tokio::test]
async fn missing_attachments_are_refused() {
    let scene = Scene::with("[[turn]]\ntext = 'Hm.'").await;
    let artifact_id = ForeignId::parse("art_nothing").unwrap();
    let attached = Attachment { artifact_id, mime: "image/png".into(), name: None };
    let order = RunConfig { attachments: vec![attached], ..RunConfig::default() };
    let run = scene.start_with("What is this?", order, None, None).await;
    let failed = first!(scene.ended(run).await, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("attachment_missing", false));
    assert!(failed.message.contains("art_nothing"), "{}", failed.message);
}

#[tokio::test]
async fn an_image_read_by_a_tool_is_shown_once() {
    let call = r#"data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_A", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"p.png\"}"}}]}, "finish_reason": null}]}

data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

data: [DONE]

"#;
    let mut recorded = recording("text");
    let mut asks = recorded.answer[0].clone();
    asks.body = call.to_owned();
    recorded.answer.insert(0, asks);
    let Playing { scene, player } = playing(recorded, "").await;
    scene.put("p.png", PNG);
    let run = scene.start("Look at p.png").await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "artifact.created"), 1, "{:?}", types(&events));
    assert_eq!(pictures(&player.seen()[1].body), [as_url()]);
    // An artifact of one run may be attached to the request of another.
    let artifact_id = first!(events, ArtifactCreated).artifact_id;
    let attached = Attachment { artifact_id, mime: "image/png".into(), name: None };
    let order = RunConfig { attachments: vec![attached], ..RunConfig::default() };
    let run = scene.start_with("And this?", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "artifact.created"), count(&events, "artifact.referenced")), (0, 1));
    assert_eq!(pictures(&player.seen()[2].body), [as_url()]);
}

#[tokio::test]
async fn unsupported_inputs_are_omitted_and_recorded() {
    let Playing { scene, player } =
        playing(recording("text"), "models = { '*' = { tools = false, images = false } }").await;
    let picture = upload(&scene, "image", "image/png", PNG).await;
    let id = picture.artifact_id.clone();
    let order = RunConfig { attachments: vec![picture], ..RunConfig::default() };
    let run = scene.start_with("What is this?", order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "error.model_capability_missing"), 2);
    let missing = first!(events, ErrorModelCapabilityMissing);
    assert_eq!(missing.fallback_strategy.as_deref(), Some("answers_without_tools"));
    let body = &player.seen()[0].body;
    assert_eq!(body.get("tools"), None);
    assert_eq!(pictures(body), Vec::<String>::new());
    assert!(body["messages"].to_string().contains(&*id), "{body}");
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}
