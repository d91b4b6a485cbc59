//! Sessions: runs are created in existing sessions, listed by session, and erased with it.

use recount_engine::{ListQuery, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, PromptKind, RunId, SessionId, TaskId};
use recount_faulty_store::AppendFault;
use recount_log::{FaultKind, RowRange};

use crate::prompts::QUESTION;
use crate::scene::{APPROVAL, Scene, code};

async fn create_session(scene: &Scene, title: &str) -> SessionId {
    scene.engine.write().create_session(Some(title.into())).await.unwrap().id
}

async fn runs(scene: &Scene, session: SessionId) -> Vec<String> {
    let mut found = Vec::new();
    let mut query = ListQuery { limit: 1, ..ListQuery::default() };
    loop {
        let page = scene.engine.catalogue().list_session_runs(session, &query).await.unwrap();
        found.extend(page.items.into_iter().map(|row| row.id.to_string()));
        if !page.end.has_more {
            return found;
        }
        query.after = page.end.next;
    }
}

/// A session with an ended run and an active run that has a task, and a run of another session.
async fn scene() -> (Scene, SessionId, [RunId; 3]) {
    let scene = Scene::new().await;
    let (session, other) = (create_session(&scene, "a").await, create_session(&scene, "b").await);
    let ended = scene.queue_in(session).await.unwrap();
    scene.report(ended, 0, &[("run.started", "{}"), APPROVAL, QUESTION]).await.unwrap();
    scene.cancel(ended).await.unwrap();
    let neighbour = scene.queue_in(other).await.unwrap();
    let task: TaskId = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let new = NewRun {
        queued: Queued::new(RunKind::External),
        task: Some(task),
        session: Some(session),
        resumed_from: None,
    };
    let (active, _) = scene.engine.write().create_run(new).await.unwrap();
    scene.report(active, 0, &[("run.started", "{}")]).await.unwrap();
    (scene, session, [ended, active, neighbour])
}

async fn erasing(scene: &Scene) -> usize {
    let range = RowRange::first("record.erasing", "", 9);
    scene.disk.store().rows(range).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_newest_first_with_their_runs() {
    let (scene, session, [ended, active, neighbour]) = scene().await;
    assert_eq!(runs(&scene, session).await, [active.to_string(), ended.to_string()]);
    assert_eq!(scene.engine.catalogue().count_session_runs(session).await.unwrap(), 2);
    let query = ListQuery { limit: 9, ..ListQuery::default() };
    let listed = scene.engine.catalogue().list_sessions(&query).await.unwrap().items;
    let titles: Vec<Option<&str>> = listed.iter().map(|row| row.title.as_deref()).collect();
    assert_eq!(titles, [Some("b"), Some("a")]);
    let of_other = listed[0].id;
    assert_eq!(runs(&scene, of_other).await, [neighbour.to_string()]);
    let unknown: SessionId = "chat_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.queue_in(unknown).await), Code::SessionNotFound);
    assert_eq!(code(scene.engine.admin().delete_session(unknown, "ann").await), Code::SessionNotFound);
    scene.check().await;
}

async fn check_deleted(scene: &Scene, session: SessionId, [ended, active, neighbour]: [RunId; 3]) {
    assert_eq!(scene.engine.catalogue().session(session).await.unwrap(), None);
    assert_eq!(scene.engine.catalogue().missing_session(session).await.code(), Code::SessionErased);
    assert_eq!(code(scene.queue_in(session).await), Code::SessionErased);
    assert_eq!(code(scene.engine.admin().delete_session(session, "ann").await), Code::SessionErased);
    for run in [ended, active] {
        assert_eq!(code(scene.engine.read().read_run(run, None, 5).await), Code::RunErased);
        let tombstone = scene.engine.catalogue().tombstone(run).await.unwrap().unwrap();
        assert_eq!(tombstone.session_id, Some(session));
        assert_eq!((tombstone.events, tombstone.by.as_str()), (if run == ended { 7 } else { 3 }, "ann"));
    }
    assert_eq!(runs(scene, session).await, [""; 0]);
    let query = ListQuery { limit: 9, ..ListQuery::default() };
    let remaining = scene.engine.catalogue().list_runs(&query).await.unwrap().items;
    assert_eq!(remaining.iter().map(|row| row.id.to_string()).collect::<Vec<_>>(), [neighbour.to_string()]);
    assert!(
        scene.engine.read().list_prompts(PromptKind::Clarification, &query).await.unwrap().items.is_empty()
    );
    // The task of an erased run still exists, without an active run.
    let task: TaskId = scene.engine.catalogue().list_tasks(&query).await.unwrap().items[0].id;
    assert_eq!(scene.engine.catalogue().active_run(task).await.unwrap(), None);
    assert_eq!(scene.engine.catalogue().count_task_runs(task).await.unwrap(), 0);
    scene.check().await;
    assert!(scene.disk.store().integrity().await.unwrap().problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_erases_its_runs() {
    let (mut scene, session, of) = scene().await;
    assert_eq!(scene.engine.admin().delete_session(session, "ann").await.unwrap(), 2);
    check_deleted(&scene, session, of).await;
    scene.reopen().await;
    check_deleted(&scene, session, of).await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_deletion_is_finished_at_the_next_start() {
    for passes in 0..14 {
        let (mut scene, session, of) = scene().await;
        let faults = (0..passes).map(|_| AppendFault::Pass).chain([AppendFault::Refuse(FaultKind::Io)]);
        scene.store.next_appends(faults);
        let deleted = scene.engine.admin().delete_session(session, "ann").await;
        let is_recorded = scene.engine.catalogue().session(session).await.unwrap().is_none();
        assert_eq!(is_recorded, deleted.is_ok() || passes > 0, "{passes}");
        scene.reopen().await;
        if !is_recorded {
            scene.engine.admin().delete_session(session, "ann").await.unwrap();
        }
        let finished = async {
            while erasing(&scene).await > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), finished).await.unwrap();
        check_deleted(&scene, session, of).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_creates_the_session_of_its_run_unless_it_was_deleted() {
    let (there, session, [ended, ..]) = scene().await;
    let digest = there.engine.read().digest(ended).await.unwrap();
    let (records, _) = there.engine.read().read_run(ended, None, 100).await.unwrap();
    let records = records.into_iter().map(|(_, bytes)| bytes).collect();
    let import = recount_engine::Import { run: ended, events: digest.events, head: digest.head, records };
    let here = Scene::new().await;
    here.engine.admin().import(import.clone()).await.unwrap();
    let row = here.engine.catalogue().session(session).await.unwrap().unwrap();
    assert_eq!(row.id, session);
    assert_eq!(runs(&here, session).await, [ended.to_string()]);
    here.check().await;
    here.engine.admin().delete_session(session, "ann").await.unwrap();
    assert_eq!(code(here.engine.admin().import(import).await), Code::RunErased);
}
