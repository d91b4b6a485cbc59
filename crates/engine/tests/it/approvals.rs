//! Approvals: the first valid answer wins, and the stated default comes in when nobody answers.

use std::time::Duration;

use futures_util::future::join_all;
use recount_engine::ListQuery;
use recount_event::{Code, ForeignId};
use recount_faulty_store::AppendFault;
use recount_run::{Command, PromptKind};

use crate::scene::{ASK, START_MS, Scene, code};

async fn asked(scene: &Scene) -> recount_event::RunId {
    let run = scene.start().await;
    scene.report(run, 1, &[ASK]).await.unwrap();
    run
}

async fn row(scene: &Scene) -> recount_engine::ApprovalRow {
    scene.engine.read().approval(&ForeignId::parse("a1").unwrap()).await.unwrap().unwrap()
}

async fn pending(scene: &Scene) -> usize {
    let query = ListQuery { limit: 10, status: Some("pending".into()), ..ListQuery::default() };
    scene.engine.read().list_approvals(&query).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_wins_and_the_others_hear_of_it() {
    let scene = Scene::new().await;
    let run = asked(&scene).await;
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
async fn nobody_can_answer_what_was_never_asked() {
    let scene = Scene::new().await;
    let run = asked(&scene).await;
    assert_eq!(code(scene.answer(run, "a2", true, "me").await), Code::ApprovalNotFound);
    assert_eq!(pending(&scene).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_default_comes_in_on_time_and_not_before() {
    let scene = Scene::new().await;
    let run = asked(&scene).await;
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
async fn an_answer_stops_the_clock() {
    let scene = Scene::new().await;
    let run = asked(&scene).await;
    scene.answer(run, "a1", true, "me").await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(scene.types(run).await[3..], ["approval.resolved"]);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_outlives_the_engine() {
    let mut scene = Scene::new().await;
    let run = asked(&scene).await;
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
async fn a_deadline_that_was_moved_holds_for_timer_and_list_and_outlives_the_engine() {
    let mut scene = Scene::new().await;
    let run = asked(&scene).await;
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
    assert_eq!(row(&scene).await.status, "pending", "the first deadline is over");
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
async fn a_deadline_that_passed_while_nobody_looked_is_settled_at_the_start() {
    let mut scene = Scene::new().await;
    let run = asked(&scene).await;
    scene.reopen_at(START_MS + 3_600_000).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    let events = scene.events(run).await;
    assert_eq!(events.last().unwrap().type_name(), "approval.timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_only_delays() {
    let mut scene = Scene::new().await;
    asked(&scene).await;
    scene.reopen_at(START_MS - 60_000).await;
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_back_under_a_living_process_delays_nothing() {
    let mut scene = Scene::new().await;
    let run = asked(&scene).await;
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
async fn a_deadline_is_kept_though_the_answer_to_its_request_was_lost() {
    for fate in [AppendFault::LoseAnswer, AppendFault::Unobserved] {
        let scene = Scene::new().await;
        let run = scene.start().await;
        scene.store.next_appends([fate]);
        assert_eq!(code(scene.report(run, 1, &[ASK]).await), Code::StoreUnavailable);
        assert_eq!(pending(&scene).await, 1, "it was asked all the same");
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(row(&scene).await.status, "timed_out");
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_though_its_writer_died() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.store.next_appends([AppendFault::PanicAfter]);
    assert_eq!(code(scene.report(run, 1, &[ASK]).await), Code::Internal);
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_waits_for_a_store_that_fails() {
    let scene = Scene::new().await;
    asked(&scene).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    scene.store.next_appends((0..5).map(|_| AppendFault::Refuse(recount_log::FaultKind::Io)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(row(&scene).await.status, "pending");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(row(&scene).await.status, "timed_out");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn each_run_has_its_own_deadlines_and_the_earliest_comes_first() {
    let scene = Scene::new().await;
    let ask = |id: &str, seconds: u64| {
        format!(
            r#"{{"approval_id":"{id}","tool_call_id":"{id}-c","kind":"k","summary":"s","timeout_seconds":{seconds}}}"#
        )
    };
    let (slow, quick) = (scene.start().await, scene.start().await);
    let (a, b, c) = (ask("a", 300), ask("b", 100), ask("c", 200));
    scene.report(slow, 1, &[("approval.requested", &a), ("approval.requested", &b)]).await.unwrap();
    scene.report(quick, 1, &[("approval.requested", &c)]).await.unwrap();
    for (after, left) in [(101, 2), (100, 1), (100, 0)] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(pending(&scene).await, left);
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_id_names_one_request_in_the_whole_store() {
    let scene = Scene::new().await;
    asked(&scene).await;
    let other = scene.start().await;
    assert_eq!(code(scene.report(other, 1, &[ASK]).await), Code::IdTaken);
    assert_eq!(scene.engine.read().tail(other).await.unwrap(), Some(2));
    assert!(scene.report(other, 1, &[("ext.test.note", "{}")]).await.is_ok());
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn two_runs_that_take_one_id_in_the_same_moment_do_not_both_get_it() {
    let scene = Scene::new().await;
    let (a, b) = (scene.start().await, scene.start().await);
    let (go, held) = tokio::sync::oneshot::channel();
    scene.store.next_appends([AppendFault::Hold(held)]);
    let release = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(go);
    };
    let (first, second, ()) = tokio::join!(scene.report(a, 1, &[ASK]), scene.report(b, 1, &[ASK]), release);
    assert!(second.is_ok(), "its append was not held");
    assert_eq!(code(first), Code::IdTaken);
    assert!(scene.report(a, 1, &[("ext.test.note", "{}")]).await.is_ok(), "the run goes on");
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_the_ending_race_to_one_outcome() {
    for answer_first in [true, false] {
        let scene = Scene::new().await;
        let run = asked(&scene).await;
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
