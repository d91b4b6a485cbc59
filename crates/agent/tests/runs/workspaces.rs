//! Where runs work: copies of their own, the folder itself, and folders that are not there any more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_engine::Order;
use recount_event::Event;

use crate::scene::{Scene, Setup, asked, asked_for, count, first, refusals, types};

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
async fn a_copy_is_worked_in_and_the_folder_stays() {
    let scene = Scene::with(WRITING).await;
    scene.put("a.txt", "old\n");
    scene.put("src/b.txt", "b\n");
    let run = scene.ask("write").await;
    let events = scene.ended(run).await;
    let provisioned = first!(events, WorkspaceProvisioned);
    assert_eq!((provisioned.mode.as_str(), provisioned.files, provisioned.bytes), ("clone", 2, 6));
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "old\n");
    assert_eq!(std::fs::read_to_string(workspace(&events).join("a.txt")).unwrap(), "new\n");
    assert_eq!(count(&events, "tool.edit.applied"), 1);
}

#[tokio::test]
async fn in_the_folder_itself_changes_are_asked_about() {
    let scene = Scene::with(WRITING).await;
    scene.put("a.txt", "old\n");
    let mut queued = asked("write");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, Order::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(workspace(&events), scene.work());
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "old\n");
    scene.resolve(run, &asked_for(&events)[0], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(first!(events, WorkspaceProvisioned).mode, "in_place");
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_not_overwritten() {
    let script = "[[turn]]\ncall = [{ name = \"edit_file\", input = { path = \"a.txt\", old_text = \"old\", new_text = \"new\" } }]\n[[turn]]\ntext = \"Done.\"";
    let scene = Scene::with(script).await;
    scene.put("a.txt", "old\n");
    let mut queued = asked("edit");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, Order::default(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    scene.put("a.txt", "somebody was here\n");
    scene.resolve(run, &asked_for(&events)[0], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "text_not_found");
    assert_eq!(std::fs::read_to_string(scene.work().join("a.txt")).unwrap(), "somebody was here\n");
}

#[tokio::test]
async fn folders_that_may_not_be_worked_in_are_refused() {
    let scene = Scene::with(WRITING).await;
    scene.put("../data/key", "x");
    std::os::unix::fs::symlink("/etc", scene.work().join("link")).unwrap();
    let data = scene.work().join("../data").display().to_string();
    let link = scene.work().join("link").display().to_string();
    for (source, why) in [
        ("/etc", "outside"),
        ("relative", "from the root"),
        ("/no/such/folder", "cannot be looked at"),
        (link.as_str(), "outside"),
        (data.as_str(), "the server's own data"),
    ] {
        let order = Order { workspace_source: Some(source.into()), ..Order::default() };
        let refused = scene.try_queue(asked("go"), order, None, None).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{source}: {refused}");
    }
}

#[tokio::test]
async fn a_source_that_is_gone_when_the_run_begins_fails_it() {
    let scene = Scene::under(WRITING, "", 1).await;
    let slow = "[[turn]]\npace = { tokens_per_second = 1 }\ntext = 'a b c d e f g h i j k l'";
    let scene = Scene::of(Setup {
        script: format!(
            "[[scene]]\nwhen = 'slow'\n{}\n{WRITING}",
            slow.replace("[[turn]]", "[[scene.turn]]")
        ),
        ..scene.setup
    })
    .await;
    scene.put("project/a.txt", "old\n");
    // The only place is taken, so that the second waits.
    let first_run = scene.ask("slow").await;
    scene.until(first_run, "assistant.text_delta").await;
    let project = scene.work().join("project");
    let order = Order { workspace_source: Some(project.display().to_string()), ..Order::default() };
    let run = scene.ask_for("go", order, None, None).await;
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
async fn a_workspace_that_vanishes_is_not_made_again() {
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";
    let mut scene = Scene::under(WRITING, policy, 8).await;
    let run = scene.ask("write").await;
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
async fn what_nobody_uses_is_taken_away_and_the_last_run_is_told() {
    let scene = Scene::with(WRITING).await;
    let run = scene.ask("write").await;
    let path = workspace(&scene.ended(run).await);
    assert!(path.join("a.txt").exists());
    assert_eq!(scene.agent.sweep(&scene.engine, Duration::from_secs(3_600)).await.unwrap(), 0);
    assert_eq!(scene.agent.sweep(&scene.engine, Duration::ZERO).await.unwrap(), 1);
    assert!(!path.exists());
    let events = scene.all(run).await;
    assert_eq!(first!(events, GapWorkspaceRemoved).path, path.display().to_string());
    scene.engine.prune(run, None, "test").await.unwrap();
    assert_eq!(count(&scene.all(run).await, "gap.events_pruned"), 1);
}

#[tokio::test]
async fn a_workspace_goes_with_its_task() {
    let scene = Scene::with(WRITING).await;
    let task = scene.engine.create_task(None, None).await.unwrap().0.id.parse().unwrap();
    let run = scene.ask_for("write", Order::default(), Some(task), None).await;
    let path = workspace(&scene.ended(run).await);
    assert!(path.exists());
    scene.engine.delete_task(task, "ann").await.unwrap();
    let gone = async {
        while Path::new(&path).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_too_deep_is_not_copied() {
    let scene = Scene::with(WRITING).await;
    scene.put(&format!("{}a.txt", "d/".repeat(140)), "x");
    let run = scene.ask("write").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, WorkspaceFailed).code, "workspace_too_large");
    let failed = first!(events, RunFailed);
    assert_eq!((failed.code.as_str(), failed.retriable), ("workspace_too_large", false));
}
