//! Git in the sandbox: what it tells, and what a repository cannot make it do.

use recount_agent::tool::{Cancel, Tool};
use recount_agent::tools::git_diff::GitDiff;
use recount_agent::tools::git_exec::GitExec;
use recount_agent::tools::git_status::GitStatus;
use serde_json::{Value, json};

use crate::ground::{Ground, LAYERS, Ran, Told, of_type};

async fn run(ground: &Ground, tool: &dyn Tool, input: Value) -> Ran {
    let (_stop, cancel) = Cancel::new();
    let mut told = Told::default();
    let outcome = ground.carry(tool, input, &mut told, cancel).await;
    Ran { told, outcome }
}

#[tokio::test]
async fn changes_are_told() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let (status, diff, exec) = (
            GitStatus::new(ground.sandbox.clone()),
            GitDiff::new(ground.sandbox.clone()),
            GitExec::new(ground.sandbox.clone()),
        );
        std::fs::write(ground.workspace.join("a.txt"), "one\n").unwrap();
        for args in [
            json!(["init", "-q", "-b", "main"]),
            json!(["config", "user.email", "a@example.org"]),
            json!(["config", "user.name", "A"]),
            json!(["add", "."]),
            json!(["commit", "-q", "-m", "first"]),
        ] {
            let ran = run(&ground, &exec, json!({ "args": args })).await;
            assert_eq!(ran.exited()["exit_code"], 0, "{mode:?} {args}: {}", ran.outcome.output);
        }
        std::fs::write(ground.workspace.join("a.txt"), "two\n").unwrap();
        let ran = run(&ground, &status, json!({})).await;
        assert_eq!(ran.text("stdout"), "## main\n M a.txt\n");
        let command = of_type(&ran.told.drafts, "tool.shell.command").remove(0);
        assert_eq!((&command["kind"], &command["argv"][0]), (&json!("git"), &json!("git")));
        let ran = run(&ground, &diff, json!({ "path": "a.txt" })).await;
        assert!(ran.text("stdout").ends_with("-one\n+two\n"), "{}", ran.outcome.output);
        let ran = run(&ground, &diff, json!({ "staged": true })).await;
        assert_eq!(ran.text("stdout"), "");
        // Not an option, whatever it looks like.
        let ran = run(&ground, &diff, json!({ "path": "--output=stolen" })).await;
        assert_eq!(ran.exited()["stdout_bytes"], 0);
        assert!(!ground.workspace.join("stolen").exists());
        // What a repository names is not run.
        let hook = ground.workspace.join(".git/hooks/pre-commit");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\ntouch hooked\n").unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let ran = run(&ground, &exec, json!({ "args": ["commit", "-q", "-a", "-m", "second"] })).await;
        assert_eq!(ran.exited()["exit_code"], 0, "{}", ran.outcome.output);
        assert!(!ground.workspace.join("hooked").exists());
    }
}
