//! Patches of ended runs: reviewed, applied, rejected and reverted in a git repository, which confirms each step.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use recount_agent::tool::{Assessment, Job, NewArtifact, Outcome, OutcomeStatus, Targets, Tool};
use recount_engine::{
    ApplyTo, ArtifactFilter, ArtifactRow, Error, FoundArtifact, ListQuery, Narrowing, PatchAction,
    PatchRequest, RunConfig, RunRow,
};
use recount_event::family::approval::Reversibility;
use recount_event::family::file;
use recount_event::family::tool::RiskLevel;
use recount_event::{Code, Event, ForeignId, Payload, RunId};
use serde_json::{Value, json};

use crate::runs::scene::{Scene, Setup, count, first, types};

/// Stores a diff as a patch without applying it.
pub(crate) struct Proposes;

impl Tool for Proposes {
    fn name(&self) -> &'static str {
        "proposes"
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn description(&self) -> &'static str {
        "Proposes a change."
    }

    fn schema(&self) -> Value {
        let text = json!({ "type": "string" });
        json!({
            "type": "object",
            "properties": { "path": text, "base": text, "diff": text },
            "required": ["path", "base", "diff"],
            "additionalProperties": false
        })
    }

    fn assess(&self, _input: &Value) -> Assessment {
        Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: "a change".to_owned(),
            action: "Propose a change.".to_owned(),
            consequence: "None.".to_owned(),
            targets: Targets::default(),
            writes: false,
        }
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let text = |name: &str| job.input[name].as_str().unwrap().to_owned();
            let keep = NewArtifact {
                kind: "patch",
                mime: "text/x-diff".to_owned(),
                summary: None,
                bytes: text("diff").into(),
                call: Some(job.call.clone()),
                target: Some(recount_agent::tool::PatchTarget {
                    path: text("path"),
                    base_revision: text("base"),
                    additions: 1,
                    deletions: 1,
                    hunks: 1,
                }),
            };
            let kept = job.artifacts.store(keep).await.unwrap();
            let proposed = file::Proposed::new(job.call.clone(), text("path"), kept.id);
            let proposed = Payload::ToolEditProposed(Box::new(proposed)).into();
            let (status, output) = (OutcomeStatus::Completed, "proposed".to_owned());
            let events = vec![kept.created, proposed];
            Outcome { status, summary: output.clone(), output, events, artifact: None, image: None }
        })
    }
}

// ---- helpers -------------------------------------------------------------------------------------

