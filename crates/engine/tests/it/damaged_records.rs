//! Records that are damaged: nothing makes them anew, and they keep nothing else from being done.

use recount_engine::{NewRun, Once, limits};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{RunId, TaskId};

use crate::artifacts::{blobs, upload};
use crate::scene::Scene;

/// The keys of a space, in their order.
async fn keys(scene: &Scene, space: &str) -> Vec<String> {
    let rows = scene.disk.rows_of(space).await;
    rows.iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_of_an_upload_keeps_no_other_from_being_sent_or_forgotten() {
    let scene = Scene::new().await;
    scene.engine.write().upload(upload("image/png", b"one")).await.unwrap();
    // In the order of instants.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    scene.engine.write().upload(upload("image/png", b"two")).await.unwrap();
    let due = keys(&scene, "record.uploads_due").await;
    scene.disk.damage("record.uploads_due", &due[0]);
    scene.engine.write().upload(upload("image/png", b"three")).await.unwrap();
    assert_eq!(blobs(&scene).await, 3);
    tokio::time::sleep(limits::ONCE_LIFE + 2 * limits::UPLOAD_SWEEP).await;
    assert_eq!(keys(&scene, "record.uploads_due").await, due[..1]);
    assert_eq!(blobs(&scene).await, 1);
}

async fn start(scene: &Scene, key: &str, task: Option<TaskId>) -> RunId {
    let once = Once { key: key.into(), body: "b".into() };
    drop(scene.engine.write().take_up(&once).await.unwrap());
    let new = NewRun { queued: Queued::new(RunKind::External), task, session: None, resumed_from: None };
    scene.engine.write().create_run_once(new, Some(&once)).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_of_a_request_keeps_no_other_from_being_forgotten_and_no_task_from_being_deleted() {
    let scene = Scene::new().await;
    let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    for key in ["a", "b", "c"] {
        let run = start(&scene, key, Some(task)).await;
        scene.cancel(run).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let due = keys(&scene, "record.once_due").await;
    scene.disk.damage("record.once_due", &due[0]);
    scene.disk.damage("record.once", "b");
    assert_eq!(scene.engine.admin().delete_task(task, "ann").await.unwrap(), 3);
    tokio::time::sleep(2 * limits::ONCE_LIFE).await;
    start(&scene, "d", None).await;
    assert_eq!(keys(&scene, "record.once_due").await.len(), 2, "the damaged one, and the new one");
    // What a damaged entry is about stays with it.
    assert_eq!(keys(&scene, "record.once").await, ["a", "b", "d"]);
}
