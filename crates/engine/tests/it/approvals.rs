//! Approvals: the first valid answer wins, and the default decision applies at the deadline.

use std::time::Duration;

use futures_util::future::join_all;
use recount_engine::{ListQuery, PromptRow};
use recount_event::{Code, ForeignId};
use recount_faulty_store::AppendFault;
use recount_run::{Command, PromptKind};

use crate::scene::{APPROVAL, START_MS, Scene, code};

async fn run_with_approval(scene: &Scene) -> recount_event::RunId {
    let run = scene.start().await;
    scene.report(run, 1, &[APPROVAL]).await.unwrap();
    run
}

async fn row(scene: &Scene) -> recount_engine::ApprovalRow {
    let id = ForeignId::parse("a1").unwrap();
    match scene.engine.read().prompt(PromptKind::Approval, &id).await.unwrap() {
        Some(PromptRow::Approval(row)) => *row,
        other => panic!("{other:?} is not an approval"),
    }
}

async fn pending(scene: &Scene) -> usize {
    let query = ListQuery { limit: 10, status: Some("pending".into()), ..ListQuery::default() };
    scene.engine.read().list_prompts(PromptKind::Approval, &query).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_wins_and_later_ones_are_rejected() {
    let scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    let names: Vec<String> = (0..20).map(|n| format!("person {n}")).collect();
    let answers =
        join_all(names.iter().enumerate().map(|(n, name)| scene.answer(run, "a1", n % 2 == 1, name))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        if n == 0 {
            assert!(answer.unwrap().is_some());
        } else {
            let error = answer.expect_err("the first one won");
            assert_eq!(error.code(), Code::ApprovalNotPending);
            assert!(error.to_string().contains("person 0"), "{error}");
        }
    }
    let row = row(&scene).await;
    assert_eq!((row.status.as_str(), row.decided_by.as_deref()), ("rejected", Some("person 0")));
    assert_eq!(scene.types(run).await[3..], ["approval.resolved"]);
    assert_eq!(pending(&scene).await, 0);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_approval_cannot_be_answered() {
    let scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    assert_eq!(code(scene.answer(run, "a2", true, "me").await), Code::ApprovalNotFound);
    assert_eq!(pending(&scene).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_default_decision_applies_at_the_deadline_and_not_before() {
    let scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    tokio::time::sleep(Duration::from_millis(29_900)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let row = row(&scene).await;
    assert_eq!((row.status.as_str(), row.decision.as_deref()), ("timed_out", Some("approved")));
    assert_eq!(scene.types(run).await[3..], ["approval.timed_out"]);
    assert_eq!(code(scene.answer(run, "a1", true, "late").await), Code::ApprovalNotPending);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_cancels_the_deadline() {
    let scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    scene.answer(run, "a1", true, "me").await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(scene.types(run).await[3..], ["approval.resolved"]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_survives_a_restart() {
    let mut scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    scene.reopen().await;
    tokio::time::sleep(Duration::from_millis(19_900)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    assert_eq!(scene.types(run).await[3..], ["approval.timed_out"]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_extended_deadline_applies_to_timer_and_list_and_survives_a_restart() {
    let mut scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    let before = row(&scene).await.expires_at;
    let id = ForeignId::parse("a1").unwrap();
    let extend = |seconds| Command::ExtendPrompt {
        kind: PromptKind::Approval,
        id: id.clone(),
        seconds,
        by: "ann".into(),
    };
    scene.engine.write().submit(run, extend(30)).await.unwrap();
    let extended = row(&scene).await;
    assert_eq!(extended.status, "pending");
    let ms = |at: Option<String>| recount_event::time::parse_ms(&at.unwrap()).unwrap();
    assert_eq!(ms(extended.expires_at.clone()), ms(before) + 30_000);
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(row(&scene).await.status, "pending", "the first deadline is past");
    scene.reopen().await;
    assert_eq!(row(&scene).await.expires_at, extended.expires_at);
    tokio::time::sleep(Duration::from_millis(14_900)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    assert_eq!(scene.types(run).await[3..], ["approval.extended", "approval.timed_out"]);
    assert_eq!(code(scene.engine.write().submit(run, extend(30)).await), Code::ApprovalNotPending);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_the_engine_was_down_is_settled_at_startup() {
    let mut scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    scene.reopen_at(START_MS + 3_600_000).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    let events = scene.events(run).await;
    assert_eq!(events.last().unwrap().type_name(), "approval.timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_before_startup_only_delays_a_deadline() {
    let mut scene = Scene::new().await;
    run_with_approval(&scene).await;
    scene.reopen_at(START_MS - 60_000).await;
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_while_the_engine_runs_does_not_delay_a_deadline() {
    let mut scene = Scene::new().await;
    let run = run_with_approval(&scene).await;
    let expires_ms = scene.events(run).await.last().unwrap().occurred_ms + 30_000;
    // At the deadline itself, and well before it.
    for at_ms in [expires_ms, expires_ms - 20_000] {
        scene.reopen_with_a_step_back(at_ms).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(row(&scene).await.status, "pending");
    }
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_applies_although_the_result_of_its_append_was_lost() {
    for fault in [AppendFault::LoseAnswer, AppendFault::Unobserved] {
        let scene = Scene::new().await;
        let run = scene.start().await;
        scene.store.next_appends([fault]);
        assert_eq!(code(scene.report(run, 1, &[APPROVAL]).await), Code::StoreUnavailable);
        assert_eq!(pending(&scene).await, 1, "the request was written anyway");
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(row(&scene).await.status, "timed_out");
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_applies_although_its_writer_panicked() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::PanicAfter]);
    assert_eq!(code(scene.report(run, 1, &[APPROVAL]).await), Code::Internal);
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_settled_when_the_store_works_again() {
    let scene = Scene::new().await;
    run_with_approval(&scene).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    scene.store.next_appends((0..5).map(|_| AppendFault::Refuse(recount_log::FaultKind::Io)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_all_runs_are_settled_in_order() {
    let scene = Scene::new().await;
    let approval = |id: &str, seconds: u64| {
        format!(
            r#"{{"approval_id":"{id}","tool_call_id":"{id}-c","kind":"k","summary":"s","timeout_seconds":{seconds}}}"#
        )
    };
    let (slow, quick) = (scene.start().await, scene.start().await);
    let (a, b, c) = (approval("a", 300), approval("b", 100), approval("c", 200));
    scene.report(slow, 1, &[("approval.requested", &a), ("approval.requested", &b)]).await.unwrap();
    scene.report(quick, 1, &[("approval.requested", &c)]).await.unwrap();
    for (after, remaining) in [(101, 2), (100, 1), (100, 0)] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(pending(&scene).await, remaining);
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_id_names_one_request_in_the_whole_store() {
    let scene = Scene::new().await;
    run_with_approval(&scene).await;
    let other = scene.start().await;
    assert_eq!(code(scene.report(other, 1, &[APPROVAL]).await), Code::IdTaken);
    assert_eq!(scene.engine.read().tail(other).await.unwrap(), Some(2));
    assert!(scene.report(other, 1, &[("ext.test.note", "{}")]).await.is_ok());
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_runs_cannot_use_the_same_approval_id() {
    let scene = Scene::new().await;
    let (a, b) = (scene.start().await, scene.start().await);
    let (go, held) = tokio::sync::oneshot::channel();
    scene.store.next_appends([AppendFault::Hold(held)]);
    let release = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(go);
    };
    let (first, second, ()) =
        tokio::join!(scene.report(a, 1, &[APPROVAL]), scene.report(b, 1, &[APPROVAL]), release);
    assert!(second.is_ok(), "its append was not held");
    assert_eq!(code(first), Code::IdTaken);
    assert!(scene.report(a, 1, &[("ext.test.note", "{}")]).await.is_ok(), "the run continues");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_a_cancel_at_the_same_time_have_one_outcome() {
    for answer_first in [true, false] {
        let scene = Scene::new().await;
        let run = run_with_approval(&scene).await;
        let outcome = if answer_first {
            let (answered, cancelled) = tokio::join!(scene.answer(run, "a1", true, "me"), scene.cancel(run));
            assert!(answered.is_ok() && cancelled.is_ok());
            "approved"
        } else {
            let (cancelled, answered) = tokio::join!(scene.cancel(run), scene.answer(run, "a1", true, "me"));
            assert!(cancelled.is_ok());
            assert_eq!(code(answered), Code::ApprovalNotPending);
            "cancelled"
        };
        assert_eq!(row(&scene).await.status, outcome);
        scene.check().await;
    }
}
