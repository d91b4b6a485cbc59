//! Runs that start from the files of an earlier place: what the model and its commands changed after it is undone in a new
//! copy, and the earlier copy stays as it was.

use std::path::{Path, PathBuf};

use recount_engine::{ApplyTo, Error, Narrowing, ResumeFrom, RunConfig, StartFiles};
use recount_event::{Code, Event, ForeignId, RunId};

use crate::runs::scene::{Scene, count, first, model_run};

/// An edit, a command that changes files, and a third change, in a turn each.
const SCRIPT: &str = r#"
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[turn]]
call = [{ name = "shell_exec", input = { command = "echo two > a.txt; rm b.txt; mkdir d; echo new > d/c.txt; git commit -qam two" } }]
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "three\n" } }]
[[turn]]
text = "Done."
"#;

struct Chain {
    scene: Scene,
    run: RunId,
    events: Vec<Event>,
}

fn git(folder: &Path, args: &[&str]) -> String {
    let named = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    let mut command = std::process::Command::new("git");
    let done = command.args(named).args(args).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

fn folder_of(events: &[Event]) -> PathBuf {
    first!(*events, RunQueued).workspace_path.unwrap().into()
}

impl Chain {
    async fn new() -> Chain {
        let scene = Scene::with(SCRIPT).await;
        scene.put("a.txt", "zero\n");
        scene.put("b.txt", "b\n");
        git(&scene.work(), &["init", "-q", "-b", "main"]);
        git(&scene.work(), &["config", "user.name", "A"]);
        git(&scene.work(), &["config", "user.email", "a@example.org"]);
        git(&scene.work(), &["add", "."]);
        git(&scene.work(), &["commit", "-q", "-m", "zero"]);
        let run = scene.start("go").await;
        scene.approve_all(run).await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "run.checkpoint_saved"), 3);
        Chain { scene, run, events }
    }

    fn copy(&self) -> PathBuf {
        folder_of(&self.events)
    }

    fn checkpoint(&self, number: usize) -> ResumeFrom {
        let saved: Vec<ForeignId> = self
            .events
            .iter()
            .filter_map(|event| match event.payload() {
                recount_event::Payload::RunCheckpointSaved(saved) => Some(saved.checkpoint_id.clone()),
                _ => None,
            })
            .collect();
        ResumeFrom::Checkpoint(saved[number].clone())
    }

    /// A run from a place of the first one, to its end.
    async fn after(&self, from: &ResumeFrom, files: StartFiles) -> Result<Vec<Event>, Error> {
        let write = self.scene.engine.write();
        let past = write.ended_run(self.run).await?;
        let place = write.resume_point(&past, from).await?;
        let files_from = self.scene.engine.work().files_from(&past, from, place, files).await?;
        let mut new = past.resumed(place)?;
        new.queued.config = Some(RunConfig { files_from, ..past.run_config()? }.written());
        let run = write.create_run(new).await?.0;
        self.scene.approve_all(run).await;
        Ok(self.scene.ended(run).await)
    }

    async fn changes(&self, run: RunId) -> Vec<String> {
        let changes = self.scene.engine.work().workspace_changes(run, &Narrowing::default()).await.unwrap();
        changes.changes.into_iter().map(|change| change.path).collect()
    }
}

#[tokio::test]
async fn a_branch_starts_from_the_files_of_its_checkpoint() {
    let chain = Chain::new().await;
    let copy = chain.copy();
    let states = |folder: &Path| ["a.txt", "b.txt", "d/c.txt"].map(|name| read(folder, name));
    let ended = [Some("three\n".to_owned()), None, Some("new\n".to_owned())];
    assert_eq!(states(&copy), ended);
    // The model makes the calls after the checkpoint again: the command fails unless its files are back.
    for (from, calls) in
        [(chain.checkpoint(0), 2), (ResumeFrom::BeforeTurn(1), 2), (ResumeFrom::BeforeTurn(0), 3)]
    {
        let events = chain.after(&from, StartFiles::Restore).await.unwrap();
        let branch = folder_of(&events);
        assert_ne!(branch, copy, "{from:?}");
        assert_eq!(count(&events, "tool.invoked"), calls, "{from:?}");
        assert_eq!(count(&events, "tool.failed"), 0, "{from:?}");
        assert_eq!(states(&branch), ended, "{from:?}");
        assert_eq!(git(&branch, &["log", "--format=%s"]), "two\nzero\n", "{from:?}");
        let provisioned = first!(events, WorkspaceProvisioned);
        assert_eq!(provisioned.files_from_run_id, Some(chain.run.to_string()), "{from:?}");
        let place = first!(events, RunResumedFromEvent).from_sequence;
        assert_eq!(provisioned.files_from_sequence, Some(place), "{from:?}");
    }
    assert_eq!(states(&copy), ended);
    assert_eq!(git(&copy, &["log", "--format=%s"]), "two\nzero\n");
}

