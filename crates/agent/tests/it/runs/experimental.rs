//! Experimental event types in real runs: written only where the setting is enabled.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_agent::Experimental;
use recount_agent::conversation::Conversation;
use recount_engine::{ResumeFrom, RunConfig};
use recount_event::{Event, ForeignId, Payload};
use serde_json::Value;

use crate::runs::scene::{Scene, Setup, count, first, types};

/// Two calls, one with a token in it, and an image.
const SCRIPT: &str = r#"
pace = { bytes = 7 }
[[turn]]
text = "I write."
call = [
    { name = "write_file", input = { path = "a.txt", content = "one\n\"two\"\n" } },
    { name = "write_file", input = { path = "b.txt", content = "ghp_0123456789abcdefghijABCDEFGHIJ012345" } },
]
[[turn]]
text = "Look."
image = [
    { mime = "image/png", base64 = "iVBORw0KGgo=" },
    { mime = "image/svg+xml", base64 = "PHN2Zy8+" },
]
"#;

const EXPERIMENTAL: &[&str] = &[
    "assistant.tool_call_input_delta",
    "assistant.image_block",
    "run.branched_from",
    "child_run.started",
    "assistant.thinking_delta",
    "assistant.thinking_complete",
];

fn all_on() -> Setup {
    let experimental = Experimental { branches: true, input_deltas: true, images: true };
    Setup { script: SCRIPT.to_owned(), experimental, child_runs: true, ..Setup::default() }
}

/// The joined input pieces of each call, by its id.
fn inputs(events: &[Event]) -> Vec<(ForeignId, String)> {
    let mut inputs: Vec<(ForeignId, String)> = Vec::new();
    for event in events {
        let Payload::AssistantToolCallInputDelta(delta) = event.payload() else { continue };
        match inputs.iter_mut().find(|(id, _)| *id == delta.tool_call_id) {
            Some((_, text)) => text.push_str(&delta.delta),
            None => inputs.push((delta.tool_call_id.clone(), delta.delta.clone())),
        }
    }
    inputs
}

#[tokio::test]
async fn inputs_are_streamed_and_images_are_artifacts_when_enabled() {
    let scene = Scene::with_setup(all_on()).await;
    let events = scene.approve_all(scene.start("go").await).await;
    let proposed: Vec<(ForeignId, Value)> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::AssistantToolCallProposed(proposed) => {
                let input = serde_json::from_str(proposed.input.text()).unwrap();
                Some((proposed.tool_call_id.clone(), input))
            }
            _ => None,
        })
        .collect();
    let pieces: Vec<(ForeignId, Value)> = inputs(&events)
        .into_iter()
        .map(|(id, text)| (id, serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))))
        .collect();
    assert_eq!(pieces, proposed, "the pieces are the input, masked alike");
    assert!(!pieces[1].1["content"].as_str().unwrap().contains("ghp_0123"), "{pieces:?}");
    assert!(count(&events, "assistant.tool_call_input_delta") >= 2);
    let block = first!(events, AssistantImageBlock);
    assert_eq!((block.turn_index, block.mime.as_deref()), (1, Some("image/png")));
    let kept = scene.engine.read().find_artifacts(&block.artifact_id).await.unwrap();
    let bytes = scene.engine.read().artifact_bytes(&kept[0]).await.unwrap();
    assert_eq!(bytes, STANDARD.decode("iVBORw0KGgo=").unwrap());
    assert_eq!(count(&events, "assistant.image_block"), 1, "a drawing is no image that is kept");
    let adjusted = events.iter().find_map(|event| match event.payload() {
        Payload::TurnCompleted(turn) if turn.turn_index == 1 => turn.adjusted.clone(),
        _ => None,
    });
    assert_eq!(adjusted, Some(vec!["image_dropped".to_owned()]));
}

#[tokio::test]
async fn without_the_setting_no_experimental_event_is_written_and_readers_miss_nothing() {
    let off =
        Scene::with_setup(Setup { experimental: Experimental::default(), child_runs: false, ..all_on() })
            .await;
    let on = Scene::with_setup(all_on()).await;
    let plain = off.approve_all(off.start("go").await).await;
    let with = on.approve_all(on.start("go").await).await;
    for name in EXPERIMENTAL {
        assert_eq!(count(&plain, name), 0, "{name}");
    }
    let stable = |events: &[Event]| -> Vec<String> {
        let is_stable = |name: &&str| !EXPERIMENTAL.contains(name) && *name != "artifact.created";
        let mut names: Vec<String> = types(events).into_iter().filter(is_stable).map(str::to_owned).collect();
        // The number of text pieces depends on timing.
        names.retain(|name| name != "assistant.text_delta");
        names
    };
    assert_eq!(stable(&plain), stable(&with), "the rest of the log is the same");
    let message_count = |events: &[Event]| {
        let mut conversation = Conversation::default();
        events.iter().for_each(|event| conversation.event(event));
        conversation.messages(None).len()
    };
    assert_eq!(message_count(&plain), message_count(&with));
}

#[tokio::test]
async fn a_branch_names_its_origin_when_enabled() {
    for branches in [true, false] {
        let experimental = Experimental { branches, ..Experimental::default() };
        let scene = Scene::with_setup(Setup { experimental, ..all_on() }).await;
        let run = scene.start("go").await;
        let before = scene.approve_all(run).await;
        let saved = before.iter().find(|event| event.type_name() == "run.checkpoint_saved").unwrap();
        let Payload::RunCheckpointSaved(checkpoint) = saved.payload() else { unreachable!() };
        let from = ResumeFrom::Checkpoint(checkpoint.checkpoint_id.clone());
        let past = scene.engine.write().ended_run(run).await.unwrap();
        for (from, branch) in [(from, true), (ResumeFrom::End, false)] {
            let place = scene.engine.write().resume_point(&past, &from).await.unwrap();
            let mut new = past.resumed(place).unwrap();
            let order = RunConfig::from_json(new.queued.config.as_ref()).unwrap();
            new.queued.config = Some(RunConfig { branch: from.branch(), ..order }.written());
            let (after, _) = scene.engine.write().create_run(new).await.unwrap();
            let events = scene.approve_all(after).await;
            assert_eq!(count(&events, "run.branched_from"), usize::from(branches && branch), "{from:?}");
            if branches && branch {
                let branched = first!(events, RunBranchedFrom);
                assert_eq!(branched.from_run_id, run.to_string());
                assert_eq!(branched.from_sequence, saved.sequence);
                assert!(branched.reason.contains(checkpoint.checkpoint_id.as_str()), "{}", branched.reason);
            }
        }
    }
}
