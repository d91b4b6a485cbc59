//! Artifacts: stored, listed, changed, counted, and deleted with their run.

use bytes::Bytes;
use recount_engine::{
    ArtifactFilter, ArtifactInput, ArtifactReceipt, ArtifactRow, FoundArtifact, ListQuery, Narrowing, NewRun,
    PatchTarget, Upload,
};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Draft, ForeignId, RunId, TaskId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_run::Command;

use crate::scene::{Scene, code, drafts};

fn id(text: &str) -> ForeignId {
    ForeignId::parse(text).unwrap()
}

/// An own run that has started.
pub(crate) async fn own_run(scene: &Scene, task: Option<TaskId>) -> RunId {
    let new = NewRun { queued: Queued::new(RunKind::AgentLoop), task, session: None, resumed_from: None };
    let (run, _) = scene.engine.write().create_run(new).await.unwrap();
    progress(scene, run, drafts(&[("run.started", "{}")])).await;
    run
}

pub(crate) async fn progress(scene: &Scene, run: RunId, drafts: Vec<Draft>) {
    scene.engine.write().submit(run, Command::Progress { drafts }).await.unwrap();
}

pub(crate) async fn task(scene: &Scene) -> TaskId {
    scene.engine.write().create_task(None, None).await.unwrap().0.id
}

pub(crate) fn artifact_input(kind: &str, bytes: &[u8]) -> ArtifactInput {
    ArtifactInput {
        kind: kind.into(),
        mime: "text/plain".into(),
        summary: Some("a thing".into()),
        name: None,
        bytes: Bytes::copy_from_slice(bytes),
        original_size_bytes: None,
        call: None,
        target: None,
    }
}

fn patch(bytes: &[u8]) -> ArtifactInput {
    let target = PatchTarget {
        path: "a.rs".into(),
        base_revision: "absent".into(),
        additions: 1,
        deletions: 0,
        hunks: 1,
    };
    ArtifactInput { mime: "text/x-diff".into(), target: Some(target), ..artifact_input("patch", bytes) }
}

/// Stores and reports an artifact.
pub(crate) async fn store(scene: &Scene, run: RunId, input: ArtifactInput) -> ArtifactReceipt {
    let stored = scene.engine.write().store_artifact(run, input).await.unwrap();
    // Lists are ordered by time.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    progress(scene, run, vec![stored.created.clone()]).await;
    stored
}

pub(crate) async fn row(scene: &Scene, id: &ForeignId) -> ArtifactRow {
    match scene.engine.read().find_artifacts(id).await.unwrap().remove(0) {
        FoundArtifact::OfRun(row) => *row,
        FoundArtifact::Upload(upload) => panic!("{id} is pending: {upload:?}"),
    }
}

pub(crate) fn of_run(row: &ArtifactRow) -> FoundArtifact {
    FoundArtifact::OfRun(Box::new(row.clone()))
}

pub(crate) async fn listed(scene: &Scene, filter: ArtifactFilter, limit: usize) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let query = ListQuery { after, limit, status: None };
        let page = scene.engine.read().list_artifacts(&query, &filter, &Narrowing::default()).await.unwrap();
        ids.extend(page.items.into_iter().map(|row| row.id.to_string()));
        after = page.end.next;
        if !page.end.has_more {
            return ids;
        }
    }
}

