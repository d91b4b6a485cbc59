//! Approvals, questions and handoffs.

use std::sync::Arc;

use recount_run::{Command, PromptKind};
use recount_world::ManualClock;

use crate::runs::allowances::ASK_ALL;
use crate::runs::scene::{Scene, Setup, count, course, first, refusals, results, types};

const ASKING: &str = r#"
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[turn]]
text = "Done."
"#;

#[tokio::test]
async fn a_call_waits_for_approval_and_then_runs() {
    let scene = Scene::with_policy(ASKING, ASK_ALL, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert!(request.call_digest.is_some() && request.expires_at.is_some() && request.action.is_some());
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
async fn a_denied_call_does_not_run_and_the_model_gets_the_reason() {
    let scene = Scene::with_policy(ASKING, ASK_ALL, 8).await;
    let run = scene.start("write").await;
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
async fn an_approval_request_survives_a_restart() {
    let mut scene = Scene::with_policy(ASKING, ASK_ALL, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    scene.restart().await;
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
    assert_eq!(events.iter().filter(|event| event.type_name() == "gap.run_disconnected").count(), 0);
}

#[tokio::test]
async fn the_response_to_a_question_reaches_the_model() {
    let script = r#"
[[turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[turn]]
when = "the blue one"
text = "Blue it is."
"#;
    let scene = Scene::with(script).await;
    let run = scene.start("choose").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ClarificationRequested);
    assert_eq!(request.question, "Which one?");
    scene.answer(run, request.clarification_id, "\"the blue one\"").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "Blue it is.");
}

#[tokio::test]
async fn an_accepted_handoff_ends_the_run() {
    let script = "[[turn]]\ncall = [{ name = \"hand_off\", input = { reason = \"I am lost\" } }]";
    let scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    let handoff_id = first!(events, HandoffRequested).handoff_id;
    let command = Command::AcknowledgeHandoff { handoff_id, by: "ann".into(), comment: None };
    scene.engine.write().submit(run, command).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunFinished).final_status, "handed_off");
}

#[tokio::test]
async fn a_handoff_timeout_fails_the_run() {
    let script =
        "[[turn]]\ncall = [{ name = \"hand_off\", input = { reason = \"I am lost\", timeout_seconds = 30 } }]".to_owned();
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let mut scene = Scene::with_setup(Setup { script, clock: Some(clock.clone()), ..Setup::default() }).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert!(first!(events, HandoffRequested).expires_at.is_some());
    clock.set(1_800_000_030_000);
    scene.restart().await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, HandoffTimedOut).after_seconds, 30);
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("handoff_timed_out", false));
}

#[tokio::test]
async fn a_question_timeout_uses_the_default_if_there_is_one() {
    for (default, expected_text, is_error) in [(", default = \"red\"", "red", false), ("", "", true)] {
        let script = format!(
            "[[turn]]\ncall = [{{ name = \"ask_user\", input = {{ question = \"Which one?\", choices = [\"red\", \"blue\"], timeout_seconds = 30{default} }} }}]\n[[turn]]\ntext = \"Good.\"\n"
        );
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let mut scene =
            Scene::with_setup(Setup { script, clock: Some(clock.clone()), ..Setup::default() }).await;
        let run = scene.start("choose").await;
        let events = scene.until(run, "run.waiting").await;
        assert!(first!(events, ClarificationRequested).expires_at.is_some());
        clock.set(1_800_000_030_000);
        scene.restart().await;
        let events = scene.ended(run).await;
        let applied = first!(events, ClarificationTimedOut).applied;
        assert_eq!(applied.as_str(), if is_error { "unavailable" } else { "default" });
        let results = results(&events);
        assert!(results[0].0.contains(expected_text) && results[0].1 == is_error, "{results:?}");
        assert_eq!(types(&events).last(), Some(&"run.finished"));
    }
}

