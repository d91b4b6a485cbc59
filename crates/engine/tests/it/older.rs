//! Stores of older releases with fewer folds: valid as they are, and rebuilt when an engine opens them.

use recount_engine::check_catalogue;
use recount_event::{ForeignId, Json, PromptKind};
use recount_log::{Append, Guard, ReadBound, RowPut, RowRange, Store, StreamAppend};
use recount_run::Command;

use crate::prompts::{HANDOFF, QUESTION, handoffs, questions};
use crate::scene::{APPROVAL, START_MS, Scene};

async fn rows(store: &dyn Store, space: &str) -> Vec<recount_log::Row> {
    let range = RowRange::first(space, "", 1000);
    store.rows(range).await.unwrap()
}

/// Removes what the first version of the catalogue did not have.
async fn as_version_1(scene: &Scene) {
    let store = scene.disk.store();
    let mut puts = Vec::new();
    for space in [
        "catalogue.session_runs",
        "catalogue.run_successors",
        "catalogue.clarifications",
        "catalogue.clarifications_listed",
        "catalogue.clarifications_pending",
        "catalogue.handoffs",
        "catalogue.handoffs_listed",
        "catalogue.handoffs_pending",
        "record.sessions",
        "record.folds",
    ] {
        let put = |row: recount_log::Row| RowPut {
            space: space.into(),
            key: row.key,
            guard: Guard::Any,
            value: None,
        };
        puts.extend(rows(&*store, space).await.into_iter().map(put));
    }
    for row in rows(&*store, "catalogue.runs").await {
        let text = String::from_utf8(row.value.to_vec()).unwrap();
        let text = text.replace(r#","pending_clarifications":["q1"]"#, "");
        let text = text.replace(r#","pending_handoffs":["h1"]"#, "");
        let value = Some(text.into());
        puts.push(RowPut { space: "catalogue.runs".into(), key: row.key, guard: Guard::Any, value });
    }
    store.append(Append { rows: puts, ..Append::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_older_store_is_valid_and_gets_its_new_lists_when_it_is_opened() {
    let mut scene = Scene::new().await;
    let session = scene.engine.write().create_session(Some("talk".into())).await.unwrap().id;
    let run = scene.queue_in(session).await.unwrap();
    scene.report(run, 0, &[("run.started", "{}"), APPROVAL, QUESTION, HANDOFF]).await.unwrap();
    let folded = scene.engine.admin().fold_again().await.unwrap();
    as_version_1(&scene).await;
    assert_ne!(scene.disk.catalogue().await, folded);
    assert_eq!(
        check_catalogue(&*scene.disk.store()).await.unwrap(),
        [""; 0],
        "the version 1 catalogue is valid"
    );
    assert!(rows(&*scene.disk.store(), "record.sessions").await.is_empty());

    scene.reopen().await;
    assert_eq!(scene.disk.catalogue().await, folded);
    scene.check().await;
    assert_eq!(questions(&scene, Some("pending")).await, ["q1"]);
    assert_eq!(handoffs(&scene, Some("pending")).await, ["h1"]);
    // A session without a record gets one from its runs.
    let row = scene.engine.catalogue().session(session).await.unwrap().unwrap();
    assert_eq!((row.title, row.id), (None, session));
    assert_eq!(scene.engine.catalogue().count_session_runs(session).await.unwrap(), 1);
    // The next start does not rebuild it again.
    assert_eq!(rows(&*scene.disk.store(), "record.folds").await[0].version, 1);
    scene.reopen().await;
    assert_eq!(rows(&*scene.disk.store(), "record.folds").await[0].version, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_in_an_older_store_is_still_found() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    scene.report(run, 1, &[APPROVAL, QUESTION]).await.unwrap();
    as_version_1(&scene).await;
    let row = RowPut {
        space: "catalogue.runs".into(),
        key: format!("default/{run}").into(),
        guard: Guard::Any,
        value: Some(rows(&*scene.disk.store(), "catalogue.runs").await[0].value.clone()),
    };
    let text = String::from_utf8(row.value.clone().unwrap().to_vec()).unwrap().replace("running", "failed");
    let row = RowPut { value: Some(text.into()), ..row };
    scene.disk.store().append(Append { rows: vec![row], ..Append::default() }).await.unwrap();
    let problems = check_catalogue(&*scene.disk.store()).await.unwrap();
    assert!(problems.len() == 1 && problems[0].contains("does not match the log"), "{problems:?}");
}

/// Older releases allowed two runs to use one question id.
#[tokio::test(start_paused = true)]
async fn two_questions_with_one_id_are_both_listed_and_answered_in_order() {
    let mut here = Scene::new().await;
    let mut runs = Vec::new();
    for n in 0..2_u64 {
        let mut there = Scene::new().await;
        there.reopen_at(START_MS + n * 60_000).await;
        let run = there.start().await;
        there.report(run, 1, &[QUESTION]).await.unwrap();
        let stream: recount_log::StreamKey = run.to_string().into();
        let all = ReadBound { count: 100, bytes: usize::MAX };
        let records = there.disk.store().read(&stream, 0, all).await.unwrap();
        let records = records.into_iter().map(|record| record.bytes).collect();
        let streams = vec![StreamAppend { stream, expected_tail: 0, records }];
        here.disk.store().append(Append { streams, ..Append::default() }).await.unwrap();
        runs.push(run);
    }
    here.reopen_at(START_MS + 61_000).await;
    here.check().await;
    let id = ForeignId::parse("q1").unwrap();
    assert_eq!(questions(&here, Some("pending")).await, ["q1", "q1"]);
    for run in &runs {
        let row = here.engine.read().prompt(PromptKind::Clarification, &id).await.unwrap().unwrap();
        assert_eq!((row.run_id(), row.status()), (*run, "pending"));
        let response = Json::parse("1").unwrap();
        let command = Command::AnswerClarification {
            clarification_id: id.clone(),
            response,
            by: "ann".into(),
            blocks: None,
            config: None,
        };
        here.engine.write().submit(*run, command).await.unwrap();
        here.check().await;
    }
    assert_eq!(questions(&here, Some("answered")).await, ["q1", "q1"]);
    assert_eq!(
        here.engine.read().prompt(PromptKind::Clarification, &id).await.unwrap().unwrap().run_id(),
        runs[1]
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_of_another_release_with_a_damaged_run_opens_and_lists_the_others() {
    let mut scene = Scene::new().await;
    let session = scene.engine.write().create_session(Some("talk".into())).await.unwrap().id;
    let (damaged, whole) = (scene.start().await, scene.queue_in(session).await.unwrap());
    scene.report(whole, 0, &[("run.started", "{}"), APPROVAL, QUESTION, HANDOFF]).await.unwrap();
    as_version_1(&scene).await;
    scene.disk.damage_events(damaged, 1..=1);
    scene.reopen().await;
    assert_eq!(handoffs(&scene, None).await, ["h1"]);
    assert_eq!(questions(&scene, None).await, ["q1"]);
    // The damaged run keeps its row.
    let listed = scene.engine.catalogue().run(damaged).await.unwrap().unwrap();
    assert_eq!(listed.status, "running");
    scene.note(whole, "later").await.unwrap();
}