fn git(at: &Path, words: &[&str], input: Option<&[u8]>) -> String {
    let input_at = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input_at.path(), input.unwrap_or_default()).unwrap();
    let out = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(words)
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(std::fs::File::open(input_at.path()).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(out.status.success(), "git {words:?}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// The git tree id of a folder.
fn tree(at: &Path) -> String {
    let work = tempfile::tempdir().unwrap();
    git(work.path(), &["init", "--quiet"], None);
    let at = format!("--work-tree={}", at.display());
    git(work.path(), &[&at, "add", "--all", "--force", "."], None);
    git(work.path(), &["write-tree"], None)
}

/// A script with one turn that makes these calls.
fn calls(calls: &[(&str, Value)]) -> String {
    let one = |(name, input): &(&str, Value)| {
        let input = toml::Value::try_from(input).unwrap();
        format!("[[turn]]\ncall = [{{ name = \"{name}\", input = {input} }}]\n")
    };
    calls.iter().map(one).collect::<String>() + "[[turn]]\ntext = \"Done.\"\n"
}

fn copy(events: &[Event]) -> PathBuf {
    first!(*events, RunQueued).workspace_path.unwrap().into()
}

impl Scene {
    /// The patches of a run, oldest first.
    async fn patches(&self, run: RunId) -> Vec<ArtifactRow> {
        let query = ListQuery { limit: 100, ..ListQuery::default() };
        let kind = Some("patch".to_owned());
        let filter = ArtifactFilter { run: Some(run), kind, ..ArtifactFilter::default() };
        let mut rows =
            self.engine.read().list_artifacts(&query, &filter, &Narrowing::default()).await.unwrap().items;
        rows.reverse();
        rows
    }

    async fn patch_now(&self, id: &ForeignId) -> ArtifactRow {
        self.engine.read().patch(id, None).await.unwrap()
    }

    async fn diff_of(&self, row: &ArtifactRow) -> Vec<u8> {
        let found = FoundArtifact::OfRun(Box::new(row.clone()));
        self.engine.read().artifact_bytes(&found).await.unwrap().to_vec()
    }

    async fn change(&self, action: PatchAction, patch: &ForeignId) -> Result<RunRow, Error> {
        let request = PatchRequest {
            action,
            artifact: patch.clone(),
            requested_by: "ann".to_owned(),
            reason: Some("reviewed".to_owned()),
            traceparent: None,
        };
        let work = self.engine.work();
        let run = work.start_patch_run(request, &Narrowing::default(), None).await?;
        work.wait_for_patch_run(run).await
    }

    /// The same, if it must succeed.
    async fn changed(&self, action: PatchAction, patch: &ForeignId) -> Vec<Event> {
        let row = self.change(action, patch).await.unwrap();
        assert_eq!(row.status, "finished", "{:?}", row.message);
        self.all(row.id).await
    }
}

const BASE: &str = "one\ntwo\nthree\n";

fn sha256(text: &str) -> String {
    recount_agent::paths::revision(text.as_bytes())
}

const PROPOSED: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";

fn proposing(base: &str, diff: &str) -> String {
    calls(&[("proposes", json!({ "path": "a.txt", "base": base, "diff": diff }))])
}

// ---- steps ---------------------------------------------------------------------------------------

/// Proposed, applied, reverted, and the revert reverted; then on a branch. Git confirms each step.
#[tokio::test]
async fn a_patch_is_proposed_applied_reverted_and_put_on_a_branch() {
    let scene = Scene::with(&proposing(&sha256(BASE), PROPOSED)).await;
    scene.put("a.txt", BASE);
    git(&scene.work(), &["init", "--quiet", "--initial-branch=main"], None);
    git(&scene.work(), &["add", "."], None);
    git(&scene.work(), &["commit", "--quiet", "-m", "first"], None);
    let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let run = scene.start_with("propose", RunConfig::default(), Some(task), None).await;
    let copy = copy(&scene.ended(run).await);
    let patch = scene.patches(run).await.remove(0);
    assert_eq!(patch.status, "proposed");
    assert_eq!(git(&copy, &["diff"], None), "");

    let events = scene.changed(PatchAction::Apply, &patch.id).await;
    assert_eq!(
        types(&events),
        [
            "run.queued",
            "run.started",
            "workspace.provisioned",
            "tool.invoked",
            "tool.started",
            "tool.edit.applied",
            "artifact.updated",
            "tool.completed",
            "run.finished",
        ]
    );
    let queued = first!(events, RunQueued);
    assert_eq!((queued.action.as_deref(), queued.prior_run_id), (Some("apply"), Some(run.to_string())));
    assert_eq!(queued.patch_artifact_ids, Some(vec![patch.id.clone()]));
    assert_eq!(events[0].task_id, Some(task));
    assert_eq!(scene.patch_now(&patch.id).await.status, "applied");
    // Git produces the same with the stored diff.
    let applied = git(&copy, &["diff"], None);
    git(&copy, &["checkout", "--quiet", "--", "a.txt"], None);
    git(&copy, &["apply", "-"], Some(&scene.diff_of(&patch).await));
    assert_eq!(git(&copy, &["diff"], None), applied);
    assert!(applied.contains("+TWO"), "{applied}");

    let events = scene.changed(PatchAction::Revert, &patch.id).await;
    let reverted = first!(events, ToolEditReverted);
    assert_eq!(
        (reverted.reverted_by.as_deref(), reverted.reason.as_deref()),
        (Some("ann"), Some("reviewed"))
    );
    assert_eq!(git(&copy, &["diff"], None), "");
    let current = scene.patch_now(&patch.id).await;
    assert_eq!(current.status, "applied");
    assert!(current.reverted_at.is_some());
    let inverse = scene.patches(events[0].run_id).await.remove(0);
    assert_eq!((inverse.status.as_str(), inverse.path.as_deref()), ("applied", Some("a.txt")));
    // The log had the inverse patch before the file was changed.
    let place = |name: &str| types(&events).iter().position(|known| *known == name).unwrap();
    assert!(place("artifact.created") < place("tool.edit.reverted"));

    scene.changed(PatchAction::Revert, &inverse.id).await;
    assert_eq!(git(&copy, &["diff"], None), applied);
    // The folder has no changes by now; a branch gets the patch without changing the folder.
    assert_eq!(git(&scene.work(), &["status", "--porcelain"], None), "");
    let to = ApplyTo { branch: Some("reviewed".into()), message: "Reviewed\n".into(), ..ApplyTo::default() };
    scene.engine.work().apply_changes(run, to, &Narrowing::default()).await.unwrap();
    assert_eq!(git(&scene.work(), &["diff", "main", "reviewed"], None), applied);
}

/// H-132: the allowed actions of each status, and the codes of refused ones.
#[tokio::test]
async fn a_patch_allows_only_the_actions_of_its_status() {
    use PatchAction::{Apply, Reject, Revert};
    let scene = Scene::with(&proposing(&sha256(BASE), PROPOSED)).await;
    scene.put("a.txt", BASE);
    let refused = async |action, id: &ForeignId| {
        let no = scene.change(action, id).await.unwrap_err();
        assert_eq!(no.code(), Code::PatchStatus, "{no}");
    };
    let run = scene.start("propose").await;
    scene.ended(run).await;
    let patch = scene.patches(run).await.remove(0).id;
    refused(Revert, &patch).await;
    let events = scene.changed(Reject, &patch).await;
    assert_eq!(count(&events, "workspace.provisioned"), 0);
    let row = scene.patch_now(&patch).await;
    assert!(row.status == "rejected" && row.rejected_at.is_some());
    for action in [Apply, Reject, Revert] {
        refused(action, &patch).await;
    }
    let run = scene.start("propose").await;
    scene.ended(run).await;
    let patch = scene.patches(run).await.remove(0).id;
    scene.changed(Apply, &patch).await;
    for action in [Apply, Reject] {
        refused(action, &patch).await;
    }
    scene.changed(Revert, &patch).await;
    for action in [Apply, Reject, Revert] {
        refused(action, &patch).await;
    }
    // A run that handled a patch cannot be repeated.
    let last = scene.patch_now(&patch).await;
    assert!(last.reverted_at.is_some());
}

/// H-133: if the file differs from the patch's base, the patch is refused and nothing is written.
#[tokio::test]
async fn drift_is_refused_with_nothing_written() {
    let made = |path: &str, now: Option<&str>, diff: &str, base: &str, wanted: Code| {
        (path.to_owned(), now.map(str::to_owned), diff.to_owned(), base.to_owned(), wanted)
    };
    let base = sha256(BASE);
    let crlf = PROPOSED.replace("\n one", "\n one\r").replace("two\n", "two\r\n").replace("TWO\n", "TWO\r\n");
    let deletion = "--- a/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n";
    let rename = "diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n";
    let drift = Code::PatchDrift;
    let cases = [
        made("another line", Some("one\ntwo\nthree\nfour\n"), PROPOSED, &base, drift),
        made("another end of lines", Some("one\r\ntwo\r\nthree\r\n"), PROPOSED, &base, drift),
        made("made for other ends", Some(BASE), &crlf, &base, drift),
        made("no last newline", Some("one\ntwo\nthree"), PROPOSED, &base, drift),
        made("no file", None, PROPOSED, &base, drift),
        made(
            "a file too much",
            Some(BASE),
            "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n",
            "absent",
            drift,
        ),
        made("deleted otherwise", Some("one\ntwo\n"), deletion, &base, drift),
        made("its base is another", Some(BASE), PROPOSED, &sha256("x"), drift),
        made(
            "another mode",
            Some(BASE),
            &format!("diff --git a/a.txt b/a.txt\nold mode 100755\nnew mode 100644\n{PROPOSED}"),
            &base,
            drift,
        ),
        made("of another file", Some(BASE), rename, &base, Code::PatchUnusable),
        made(
            "of git",
            Some(BASE),
            "--- a/.git/x\n+++ b/.git/x\n@@ -1 +1 @@\n-a\n+b\n",
            &base,
            Code::PatchUnusable,
        ),
        made("no diff", Some(BASE), "hello\n", &base, Code::PatchUnusable),
    ];
    for (what, now, diff, base, wanted) in cases {
        let scene = Scene::with(&proposing(&base, &diff)).await;
        scene.put("keep", "k");
        if let Some(now) = &now {
            scene.put("a.txt", now);
        }
        let run = scene.start("propose").await;
        let copy = copy(&scene.ended(run).await);
        let before = tree(&copy);
        let patch = scene.patches(run).await.remove(0).id;
        let no = scene.change(PatchAction::Apply, &patch).await.unwrap_err();
        assert_eq!(no.code(), wanted, "{what}: {no}");
        assert_eq!(tree(&copy), before, "{what}");
        assert_eq!(scene.patch_now(&patch).await.status, "proposed", "{what}");
    }
}

/// A stored patch with a masked secret differs from the real change, so it is refused with a message.
#[tokio::test]
async fn a_masked_patch_is_refused() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let script = calls(&[("write_file", json!({ "path": "key", "content": format!("{secret}\n") }))]);
    let scene = Scene::with(&script).await;
    let run = scene.start("write").await;
    let copy = copy(&scene.ended(run).await);
    let patch = scene.patches(run).await.remove(0);
    assert_eq!(patch.masked, Some(true));
    let no = scene.change(PatchAction::Revert, &patch.id).await.unwrap_err();
    assert_eq!(no.code(), Code::PatchUnusable, "{no}");
    assert!(no.to_string().contains("masked"), "{no}");
    assert_eq!(std::fs::read_to_string(copy.join("key")).unwrap(), format!("{secret}\n"));
}

#[tokio::test]
async fn blocked_patches_stay_blocked_and_modes_are_preserved() {
    let policy =
        "[[rules]]\nid = \"no\"\ntool = \"revert_patch\"\naction = \"block\"\nreason = \"no way back\"\n";
    let script = calls(&[
        ("edit_file", json!({ "path": "run.sh", "old_text": "one", "new_text": "1" })),
        ("write_file", json!({ "path": "deep/er/new", "content": "new\n" })),
    ]);
    for (policy, ends) in [(policy, "failed"), ("", "finished")] {
        let scene =
            Scene::with_setup(Setup { script: script.clone(), policy: policy.into(), ..Setup::default() })
                .await;
        scene.put("run.sh", "one\n");
        let at = scene.work().join("run.sh");
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o750)).unwrap();
        let run = scene.start("edit").await;
        let copy = copy(&scene.ended(run).await);
        for patch in scene.patches(run).await {
            let row = scene.change(PatchAction::Revert, &patch.id).await.unwrap();
            assert_eq!(row.status, ends, "{:?}", row.message);
        }
        let was = if ends == "failed" { "1\n" } else { "one\n" };
        assert_eq!(std::fs::read_to_string(copy.join("run.sh")).unwrap(), was);
        let mode = std::fs::metadata(copy.join("run.sh")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o750);
        // The folders of a deleted file are deleted too.
        assert_eq!(copy.join("deep").exists(), ends == "failed");
    }
}