fn status(of: &str, new: &str) -> Vec<Draft> {
    let data =
        format!(r#"{{"artifact_id":"{of}","field":"status","old_value":"proposed","new_value":"{new}"}}"#);
    drafts(&[("artifact.updated", &data)])
}

pub(crate) async fn delete(scene: &Scene, task: TaskId) {
    scene.engine.admin().delete_task(task, "operator").await.unwrap();
}

pub(crate) async fn blobs(scene: &Scene) -> usize {
    scene.disk.store().blobs(None, 1000).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn stored_artifacts_are_listed_read_and_rebuilt_from_the_log() {
    let scene = Scene::new().await;
    let task = task(&scene).await;
    let run = own_run(&scene, Some(task)).await;
    let other = own_run(&scene, None).await;
    let first = store(&scene, run, artifact_input("command_output", b"one")).await;
    let second = store(&scene, run, patch(b"--- a\n+++ b\n")).await;
    let third = store(&scene, other, artifact_input("command_output", b"one")).await;
    scene.check().await;
    let names = |of: &[&ArtifactReceipt]| of.iter().map(|stored| stored.id.to_string()).collect::<Vec<_>>();
    for limit in 1..5 {
        let all = ArtifactFilter::default();
        assert_eq!(listed(&scene, all.clone(), limit).await, names(&[&third, &second, &first]));
        let of_run = ArtifactFilter { run: Some(run), ..all.clone() };
        assert_eq!(listed(&scene, of_run, limit).await, names(&[&second, &first]));
        let of_task = ArtifactFilter { task: Some(task), kind: Some("patch".into()), ..all.clone() };
        assert_eq!(listed(&scene, of_task, limit).await, names(&[&second]));
        let proposed = ArtifactFilter { status: Some("proposed".into()), ..all };
        assert_eq!(listed(&scene, proposed, limit).await, names(&[&second]));
    }
    let found = row(&scene, &first.id).await;
    assert_eq!(
        (found.kind.as_str(), found.status.as_str(), found.size_bytes),
        ("command_output", "created", Some(3))
    );
    assert_eq!(found.task_id, Some(task));
    assert_eq!(scene.engine.read().artifact_bytes(&of_run(&found)).await.unwrap(), "one");
    let found = row(&scene, &second.id).await;
    assert_eq!((found.path.as_deref(), found.base_revision.as_deref()), (Some("a.rs"), Some("absent")));
    assert_eq!((found.additions, found.deletions, found.hunks), (Some(1), Some(0), Some(1)));
    // Equal bytes are stored once.
    assert_eq!(blobs(&scene).await, 2);
    assert_eq!(scene.engine.read().missing_artifact(&id("art_1")).await.code(), Code::ArtifactNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_patch_changes_status_only_as_allowed_and_only_by_its_task() {
    let mut scene = Scene::new().await;
    let task = task(&scene).await;
    let run = own_run(&scene, Some(task)).await;
    let (a, b) = (store(&scene, run, patch(b"a")).await.id, store(&scene, run, patch(b"b")).await.id);
    progress(&scene, run, status(&a, "applied")).await;
    progress(&scene, run, status(&a, "rejected")).await;
    progress(&scene, run, status(&b, "whatever")).await;
    let found = row(&scene, &a).await;
    assert!(found.status == "applied" && found.applied_at.is_some() && found.rejected_at.is_none());
    assert_eq!(row(&scene, &b).await.status, "proposed");
    // A run of another task and a producer report changes.
    let other_run = own_run(&scene, None).await;
    progress(&scene, other_run, status(&b, "applied")).await;
    let producer = scene.start().await;
    let data =
        format!(r#"{{"artifact_id":"{b}","field":"status","old_value":"proposed","new_value":"applied"}}"#);
    scene.report(producer, 1, &[("artifact.updated", &data)]).await.unwrap();
    assert_eq!(row(&scene, &b).await.status, "proposed");
    // A later run of the task reports a change.
    scene.cancel(run).await.unwrap();
    let later = own_run(&scene, Some(task)).await;
    progress(&scene, later, status(&b, "rejected")).await;
    let when = r#""2026-05-03T10:23:46.001Z""#;
    let reverted =
        format!(r#"{{"artifact_id":"{a}","field":"reverted_at","old_value":null,"new_value":{when}}}"#);
    progress(&scene, later, drafts(&[("artifact.updated", &reverted)])).await;
    scene.check().await;
    scene.reopen().await;
    scene.check().await;
    let (found, other) = (row(&scene, &a).await, row(&scene, &b).await);
    assert_eq!(
        (found.status.as_str(), found.reverted_at.as_deref()),
        ("applied", Some("2026-05-03T10:23:46.001Z"))
    );
    assert!(other.status == "rejected" && other.rejected_at.is_some() && other.applied_at.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_large_artifact_is_truncated_and_one_beyond_the_quota_is_refused() {
    let scene = Scene::new().await;
    let task = task(&scene).await;
    let run = own_run(&scene, Some(task)).await;
    let whole = vec![b'x'; recount_engine::limits::ARTIFACT_BYTES_MAX];
    let large = [whole.as_slice(), b"yz"].concat();
    let cut = store(&scene, run, artifact_input("command_output", &large)).await;
    assert!(cut.truncated);
    let found = row(&scene, &cut.id).await;
    assert_eq!((found.truncated, found.original_size_bytes), (Some(true), Some(large.len() as u64)));
    assert_eq!(found.size_bytes, Some(whole.len() as u64));
    assert_eq!(scene.engine.read().artifact_bytes(&of_run(&found)).await.unwrap(), whole);
    for _ in 1..10 {
        store(&scene, run, artifact_input("command_output", &whole)).await;
    }
    assert_eq!(
        code(scene.engine.write().store_artifact(run, artifact_input("command_output", b"1")).await),
        Code::ArtifactQuota
    );
    // Also after a restart and for the next run of the task, but not for others.
    let other = own_run(&scene, None).await;
    store(&scene, other, artifact_input("command_output", b"1")).await;
    let mut scene = scene;
    scene.reopen().await;
    scene.cancel(run).await.unwrap();
    let next = own_run(&scene, Some(task)).await;
    assert_eq!(
        code(scene.engine.write().store_artifact(next, artifact_input("command_output", b"1")).await),
        Code::ArtifactQuota
    );
    delete(&scene, task).await;
    store(&scene, other, artifact_input("command_output", b"2")).await;
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn artifacts_are_deleted_with_their_run_and_bytes_with_the_last_artifact_that_uses_them() {
    let scene = Scene::new().await;
    let (task, run) = {
        let task = task(&scene).await;
        (task, own_run(&scene, Some(task)).await)
    };
    let other = own_run(&scene, None).await;
    let shared = store(&scene, run, artifact_input("command_output", b"shared")).await;
    let alone = store(&scene, run, artifact_input("command_output", b"alone")).await;
    let theirs = store(&scene, other, artifact_input("command_output", b"shared")).await;
    // Stored and never reported.
    scene.engine.write().store_artifact(run, artifact_input("command_output", b"untold")).await.unwrap();
    assert_eq!(blobs(&scene).await, 3);
    delete(&scene, task).await;
    scene.check().await;
    for deleted in [&shared.id, &alone.id] {
        assert!(scene.engine.read().find_artifacts(deleted).await.unwrap().is_empty());
        assert_eq!(scene.engine.read().missing_artifact(deleted).await.code(), Code::RunErased);
        assert_eq!(scene.engine.read().run_of_removed_artifact(deleted).await.unwrap(), Some(run));
    }
    assert_eq!(blobs(&scene).await, 1, "the bytes of another run remain");
    let found = row(&scene, &theirs.id).await;
    assert_eq!(scene.engine.read().artifact_bytes(&of_run(&found)).await.unwrap(), "shared");
    // Pruned with the beginning of its run.
    scene.cancel(other).await.unwrap();
    scene.engine.admin().prune(other, None, "test").await.unwrap();
    assert_eq!(scene.engine.read().missing_artifact(&theirs.id).await.code(), Code::ArtifactPruned);
    assert_eq!(blobs(&scene).await, 0);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_no_event_names_are_deleted_at_the_next_start() {
    let mut scene = Scene::new().await;
    let run = own_run(&scene, None).await;
    store(&scene, run, artifact_input("command_output", b"named")).await;
    scene.engine.write().store_artifact(run, artifact_input("command_output", b"untold")).await.unwrap();
    scene.engine.write().upload(upload("image/png", b"waits")).await.unwrap();
    assert_eq!(blobs(&scene).await, 3);
    scene.reopen().await;
    while blobs(&scene).await > 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let query = ListQuery { limit: 5, ..ListQuery::default() };
    let named =
        scene.engine.read().list_artifacts(&query, &ArtifactFilter::default(), &Narrowing::default()).await;
    assert_eq!(scene.engine.read().artifact_bytes(&of_run(&named.unwrap().items[0])).await.unwrap(), "named");
}

pub(crate) fn upload(mime: &str, bytes: &[u8]) -> Upload {
    Upload {
        kind: "image".into(),
        mime: mime.into(),
        name: Some("a.png".into()),
        bytes: Bytes::copy_from_slice(bytes),
        by: "operator".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_becomes_an_artifact_of_the_first_run_that_uses_it_or_expires() {
    let scene = Scene::new().await;
    let (used, unused) = (
        scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap(),
        scene.engine.write().upload(upload("image/png", b"\x89PNG\0two")).await.unwrap(),
    );
    let (used, unused) = (used.id, unused.id);
    let before = scene.engine.read().find_artifacts(&used).await.unwrap().remove(0);
    let FoundArtifact::Upload(before) = before else { panic!("no run uses it: {before:?}") };
    assert_eq!((before.id, before.name.as_deref()), (used.clone(), Some("a.png")));
    let (first, second) = (own_run(&scene, None).await, own_run(&scene, None).await);
    // Until the event is reported, the upload is attached as new; later runs refer to the artifact.
    for (run, how, keeps) in [
        (first, "artifact.created", false),
        (first, "artifact.created", true),
        (second, "artifact.referenced", true),
    ] {
        let stored = scene.engine.write().attach_artifact(run, &used).await.unwrap();
        assert_eq!(stored.created.payload.type_name(), how);
        if keeps {
            progress(&scene, run, vec![stored.created]).await;
            assert_eq!(scene.engine.catalogue().uploaded(&used).await.unwrap(), None);
            // Used uploads do not count for the limits.
            for space in ["record.uploads", "record.uploads_due", "record.upload_blobs"] {
                assert_eq!(scene.disk.rows_of(space).await.len(), 1, "{space}");
            }
        }
    }
    scene.check().await;
    let called = scene.engine.read().find_artifacts(&used).await.unwrap();
    let [FoundArtifact::OfRun(artifact)] = called.as_slice() else { panic!("{called:?}") };
    assert_eq!(artifact.run_id, first);
    assert_eq!(
        scene.engine.read().artifact_bytes(&of_run(&row(&scene, &used).await)).await.unwrap(),
        &b"\x89PNG\0one"[..]
    );
    tokio::time::sleep(recount_engine::limits::UPLOAD_LIFE + recount_engine::limits::UPLOAD_SWEEP * 2).await;
    assert!(scene.engine.read().find_artifacts(&unused).await.unwrap().is_empty());
    assert_eq!(scene.engine.read().missing_artifact(&unused).await.code(), Code::ArtifactNotFound);
    assert_eq!(blobs(&scene).await, 1);
    // Later runs refer to the artifact.
    let third = own_run(&scene, None).await;
    let stored = scene.engine.write().attach_artifact(third, &used).await.unwrap();
    assert_eq!(stored.created.payload.type_name(), "artifact.referenced");
    progress(&scene, third, vec![stored.created]).await;
    assert_eq!(code(scene.engine.write().attach_artifact(third, &unused).await), Code::ArtifactNotFound);
}

#[tokio::test(start_paused = true)]
async fn an_artifact_reported_by_a_producer_is_listed_without_bytes() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let hash = "0".repeat(64);
    let named = format!(r#"{{"artifact_id":"mine","kind":"patch","hash":"blake3:{hash}"}}"#);
    let nameless = r#"{"artifact_id":"other","kind":"image"}"#;
    scene.report(run, 1, &[("artifact.created", &named), ("artifact.created", nameless)]).await.unwrap();
    scene.check().await;
    for name in ["mine", "other"] {
        let found = row(&scene, &id(name)).await;
        assert_eq!(
            code(scene.engine.read().artifact_bytes(&of_run(&found)).await),
            Code::ArtifactBytesMissing
        );
    }
}

/// A producer reports an artifact with this id and hash.
async fn report_artifact(scene: &Scene, run: RunId, seq: u64, id: &str, hash: &str) {
    let named = format!(r#"{{"artifact_id":"{id}","kind":"image","hash":"{hash}"}}"#);
    scene.report(run, seq, &[("artifact.created", &named)]).await.unwrap();
}

async fn expire_uploads() {
    tokio::time::sleep(recount_engine::limits::UPLOAD_LIFE + recount_engine::limits::UPLOAD_SWEEP * 2).await;
}

#[tokio::test(start_paused = true)]
async fn missing_bytes_of_an_external_run_are_reported_if_they_were_uploaded() {
    let scene = Scene::new().await;
    let (before, after) = (b"\x89PNG\0before".as_slice(), b"\x89PNG\0after".as_slice());
    let task = task(&scene).await;
    let run = scene.queue_for(Some(task)).await.unwrap();
    scene.report(run, 0, &[("run.started", "{}")]).await.unwrap();
    // Uploaded and then reported, and the other way around.
    let sent = scene.engine.write().upload(upload("image/png", before)).await.unwrap();
    report_artifact(&scene, run, 1, "first", &sent.hash).await;
    let late = format!("blake3:{}", blake3::hash(after).to_hex());
    report_artifact(&scene, run, 2, "second", &late).await;
    scene.engine.write().upload(upload("image/png", after)).await.unwrap();
    // Never uploaded.
    report_artifact(&scene, run, 3, "third", &format!("blake3:{}", "0".repeat(64))).await;
    for waits in [true, false] {
        for (name, hash, bytes) in [("first", &sent.hash, before), ("second", &late, after)] {
            let found = row(&scene, &id(name)).await;
            assert_eq!(scene.engine.read().artifact_bytes(&of_run(&found)).await.unwrap(), bytes, "{name}");
            let blob = hash.strip_prefix("blake3:").unwrap();
            scene.disk.store().remove_blob(blob).await.unwrap();
            let lost = code(scene.engine.read().artifact_bytes(&of_run(&found)).await);
            assert_eq!(lost, Code::ArtifactBytesLost, "{name}, uploaded and pending: {waits}");
            let missing = scene.engine.admin().missing_blobs().await.unwrap();
            let is_named = |blob: &recount_engine::MissingBlob| {
                blob.artifact == name && blob.run_id == Some(run.to_string())
            };
            assert!(missing.iter().any(is_named), "{name}: {missing:?}");
            scene.disk.store().put_blob(Bytes::from_static(bytes)).await.unwrap();
        }
        assert_eq!(scene.engine.admin().missing_blobs().await.unwrap(), []);
        let found = row(&scene, &id("third")).await;
        assert_eq!(
            code(scene.engine.read().artifact_bytes(&of_run(&found)).await),
            Code::ArtifactBytesMissing
        );
        expire_uploads().await;
    }
    scene.check().await;
    assert_eq!(scene.disk.rows_of("record.blobs_kept").await.len(), 2);
    delete(&scene, task).await;
    assert!(scene.disk.rows_of("record.blobs_kept").await.is_empty());
    assert_eq!(blobs(&scene).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_prune_deletes_the_record_of_stored_bytes() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let sent = scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap();
    report_artifact(&scene, run, 1, "first", &sent.hash).await;
    expire_uploads().await;
    assert_eq!(scene.disk.rows_of("record.blobs_kept").await.len(), 1);
    scene.cancel(run).await.unwrap();
    scene.engine.admin().prune(run, None, "manual").await.unwrap();
    assert!(scene.disk.rows_of("record.blobs_kept").await.is_empty());
    assert_eq!(blobs(&scene).await, 0);
    scene.check().await;
}

/// A failed append holds nothing: the upload expires as usual.
#[tokio::test(start_paused = true)]
async fn a_refused_report_holds_no_bytes() {
    let scene = Scene::new().await;
    let run = scene.start().await;
    let sent = scene.engine.write().upload(upload("image/png", b"\x89PNG\0one")).await.unwrap();
    let named = format!(r#"{{"artifact_id":"first","kind":"image","hash":"{}"}}"#, sent.hash);
    scene.store.next_appends([AppendFault::Refuse(FaultKind::Full)]);
    assert!(scene.report(run, 1, &[("artifact.created", &named)]).await.is_err());
    expire_uploads().await;
    assert_eq!(blobs(&scene).await, 0);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_masked_in_stored_artifacts() {
    let scene = Scene::new().await;
    let run = own_run(&scene, None).await;
    let secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let text = format!("+token = {secret}\n");
    let found = store(&scene, run, patch(text.as_bytes())).await;
    assert!(found.masked && !found.truncated);
    let found = row(&scene, &found.id).await;
    let bytes = scene.engine.read().artifact_bytes(&of_run(&found)).await.unwrap();
    assert_eq!(bytes.len(), text.len());
    assert!(!String::from_utf8(bytes.to_vec()).unwrap().contains(secret));
    let sent = scene.engine.write().upload(upload("text/plain", text.as_bytes())).await.unwrap();
    let bytes = scene.engine.read().artifact_bytes(&FoundArtifact::Upload(sent)).await.unwrap();
    assert!(!String::from_utf8(bytes.to_vec()).unwrap().contains(secret));
}
