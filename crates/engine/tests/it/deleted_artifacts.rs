//! One artifact deleted or pinned, while its run goes on being told; and how much may be kept.

use bytes::Bytes;
use recount_engine::{ArtifactFilter, ArtifactQuota, FoundArtifact, Policy};
use recount_event::{Code, ForeignId, RunId, TaskId};

use crate::artifacts::{blobs, delete, kept, listed, of_run, own, row, task, thing, upload};
use crate::scene::{Scene, code};

async fn missing(scene: &Scene, id: &ForeignId) -> Code {
    assert!(scene.engine.read().artifacts_called(id).await.unwrap().is_empty(), "{id} is found");
    scene.engine.read().missing_artifact(id).await.code()
}

async fn ended(scene: &Scene, task: Option<TaskId>) -> (RunId, ForeignId, ForeignId) {
    let run = own(scene, task).await;
    let one = kept(scene, run, thing("file_snapshot", b"shared")).await.id;
    let two = kept(scene, run, thing("file_snapshot", b"alone")).await.id;
    scene.cancel(run).await.unwrap();
    (run, one, two)
}

#[tokio::test(start_paused = true)]
async fn a_deleted_artifact_is_gone_with_its_bytes_and_the_log_stays_as_it_was() {
    let mut scene = Scene::new().await;
    let task = task(&scene).await;
    let (run, shared, alone) = ended(&scene, Some(task)).await;
    let (_, theirs, _) = ended(&scene, None).await;
    let before = scene.engine.read().digest(run).await.unwrap();
    let admin = scene.engine.admin();
    for (id, removed, left) in [(&alone, false, 2), (&shared, false, 2)] {
        let found = of_run(&row(&scene, id).await);
        let deletion = admin.delete_artifact(&found, "anna").await.unwrap();
        assert_eq!(
            (deletion.bytes_removed, blobs(&scene).await),
            (removed, left),
            "others have the same bytes"
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
    // The catalogue made anew knows it, too, and the bytes go with the last that needs them.
    scene.reopen().await;
    scene.check().await;
    assert_eq!(missing(&scene, &shared).await, Code::ArtifactDeleted);
    let last = of_run(&row(&scene, &theirs).await);
    assert!(scene.engine.admin().delete_artifact(&last, "anna").await.unwrap().bytes_removed);
    assert_eq!(blobs(&scene).await, 1);
    assert_eq!(scene.engine.admin().missing_blobs().await.unwrap(), [], "what was deleted is not lost");
    // With its task everything goes that was noted of it.
    delete(&scene, task).await;
    assert_eq!(missing(&scene, &alone).await, Code::RunErased);
    for space in ["record.artifacts_deleted", "record.artifacts_freed"] {
        assert_eq!(scene.disk.rows_of(space).await.len(), 1, "{space}: of the run without a task");
    }
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn what_may_be_needed_or_is_pinned_does_not_go() {
    let scene = Scene::new().await;
    let run = own(&scene, None).await;
    let id = kept(&scene, run, thing("file_snapshot", b"one")).await.id;
    let found = of_run(&row(&scene, &id).await);
    let admin = scene.engine.admin();
    assert_eq!(code(admin.delete_artifact(&found, "anna").await), Code::RunActive);
    scene.cancel(run).await.unwrap();
    let pin = admin.pin_artifact(&found, "anna").await.unwrap();
    assert_eq!(admin.pin_artifact(&found, "ben").await.unwrap(), pin, "pinning again changes nothing");
    assert!(row(&scene, &id).await.pinned);
    assert_eq!(code(admin.delete_artifact(&found, "anna").await), Code::ArtifactPinned);
    // Nor does its run lose its beginning, asked for or swept.
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
async fn an_upload_goes_before_its_day_is_over() {
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

#[tokio::test(start_paused = true)]
async fn what_may_be_kept_is_a_setting_and_a_deletion_makes_room() {
    let scene = Scene::new().await;
    let quota = ArtifactQuota { task_bytes: 10, task_count: 2, upload_bytes: 5 };
    scene.engine.write().limit_artifacts(quota);
    let task = task(&scene).await;
    let run = own(&scene, Some(task)).await;
    let first = kept(&scene, run, thing("file_snapshot", b"123456")).await.id;
    let refused = |what: &'static str, setting: &'static str| {
        let (scene, keep) = (&scene, thing("file_snapshot", what.as_bytes()));
        async move {
            let error = scene.engine.write().keep(run, keep).await.unwrap_err();
            assert_eq!(error.code(), Code::ArtifactQuota);
            assert!(error.to_string().contains(setting), "{error}");
        }
    };
    refused("12345", "artifacts.task_bytes is 10").await;
    kept(&scene, run, thing("file_snapshot", b"78")).await;
    refused("9", "artifacts.task_count is 2").await;
    let error = scene.engine.write().upload(upload("image/png", b"123456")).await.unwrap_err();
    assert!(
        error.code() == Code::ArtifactQuota && error.to_string().contains("5 bytes (artifacts.upload_bytes)")
    );
    assert_eq!(blobs(&scene).await, 2, "what is refused is not kept");
    scene.cancel(run).await.unwrap();
    scene.engine.admin().delete_artifact(&of_run(&row(&scene, &first).await), "anna").await.unwrap();
    let next = own(&scene, Some(task)).await;
    let kept_then =
        scene.engine.write().keep(next, thing("file_snapshot", &Bytes::from_static(b"12345678"))).await;
    assert!(kept_then.is_ok(), "{kept_then:?}");
}