#[tokio::test]
async fn each_run_applies_its_own_changes() {
    let chain = Chain::new().await;
    let branch = chain.after(&chain.checkpoint(1), StartFiles::Restore).await.unwrap();
    let run = branch[0].run_id;
    std::fs::write(folder_of(&branch).join("own.txt"), "own\n").unwrap();
    assert_eq!(chain.changes(chain.run).await, ["a.txt", "b.txt", "d", "d/c.txt"]);
    assert_eq!(chain.changes(run).await, ["a.txt", "b.txt", "d", "d/c.txt", "own.txt"]);
    let work = chain.scene.engine.work();
    work.apply_changes(run, ApplyTo::default(), &Narrowing::default()).await.unwrap();
    assert_eq!(read(&chain.scene.work(), "own.txt"), Some("own\n".into()));
    assert_eq!(read(&chain.copy(), "own.txt"), None);
}

#[tokio::test]
async fn files_that_cannot_be_restored_are_refused_unless_the_current_ones_are_chosen() {
    let chain = Chain::new().await;
    let from = chain.checkpoint(0);
    let snapshots = chain.copy().with_file_name("snapshots");
    std::fs::remove_dir_all(&snapshots).unwrap();
    let error = chain.after(&from, StartFiles::Restore).await.unwrap_err();
    assert!(
        matches!(&error, Error::Rejected(rejected) if rejected.code == Code::FilesNotRestorable),
        "{error}"
    );
    assert!(error.to_string().contains("not recorded"), "{error}");
    let events = chain.after(&from, StartFiles::Current).await.unwrap();
    assert_eq!(folder_of(&events), chain.copy());
    assert_eq!(first!(events, WorkspaceProvisioned).files_from_run_id, None);
}

#[tokio::test]
async fn a_place_between_checkpoints_is_refused_and_names_the_checkpoint() {
    let chain = Chain::new().await;
    let sequence = chain.events.iter().rfind(|event| event.type_name() == "tool.completed");
    let sequence = sequence.or_else(|| chain.events.iter().rfind(|e| e.type_name() == "tool.edit.applied"));
    let from = ResumeFrom::Sequence(sequence.unwrap().sequence);
    let error = chain.after(&from, StartFiles::Restore).await.unwrap_err();
    assert!(error.to_string().contains("at checkpoints only; the last checkpoint"), "{error}");
}

/// The rest of the work continues in the same folder; if something else was done there since, a new copy is needed.
#[tokio::test]
async fn resuming_continues_in_the_same_folder_unless_its_files_changed() {
    let scene = Scene::with(SCRIPT).await;
    scene.put("a.txt", "zero\n");
    let order = RunConfig { max_turns: Some(1), ..RunConfig::default() };
    let run = scene.queue(model_run("go"), order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "run.failed"), 1);
    let chain = Chain { scene, run, events };
    let events = chain.after(&ResumeFrom::Settled, StartFiles::Restore).await.unwrap();
    assert_eq!(folder_of(&events), chain.copy());
    // The command of that run changed files there.
    std::fs::write(chain.copy().join("own.txt"), "own\n").unwrap();
    let events = chain.after(&ResumeFrom::Settled, StartFiles::Restore).await.unwrap();
    let branch = folder_of(&events);
    assert_ne!(branch, chain.copy());
    assert_eq!((read(&branch, "own.txt"), read(&branch, "d/c.txt")), (None, Some("new\n".into())));
    let events = chain.after(&ResumeFrom::Settled, StartFiles::Current).await.unwrap();
    assert_eq!((folder_of(&events), read(&chain.copy(), "own.txt")), (chain.copy(), Some("own\n".into())));
}
