//! A repository goes through propose, review, apply, revert, branch and export with the built program. `git am` brings
//! the exported series to the commit that the run began with, and git finds no difference from what the run left.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use recount_client::reply::Run;
use recount_client::{Client, Listing};

use crate::process::scene::Scene;
use crate::server::{CommandOutput, RunningCommand, Server};

const SCRIPT: &str = r#"
[[turn]]
text = "I write."
call = [
    { name = "write_file", input = { path = "note.txt", content = "one\ntwo\n" } },
    { name = "write_file", input = { path = "crlf.txt", content = "a\r\nB\r\nc" } },
    { name = "write_file", input = { path = "void", content = "" } },
    { name = "multi_edit", input = { edits = [
        { path = "src/ü x.txt", old_text = "old", new_text = "new" },
        { path = "run.sh", old_text = "1", new_text = "2" },
    ] } },
]
[[turn]]
text = "Again."
call = [{ name = "edit_file", input = { path = "note.txt", old_text = "two", new_text = "From 2 00:00:00 2001" } }]
[[turn]]
text = "Done."
"#;

/// What a person is asked about before it is written.
const POLICY: &str = r#"
[[rules]]
id = "reviewed"
tool = "multi_edit"
action = "ask"
[[rules]]
id = "tests"
tool = "*"
action = "allow"
"#;

struct Reviewed {
    scene: Scene,
    server: Server,
    client: Client,
    run: Run,
}

/// Git in a folder, without what this machine's settings would change.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let settings =
        ["user.name=Tester", "user.email=t@example.org", "core.autocrlf=false", "commit.gpgsign=false"];
    for setting in settings {
        git.args(["-c", setting]);
    }
    let done = git.args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

