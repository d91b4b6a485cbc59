//! Runs that continue others: resumed, repeated, and consecutive in a session.

use recount_engine::{ResumeFrom, RunConfig};
use recount_event::RunId;

use crate::runs::scene::{Scene, count, first, types};

const TWO_TURNS: &str = r#"
[[scene]]
when = "begin"
[[scene.turn]]
text = "I write."
call = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[scene.turn]]
text = "The first is done."
[[scene]]
when = "Go on."
[[scene.turn]]
call = [{ name = "read_file", input = { path = "a.txt" } }]
[[scene.turn]]
text = "It is there."
"#;

async fn resumed(scene: &Scene, run: RunId, from: Option<u64>) -> RunId {
    let past = scene.engine.write().ended_run(run).await.unwrap();
    let mut new = past.resumed(from).unwrap();
    past.set_predecessor(&mut new.queued);
    scene.engine.write().create_run(new).await.unwrap().0
}

#[tokio::test]
async fn a_run_continues_another_with_its_conversation_and_files() {
    let scene = Scene::with(TWO_TURNS).await;
    let first_run = scene.start("begin").await;
    let first_events = scene.ended(first_run).await;
    let checkpoint =
        first_events.iter().position(|event| event.type_name() == "run.checkpoint_saved").unwrap();
    assert_eq!(first_events[checkpoint + 1].type_name(), "turn.started");
    let second = resumed(&scene, first_run, None).await;
    let events = scene.ended(second).await;
    assert_eq!(types(&events)[..2], ["run.resumed_from_event", "run.queued"]);
    let resumed_from = first!(events, RunResumedFromEvent);
    assert_eq!(resumed_from.from_run_id, first_run.to_string());
    assert_eq!(resumed_from.from_sequence, first_events.last().unwrap().sequence);
    assert_eq!(
        resumed_from.prior_cost_micros_usd,
        first!(first_events, RunFinished).cost_micros_usd.unwrap()
    );
    // The same workspace, and the earlier conversation.
    assert_eq!(first!(events, RunQueued).workspace_path, first!(first_events, RunQueued).workspace_path);
    assert_eq!(first!(events, ToolFileReadCompleted).path, "a.txt");
    assert!(first!(events, TurnStarted).input_tokens_estimate.unwrap() > 5);
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "It is there.");
    // Earlier usage counts too.
    assert!(first!(events, CostTick).cumulative_cost_micros_usd > resumed_from.prior_cost_micros_usd);
    assert_eq!(count(&events, "user.message"), 0);
}

#[tokio::test]
async fn a_run_continues_a_checkpoint_without_what_came_after_it() {
    let script = r#"
[[scene]]
when = "begin"
[[scene.turn]]
call = [{ name = "glob", input = { pattern = "*" } }]
[[scene.turn]]
text = "The first is done."
"#;
    let scene = Scene::with(script).await;
    let first_run = scene.start("begin").await;
    let first_events = scene.ended(first_run).await;
    let checkpoint =
        first_events.iter().find(|event| event.type_name() == "run.checkpoint_saved").unwrap().sequence;
    let second = resumed(&scene, first_run, Some(checkpoint)).await;
    let events = scene.ended(second).await;
    // The call has a result, so it is the model's turn: its second turn comes again.
    assert_eq!(first!(events, RunResumedFromEvent).from_sequence, checkpoint);
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "The first is done.");
}

#[tokio::test]
async fn a_run_that_reached_its_turn_limit_continues_after_its_last_call() {
    let scene = Scene::with(TWO_TURNS).await;
    let order = RunConfig { max_turns: Some(1), ..RunConfig::default() };
    let first_run = scene.start_with("begin", order, None, None).await;
    let first_events = scene.ended(first_run).await;
    assert_eq!(types(&first_events)[first_events.len() - 2..], ["run.checkpoint_saved", "run.failed"]);
    assert_eq!(first!(first_events, RunFailed).message, "the model did not finish within 1 turn");
    let past = scene.engine.write().ended_run(first_run).await.unwrap();
    let place = scene.engine.write().resume_point(&past, &ResumeFrom::Settled).await.unwrap();
    assert_eq!(place, Some(first_events[first_events.len() - 2].sequence));
    let second = resumed(&scene, first_run, place).await;
    let events = scene.ended(second).await;
    assert_eq!(count(&events, "tool.invoked"), 0);
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "The first is done.");
}

/// The script selects the scene by the last user message, so with the whole session it would be another one.
#[tokio::test]
async fn a_branch_in_a_session_omits_what_came_after_its_start() {
    let script = r#"
end = "Nothing more."
[[scene]]
when = "begin"
[[scene.turn]]
call = [{ name = "glob", input = { pattern = "*" } }]
[[scene.turn]]
text = "The first is done."
[[scene]]
when = "else"
[[scene.turn]]
text = "Something else."
"#;
    let scene = Scene::with(script).await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let first_run = scene.start_with("begin", RunConfig::default(), None, Some(session)).await;
    let first_events = scene.ended(first_run).await;
    let checkpoint =
        first_events.iter().find(|event| event.type_name() == "run.checkpoint_saved").unwrap().sequence;
    let other = scene.start_with("else", RunConfig::default(), None, Some(session)).await;
    assert_eq!(first!(scene.ended(other).await, AssistantFinalAnswer).summary, "Something else.");
    let branch = resumed(&scene, first_run, Some(checkpoint)).await;
    let events = scene.ended(branch).await;
    assert_eq!(events[0].session_id, Some(session));
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "The first is done.");
}

#[tokio::test]
async fn a_run_can_be_repeated() {
    let scene = Scene::with(TWO_TURNS).await;
    let first_run = scene.start("begin").await;
    scene.ended(first_run).await;
    let again = scene.engine.write().ended_run(first_run).await.unwrap().again().unwrap();
    let (second, _) = scene.engine.write().create_run(again).await.unwrap();
    let events = scene.ended(second).await;
    assert_eq!(types(&events)[0], "run.queued");
    assert_eq!(first!(events, UserMessage).text, "begin");
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "The first is done.");
}

#[tokio::test]
async fn calls_of_earlier_runs_are_part_of_a_session() {
    let script = r#"
[[scene]]
when = "first"
[[scene.turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "the answer is here\n" } }]
[[scene.turn]]
text = "Written."
[[scene]]
when = "second"
[[scene.turn]]
call = [{ name = "read_file", input = { path = "a.txt" } }]
[[scene.turn]]
when = "the answer is here"
text = "Found."
"#;
    let mut scene = Scene::with(script).await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let run = scene.start_with("first", RunConfig::default(), None, Some(session)).await;
    let events = scene.ended(run).await;
    let workspace = first!(events, RunQueued).workspace_path;
    scene.restart().await;
    let run = scene.start_with("second", RunConfig::default(), None, Some(session)).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "Found.");
    assert_eq!(first!(events, RunQueued).workspace_path, workspace);
    assert_eq!(count(&events, "workspace.provisioned"), 1);
    assert_eq!(first!(events, WorkspaceProvisioned).files, 0);
}
