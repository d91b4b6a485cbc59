//! Damaged catalogue rows are repaired in small pieces, and rows of a running erasure are not.

use std::time::Duration;

use recount_engine::{ArtifactFilter, ListQuery, Narrowing, limits};
use recount_event::{RunId, TaskId};
use recount_faulty_store::AppendFault;
use recount_log::{Append, Guard, RowPut};
use tokio::sync::oneshot;

use crate::scene::Scene;

const LISTED: &str = "catalogue.artifacts_listed";

/// An ended external run with `count` artifacts.
async fn run_with_artifacts(scene: &Scene, task: Option<TaskId>, name: &str, count: usize) -> RunId {
    let run = scene.queue_for(task).await.unwrap();
    scene.report(run, 0, &[("run.started", "{}")]).await.unwrap();
    let events: Vec<(&str, String)> = (0..count)
        .map(|number| {
            ("artifact.created", format!(r#"{{"artifact_id":"{name}-{number}","kind":"file_snapshot"}}"#))
        })
        .collect();
    for (seq, part) in (1..).zip(events.chunks(50)) {
        let part: Vec<(&str, &str)> = part.iter().map(|(kind, data)| (*kind, data.as_str())).collect();
        scene.report(run, seq, &part).await.unwrap();
    }
    scene.cancel(run).await.unwrap();
    run
}

async fn keys(scene: &Scene, space: &str) -> Vec<String> {
    let rows = scene.disk.rows_of(space).await;
    rows.iter().map(|row| row.split_once(' ').unwrap().0.to_owned()).collect()
}

/// Reads a list, which repairs its damaged rows.
async fn list(scene: &Scene) -> Vec<String> {
    let query = ListQuery { limit: 1_000, ..ListQuery::default() };
    let page = scene
        .engine
        .read()
        .list_artifacts(&query, &ArtifactFilter::default(), &Narrowing::default())
        .await
        .unwrap();
    assert!(page.end.damaged.is_empty(), "{:?}", page.end.damaged);
    page.items.into_iter().map(|row| row.id.to_string()).collect()
}

/// The last append of an erasure is pending: earlier appends deleted most rows, and the run can still be folded.
#[tokio::test(start_paused = true)]
async fn rows_deleted_by_a_running_erasure_are_not_repaired() {
    let scene = Scene::new().await;
    let task: TaskId = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    run_with_artifacts(&scene, Some(task), "erased", 3).await;
    run_with_artifacts(&scene, None, "left", 3).await;
    let before = scene.store.appends();
    let (go, wait) = oneshot::channel();
    // The appends: the intent, the producer rows, the list rows, the run.
    scene.store.next_appends([
        AppendFault::Pass,
        AppendFault::Pass,
        AppendFault::Pass,
        AppendFault::Hold(wait),
    ]);
    let repairing = async {
        while scene.store.appends() < before + 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let remaining = keys(&scene, LISTED).await;
        assert_eq!(remaining.len(), 3, "the rows of the other run are left");
        scene.disk.damage(LISTED, &remaining[0]);
        let listed = list(&scene).await;
        assert!(!scene.disk.is_damaged());
        assert_eq!(listed, ["left-2", "left-1", "left-0"], "deleted rows are not listed again");
        go.send(()).unwrap();
        remaining
    };
    let (deleted, remaining) = tokio::join!(scene.engine.admin().delete_task(task, "operator"), repairing);
    assert_eq!(deleted.unwrap(), 1);
    assert_eq!(keys(&scene, LISTED).await, remaining);
    scene.check().await;
}

/// The name of the damaged row does not contain its run, so the whole log is read; many other rows are missing.
#[tokio::test(start_paused = true)]
async fn a_repair_writes_in_bounded_pieces_for_any_store_size() {
    let scene = Scene::new().await;
    for number in 0..5 {
        run_with_artifacts(&scene, None, &format!("of-{number}"), 200).await;
    }
    let listed = list(&scene).await;
    let whole = scene.disk.catalogue().await;
    let mut deletions = Vec::new();
    for space in ["catalogue.artifacts", LISTED, "catalogue.run_artifacts"] {
        for key in keys(&scene, space).await.into_iter().skip(1) {
            deletions.push(RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value: None });
        }
    }
    let missing = deletions.len();
    scene.disk.store().append(Append { rows: deletions, ..Append::default() }).await.unwrap();
    scene.disk.damage(LISTED, &keys(&scene, LISTED).await[0]);
    drop(scene.disk.take_repairs());
    assert_eq!(list(&scene).await, listed);
    assert_eq!(scene.disk.catalogue().await, whole);
    let (repairs, widest) = scene.disk.take_repairs();
    assert_eq!(repairs.iter().sum::<usize>(), missing + 1, "{repairs:?}");
    assert!(repairs.iter().all(|rows| *rows <= limits::REPAIR_ROWS_MAX), "{repairs:?}");
    // The list reads one more row than requested.
    assert!(widest <= 1_001, "one read requested {widest} rows");
}
