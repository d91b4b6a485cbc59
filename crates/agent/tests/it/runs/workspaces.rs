//! Workspaces of runs: copies, the folder itself, and folders that were deleted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_engine::{
    ApplyTo, Error, HeldFolders, Narrowing, Performer as _, RunConfig, WorkspaceChanges, WorkspaceOf,
};
use recount_event::family::run::RunKind;
use recount_event::{Code, Event, RunId};

use crate::runs::scene::{Scene, Setup, approval_ids, count, first, model_run, refusals, types};

const WRITING: &str = r#"
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "new\n" } }]
[[turn]]
text = "Done."
"#;

fn workspace(events: &[Event]) -> PathBuf {
    first!(*events, RunQueued).workspace_path.unwrap().into()
}

#[tokio::test]
async fn a_run_works_in_a_copy_and_the_folder_stays_unchanged() {
    let scene = Scene::with(WRITING).await;
    scene.put("a.txt", "old\n");
    scene.put("src/b.txt", "b\n");
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    let provisioned = first!(events, WorkspaceProvisioned);
    assert_eq!((provisioned.mode.as_str(), provisioned.files, provisioned.bytes), ("clone", 2, 6));
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "old\n");
    assert_eq!(std::fs::read_to_string(workspace(&events).join("a.txt")).unwrap(), "new\n");
    assert_eq!(count(&events, "tool.edit.applied"), 1);
}

#[tokio::test]
async fn changes_in_place_need_approval() {
    let scene = Scene::with(WRITING).await;
    scene.put("a.txt", "old\n");
    let mut queued = model_run("write");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(workspace(&events), scene.work());
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "old\n");
    scene.resolve(run, &approval_ids(&events)[0], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(first!(events, WorkspaceProvisioned).mode, "in_place");
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_not_overwritten() {
    let script = "[[turn]]\ncall = [{ name = \"edit_file\", input = { path = \"a.txt\", old_text = \"old\", new_text = \"new\" } }]\n[[turn]]\ntext = \"Done.\"";
    let scene = Scene::with(script).await;
    scene.put("a.txt", "old\n");
    let mut queued = model_run("edit");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    scene.put("a.txt", "a person was here\n");
    scene.resolve(run, &approval_ids(&events)[0], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "changed_since_approval");
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "a person was here\n");
}

/// The approved change is written to the file that was shown, even if the same lines would change in another one.
#[tokio::test]
async fn an_approved_change_is_written_to_the_file_that_was_shown() {
    let script = "[[turn]]\ncall = [{ name = \"edit_file\", input = { path = \"a.txt\", old_text = \"old\", new_text = \"new\" } }]\n[[turn]]\ntext = \"Done.\"";
    let scene = Scene::with(script).await;
    scene.put("a.txt", "old\n");
    let mut queued = model_run("edit");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    scene.put("a.txt", "if armed {\nold\n}\n");
    scene.resolve(run, &approval_ids(&events)[0], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "changed_since_approval");
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "if armed {\nold\n}\n");
}

/// Two changes of one file are approved together. Writing the first one does not void the approval of the second.
#[tokio::test]
async fn approved_changes_of_one_file_are_all_written() {
    let edit = |old: &str| {
        format!(
            "{{ name = \"edit_file\", input = {{ path = \"a.txt\", old_text = \"{old}\", new_text = \"{old}!\" }} }}"
        )
    };
    let script = format!("[[turn]]\ncall = [{}, {}]\n[[turn]]\ntext = \"Done.\"", edit("one"), edit("two"));
    let scene = Scene::with(&script).await;
    scene.put("a.txt", "one\n1\n2\n3\n4\ntwo\n");
    let mut queued = model_run("edit");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    for approval in approval_ids(&events) {
        scene.resolve(run, &approval, true).await.unwrap();
    }
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events), []);
    let text = std::fs::read_to_string(scene.work().join("a.txt")).unwrap();
    assert_eq!(text, "one!\n1\n2\n3\n4\ntwo!\n");
}

#[tokio::test]
async fn folders_that_are_not_allowed_are_refused() {
    let scene = Scene::with(WRITING).await;
    scene.put("../data/key", "x");
    std::os::unix::fs::symlink("/etc", scene.work().join("link")).unwrap();
    let data = scene.work().join("../data").display().to_string();
    let link = scene.work().join("link").display().to_string();
    for (source, why) in [
        ("/etc", "outside"),
        ("relative", "absolute path"),
        ("/no/such/folder", "cannot read"),
        (link.as_str(), "outside"),
        (data.as_str(), "the server's data"),
    ] {
        let order = RunConfig { workspace_source: Some(source.into()), ..RunConfig::default() };
        let refused = scene.try_queue(model_run("go"), order, None, None).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{source}: {refused}");
    }
}

