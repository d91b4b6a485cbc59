//! Tests of git in the sandbox: its output, and that a repository cannot make it run programs.

use std::path::{Path, PathBuf};

use recount_agent::sandbox::Mode;
use recount_agent::tool::{Cancel, Tool};
use recount_agent::tools::git_diff::GitDiff;
use recount_agent::tools::git_exec::GitExec;
use recount_agent::tools::git_status::GitStatus;
use serde_json::{Value, json};

use crate::sandbox::fixture::{CommandRun, Fixture, LAYERS, RecordingReporter, of_type};

async fn run(fixture: &Fixture, tool: &dyn Tool, input: Value) -> CommandRun {
    let (_stop, cancel) = Cancel::new();
    let mut reporter = RecordingReporter::default();
    let outcome = fixture.run_tool(tool, input, &mut reporter, cancel).await;
    CommandRun { reporter, outcome }
}

#[tokio::test]
async fn changes_are_reported() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let (status, diff, exec) = (
            GitStatus::new(fixture.sandbox.clone()),
            GitDiff::new(fixture.sandbox.clone()),
            GitExec::new(fixture.sandbox.clone()),
        );
        std::fs::write(fixture.workspace.join("a.txt"), "one\n").unwrap();
        for args in [
            json!(["init", "-q", "-b", "main"]),
            json!(["config", "user.email", "a@example.org"]),
            json!(["config", "user.name", "A"]),
            json!(["add", "."]),
            json!(["commit", "-q", "-m", "first"]),
        ] {
            let ran = run(&fixture, &exec, json!({ "args": args })).await;
            assert_eq!(ran.exited()["exit_code"], 0, "{mode:?} {args}: {}", ran.outcome.output);
        }
        std::fs::write(fixture.workspace.join("a.txt"), "two\n").unwrap();
        let ran = run(&fixture, &status, json!({})).await;
        assert_eq!(ran.text("stdout"), "## main\n M a.txt\n");
        let command = of_type(&ran.reporter.drafts, "tool.shell.command").remove(0);
        assert_eq!((&command["kind"], &command["argv"][0]), (&json!("git"), &json!("git")));
        let ran = run(&fixture, &diff, json!({ "path": "a.txt" })).await;
        assert!(ran.text("stdout").ends_with("-one\n+two\n"), "{}", ran.outcome.output);
        let ran = run(&fixture, &diff, json!({ "staged": true })).await;
        assert_eq!(ran.text("stdout"), "");
        // A path that looks like an option is not one.
        let ran = run(&fixture, &diff, json!({ "path": "--output=stolen" })).await;
        assert_eq!(ran.exited()["stdout_bytes"], 0);
        assert!(!fixture.workspace.join("stolen").exists());
        // Programs that a repository names are not run.
        let hook = fixture.workspace.join(".git/hooks/pre-commit");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\ntouch hooked\n").unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let ran = run(&fixture, &exec, json!({ "args": ["commit", "-q", "-a", "-m", "second"] })).await;
        assert_eq!(ran.exited()["exit_code"], 0, "{}", ran.outcome.output);
        assert!(!fixture.workspace.join("hooked").exists());
    }
}

/// Runs git outside the sandbox, to prepare a repository.
fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    let named = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"];
    git.current_dir(folder).args(named).args(words).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let done = git.output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "git {words:?}: {stderr}");
    String::from_utf8(done.stdout).unwrap()
}

/// A repository whose settings name a program wherever git accepts one. Each program leaves a file with its name in
/// `marks`.
struct Trapped {
    repository: PathBuf,
    marks: PathBuf,
}

impl Trapped {
    fn set(workspace: &Path) -> Trapped {
        let trapped = Trapped { repository: workspace.to_owned(), marks: workspace.join("marks") };
        std::fs::create_dir(&trapped.marks).unwrap();
        git(workspace, &["init", "-q", "-b", "main"]);
        let sub = workspace.join("sub");
        std::fs::create_dir(&sub).unwrap();
        git(&sub, &["init", "-q", "-b", "main"]);
        std::fs::write(sub.join("in.txt"), "one\n").unwrap();
        git(&sub, &["add", "."]);
        git(&sub, &["commit", "-q", "-m", "first"]);
        for name in ["a.txt", "b.txt", "c.bin", "gone.txt", "odd.txt"] {
            std::fs::write(workspace.join(name), "one\n").unwrap();
        }
        std::fs::write(workspace.join(".gitignore"), "marks\n").unwrap();
        git(workspace, &["-c", "advice.addEmbeddedRepo=false", "add", "."]);
        git(workspace, &["commit", "-q", "-m", "first"]);
        // A missing object, and a remote that claims to have it.
        let blob = git(workspace, &["rev-parse", "HEAD:gone.txt"]);
        let other = "one is not the same\n";
        std::fs::write(workspace.join("gone.txt"), other).unwrap();
        let loose = workspace.join(".git/objects").join(&blob[..2]).join(blob[2..].trim());
        let own = |name: &str| std::fs::write(workspace.join(name), "own\n").unwrap();
        own("gone.txt");
        git(workspace, &["add", "gone.txt"]);
        git(workspace, &["commit", "-q", "-m", "second"]);
        let second = git(workspace, &["rev-parse", "HEAD:gone.txt"]);
        let second = workspace.join(".git/objects").join(&second[..2]).join(second[2..].trim());
        std::fs::remove_file(second).unwrap();
        assert!(loose.exists());
        trapped.arm();
        for name in ["a.txt", "b.txt", "c.bin", "gone.txt", "odd.txt", "sub/in.txt"] {
            std::fs::write(workspace.join(name), "two\n").unwrap();
        }
        trapped
    }

    fn mark(&self, name: &str) -> String {
        format!("touch '{}/{name}'; cat", self.marks.display())
    }

