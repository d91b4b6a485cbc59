//! Each tool in a run: what is in the log, and what the model is told.

use serde_json::{Value, json};

use crate::runs::scene::{Scene, results, types};

/// One call in a run of its own, all in copies of one folder.
struct Case {
    tool: &'static str,
    input: Value,
    /// What stands between `tool.started` and the outcome.
    between: &'static [&'static str],
    outcome: &'static str,
    /// Occurs in what the model is told.
    told: &'static str,
}

const fn no_events() -> &'static [&'static str] {
    &[]
}

fn case(
    tool: &'static str,
    input: Value,
    between: &'static [&'static str],
    outcome: &'static str,
    told: &'static str,
) -> Case {
    Case { tool, input, between, outcome, told }
}

fn fails(tool: &'static str, input: Value, told: &'static str) -> Case {
    case(tool, input, no_events(), "tool.failed", told)
}

fn refused(tool: &'static str, input: Value, told: &'static str) -> Case {
    case(tool, input, no_events(), "tool.refused", told)
}

const NEW: &[&str] =
    &["artifact.created", "tool.file_write.proposed", "tool.file_write.applied", "artifact.updated"];
const EDIT: &[&str] = &["artifact.created", "tool.edit.proposed", "tool.edit.applied", "artifact.updated"];
const SHELL: &[&str] = &["tool.shell.command", "tool.shell.output_chunk", "tool.shell.exited"];
const SILENT: &[&str] = &["tool.shell.command", "tool.shell.exited"];

