//! Salvage: saved runs of a damaged folder are unchanged, over HTTP and by `verify`, and all losses are named. And
//! artifacts with lost bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use recount_engine::{ArtifactInput, Engine, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, RunId, door};
use recount_run::Command;
use recount_server::salvage::{Outcome, SalvageReport, salvage};
use recount_server::verify;

use crate::test_context::{STORY, TestContext, check_problem, text};

const PAGE: usize = 4096;
const OTHER: &str = "tenants/acme";

/// A closed folder with a store of the default tenant and one of another, and what both hold.
struct Original {
    folder: tempfile::TempDir,
    /// The envelopes of each run, tenant by tenant.
    runs: [BTreeMap<String, Vec<String>>; 2],
    artifact: String,
    blob: String,
}

impl Original {
    async fn make() -> Original {
        let folder = tempfile::tempdir().unwrap();
        let (default, artifact, blob) = fill(folder.path(), 12).await;
        let (acme, ..) = fill(&folder.path().join(OTHER), 4).await;
        Original { folder, runs: [default, acme], artifact, blob }
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("recount.db")
    }

    fn blob_path(&self) -> PathBuf {
        self.folder.path().join("blobs").join(&self.blob[..2]).join(&self.blob)
    }

    fn copy(&self) -> Original {
        let folder = tempfile::tempdir().unwrap();
        copy(self.folder.path(), folder.path());
        Original { folder, runs: self.runs.clone(), artifact: self.artifact.clone(), blob: self.blob.clone() }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

async fn own_run(engine: &Engine, bytes: &str) -> (RunId, String) {
    let new =
        NewRun { queued: Queued::new(RunKind::AgentLoop), task: None, session: None, resumed_from: None };
    let (run, _) = engine.write().create_run(new).await.unwrap();
    let started = vec![door::draft("run.started", "{}").unwrap()];
    engine.write().submit(run, Command::Progress { drafts: started }).await.unwrap();
    let keep = ArtifactInput {
        kind: "command_output".into(),
        mime: "text/plain".into(),
        summary: None,
        name: None,
        bytes: Bytes::from(bytes.to_owned()),
        original_size_bytes: None,
        call: None,
        target: None,
    };
    let kept = engine.write().store_artifact(run, keep).await.unwrap();
    engine.write().submit(run, Command::Progress { drafts: vec![kept.created] }).await.unwrap();
    (run, kept.id.to_string())
}

/// External runs that have ended and that have not, own ones with an artifact, a task and a session; the older half
/// sealed.
async fn fill(folder: &Path, count: usize) -> (BTreeMap<String, Vec<String>>, String, String) {
    let mut ids = Vec::new();
    let context = TestContext::sqlite(folder).await;
    for number in 0..count {
        let run = context.run_with_story().await;
        ids.push(run);
        if number == count / 2 {
            let reply = context.post("/v1/tasks", r#"{"title":"a task"}"#).await;
            assert_eq!(reply.status, 201, "{}", reply.text());
        }
    }
    let output = format!("what a command wrote, in {}", folder.display());
    let (own, artifact) = own_run(&context.running.engine, &output).await;
    ids.push(own.to_string());
    context.running.stop().await;
    verify::seal(folder).await.unwrap();
    let context = TestContext::sqlite(folder).await;
    for number in 0..count {
        let run = context.new_run().await;
        context.report(&run, 0, &STORY[..3 + number % 9]).await;
        ids.push(run);
    }
    let mut runs = BTreeMap::new();
    for run in ids {
        let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
        runs.insert(run, events);
    }
    context.running.stop().await;
    let blob = blake3::hash(output.as_bytes()).to_hex().to_string();
    (runs, artifact, blob)
}

async fn salvaged(from: &Path, to: &Path) -> SalvageReport {
    let (from, to) = (from.to_owned(), to.to_owned());
    tokio::task::spawn_blocking(move || salvage(&from, &to).unwrap()).await.unwrap()
}

async fn problems(folder: &Path) -> Vec<String> {
    let folder = folder.to_owned();
    let survey = tokio::task::spawn_blocking(move || verify::offline(&folder, &[]).unwrap()).await.unwrap();
    survey.reports.into_iter().flat_map(|report| report.problems).collect()
}

/// Salvages and compares everything with the original. Returns the number of whole, partial and lost runs.
async fn check(original: &Original, what: &str) -> [usize; 3] {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("new");
    let report = salvaged(original.folder.path(), &to).await;
    assert_eq!(report.stores.len(), 2, "{what}");
    let mut count = [0; 3];
    for (store, (runs, folder)) in
        report.stores.iter().zip(original.runs.iter().zip([to.clone(), to.join(OTHER)]))
    {
        let context = TestContext::sqlite(&folder).await;
        for (run, events) in runs {
            let Some(report) = store.runs.iter().find(|report| report.run_id == *run) else {
                let nameless = store.damage.nameless_records > 0 || store.damage != Default::default();
                assert!(nameless, "{what}: {run} is not named, and no loss is reported");
                count[2] += 1;
                continue;
            };
            match &report.outcome {
                Outcome::Whole => {
                    let now = context.envelopes(&format!("/v1/runs/{run}/events")).await;
                    assert_eq!(now, *events, "{what}: {run}");
                    count[0] += 1;
                }
                Outcome::Part(damage) => {
                    let now = context.envelopes(&format!("/v1/runs/{run}/events")).await;
                    let proven = usize::try_from(damage.first).unwrap();
                    assert_eq!(now[..proven], events[..proven], "{what}: {run}");
                    let last = now.last().unwrap();
                    assert!(last.contains(r#""type":"gap.events_damaged""#), "{what}: {last}");
                    count[1] += 1;
                }
                Outcome::Lost { .. } => {
                    check_problem(&context.get(&format!("/v1/runs/{run}")).await, Code::RunNotFound, run);
                    count[2] += 1;
                }
                Outcome::Erased => panic!("{what}: nothing was erased"),
            }
        }
        assert_eq!(store.runs.len(), runs.len(), "{what}: each run is reported once");
        context.running.stop().await;
    }
    assert_eq!(
        report.is_whole(),
        count[1..] == [0, 0]
            && report.stores.iter().all(|store| store.damage == Default::default()
                && store.blobs_damaged.is_empty()
                && store.blobs_missing.is_empty()),
        "{what}"
    );
    let blobs_lost: usize =
        report.stores.iter().map(|store| store.blobs_missing.len() + store.blobs_damaged.len()).sum();
    assert_eq!(problems(&to).await.len(), blobs_lost, "{what}: {:?}", problems(&to).await);
    count
}

#[tokio::test]
async fn a_sound_folder_is_saved_whole_with_its_tenants_records_and_artifacts() {
    let original = Original::make().await;
    let total: usize = original.runs.iter().map(BTreeMap::len).sum();
    assert_eq!(check(&original, "sound").await, [total, 0, 0]);
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("new");
    let report = salvaged(original.folder.path(), &to).await;
    assert!(report.is_whole());
    assert_eq!((report.stores[0].blobs, report.stores[0].records["tasks"]), (1, 1));
    let context = TestContext::sqlite(&to).await;
    assert_eq!(context.get(&format!("/v1/artifacts/{}/raw", original.artifact)).await.status, 200);
    // An unfinished run continues.
    let (run, events) = original.runs[0].iter().rfind(|(_, events)| events.len() == 4).unwrap();
    assert!(!events.last().unwrap().contains("run.finished"));
    context.report(run, 1, &STORY[3..]).await;
    context.running.stop().await;
}

#[tokio::test]
async fn each_kind_of_damage_affects_only_what_it_hits_and_is_reported() {
    let original = Original::make().await;
    let total: usize = original.runs.iter().map(BTreeMap::len).sum();
    let whole = std::fs::read(original.database()).unwrap();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % bound as u64).unwrap()
    };
    let mut kept = 0;
    for round in 0..16 {
        let damaged = original.copy();
        let mut bytes = whole.clone();
        let what = if round % 2 == 0 {
            let (place, bit) = (below(bytes.len()), below(8));
            bytes[place] ^= 1 << bit;
            format!("round {round}: bit {bit} of byte {place}")
        } else {
            let page = below(bytes.len() / PAGE);
            bytes[page * PAGE..(page + 1) * PAGE].fill(0);
            format!("round {round}: page {page} is zeros")
        };
        std::fs::write(damaged.database(), bytes).unwrap();
        let count = check(&damaged, &what).await;
        assert_eq!(count.iter().sum::<usize>(), total, "{what}");
        kept += count[0];
    }
    assert!(kept > 16 * total / 2, "{kept} of {}", 16 * total);
    // Half of the file.
    let damaged = original.copy();
    std::fs::write(damaged.database(), &whole[..whole.len() / PAGE / 2 * PAGE]).unwrap();
    let count = check(&damaged, "half of the file").await;
    assert!(count[0] < total, "{count:?}");
}

#[tokio::test]
async fn lost_bytes_of_an_artifact_are_reported_by_salvage_verify_doctor_and_over_http() {
    for changed in [false, true] {
        let original = Original::make().await;
        match changed {
            true => std::fs::write(original.blob_path(), "other bytes").unwrap(),
            false => std::fs::remove_file(original.blob_path()).unwrap(),
        }
        let found = problems(original.folder.path()).await;
        assert!(found.iter().any(|problem| problem.contains(&original.blob)), "{found:?}");
        let checks = recount_server::doctor::offline(original.folder.path(), true);
        assert!(checks.iter().any(|check| check.value.contains(&original.blob)), "{checks:?}");
        let context = TestContext::sqlite(original.folder.path()).await;
        let target = format!("/v1/artifacts/{}/raw", original.artifact);
        check_problem(&context.get(&target).await, Code::ArtifactBytesLost, &original.artifact);
        let shown = context.get(&format!("/v1/artifacts/{}", original.artifact)).await;
        assert_eq!(text(&shown.data()["id"]), original.artifact);
        context.running.stop().await;
        check(&original, "a lost blob").await;
    }
}

/// A producer uploads bytes and names them in its run; bytes that it names without an upload are kept elsewhere.
#[tokio::test]
async fn lost_uploaded_bytes_are_reported_by_verify_doctor_backup_and_over_http() {
    let place = tempfile::tempdir().unwrap();
    let (folder, copied) = (place.path().join("data"), place.path().join("copy"));
    let context = TestContext::sqlite(&folder).await;
    let headers = [("content-type", "image/png")];
    let reply = context.request("POST", "/v1/artifacts?kind=image", &headers, Some(b"\x89PNG\0sent")).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let hash = text(&reply.data()["hash"]);
    let run = context.new_run().await;
    let named = |id: &str, hash: &str| format!(r#"{{"artifact_id":"{id}","kind":"image","hash":"{hash}"}}"#);
    let elsewhere = named("elsewhere", &format!("blake3:{}", "ab".repeat(32)));
    let sent = named("sent", &hash);
    let events = [("run.started", "{}"), ("artifact.created", &*sent), ("artifact.created", &*elsewhere)];
    context.report(&run, 0, &events).await;
    context.running.stop().await;
    let blob = hash.strip_prefix("blake3:").unwrap();
    std::fs::remove_file(folder.join("blobs").join(&blob[..2]).join(blob)).unwrap();
    tokio::task::spawn_blocking({
        let (folder, copied) = (folder.clone(), copied.clone());
        move || recount_server::backup::offline(&folder, &copied).unwrap()
    })
    .await
    .unwrap();
    let lost = format!("the stored bytes of artifact sent are missing (blob {blob})");
    for folder in [&folder, &copied] {
        let at = folder.clone();
        let survey = tokio::task::spawn_blocking(move || verify::offline(&at, &[]).unwrap()).await.unwrap();
        let report = survey.reports.iter().find(|report| report.run_id.as_deref() == Some(&*run)).unwrap();
        assert_eq!(report.problems, [lost.as_str()], "{}", folder.display());
        let checks = recount_server::doctor::offline(folder, true);
        let reported =
            checks.iter().filter(|check| check.value.contains("bytes of artifact sent are missing"));
        assert_eq!(reported.count(), 1, "{checks:?}");
        assert!(!checks.iter().any(|check| check.value.contains("artifact elsewhere")), "{checks:?}");
    }
    let context = TestContext::sqlite(&folder).await;
    check_problem(&context.get("/v1/artifacts/sent/raw").await, Code::ArtifactBytesLost, "sent");
    check_problem(&context.get("/v1/artifacts/elsewhere/raw").await, Code::ArtifactBytesMissing, "elsewhere");
    context.running.stop().await;
}
