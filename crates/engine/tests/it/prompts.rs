//! Clarifications and handoffs: listed in request order, answered once, and removed from the lists with their events.

use std::time::Duration;

use recount_engine::{ClarificationRow, Error, HandoffRow, ListQuery, PromptRow, Receipt};
use recount_event::{Code, ForeignId, Json, PromptKind, RunId};
use recount_run::Command;

use crate::scene::{Scene, code};

pub(crate) const QUESTION: (&str, &str) = (
    "clarification.requested",
    r#"{"clarification_id":"q1","question":"which one?","choices":["a",{"b":1}],"default_response":"a","timeout_seconds":30}"#,
);

pub(crate) const HANDOFF: (&str, &str) = (
    "handoff.requested",
    r#"{"handoff_id":"h1","reason":"too hard","target_kind":"human","summary_terse":"help","packaged_context":{"k":[1]},"urgency_for_handoff":"high"}"#,
);

fn id(text: &str) -> ForeignId {
    ForeignId::parse(text).unwrap()
}

async fn answer_question(
    scene: &Scene,
    run: RunId,
    question: &str,
    response: &str,
) -> Result<Option<Receipt>, Error> {
    let response = Json::parse(response).unwrap();
    let command = Command::AnswerClarification {
        clarification_id: id(question),
        response,
        by: "ann".into(),
        blocks: None,
        config: None,
    };
    scene.engine.write().submit(run, command).await
}

async fn take(scene: &Scene, run: RunId, by: &str) -> Result<Option<Receipt>, Error> {
    let comment = Some(String::from("mine"));
    let command = Command::AcknowledgeHandoff { handoff_id: id("h1"), by: by.into(), comment };
    scene.engine.write().submit(run, command).await
}

async fn question(scene: &Scene, name: &str) -> ClarificationRow {
    match scene.engine.read().prompt(PromptKind::Clarification, &id(name)).await.unwrap() {
        Some(PromptRow::Clarification(row)) => *row,
        other => panic!("{other:?} is not a question"),
    }
}

async fn handoff(scene: &Scene) -> HandoffRow {
    match scene.engine.read().prompt(PromptKind::Handoff, &id("h1")).await.unwrap() {
        Some(PromptRow::Handoff(row)) => *row,
        other => panic!("{other:?} is not a handoff"),
    }
}

pub(crate) async fn questions(scene: &Scene, status: Option<&str>) -> Vec<String> {
    listed(scene, PromptKind::Clarification, status).await
}

pub(crate) async fn handoffs(scene: &Scene, status: Option<&str>) -> Vec<String> {
    listed(scene, PromptKind::Handoff, status).await
}

async fn listed(scene: &Scene, kind: PromptKind, status: Option<&str>) -> Vec<String> {
    let query = ListQuery { limit: 10, status: status.map(str::to_owned), ..ListQuery::default() };
    let items = scene.engine.read().list_prompts(kind, &query).await.unwrap().items;
    items.into_iter().map(|row| row.id().to_string()).collect()
}

