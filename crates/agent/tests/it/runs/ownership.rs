//! A process that may not own its store any more calls no model and no tool, although its run could go on.

use recount_event::Payload;

use crate::runs::scene::{Scene, approval_ids, count, first};

const ASK_WRITES: &str =
    "[[rules]]\nid = \"writes\"\ntool = \"write_file\"\naction = \"ask\"\ntimeout_seconds = 600\n";

#[tokio::test]
async fn a_call_whose_invocation_is_durable_does_not_begin_without_ownership() {
    let script = "[[turn]]\ncall = [{ name = \"write_file\", input = { path = \"a.txt\", content = \"one\" } }]\n\
                  [[turn]]\ntext = \"Done.\"";
    let scene = Scene::with_policy(script, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let ids = approval_ids(&scene.until(run, "run.waiting").await);
    scene.disk.set_owned(false);
    scene.resolve(run, &ids[0], true).await.unwrap();
    let events = scene.until(run, "tool.failed").await;
    assert_eq!(count(&events, "tool.invoked"), 1);
    assert_eq!(first!(events, ToolFailed).code.as_deref(), Some("store_not_owned"));
    // The process owns the store after all: the run goes on, and the call is not repeated.
    scene.disk.set_owned(true);
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.file_changed") + count(&events, "tool.completed"), 0);
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
}

#[tokio::test]
async fn no_model_is_called_without_ownership() {
    let scene = Scene::with("[[turn]]\ntext = \"Done.\"").await;
    scene.disk.set_owned(false);
    let run = scene.start("go").await;
    scene.until(run, "turn.started").await;
    let texts = |events: &[recount_event::Event]| {
        events.iter().filter(|event| matches!(event.payload(), Payload::AssistantTextDelta(_))).count()
    };
    assert_eq!(texts(&scene.all(run).await), 0);
    scene.disk.set_owned(true);
    let events = scene.ended(run).await;
    assert!(texts(&events) > 0);
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
}