/// One file of a call with several is reverted; the event names the kind of the patch, and the others stay.
#[tokio::test]
async fn one_patch_of_a_multi_edit_can_be_reverted() {
    let edits = json!({ "edits": [
        { "path": "a.txt", "old_text": "two", "new_text": "TWO" },
        { "path": "b.txt", "old_text": "two", "new_text": "2" },
    ] });
    let scene = Scene::with(&calls(&[("multi_edit", edits)])).await;
    scene.put("a.txt", BASE);
    scene.put("b.txt", BASE);
    let run = scene.start("edit both").await;
    let copy = copy(&scene.ended(run).await);
    let text = |name: &str| std::fs::read_to_string(copy.join(name)).unwrap();
    let patches = scene.patches(run).await;
    let first = &patches[0];
    let events = scene.changed(PatchAction::Revert, &first.id).await;
    let reverted = first!(events, ToolMultiEditReverted);
    assert_eq!(reverted.patch_artifact_ids, std::slice::from_ref(&first.id));
    assert_eq!(
        (reverted.reverted_by.as_deref(), reverted.reason.as_deref()),
        (Some("ann"), Some("reviewed"))
    );
    assert_eq!(reverted.tool_call_id, Some(first!(events, ToolInvoked).tool_call_id));
    assert_eq!(count(&events, "tool.edit.reverted"), 0);
    assert!(scene.patch_now(&first.id).await.reverted_at.is_some());
    assert_eq!(scene.patch_now(&patches[1].id).await.reverted_at, None);
    assert_eq!((text("a.txt").as_str(), text("b.txt").as_str()), (BASE, "one\n2\nthree\n"));
    // The inverse is a patch of its own, with one file.
    let inverse = scene.patches(events[0].run_id).await.remove(0);
    let events = scene.changed(PatchAction::Revert, &inverse.id).await;
    assert_eq!((count(&events, "tool.edit.reverted"), count(&events, "tool.multi_edit.reverted")), (1, 0));
    assert_eq!(text("a.txt"), "one\nTWO\nthree\n");
}

