//! Permissions, questions and handoffs.

use crate::scene::{Scene, course, first};

const ASKING: &str = r#"
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[turn]]
text = "Done."
"#;

/// Everything is to be asked about.
const ASK_ALL: &str = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";

#[tokio::test]
async fn a_call_waits_for_leave_and_runs_when_it_is_given() {
    let scene = Scene::under(ASKING, ASK_ALL, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ApprovalRequested);
    assert!(asked.call_digest.is_some() && asked.expires_at.is_some() && asked.action.is_some());
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(
        course(&events),
        [
            "assistant.tool_call_proposed",
            "turn.completed",
            "approval.requested",
            "run.waiting",
            "approval.resolved",
            "run.continued",
            "tool.invoked",
            "artifact.created",
            "tool.file_write.proposed",
            "tool.file_write.applied",
            "artifact.updated",
            "tool.completed",
            "assistant.final_answer",
            "turn.completed",
            "run.finished",
        ]
    );
}

#[tokio::test]
async fn a_call_that_is_denied_does_not_run_and_the_model_hears_why() {
    let scene = Scene::under(ASKING, ASK_ALL, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    scene.decide(run, &events, false).await;
    let events = scene.ended(run).await;
    let refused = first!(events, ToolRefused);
    assert_eq!(refused.code.as_str(), "denied");
    assert!(refused.message.contains("not today"), "{}", refused.message);
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert!(!std::path::Path::new(&path).join("a.txt").exists());
}

#[tokio::test]
async fn leave_is_asked_for_across_a_restart() {
    let mut scene = Scene::under(ASKING, ASK_ALL, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    scene.restart().await;
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
    assert_eq!(events.iter().filter(|event| event.type_name() == "gap.run_disconnected").count(), 0);
}

#[tokio::test]
async fn a_question_is_answered_and_its_answer_is_what_the_model_hears() {
    let script = r#"
[[turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[turn]]
when = "the blue one"
text = "Blue it is."
"#;
    let scene = Scene::with(script).await;
    let run = scene.ask("choose").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ClarificationRequested);
    assert_eq!(asked.question, "Which one?");
    scene.answer(run, asked.clarification_id, "\"the blue one\"").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "Blue it is.");
}

#[tokio::test]
async fn who_takes_over_ends_the_run() {
    let script = "[[turn]]\ncall = [{ name = \"hand_off\", input = { reason = \"I am lost\" } }]";
    let scene = Scene::with(script).await;
    let run = scene.ask("go").await;
    let events = scene.until(run, "run.waiting").await;
    let handoff_id = first!(events, HandoffRequested).handoff_id;
    let command = recount_run::Command::AcknowledgeHandoff { handoff_id, by: "ann".into(), comment: None };
    scene.engine.submit(run, command).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunFinished).final_status, "handed_off");
}