#[tokio::test]
async fn a_missing_source_fails_the_run() {
    let scene = Scene::with_policy(WRITING, "", 1).await;
    let slow = "[[turn]]\npace = { tokens_per_second = 1 }\ntext = 'a b c d e f g h i j k l'";
    let scene = Scene::with_setup(Setup {
        script: format!(
            "[[scene]]\nwhen = 'slow'\n{}\n{WRITING}",
            slow.replace("[[turn]]", "[[scene.turn]]")
        ),
        ..scene.setup
    })
    .await;
    scene.put("project/a.txt", "old\n");
    // The only place is taken, so the second run waits.
    let first_run = scene.start("slow").await;
    scene.until(first_run, "assistant.text_delta").await;
    let project = scene.work().join("project");
    let order = RunConfig { workspace_source: Some(project.display().to_string()), ..RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    scene.until(run, "run.throttled").await;
    std::fs::remove_dir_all(&project).unwrap();
    scene.cancel(first_run).await;
    let events = scene.ended(run).await;
    let why = first!(events, WorkspaceFailed);
    assert_eq!(first!(events, RunFailed).code, why.code);
    assert_eq!(why.code, "workspace_failed");
    assert!(why.message.contains("project"), "{}", why.message);
}

#[tokio::test]
async fn a_deleted_workspace_is_not_created_again() {
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";
    let mut scene = Scene::with_policy(WRITING, policy, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    std::fs::remove_dir_all(workspace(&events)).unwrap();
    scene.restart().await;
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, WorkspaceFailed).code, "workspace_gone");
    assert_eq!(first!(events, RunFailed).code, "workspace_gone");
    assert_eq!(refusals(&events).len(), 1, "{:?}", types(&events));
}

#[tokio::test]
async fn unused_copies_are_deleted_and_recorded_in_the_last_run() {
    let scene = Scene::with(WRITING).await;
    let run = scene.start("write").await;
    let path = workspace(&scene.ended(run).await);
    assert!(path.join("a.txt").exists());
    assert_eq!(scene.agent.sweep(&scene.engine, Duration::from_secs(3_600)).await.unwrap(), 0);
    assert_eq!(scene.agent.sweep(&scene.engine, Duration::ZERO).await.unwrap(), 1);
    assert!(!path.exists());
    let events = scene.all(run).await;
    assert_eq!(first!(events, GapWorkspaceRemoved).path, path.display().to_string());
    scene.engine.admin().prune(run, None, "test").await.unwrap();
    assert_eq!(count(&scene.all(run).await, "gap.events_pruned"), 1);
}

#[tokio::test]
async fn a_workspace_is_deleted_with_its_task() {
    let scene = Scene::with(WRITING).await;
    let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let run = scene.start_with("write", RunConfig::default(), Some(task), None).await;
    let path = workspace(&scene.ended(run).await);
    assert!(path.exists());
    scene.engine.admin().delete_task(task, "ann").await.unwrap();
    let deleted = async {
        while Path::new(&path).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), deleted).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_too_deep_is_not_copied() {
    let scene = Scene::with(WRITING).await;
    scene.put(&format!("{}a.txt", "d/".repeat(140)), "x");
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, WorkspaceFailed).code, "workspace_too_large");
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("workspace_too_large", false));
}

/// Writes, and then waits for a response.
const WRITES_AND_ASKS: &str = r#"
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "new\n" } }]
[[turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[turn]]
text = "Done."
"#;

/// A run that works in place and waits.
async fn in_place(scene: &Scene, folder: &Path) -> RunId {
    let mut queued = model_run("write");
    queued.workspace_mode = Some("in_place".into());
    let order = RunConfig { workspace_source: Some(folder.display().to_string()), ..RunConfig::default() };
    scene.queue(queued, order, None, None).await
}

async fn apply(scene: &Scene, run: RunId) -> Result<WorkspaceChanges, Error> {
    scene.engine.work().apply_changes(run, ApplyTo::default(), &Narrowing::default()).await
}

fn refused_for(no: &Error, run: RunId) -> bool {
    no.code() == Code::RunActive && no.to_string().contains(&run.to_string())
}

#[tokio::test]
async fn nothing_is_applied_while_a_run_works_in_place_in_an_overlapping_folder() {
    let scene = Scene::with(WRITING).await;
    scene.put("project/a.txt", "old\n");
    scene.put("project/deep/b.txt", "b\n");
    let project = scene.work().join("project");
    let order = RunConfig { workspace_source: Some(project.display().to_string()), ..RunConfig::default() };
    let run = scene.start_with("write", order, None, None).await;
    scene.ended(run).await;
    for folder in [project.clone(), project.join("deep"), scene.work()] {
        let active = in_place(&scene, &folder).await;
        scene.until(active, "run.waiting").await;
        let no = apply(&scene, run).await.unwrap_err();
        assert!(refused_for(&no, active), "{}: {no}", folder.display());
        assert_eq!(
            scene.engine.work().workspace_changes(run, &Narrowing::default()).await.unwrap().active,
            Some(active)
        );
        assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "old\n");
        scene.cancel(active).await;
        scene.ended(active).await;
    }
    // A run in a sibling folder does not matter.
    scene.put("projects/b.txt", "b\n");
    let beside = in_place(&scene, &scene.work().join("projects")).await;
    scene.until(beside, "run.waiting").await;
    let applied = apply(&scene, run).await.unwrap();
    assert_eq!((applied.count, applied.active), (1, None));
    assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "new\n");
}