    fn arm(&self) {
        let hooks = self.repository.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        for name in [
            "post-index-change",
            "pre-commit",
            "reference-transaction",
            "fsmonitor-watchman",
            "post-checkout",
        ] {
            let hook = hooks.join(name);
            std::fs::write(&hook, format!("#!/bin/sh\n{}\n", self.mark(name))).unwrap();
            std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let attributes = "*.txt filter=evil diff=evil merge=evil\nodd.txt filter=o=d.d\nb.txt filter=included\n*.bin filter=long\n";
        std::fs::write(self.repository.join(".gitattributes"), attributes).unwrap();
        std::fs::write(self.repository.join(".git/info/attributes"), "a.txt filter=inner\n").unwrap();
        let included = format!("[filter \"included\"]\n\tclean = \"{}\"\n", self.mark("included"));
        std::fs::write(self.repository.join(".git/more"), included).unwrap();
        let sub = self.repository.join("sub");
        std::fs::write(sub.join(".gitattributes"), "* filter=deep diff=deep\n").unwrap();
        let settings: &[(&str, &str)] = &[
            ("filter.evil.clean", "clean"),
            ("filter.evil.smudge", "smudge"),
            ("filter.inner.clean", "inner"),
            ("filter.o=d.d.clean", "odd"),
            ("filter.long.process", "process"),
            ("diff.evil.textconv", "textconv"),
            ("diff.evil.command", "command"),
            ("merge.evil.driver", "merge"),
            ("diff.external", "external"),
            ("core.fsmonitor", "fsmonitor"),
            ("core.pager", "pager"),
            ("pager.diff", "pager_diff"),
            ("pager.status", "pager_status"),
            ("core.editor", "editor"),
            ("core.sshCommand", "ssh"),
            ("core.gitProxy", "proxy"),
            ("core.alternateRefsCommand", "alternates"),
            ("core.askPass", "askpass"),
            ("credential.helper", "credential"),
            ("gpg.program", "gpg"),
            ("interactive.diffFilter", "interactive"),
            ("uploadpack.packObjectsHook", "pack"),
            ("remote.origin.uploadpack", "uploadpack"),
            ("remote.origin.vcs", "vcs"),
            ("alias.extra", "alias"),
            ("trailer.x.command", "trailer"),
            ("submodule.sub.update", "update"),
            ("hook.evil.command", "hook"),
        ];
        for (key, name) in settings {
            let bang = if ["alias.extra", "credential.helper", "submodule.sub.update"].contains(key) {
                "!"
            } else {
                ""
            };
            git(&self.repository, &["config", key, &format!("{bang}{}", self.mark(name))]);
        }
        for (key, value) in [
            ("filter.evil.required", "true"),
            ("filter.long.required", "true"),
            ("hook.evil.event", "post-index-change"),
            ("include.path", "more"),
            ("log.showSignature", "true"),
            ("status.submoduleSummary", "true"),
            ("diff.submodule", "diff"),
            ("diff.ignoreSubmodules", "none"),
            ("protocol.ext.allow", "always"),
            ("remote.origin.promisor", "true"),
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
        ] {
            git(&self.repository, &["config", key, value]);
        }
        let url = format!("ext::sh -c touch% {}/ext", self.marks.display());
        git(&self.repository, &["config", "remote.origin.url", &url]);
        for (key, name) in [
            ("filter.deep.clean", "deep"),
            ("diff.deep.textconv", "deep_textconv"),
            ("core.fsmonitor", "deep_fsmonitor"),
        ] {
            git(&sub, &["config", key, &self.mark(name)]);
        }
    }

    fn marks_left(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.marks).unwrap().map(|mark| mark.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn what_a_repository_names_is_not_run() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let trapped = Trapped::set(&fixture.workspace);
        let (status, diff, exec) = (
            GitStatus::new(fixture.sandbox.clone()),
            GitDiff::new(fixture.sandbox.clone()),
            GitExec::new(fixture.sandbox.clone()),
        );
        let ran = run(&fixture, &status, json!({})).await;
        assert_eq!(trapped.marks_left(), [""; 0], "{mode:?} status: {}", ran.outcome.output);
        assert!(ran.text("stdout").contains(" M a.txt"), "{mode:?}: {}", ran.outcome.output);
        for input in [json!({ "path": "a.txt" }), json!({ "path": "odd.txt" }), json!({ "path": "c.bin" })] {
            let ran = run(&fixture, &diff, input.clone()).await;
            assert!(ran.text("stdout").ends_with("-one\n+two\n"), "{mode:?} {input}: {}", ran.outcome.output);
        }
        for input in
            [json!({}), json!({ "staged": true }), json!({ "path": "gone.txt" }), json!({ "path": "sub" })]
        {
            let ran = run(&fixture, &diff, input.clone()).await;
            assert_eq!(trapped.marks_left(), [""; 0], "{mode:?} diff {input}: {}", ran.outcome.output);
        }
        for words in [
            json!(["status"]),
            json!(["diff"]),
            json!(["log", "-p", "-1", "--", "a.txt"]),
            json!(["show", "HEAD:a.txt"]),
            json!(["blame", "a.txt"]),
            json!(["grep", "two"]),
            json!(["extra"]),
            json!(["fetch", "origin"]),
            json!(["add", "a.txt"]),
            json!(["stash", "list"]),
            json!(["commit", "-q", "-m", "third", "--", "a.txt"]),
            json!(["submodule", "status"]),
            json!(["-C", "sub", "status"]),
            json!(["-C", "sub", "diff"]),
        ] {
            let ran = run(&fixture, &exec, json!({ "args": words })).await;
            assert_eq!(trapped.marks_left(), [""; 0], "{mode:?} {words}: {}", ran.outcome.output);
        }
    }
}
