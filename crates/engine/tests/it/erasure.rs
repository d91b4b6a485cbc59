//! Deleting a task: only tombstones of its runs remain, after any crash.

use recount_engine::{ListQuery, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, PromptKind, RunId, TaskId};
use recount_faulty_store::AppendFault;
use recount_log::{FaultKind, RowRange};

use crate::artifacts::{artifact_input, blobs, progress, store};
use crate::prompts::{HANDOFF, QUESTION};
use crate::scene::{APPROVAL, End, Scene, code, drafts, read};

/// A task with an ended and an active run, and a run of another task.
async fn scene() -> (Scene, TaskId, RunId, RunId, RunId) {
    let scene = Scene::new().await;
    let task: TaskId = scene.engine.write().create_task(Some("t".into()), None).await.unwrap().0.id;
    let other: TaskId = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let ended = scene.queue_for(Some(task)).await.unwrap();
    scene.report(ended, 0, &[("run.started", "{}"), APPROVAL]).await.unwrap();
    scene.cancel(ended).await.unwrap();
    let neighbour = scene.queue_for(Some(other)).await.unwrap();
    let active = scene.queue_for(Some(task)).await.unwrap();
    scene.report(active, 0, &[("run.started", "{}")]).await.unwrap();
    (scene, task, ended, active, neighbour)
}

/// Every row of the store whose key or value contains one of these names.
async fn rows_naming(scene: &Scene, names: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for space in [
        "catalogue.runs",
        "catalogue.task_runs",
        "catalogue.approvals",
        "catalogue.approvals_listed",
        "catalogue.approvals_pending",
        "catalogue.session_runs",
        "catalogue.run_successors",
        "catalogue.clarifications",
        "catalogue.clarifications_listed",
        "catalogue.clarifications_pending",
        "catalogue.handoffs",
        "catalogue.handoffs_listed",
        "catalogue.handoffs_pending",
        "catalogue.artifacts",
        "catalogue.artifacts_listed",
        "catalogue.run_artifacts",
        "catalogue.task_artifacts",
        "catalogue.artifact_changes",
        "catalogue.deadlines",
        "catalogue.own_open",
        "record.session_active",
        "record.sessions",
        "record.tasks",
        "record.task_active",
        "record.producers",
        "record.pins",
        "record.sealed",
        "record.erasing",
    ] {
        let range = RowRange::first(space, "", usize::MAX);
        for row in scene.disk.store().rows(range).await.unwrap() {
            let text = format!("{space} {} {}", row.key, String::from_utf8_lossy(&row.value));
            if names.iter().any(|name| text.contains(name)) {
                found.push(text);
            }
        }
    }
    found
}