async fn play(cases: Vec<Case>) {
    let mut script = String::new();
    for (at, case) in cases.iter().enumerate() {
        script += &format!(
            "[[scene]]\nwhen = 'case {at}.'\n[[scene.turn]]\ncall = [{{ name = '{}', raw = '''{}''' }}]\n\
             [[scene.turn]]\ntext = 'Done.'\n",
            case.tool, case.input
        );
    }
    let scene = Scene::with(&script).await;
    scene.put("a.txt", "one\ntwo\ntwo\n");
    scene.put("src/b.rs", "fn main() {}\n");
    scene.put("bytes", b"\0\x01\x02");
    scene.put("long.txt", "a line of some length\n".repeat(3_000));
    git(&scene, &["init", "--quiet"]);
    git(&scene, &["add", "."]);
    git(&scene, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"]);
    scene.put("a.txt", "one\nTWO\ntwo\n");
    let mut runs = Vec::new();
    for at in 0..cases.len() {
        runs.push(scene.ask(&format!("case {at}.")).await);
    }
    for (run, case) in runs.into_iter().zip(cases) {
        let events = scene.ended(run).await;
        let said = format!("{} {}: {:#?}", case.tool, case.input, scene.told(run).await);
        let types = types(&events);
        assert_eq!(types.last(), Some(&"run.finished"), "{said}");
        let end = types.iter().position(|name| *name == case.outcome).unwrap_or_else(|| panic!("{said}"));
        if case.outcome != "tool.refused" {
            let begin = types.iter().position(|name| *name == "tool.started").unwrap();
            let mut between = types[begin + 1..end].to_vec();
            between.dedup_by(|a, b| a == b && *a == "tool.shell.output_chunk");
            assert_eq!(between, case.between, "{said}");
        }
        let results = results(&events);
        let [(told, wrong)] = results.as_slice() else { panic!("{said}") };
        assert_eq!(*wrong, case.outcome != "tool.completed", "{said}");
        assert!(told.contains(case.told), "{told:?} does not hold {:?}: {said}", case.told);
    }
}

pub(crate) fn git(scene: &Scene, args: &[&str]) {
    let status = std::process::Command::new("git").args(args).current_dir(scene.work()).status().unwrap();
    assert!(status.success(), "git {args:?}");
}

#[tokio::test]
async fn files_are_read() {
    play(vec![
        case("read_file", json!({ "path": "a.txt" }), &["tool.file_read.completed"], "tool.completed", "TWO"),
        case(
            "read_file",
            json!({ "path": "a.txt", "offset": 3, "limit": 1 }),
            &["tool.file_read.completed"],
            "tool.completed",
            "two",
        ),
        case(
            "read_file",
            json!({ "path": "long.txt", "limit": 2 }),
            &["artifact.created", "tool.file_read.completed"],
            "tool.completed",
            "a line of some length",
        ),
        fails("read_file", json!({ "path": "nothing.txt" }), "nothing.txt"),
        fails("read_file", json!({ "path": "src" }), "is a folder"),
        fails("read_file", json!({ "path": "bytes" }), "binary"),
        fails("read_file", json!({ "path": "a.txt", "offset": 99 }), "99"),
        fails("read_file", json!({ "path": "../secret" }), "../secret"),
        refused("read_file", json!({ "path": "a.txt", "offset": 0 }), "offset"),
        refused("read_file", json!({}), "path"),
    ])
    .await;
}

#[tokio::test]
async fn files_are_written() {
    play(vec![
        case("write_file", json!({ "path": "new/c.txt", "content": "x\n" }), NEW, "tool.completed", "Made"),
        case(
            "write_file",
            json!({ "path": "a.txt", "content": "x\n" }),
            EDIT,
            "tool.completed",
            "Replaced the content of",
        ),
        fails("write_file", json!({ "path": "a.txt", "content": "one\nTWO\ntwo\n" }), "nothing would change"),
        fails("write_file", json!({ "path": "src", "content": "x" }), "is a folder"),
        fails("write_file", json!({ "path": ".git/config", "content": "x" }), ".git"),
        fails("write_file", json!({ "path": "/etc/passwd", "content": "x" }), "/etc/passwd"),
    ])
    .await;
}

#[tokio::test]
async fn files_are_edited() {
    let edit = |path: &str, old: &str, new: &str| json!({ "path": path, "old_text": old, "new_text": new });
    let many = |edits: &[Value]| json!({ "edits": edits });
    play(vec![
        case("edit_file", edit("a.txt", "one", "three"), EDIT, "tool.completed", "Edited"),
        case(
            "edit_file",
            json!({ "path": "long.txt", "old_text": "some", "new_text": "any", "replace_all": true }),
            EDIT,
            "tool.completed",
            "in 3000 places",
        ),
        fails("edit_file", edit("a.txt", "four", "x"), "old_text"),
        fails("edit_file", edit("long.txt", "line", "x"), "3000"),
        fails("edit_file", edit("a.txt", "one", "one"), "nothing would change"),
        fails("edit_file", edit("none.txt", "one", "x"), "write_file"),
        fails("edit_file", edit("bytes", "one", "x"), "binary"),
        refused("edit_file", edit("a.txt", "", "x"), "old_text"),
        case(
            "multi_edit",
            many(&[edit("a.txt", "one", "1"), edit("src/b.rs", "main", "other"), edit("a.txt", "1", "uno")]),
            &[
                "artifact.created",
                "artifact.created",
                "tool.multi_edit.proposed",
                "tool.multi_edit.applied",
                "artifact.updated",
                "artifact.updated",
            ],
            "tool.completed",
            "src/b.rs: 1 hunk",
        ),
        // One that cannot be made, and none is.
        fails("multi_edit", many(&[edit("a.txt", "one", "1"), edit("src/b.rs", "nowhere", "x")]), "old_text"),
        refused("multi_edit", many(&[]), "edits"),
    ])
    .await;
}

#[tokio::test]
async fn files_are_looked_for() {
    play(vec![
        case("glob", json!({ "pattern": "**/*.rs" }), &["tool.glob.completed"], "tool.completed", "src/b.rs"),
        case(
            "glob",
            json!({ "pattern": "*.none" }),
            &["tool.glob.completed"],
            "tool.completed",
            "No file fits",
        ),
        fails("glob", json!({ "pattern": "a[" }), "no pattern"),
        fails("glob", json!({ "pattern": "*", "path": "nowhere" }), "nowhere"),
        case(
            "grep",
            json!({ "pattern": "fn \\w+", "context": 1 }),
            &["tool.grep.completed"],
            "tool.completed",
            "fn main",
        ),
        case(
            "grep",
            json!({ "pattern": "nowhere" }),
            &["tool.grep.completed"],
            "tool.completed",
            "Nothing fits",
        ),
        fails("grep", json!({ "pattern": "(" }), "regular expression"),
        refused("grep", json!({ "pattern": "a", "context": 10_000 }), "context"),
    ])
    .await;
}

#[tokio::test]
async fn commands_are_run() {
    let run = |command: &str| json!({ "command": command });
    play(vec![
        case("shell_exec", run("cat a.txt; echo no >&2"), SHELL, "tool.completed", "TWO"),
        // A status is an answer, and not a failure of the tool.
        case("shell_exec", run("exit 3"), SILENT, "tool.completed", "exit code 3"),
        case("shell_exec", run("kill -9 $$"), SILENT, "tool.failed", "ended by SIGKILL (signal 9)"),
        case("shell_exec", run("no-such-program"), SHELL, "tool.completed", "exit code 127"),
        case("shell_exec", run("printf '\\377\\376'"), SHELL, "tool.completed", "exit code 0"),
        case(
            "shell_exec",
            json!({ "command": "while true; do :; done", "timeout_seconds": 1 }),
            SILENT,
            "tool.timed_out",
            "longer than 1 s",
        ),
        refused("shell_exec", json!({ "command": "ls", "timeout_seconds": 0 }), "timeout_seconds"),
        refused("shell_exec", json!({ "cmd": "ls" }), "command"),
    ])
    .await;
}

#[tokio::test]
async fn git_is_run() {
    play(vec![
        case("git_status", json!({}), SHELL, "tool.completed", " M a.txt"),
        case("git_diff", json!({}), SHELL, "tool.completed", "+TWO"),
        case("git_diff", json!({ "staged": true }), SILENT, "tool.completed", "exit code 0"),
        case("git_diff", json!({ "path": "src" }), SILENT, "tool.completed", "exit code 0"),
        case("git_exec", json!({ "args": ["log", "--oneline"] }), SHELL, "tool.completed", "all"),
        case("git_exec", json!({ "args": ["no-such-verb"] }), SHELL, "tool.completed", "exit code 1"),
        refused("git_exec", json!({ "args": [] }), "args"),
        refused("git_status", json!({ "path": "a" }), "path"),
    ])
    .await;
}

#[tokio::test]
async fn a_list_of_things_to_do_is_kept() {
    let todo = |content: &str, status: &str| json!({ "content": content, "status": status });
    play(vec![
        case(
            "todo_write",
            json!({ "todos": [todo("one", "completed"), todo("two", "pending")] }),
            &["tool.todo_write.updated"],
            "tool.completed",
            "1 of 2 done",
        ),
        refused("todo_write", json!({ "todos": [todo("one", "perhaps")] }), "status"),
    ])
    .await;
}