impl Reviewed {
    async fn new(script: &str, approves: bool) -> Self {
        let scene = Scene::under(POLICY).plays(script);
        let work = scene.work();
        std::fs::remove_dir_all(&work).unwrap();
        std::fs::create_dir_all(work.join("src")).unwrap();
        let files = [("crlf.txt", "a\r\nb\r\nc\r\n"), ("src/ü x.txt", "old\n"), ("run.sh", "1\n")];
        for (name, text) in files {
            std::fs::write(work.join(name), text).unwrap();
        }
        std::fs::set_permissions(work.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        git(&work, &["init", "--quiet", "--initial-branch=main"]);
        git(&work, &["add", "--all"]);
        git(&work, &["commit", "--quiet", "-m", "first"]);
        let server = scene.server();
        let client = Client::new(&server.url(), None).unwrap();
        let following = RunningCommand::of(&mut scene.run(&server, &["write it"]));
        if approves {
            let how = loop {
                let line = following.line();
                if line.starts_with("To answer: ") {
                    break line;
                }
            };
            let id = how.split("recount approve ").nth(1).and_then(|rest| rest.split(' ').next());
            server.ask(&["approve", id.unwrap(), "--yes"]).good();
        }
        assert_eq!(following.end().1, 0);
        let run = client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
        Reviewed { scene, server, client, run }
    }

    fn verb(&self, words: &[&str]) -> CommandOutput {
        self.scene.ask(&self.server, words)
    }

    /// Reverts the newest patch of a file, of any run.
    async fn revert(&self, path: &str) -> String {
        let patches = self.client.list_artifacts(&Listing::default(), None, None).await.unwrap().data;
        let newest = patches.into_iter().find(|patch| patch.target_path.as_deref() == Some(path)).unwrap();
        self.verb(&["revert", &newest.id]).good();
        newest.id
    }

    /// Git's name for the tree that the run's copy is now.
    fn left(&self) -> String {
        let copy = PathBuf::from(self.run.workspace_path.clone().unwrap());
        let fresh = tempfile::tempdir().unwrap();
        let (folder, copy) = (fresh.path(), format!("--work-tree={}", copy.display()));
        git(folder, &["init", "--quiet"]);
        git(folder, &[&copy, "add", "--all", "--force", "."]);
        git(folder, &["write-tree"])
    }

    /// Takes a series on the commit that the run began with, and answers what the tree is then, and the subjects.
    fn taken(&self, messages: &[&str]) -> (String, Vec<String>) {
        let fresh = tempfile::tempdir().unwrap();
        let work = self.scene.work().display().to_string();
        git(fresh.path(), &["clone", "--quiet", "--branch", "main", &work, "."]);
        git(fresh.path(), &[&["am", "--quiet"], messages].concat());
        assert_eq!(git(fresh.path(), &["status", "--porcelain"]), "");
        let log = git(fresh.path(), &["log", "--reverse", "--format=%s"]);
        let tree = git(fresh.path(), &["rev-parse", "HEAD^{tree}"]);
        (tree, log.lines().skip(1).map(str::to_owned).collect())
    }

    /// Exports into a new folder, and takes that.
    fn exported(&self, more: &[&str]) -> (String, Vec<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("series");
        let to = to.to_str().unwrap();
        let arguments = [&["export", &self.run.id, "--patches", to], more].concat();
        let answer = self.verb(&arguments);
        let words = answer.words.clone();
        let files = answer.good();
        let (tree, subjects) = self.taken(&files.lines().collect::<Vec<_>>());
        // Another series is not written beside it.
        self.verb(&arguments).bad(2, "name an empty or a new folder");
        (tree, subjects, words)
    }
}

const ALL: [&str; 6] =
    ["Add note.txt", "Change crlf.txt", "Add void", "Change src/ü x.txt", "Change run.sh", "Change note.txt"];

#[tokio::test]
async fn a_repository_goes_through_review_revert_and_branch_and_git_am_takes_the_export() {
    let reviewed = Reviewed::new(SCRIPT, true).await;
    let (tree, subjects, _) = reviewed.exported(&[]);
    assert_eq!((tree, subjects), (reviewed.left(), ALL.map(str::to_owned).to_vec()));

    // What was reverted is left out, or kept with what reverts it.
    let reverted = reviewed.revert("note.txt").await;
    let (tree, subjects, words) = reviewed.exported(&[]);
    assert_eq!((tree, subjects.len()), (reviewed.left(), 5));
    assert!(words.contains(&format!("{reverted} was reverted and is skipped")), "{words}");
    let (tree, subjects, _) = reviewed.exported(&["--with-reverted"]);
    assert_eq!((tree, subjects.len()), (reviewed.left(), 7));

    // The revert is reverted, so the change is there again; of a call with several files, one goes.
    reviewed.revert("note.txt").await;
    reviewed.revert("run.sh").await;
    let (tree, subjects, words) = reviewed.exported(&[]);
    assert_eq!((tree, subjects.len()), (reviewed.left(), 5));
    assert!(!words.contains(&reverted), "it is there again: {words}");

    // The same from standard output, and on a branch.
    let series = reviewed.verb(&["export", &reviewed.run.id, "--patches"]).good();
    let mailbox = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(mailbox.path(), series).unwrap();
    assert_eq!(reviewed.taken(&[mailbox.path().to_str().unwrap()]).0, reviewed.left());
    reviewed.verb(&["apply", &reviewed.run.id, "--branch", "reviewed"]).good();
    let work = reviewed.scene.work();
    assert_eq!(git(&work, &["rev-parse", "reviewed^{tree}"]), reviewed.left());
    assert_eq!(git(&work, &["status", "--porcelain"]), "", "the folder is as it was");
}

#[tokio::test]
async fn a_series_with_a_masked_patch_is_refused_and_nothing_is_written() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let script = format!(
        "[[turn]]\ntext = \"I write.\"\ncall = [\n{{ name = \"write_file\", input = {{ path = \"a\", content = \"a\\n\" }} \
         }},\n{{ name = \"write_file\", input = {{ path = \"key\", content = \"{secret}\\n\" }} }},\n]\n[[turn]]\ntext = \
         \"Done.\"\n"
    );
    let reviewed = Reviewed::new(&script, false).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("series");
    let arguments = ["export", &reviewed.run.id, "--patches", to.to_str().unwrap()];
    reviewed.verb(&arguments).bad(1, "of key contains a masked secret");
    assert!(!to.exists());
    reviewed.verb(&["export", &reviewed.run.id, &reviewed.run.id, "--patches"]).bad(2, "of one run");
}