async fn check_erased(scene: &Scene, task: TaskId, ended: RunId, active: RunId, neighbour: RunId) {
    let names = [task.to_string(), ended.to_string(), active.to_string()];
    assert_eq!(rows_naming(scene, &names).await, [""; 0]);
    let query = ListQuery { limit: 10, ..ListQuery::default() };
    let runs = scene.engine.catalogue().list_runs(&query).await.unwrap().items;
    assert_eq!(runs.iter().map(|row| row.id.to_string()).collect::<Vec<_>>(), [neighbour.to_string()]);
    for run in [ended, active] {
        assert_eq!(code(scene.engine.read().read_run(run, None, 5).await), Code::RunErased);
        assert_eq!(code(scene.engine.read().follow_run(run, None).await.map(|_| ())), Code::RunErased);
        assert_eq!(code(scene.engine.read().digest(run).await), Code::RunErased);
        assert_eq!(code(scene.cancel(run).await), Code::RunErased);
        assert_eq!(code(scene.note(run, "late").await), Code::RunErased);
        assert_eq!(code(scene.engine.admin().prune(run, None, "x").await), Code::RunErased);
        assert_eq!(code(scene.engine.admin().pin(run, "x").await), Code::RunErased);
        let tombstone = scene.engine.catalogue().tombstone(run).await.unwrap().unwrap();
        assert_eq!(tombstone.task_id, Some(task));
        assert_eq!((tombstone.events, tombstone.by.as_str()), (if run == ended { 5 } else { 3 }, "ann"));
    }
    assert_eq!(scene.engine.catalogue().task(task).await.unwrap(), None);
    assert_eq!(scene.engine.catalogue().missing_task(task).await.code(), Code::TaskErased);
    assert_eq!(code(scene.queue_for(Some(task)).await), Code::TaskErased);
    assert_eq!(code(scene.engine.admin().delete_task(task, "ann").await), Code::TaskErased);
    let (feed, _) = scene.engine.read().read_feed(None, 99).await.unwrap();
    assert_eq!(feed.len(), 1, "one event of the other run");
    scene.check().await;
    assert!(scene.disk.store().integrity().await.unwrap().problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_task_leaves_only_tombstones() {
    let (mut scene, task, ended, active, neighbour) = scene().await;
    scene.engine.admin().pin(ended, "ann").await.unwrap();
    let mut feed = scene.engine.read().follow_feed(None).await.unwrap();
    let mut reader = scene.engine.read().follow_run(active, None).await.unwrap();
    assert_eq!(read(&mut reader).await.end, End::CaughtUp);
    assert_eq!(scene.engine.admin().delete_task(task, "ann").await.unwrap(), 2);
    check_erased(&scene, task, ended, active, neighbour).await;
    // A waiting reader gets an error, and erased events are not delivered.
    assert!(matches!(reader.next().await, Err(error) if error.code() == Code::RunErased));
    assert_eq!(read(&mut feed).await.cursors, [6]);
    scene.reopen().await;
    check_erased(&scene, task, ended, active, neighbour).await;
    let unknown: TaskId = "task_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.engine.admin().delete_task(unknown, "ann").await), Code::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_deletion_is_finished_at_the_next_start() {
    for passes in 0..12 {
        let (mut scene, task, ended, active, neighbour) = scene().await;
        let faults = (0..passes).map(|_| AppendFault::Pass).chain([AppendFault::Refuse(FaultKind::Io)]);
        scene.store.next_appends(faults);
        let deleted = scene.engine.admin().delete_task(task, "ann").await;
        let is_recorded = scene.engine.catalogue().task(task).await.unwrap().is_none();
        assert_eq!(is_recorded, deleted.is_ok() || passes > 0, "{passes}");
        scene.reopen().await;
        if !is_recorded {
            scene.engine.admin().delete_task(task, "ann").await.unwrap();
        }
        finish_deletion(&scene, task).await;
        check_erased(&scene, task, ended, active, neighbour).await;
    }
}

/// A background service finishes a deletion.
async fn finish_deletion(scene: &Scene, task: TaskId) {
    let finished = async {
        while rows_naming(scene, &[task.to_string()]).await.iter().any(|row| row.contains("erasing")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), finished).await.unwrap();
}

/// The rows of a run are deleted before the run, so the ids of its approvals may be free while it still exists.
#[tokio::test(start_paused = true)]
async fn an_interrupted_deletion_leaves_the_approval_of_another_run_with_the_same_id() {
    let mut times_free = 0;
    for passes in 0..12 {
        let (mut scene, task, _, _, neighbour) = scene().await;
        let faults = (0..passes).map(|_| AppendFault::Pass).chain([AppendFault::Refuse(FaultKind::Io)]);
        scene.store.next_appends(faults);
        let is_interrupted = scene.engine.admin().delete_task(task, "ann").await.is_err();
        scene.store.next_appends([]);
        let taken = scene.report(neighbour, 0, &[("run.started", "{}"), APPROVAL]).await;
        scene.reopen().await;
        if scene.engine.catalogue().task(task).await.unwrap().is_some() {
            scene.engine.admin().delete_task(task, "ann").await.unwrap();
        }
        finish_deletion(&scene, task).await;
        if taken.is_ok() {
            times_free += u32::from(is_interrupted);
            let id = ForeignId::parse("a1").unwrap();
            let row = scene.engine.read().prompt(PromptKind::Approval, &id).await.unwrap();
            assert_eq!(row.map(|row| row.run_id()), Some(neighbour), "{passes}");
            scene.check().await;
        }
    }
    assert!(times_free > 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_an_erased_run_gets_an_error() {
    let scene = Scene::padded(1 << 20).await;
    let task: TaskId = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let run = scene.queue_for(Some(task)).await.unwrap();
    scene.report(run, 0, &[("run.started", "{}")]).await.unwrap();
    for seq in 1..40 {
        scene.report(run, seq, &[("ext.test.note", "{}"); 30]).await.unwrap();
    }
    let mut reader = scene.engine.read().follow_run(run, None).await.unwrap();
    reader.next().await.unwrap();
    scene.engine.admin().delete_task(task, "ann").await.unwrap();
    let error = loop {
        match reader.next().await {
            Ok(_) => {}
            Err(error) => break error.code(),
        }
    };
    assert_eq!(error, Code::RunErased);
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_an_erased_run_frees_its_id() {
    let (scene, task, ..) = scene().await;
    scene.engine.admin().delete_task(task, "ann").await.unwrap();
    let run = scene.start().await;
    scene.report(run, 1, &[APPROVAL]).await.unwrap();
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn damaged_runs_are_deleted_with_all_their_listed_rows() {
    for (restarted, damaged) in
        [(true, 0..=0), (true, 2..=4), (true, 0..=99), (false, 1..=1), (false, 4..=99)]
    {
        let mut scene = Scene::new().await;
        let task: TaskId = scene.engine.write().create_task(Some("t".into()), None).await.unwrap().0.id;
        let session = scene.engine.write().create_session(None).await.unwrap().id;
        let ended = scene.queue_for(Some(task)).await.unwrap();
        let events = [("run.started", "{}"), APPROVAL, QUESTION, HANDOFF];
        scene.report(ended, 0, &events).await.unwrap();
        scene.cancel(ended).await.unwrap();
        let queued = Queued::new(RunKind::AgentLoop);
        let new = NewRun { queued, task: Some(task), session: Some(session), resumed_from: None };
        let (active, _) = scene.engine.write().create_run(new).await.unwrap();
        progress(&scene, active, drafts(&[("run.started", "{}")])).await;
        let artifact = store(&scene, active, artifact_input("command_output", b"theirs")).await;
        let neighbour = scene.start().await;
        scene.disk.damage_events(ended, damaged.clone());
        scene.disk.damage_events(active, damaged.clone());
        if restarted {
            scene.reopen().await;
        }
        assert_eq!(scene.engine.admin().delete_task(task, "ann").await.unwrap(), 2, "{damaged:?}");
        let names = [task.to_string(), ended.to_string(), active.to_string(), artifact.id.to_string()];
        assert_eq!(rows_naming(&scene, &names).await, [""; 0], "{damaged:?}");
        assert_eq!(blobs(&scene).await, 0);
        for run in [ended, active] {
            assert_eq!(code(scene.engine.read().read_run(run, None, 5).await), Code::RunErased);
            let tombstone = scene.engine.catalogue().tombstone(run).await.unwrap().unwrap();
            assert_eq!((tombstone.task_id, tombstone.by.as_str()), (Some(task), "ann"));
        }
        let (feed, _) = scene.engine.read().read_feed(None, 99).await.unwrap();
        assert_eq!(feed.len(), 2, "two events of the other run");
        // The session can have another run.
        let next = NewRun {
            queued: Queued::new(RunKind::AgentLoop),
            task: None,
            session: Some(session),
            resumed_from: None,
        };
        let (next, _) = scene.engine.write().create_run(next).await.unwrap();
        assert_eq!(scene.types(next).await, ["run.queued"]);
        scene.note(neighbour, "later").await.unwrap();
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_does_not_block_others() {
    let (mut scene, task, ended, active, neighbour) = scene().await;
    let first: TaskId = "task_01HZX3Q0M0000000000000000A".parse().unwrap();
    // Recorded by a process that crashed.
    for (task, by) in [(first.to_string(), "{}"), (task.to_string(), "\"ann\"")] {
        scene.disk.put("record.erasing", &task, by).await;
    }
    scene.reopen().await;
    let finished = async {
        while !rows_naming(&scene, &[task.to_string()]).await.iter().all(|row| !row.contains("erasing")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), finished).await.unwrap();
    for run in [ended, active] {
        assert_eq!(code(scene.engine.read().read_run(run, None, 5).await), Code::RunErased);
    }
    scene.note(neighbour, "later").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_with_damaged_rows_does_not_block_startup_and_can_be_deleted() {
    let mut scene = Scene::new().await;
    let task: TaskId = scene.engine.write().create_task(Some("t".into()), None).await.unwrap().0.id;
    let queued = Queued::new(RunKind::AgentLoop);
    let new = NewRun { queued, task: Some(task), session: None, resumed_from: None };
    let (run, _) = scene.engine.write().create_run(new).await.unwrap();
    progress(&scene, run, drafts(&[("run.started", "{}"), QUESTION])).await;
    let neighbour = scene.start().await;
    scene.disk.damage_events(run, 0..=99);
    for (space, key) in [
        ("catalogue.runs", format!("default/{run}")),
        ("catalogue.deadlines", run.to_string()),
        ("catalogue.own_open", run.to_string()),
    ] {
        assert!(!scene.disk.rows_of(space).await.is_empty(), "{space}");
        scene.disk.damage(space, &key);
    }
    scene.reopen().await;
    scene.note(neighbour, "later").await.unwrap();
    assert_eq!(scene.engine.admin().delete_task(task, "ann").await.unwrap(), 1);
    assert!(!scene.disk.is_damaged());
    assert_eq!(rows_naming(&scene, &[task.to_string(), run.to_string()]).await, [""; 0]);
    scene.check().await;
}