#[tokio::test]
async fn questions_are_asked_one_at_a_time_and_a_handoff_last() {
    let script = r#"
[[turn]]
call = [
  { name = "hand_off", input = { reason = "I am lost", summary = "half done" } },
  { name = "ask_user", input = { question = "One?" } },
  { name = "ask_user", input = { question = "Two?" } },
]
"#;
    let mut scene = Scene::with(script).await;
    let run = scene.start("go").await;
    let mut after = None;
    for question in ["One?", "Two?"] {
        let events = scene.until_after(run, after, "run.waiting").await;
        after = events.last().map(|event| event.sequence);
        let request = first!(events, ClarificationRequested);
        assert_eq!(request.question, question);
        // A question outlives the worker that asked it.
        scene.restart().await;
        scene.answer(run, request.clarification_id, "\"yes\"").await;
    }
    let events = scene.until_after(run, after, "run.waiting").await;
    let handoff_id = first!(events, HandoffRequested).handoff_id;
    let reason = Some("nobody is free".to_owned());
    let command = Command::RejectHandoff { handoff_id, by: "ann".into(), reason };
    scene.engine.write().submit(run, command).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "clarification.answered"), 2);
    assert_eq!(first!(events, HandoffRejected).by, "ann");
    let results = results(&events);
    assert!(results[0].1 && results[0].0.contains("did not take over"), "{results:?}");
    let cancelled = first!(events, RunCancelled);
    assert_eq!(cancelled.by, "operator");
    assert!(cancelled.reason.contains("nobody is free"), "{}", cancelled.reason);
}

#[tokio::test]
async fn an_extended_deadline_accepts_a_later_response() {
    let file = "write_file', input = { path = 'a.txt', content = 'one' }";
    let question = "ask_user', input = { question = 'Well?', timeout_seconds = 30 }";
    let handoff = "hand_off', input = { reason = 'I am lost', timeout_seconds = 30 }";
    for (kind, call) in
        [(PromptKind::Approval, file), (PromptKind::Clarification, question), (PromptKind::Handoff, handoff)]
    {
        let script = format!("[[turn]]\ncall = [{{ name = '{call} }}]\n[[turn]]\ntext = 'Done.'\n");
        let scene = Scene::with_policy(&script, ASK_ALL, 8).await;
        let run = scene.start("go").await;
        let events = scene.until(run, "run.waiting").await;
        let (id, before) = match kind {
            PromptKind::Approval => {
                let request = first!(events, ApprovalRequested);
                (request.approval_id, request.expires_at)
            }
            PromptKind::Clarification => {
                let request = first!(events, ClarificationRequested);
                (request.clarification_id, request.expires_at)
            }
            PromptKind::Handoff => {
                let request = first!(events, HandoffRequested);
                (request.handoff_id, request.expires_at)
            }
        };
        let extend = Command::ExtendPrompt { kind, id, seconds: 60, by: "ann".into() };
        scene.engine.write().submit(run, extend).await.unwrap();
        let events = scene.approve_all(run).await;
        let after = match kind {
            PromptKind::Approval => first!(events, ApprovalExtended).expires_at,
            PromptKind::Clarification => first!(events, ClarificationExtended).expires_at,
            PromptKind::Handoff => first!(events, HandoffExtended).expires_at,
        };
        assert!(Some(&after) > before.as_ref(), "{kind:?}: {after} after {before:?}");
        assert_eq!(types(&events).last(), Some(&"run.finished"), "{kind:?}");
    }
}

#[tokio::test]
async fn cancelling_a_run_closes_its_prompts() {
    for call in ["ask_user', input = { question = 'Well?' }", "hand_off', input = { reason = 'I am lost' }"] {
        let scene = Scene::with(&format!("[[turn]]\ncall = [{{ name = '{call} }}]")).await;
        let run = scene.start("go").await;
        scene.until(run, "run.waiting").await;
        scene.cancel(run).await;
        let events = scene.ended(run).await;
        assert_eq!(first!(events, RunCancelled).by, "operator");
        assert_eq!(refusals(&events).len(), 1, "{:?}", types(&events));
    }
}