/// A client with a narrowed token learns that a run is active, but neither which nor where.
#[tokio::test]
async fn a_run_outside_the_callers_tasks_is_not_named() {
    let scene = Scene::with(WRITING).await;
    scene.put("project/a.txt", "old\n");
    let project = scene.work().join("project");
    let order = RunConfig { workspace_source: Some(project.display().to_string()), ..RunConfig::default() };
    let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let run = scene.start_with("write", order, Some(task), None).await;
    scene.ended(run).await;
    let active = in_place(&scene, &scene.work()).await;
    scene.until(active, "run.waiting").await;
    let within = Narrowing { tasks: [task].into(), ..Narrowing::default() };
    let no = scene.engine.work().apply_changes(run, ApplyTo::default(), &within).await.unwrap_err();
    assert_eq!(no.code(), Code::RunActive);
    let message = no.to_string();
    let above = format!("{} ", scene.work().display());
    assert!(!message.contains(&active.to_string()) && !format!("{message} ").contains(&above), "{message}");
    assert_eq!(scene.engine.work().workspace_changes(run, &within).await.unwrap().active, None);
    // A client that may see the run gets its id.
    assert!(refused_for(&apply(&scene, run).await.unwrap_err(), active));
}

/// A command that ignores its termination signal keeps writing for a while after its run was cancelled.
#[tokio::test]
async fn nothing_is_applied_while_a_command_of_a_cancelled_run_still_writes() {
    let scene = Scene::with("").await;
    scene.put("f", "");
    let command = "trap '' TERM; echo here; while :; do date >> f; done";
    let order = RunConfig { command: Some(command.into()), ..RunConfig::default() };
    let run = scene.call(RunKind::Shell, order).await;
    let events = scene.until(run, "tool.shell.output_chunk").await;
    let no = apply(&scene, run).await.unwrap_err();
    assert!(refused_for(&no, run), "{no}");
    scene.cancel(run).await;
    let applied = apply(&scene, run).await.unwrap();
    assert_eq!(applied.count, 1);
    let [copy, source] = [workspace(&events), scene.work()].map(|at| std::fs::read(at.join("f")).unwrap());
    assert!(!copy.is_empty() && copy == source, "{} and {} bytes", copy.len(), source.len());
}

#[tokio::test]
async fn changes_of_an_active_run_name_it() {
    let scene = Scene::with(WRITES_AND_ASKS).await;
    scene.put("a.txt", "old\n");
    let run = scene.start("write").await;
    let events = scene.until(run, "clarification.requested").await;
    let changes = scene.engine.work().workspace_changes(run, &Narrowing::default()).await.unwrap();
    assert_eq!((changes.count, changes.active), (1, Some(run)));
    let no = apply(&scene, run).await.unwrap_err();
    assert!(refused_for(&no, run), "{no}");
    let clarification_id = first!(events, ClarificationRequested).clarification_id;
    scene.answer(run, clarification_id, "\"this\"").await;
    scene.ended(run).await;
    assert_eq!(scene.engine.work().workspace_changes(run, &Narrowing::default()).await.unwrap().active, None);
}

#[tokio::test]
async fn no_run_starts_in_a_folder_while_changes_are_applied() {
    let scene = Scene::with(WRITING).await;
    scene.put("project/a.txt", "old\n");
    scene.put("other/a.txt", "old\n");
    let folder = |name: &str| RunConfig {
        workspace_source: Some(scene.work().join(name).display().to_string()),
        ..RunConfig::default()
    };
    let run = scene.start_with("write", folder("project"), None, None).await;
    let path = workspace(&scene.ended(run).await).display().to_string();
    let copy = || WorkspaceOf { mode: Some("clone".into()), path: path.clone() };
    let held: HeldFolders = scene.agent.hold(copy()).await.unwrap();
    assert!(held.folders.contains(&scene.work().join("project")), "{:?}", held.folders);
    let in_place = in_place(&scene, &scene.work().join("project")).await;
    let copied = scene.start_with("write", folder("project"), None, None).await;
    // A run in another folder starts and ends meanwhile.
    let elsewhere = scene.start_with("write", folder("other"), None, None).await;
    scene.ended(elsewhere).await;
    for waits in [in_place, copied] {
        assert_eq!(count(&scene.all(waits).await, "workspace.provisioned"), 0);
    }
    let applied = scene.agent.apply(copy(), ApplyTo::default(), held).await.unwrap();
    assert_eq!(applied.count, 1);
    let events = scene.ended(copied).await;
    // It was copied afterwards.
    let read = std::fs::read_to_string(workspace(&events).join("a.txt")).unwrap();
    assert_eq!(
        (
            read.as_str(),
            scene.engine.work().workspace_changes(copied, &Narrowing::default()).await.unwrap().count
        ),
        ("new\n", 0)
    );
    scene.until(in_place, "workspace.provisioned").await;
}
