//! Damaged records cannot be rebuilt, and do not block other operations.

use recount_engine::{IdempotencyKey, NewRun, limits};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{RunId, TaskId};

use crate::artifacts::{blobs, upload};
use crate::scene::Scene;

/// The keys of a space, in order.
async fn keys(scene: &Scene, space: &str) -> Vec<String> {
    let rows = scene.disk.rows_of(space).await;
    rows.iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_damaged_upload_record_does_not_block_other_uploads_or_their_expiry() {
    let scene = Scene::new().await;
    scene.engine.write().upload(upload("image/png", b"one")).await.unwrap();
    // Lists are ordered by time.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    scene.engine.write().upload(upload("image/png", b"two")).await.unwrap();
    let due = keys(&scene, "record.uploads_due").await;
    scene.disk.damage("record.uploads_due", &due[0]);
    scene.engine.write().upload(upload("image/png", b"three")).await.unwrap();
    assert_eq!(blobs(&scene).await, 3);
    tokio::time::sleep(limits::IDEMPOTENCY_KEY_LIFE + 2 * limits::UPLOAD_SWEEP).await;
    assert_eq!(keys(&scene, "record.uploads_due").await, due[..1]);
    assert_eq!(blobs(&scene).await, 1);
}

async fn start(scene: &Scene, key: &str, task: Option<TaskId>) -> RunId {
    let idempotency = IdempotencyKey { key: key.into(), body: "b".into() };
    drop(scene.engine.write().claim_request(&idempotency).await.unwrap());
    let new = NewRun { queued: Queued::new(RunKind::External), task, session: None, resumed_from: None };
    scene.engine.write().create_run_keyed(new, Some(&idempotency)).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_damaged_request_record_does_not_block_expiry_of_others_or_deletion_of_a_task() {
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
    tokio::time::sleep(2 * limits::IDEMPOTENCY_KEY_LIFE).await;
    start(&scene, "d", None).await;
    assert_eq!(keys(&scene, "record.once_due").await.len(), 2, "the damaged row and the new row");
    // The key of a damaged expiry row stays.
    assert_eq!(keys(&scene, "record.once").await, ["a", "b", "d"]);
}
