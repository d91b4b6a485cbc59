//! A task has one active run at a time, until it ends.

use futures_util::future::join_all;
use recount_event::Code;
use recount_event::family::run::{Queued, RunKind};
use recount_faulty_store::AppendFault;

use crate::scene::{Scene, code};

async fn task(scene: &Scene) -> recount_event::TaskId {
    let (row, run) = scene.engine.write().create_task(Some("a task".into()), None).await.unwrap();
    assert_eq!(run, None);
    row.id
}

#[tokio::test(start_paused = true)]
async fn a_task_has_one_active_run_until_it_ends() {
    let mut scene = Scene::new().await;
    let task = task(&scene).await;
    assert_eq!(scene.engine.catalogue().active_run(task).await.unwrap(), None);
    let first = scene.queue_for(Some(task)).await.unwrap();
    assert_eq!(code(scene.queue_for(Some(task)).await), Code::TaskBusy);
    assert_eq!(scene.engine.catalogue().active_run(task).await.unwrap(), Some(first));
    scene.reopen().await;
    assert_eq!(code(scene.queue_for(Some(task)).await), Code::TaskBusy);
    scene.cancel(first).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(task).await.unwrap(), None);
    let second = scene.queue_for(Some(task)).await.unwrap();
    // A second cancel of the first run does not release the task.
    assert_eq!(code(scene.cancel(first).await), Code::RunEnded);
    assert_eq!(scene.engine.catalogue().active_run(task).await.unwrap(), Some(second));
    assert_eq!(scene.engine.catalogue().count_task_runs(task).await.unwrap(), 2);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn of_many_concurrent_runs_one_starts() {
    let scene = Scene::new().await;
    let task = task(&scene).await;
    let runs = join_all((0..30).map(|_| scene.queue_for(Some(task)))).await;
    assert_eq!(runs.iter().filter(|run| run.is_ok()).count(), 1);
    assert_eq!(scene.engine.catalogue().count_task_runs(task).await.unwrap(), 1);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_and_its_first_run_are_created_together_or_not_at_all() {
    let scene = Scene::new().await;
    scene.store.next_appends([AppendFault::Refuse(recount_log::FaultKind::Busy)]);
    let queued = || Some(Queued::new(RunKind::External));
    assert_eq!(code(scene.engine.write().create_task(None, queued()).await), Code::StoreBusy);
    let query = recount_engine::ListQuery { limit: 5, ..Default::default() };
    assert!(scene.engine.catalogue().list_tasks(&query).await.unwrap().items.is_empty());
    assert!(scene.engine.catalogue().list_runs(&query).await.unwrap().items.is_empty());
    let (row, run) = scene.engine.write().create_task(None, queued()).await.unwrap();
    let run = run.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(row.id).await.unwrap(), Some(run));
    assert_eq!(scene.events(run).await[0].task_id, Some(row.id));
    assert_eq!(scene.engine.catalogue().run(run).await.unwrap().unwrap().task_id, Some(row.id));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_needs_a_task_that_exists() {
    let scene = Scene::new().await;
    let other = Scene::new().await;
    other.engine.write().create_task(None, None).await.unwrap();
    let foreign = task(&other).await;
    assert_eq!(code(scene.queue_for(Some(foreign)).await), Code::TaskNotFound);
}