// ---- random --------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum Edit {
    Write(&'static str, String),
    /// Replaces a line.
    Line(&'static str, usize, String),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    const NAMES: &[&str] = &["a.txt", "b c.txt", "dir/d.txt", "dir/ü"];
    let name = || prop::sample::select(NAMES);
    let text = "[a-c\n\r]{1,40}";
    let edit = prop_oneof![
        (name(), text).prop_map(|(name, text)| Edit::Write(name, text)),
        (name(), any::<usize>(), "[a-z]{0,5}\n?").prop_map(|(name, at, text)| Edit::Line(name, at, text)),
    ];
    prop::collection::vec(edit, 1..8)
}

/// H-134: git applies the run's patches to the initial tree and gets the final one; reverting them, the last first,
/// gives the initial tree. Each case is a run, so the number of cases is set here; `PROPTEST_CASES` of the full tier is
/// for quick cases.
#[test]
fn applied_patches_reproduce_the_final_tree() {
    let cases = u32::try_from(recount_tier::times(10)).unwrap();
    let config = ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&edits(), |edits| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(replayed(edits));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

async fn replayed(edits: Vec<Edit>) {
    let mut files: BTreeMap<&str, String> = [("a.txt", "one\ntwo\nthree\n"), ("dir/d.txt", "1\r\n2\r\n3")]
        .map(|(name, text)| (name, text.into()))
        .into();
    let first = files.clone();
    let mut made = Vec::new();
    for edit in edits {
        let (name, text) = match edit {
            Edit::Write(name, text) => (name, text),
            Edit::Line(name, at, text) => {
                let Some(old) = files.get(name) else { continue };
                let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
                let at = at % lines.len().max(1);
                if let Some(line) = lines.get_mut(at) {
                    *line = &text;
                }
                (name, lines.concat())
            }
        };
        if files.get(name) == Some(&text) || text.is_empty() {
            continue;
        }
        made.push(("write_file", json!({ "path": name, "content": text })));
        files.insert(name, text);
    }
    let scene = Scene::with(&calls(&made)).await;
    let fresh = tempfile::tempdir().unwrap();
    for (name, text) in &first {
        scene.put(name, text);
        let at = fresh.path().join(name);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }
    let (before, run) = (tree(fresh.path()), scene.start("edit").await);
    let events = scene.ended(run).await;
    let copy = copy(&events);
    let patches = scene.patches(run).await;
    assert_eq!(patches.len(), made.len(), "{:?}", types(&events));
    git(fresh.path(), &["init", "--quiet"], None);
    git(fresh.path(), &["config", "core.autocrlf", "false"], None);
    for patch in &patches {
        assert_eq!(patch.status, "applied");
        let diff = scene.diff_of(patch).await;
        git(fresh.path(), &["apply", "--whitespace=nowarn", "-"], Some(&diff));
    }
    assert_eq!(tree(fresh.path()), tree(&copy));
    for patch in patches.iter().rev() {
        scene.changed(PatchAction::Revert, &patch.id).await;
    }
    assert_eq!(tree(&copy), before);
}