async fn run_with_prompts(scene: &Scene) -> RunId {
    let run = scene.start().await;
    scene.report(run, 1, &[QUESTION, HANDOFF]).await.unwrap();
    run
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_once_with_any_json() {
    for response in ["\"b\"", "null", "{\"n\":[1,2]}", "3"] {
        let scene = Scene::new().await;
        let run = run_with_prompts(&scene).await;
        let row = question(&scene, "q1").await;
        assert_eq!((row.status.as_str(), row.question.as_str()), ("pending", "which one?"));
        assert_eq!(row.choices.as_ref().unwrap()[1].text(), r#"{"b":1}"#);
        assert!(row.expires_at.is_some() && row.response.is_none());
        let of_run = scene.engine.catalogue().run(run).await.unwrap().unwrap();
        assert_eq!(of_run.pending_clarifications, [id("q1")]);
        assert_eq!(of_run.pending_handoffs, [id("h1")]);
        assert_eq!(of_run.pending, [id("q1"), id("h1")]);
        assert!(answer_question(&scene, run, "q1", response).await.unwrap().is_some());
        assert_eq!(code(answer_question(&scene, run, "q1", "1").await), Code::ClarificationNotPending);
        assert_eq!(code(answer_question(&scene, run, "q2", "1").await), Code::ClarificationNotFound);
        let row = question(&scene, "q1").await;
        assert_eq!((row.status.as_str(), row.answered_by.as_deref()), ("answered", Some("ann")));
        assert_eq!(row.response.unwrap().text(), response);
        assert!(scene.engine.catalogue().run(run).await.unwrap().unwrap().pending_clarifications.is_empty());
        assert_eq!(questions(&scene, Some("pending")).await, [""; 0]);
        assert_eq!(questions(&scene, Some("answered")).await, ["q1"]);
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_acknowledgement_takes_a_handoff() {
    let scene = Scene::new().await;
    let run = run_with_prompts(&scene).await;
    let row = handoff(&scene).await;
    assert_eq!((row.status.as_str(), row.urgency.as_deref()), ("pending", Some("high")));
    let context = scene.engine.read().packaged_context(&PromptRow::Handoff(Box::new(row))).await.unwrap();
    assert_eq!(context.unwrap().text(), r#"{"k":[1]}"#);
    assert_eq!(handoffs(&scene, Some("pending")).await, ["h1"]);
    let (first, second) = tokio::join!(take(&scene, run, "ann"), take(&scene, run, "bob"));
    assert!(first.is_ok());
    assert_eq!(code(second), Code::HandoffNotPending);
    let row = handoff(&scene).await;
    assert_eq!((row.status.as_str(), row.answered_by.as_deref()), ("acknowledged", Some("ann")));
    assert_eq!(row.comment.as_deref(), Some("mine"));
    assert_eq!(handoffs(&scene, Some("pending")).await, [""; 0]);
    let refuse = Command::RejectHandoff { handoff_id: id("h1"), by: "eve".into(), reason: Some("no".into()) };
    assert_eq!(code(scene.engine.write().submit(run, refuse).await), Code::HandoffNotPending);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_prompts_are_settled_at_the_deadline_or_with_the_run() {
    let scene = Scene::new().await;
    let run = run_with_prompts(&scene).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let row = question(&scene, "q1").await;
    assert_eq!((row.status.as_str(), row.answered_by.as_deref()), ("timed_out", Some("timeout")));
    assert_eq!(row.response.unwrap().text(), "\"a\"", "its default is used as the answer");
    scene
        .report(run, 2, &[("clarification.requested", r#"{"clarification_id":"q2","question":"?"}"#)])
        .await
        .unwrap();
    assert_eq!(questions(&scene, None).await, ["q2", "q1"]);
    scene.cancel(run).await.unwrap();
    assert_eq!(question(&scene, "q2").await.status, "cancelled");
    assert_eq!(handoff(&scene).await.status, "rejected");
    assert_eq!(questions(&scene, Some("pending")).await, [""; 0]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_names_one_question_and_one_handoff_in_the_whole_store() {
    let scene = Scene::new().await;
    run_with_prompts(&scene).await;
    let other = scene.start().await;
    for prompt in [QUESTION, HANDOFF] {
        let error = scene.report(other, 1, &[prompt]).await.expect_err("it is taken");
        assert_eq!(error.code(), Code::IdTaken);
    }
    // Each kind has its own ids, and one id may be the prefix of another.
    let same = QUESTION.1.replace("q1", "h1");
    let longer = QUESTION.1.replace("q1", "q1-");
    scene
        .report(other, 1, &[("clarification.requested", &same), ("clarification.requested", &longer)])
        .await
        .unwrap();
    assert_eq!(question(&scene, "q1").await.id, id("q1"));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn questions_and_handoffs_leave_the_lists_with_their_events() {
    let scene = Scene::new().await;
    let run = run_with_prompts(&scene).await;
    scene.cancel(run).await.unwrap();
    assert_eq!((questions(&scene, None).await.len(), handoffs(&scene, None).await.len()), (1, 1));
    scene.engine.admin().prune(run, None, "x").await.unwrap();
    assert_eq!((questions(&scene, None).await.len(), handoffs(&scene, None).await.len()), (0, 0));
    assert_eq!(scene.engine.read().prompt(PromptKind::Clarification, &id("q1")).await.unwrap(), None);
    scene.check().await;
    // Their ids can be used again.
    run_with_prompts(&scene).await;
    scene.check().await;
}

/// Milliseconds by kind and outcome.
async fn waits(scene: &Scene) -> Vec<(PromptKind, String, u64, u64)> {
    let waits = scene.engine.admin().stats().await.unwrap().prompt_waits.into_iter();
    waits.map(|((kind, outcome), waits)| (kind, outcome, waits.count(), waits.sum)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_person_is_measured_once_by_kind_and_outcome() {
    let mut scene = Scene::new().await;
    let run = run_with_prompts(&scene).await;
    assert_eq!(waits(&scene).await, []);
    tokio::time::sleep(Duration::from_secs(5)).await;
    answer_question(&scene, run, "q1", "3").await.unwrap();
    answer_question(&scene, run, "q1", "4").await.unwrap_err();
    assert_eq!(waits(&scene).await, [(PromptKind::Clarification, "answered".to_owned(), 1, 5_000)]);
    // Another process reads the question from the log, and does not count it again.
    scene.reopen().await;
    take(&scene, run, "ann").await.unwrap();
    let after = waits(&scene).await;
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!((after[0].0, &*after[0].1, after[0].2), (PromptKind::Handoff, "acknowledged", 1));

    let run = scene.start().await;
    scene.report(run, 1, &[(QUESTION.0, &QUESTION.1.replace("q1", "q2"))]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let late = waits(&scene).await;
    assert_eq!(late[0], (PromptKind::Clarification, "timed_out".to_owned(), 1, 30_000));
}
