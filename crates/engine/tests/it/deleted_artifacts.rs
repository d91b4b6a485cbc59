//! Artifacts that are deleted or pinned individually, and the artifact quota.

use bytes::Bytes;
use recount_engine::{ArtifactFilter, ArtifactQuota, FoundArtifact, Policy};
use recount_event::{Code, ForeignId, RunId, TaskId};

use crate::artifacts::{artifact_input, blobs, delete, listed, of_run, own_run, row, store, task, upload};
use crate::scene::{Scene, code};

async fn missing(scene: &Scene, id: &ForeignId) -> Code {
    assert!(scene.engine.read().find_artifacts(id).await.unwrap().is_empty(), "{id} is found");
    scene.engine.read().missing_artifact(id).await.code()
}

async fn ended(scene: &Scene, task: Option<TaskId>) -> (RunId, ForeignId, ForeignId) {
    let run = own_run(scene, task).await;
    let one = store(scene, run, artifact_input("file_snapshot", b"shared")).await.id;
    let two = store(scene, run, artifact_input("file_snapshot", b"alone")).await.id;
    scene.cancel(run).await.unwrap();
    (run, one, two)
}

#[tokio::test(start_paused = true)]
async fn a_deleted_artifact_loses_its_bytes_and_the_log_does_not_change() {
    let mut scene = Scene::new().await;
    let task = task(&scene).await;
    let (run, shared, alone) = ended(&scene, Some(task)).await;
    let (_, theirs, _) = ended(&scene, None).await;
    let before = scene.engine.read().digest(run).await.unwrap();
    let admin = scene.engine.admin();
    for (id, removed, remaining) in [(&alone, false, 2), (&shared, false, 2)] {
        let found = of_run(&row(&scene, id).await);
        let deletion = admin.delete_artifact(&found, "anna").await.unwrap();
        assert_eq!(
            (deletion.bytes_removed, blobs(&scene).await),
            (removed, remaining),
            "other artifacts have the same bytes"
        );
        assert_eq!(missing(&scene, id).await, Code::ArtifactDeleted);
        assert!(scene.engine.read().missing_artifact(id).await.to_string().contains("by anna"));
        assert_eq!(code(admin.delete_artifact(&found, "ben").await), Code::ArtifactDeleted);
    }
    assert_eq!(scene.engine.read().digest(run).await.unwrap(), before);
    assert_eq!(
        scene.engine.read().artifact_bytes(&of_run(&row(&scene, &theirs).await)).await.unwrap(),
        "shared"
    );
    let of_run_now = ArtifactFilter { run: Some(run), ..ArtifactFilter::default() };
    assert!(listed(&scene, of_run_now, 1).await.is_empty());
    scene.check().await;
    // The rebuilt catalogue has the deletion, and the bytes are deleted with their last use.
    scene.reopen().await;
    scene.check().await;
    assert_eq!(missing(&scene, &shared).await, Code::ArtifactDeleted);
    let last = of_run(&row(&scene, &theirs).await);
    assert!(scene.engine.admin().delete_artifact(&last, "anna").await.unwrap().bytes_removed);
    assert_eq!(blobs(&scene).await, 1);
    assert_eq!(scene.engine.admin().missing_blobs().await.unwrap(), [], "a deleted artifact is not lost");
    // All records are deleted with the task.
    delete(&scene, task).await;
    assert_eq!(missing(&scene, &alone).await, Code::RunErased);
    for space in ["record.artifacts_deleted", "record.artifacts_freed"] {
        assert_eq!(scene.disk.rows_of(space).await.len(), 1, "{space}: of the run without a task");
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_artifact_that_is_pinned_or_belongs_to_an_active_run_cannot_be_deleted() {
    let scene = Scene::new().await;
    let run = own_run(&scene, None).await;
    let id = store(&scene, run, artifact_input("file_snapshot", b"one")).await.id;
    let found = of_run(&row(&scene, &id).await);
    let admin = scene.engine.admin();
    assert_eq!(code(admin.delete_artifact(&found, "anna").await), Code::RunActive);
    scene.cancel(run).await.unwrap();
    let pin = admin.pin_artifact(&found, "anna").await.unwrap();
    assert_eq!(admin.pin_artifact(&found, "ben").await.unwrap(), pin, "pinning again changes nothing");
    assert!(row(&scene, &id).await.pinned);
    assert_eq!(code(admin.delete_artifact(&found, "anna").await), Code::ArtifactPinned);
    // Its run cannot be pruned either, by request or by a sweep.
    assert_eq!(code(admin.prune(run, None, "operator").await), Code::RunPinned);
    let everything = Policy { max_events: Some(0), ..Policy::default() };
    assert_eq!(admin.sweep(&everything).await.unwrap().events, 0);
    admin.unpin_artifact(&found).await.unwrap();
    assert!(!row(&scene, &id).await.pinned);
    admin.pin(run, "anna").await.unwrap();
    assert_eq!(code(admin.delete_artifact(&found, "anna").await), Code::ArtifactPinned);
    admin.unpin(run).await.unwrap();
    assert!(admin.sweep(&everything).await.unwrap().events > 0);
    assert_eq!(missing(&scene, &id).await, Code::ArtifactPruned);
    assert_eq!(code(admin.pin_artifact(&found, "anna").await), Code::ArtifactPruned);
    assert!(scene.disk.rows_of("record.artifact_pins").await.is_empty());
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_can_be_deleted_before_it_expires() {
    let scene = Scene::new().await;
    let sent = scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap();
    let found = FoundArtifact::Upload(sent.clone());
    let admin = scene.engine.admin();
    assert_eq!(code(admin.pin_artifact(&found, "anna").await), Code::ArtifactUnused);
    assert!(admin.delete_artifact(&found, "anna").await.unwrap().bytes_removed);
    assert_eq!(missing(&scene, &sent.id).await, Code::ArtifactDeleted);
    for space in ["record.uploads", "record.uploads_due", "record.upload_blobs"] {
        assert!(scene.disk.rows_of(space).await.is_empty(), "{space}");
    }
    assert_eq!(blobs(&scene).await, 0);
}

/// A run that is driven from outside names an upload by its id and hash: from then on it is an artifact of the run.
#[tokio::test(start_paused = true)]
async fn an_upload_that_an_external_run_named_is_removed_with_its_artifact() {
    for way in ["artifact", "task", "prune"] {
        let scene = Scene::new().await;
        let task = task(&scene).await;
        let run = scene.queue_for(Some(task)).await.unwrap();
        scene.report(run, 0, &[("run.started", "{}")]).await.unwrap();
        let sent = scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap();
        let named = format!(r#"{{"artifact_id":"{}","kind":"image","hash":"{}"}}"#, sent.id, sent.hash);
        scene.report(run, 1, &[("artifact.created", &named)]).await.unwrap();
        let found = of_run(&row(&scene, &sent.id).await);
        assert_eq!(scene.engine.read().artifact_bytes(&found).await.unwrap(), &b"\x89PNG\0one"[..]);
        for space in ["record.uploads", "record.uploads_due", "record.upload_blobs"] {
            assert!(scene.disk.rows_of(space).await.is_empty(), "{space}: it waits no more");
        }
        scene.cancel(run).await.unwrap();
        let admin = scene.engine.admin();
        let expected = match way {
            "artifact" => {
                assert!(admin.delete_artifact(&found, "anna").await.unwrap().bytes_removed);
                Code::ArtifactDeleted
            }
            "task" => {
                delete(&scene, task).await;
                Code::RunErased
            }
            _ => {
                admin.prune(run, None, "manual").await.unwrap();
                Code::ArtifactPruned
            }
        };
        assert_eq!(missing(&scene, &sent.id).await, expected, "{way}");
        assert_eq!(blobs(&scene).await, 0, "{way}");
        scene.check().await;
    }
}

/// The hash decides: another run may give one of its own artifacts the id of an upload.
#[tokio::test(start_paused = true)]
async fn an_upload_stays_when_a_run_gives_its_id_to_other_bytes() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let sent = scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap();
    let other = scene.engine.write().upload(upload("image/png", b"\x89PNG\0two")).await.unwrap();
    let named = format!(r#"{{"artifact_id":"{}","kind":"image","hash":"{}"}}"#, sent.id, other.hash);
    scene.report(run, 1, &[("artifact.created", &named)]).await.unwrap();
    assert_eq!(scene.disk.rows_of("record.uploads").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_artifact_quota_is_configurable_and_a_deletion_frees_quota() {
    let scene = Scene::new().await;
    let quota = ArtifactQuota { task_bytes: 10, task_count: 2, upload_bytes: 5 };
    scene.engine.write().limit_artifacts(quota);
    let task = task(&scene).await;
    let run = own_run(&scene, Some(task)).await;
    let first = store(&scene, run, artifact_input("file_snapshot", b"123456")).await.id;
    let refused = |what: &'static str, setting: &'static str| {
        let (scene, keep) = (&scene, artifact_input("file_snapshot", what.as_bytes()));
        async move {
            let error = scene.engine.write().store_artifact(run, keep).await.unwrap_err();
            assert_eq!(error.code(), Code::ArtifactQuota);
            assert!(error.to_string().contains(setting), "{error}");
        }
    };
    refused("12345", "artifacts.task_bytes is 10").await;
    store(&scene, run, artifact_input("file_snapshot", b"78")).await;
    refused("9", "artifacts.task_count is 2").await;
    let error = scene.engine.write().upload(upload("image/png", b"123456")).await.unwrap_err();
    assert!(
        error.code() == Code::ArtifactQuota && error.to_string().contains("5 bytes (artifacts.upload_bytes)")
    );
    assert_eq!(blobs(&scene).await, 2, "refused bytes are not stored");
    scene.cancel(run).await.unwrap();
    scene.engine.admin().delete_artifact(&of_run(&row(&scene, &first).await), "anna").await.unwrap();
    let next = own_run(&scene, Some(task)).await;
    let stored_then = scene
        .engine
        .write()
        .store_artifact(next, artifact_input("file_snapshot", &Bytes::from_static(b"12345678")))
        .await;
    assert!(stored_then.is_ok(), "{stored_then:?}");
}
