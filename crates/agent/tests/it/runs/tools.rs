//! Each tool in a run: its events and its output for the model.

use serde_json::{Value, json};

use crate::runs::scene::{Scene, results, types};

/// One call in a run of its own, all in copies of one folder.
struct Case {
    tool: &'static str,
    input: Value,
    /// The events between `tool.started` and the outcome.
    between: &'static [&'static str],
    outcome: &'static str,
    /// A part of the output for the model.
    expected: &'static str,
}

const fn no_events() -> &'static [&'static str] {
    &[]
}

fn case(
    tool: &'static str,
    input: Value,
    between: &'static [&'static str],
    outcome: &'static str,
    expected: &'static str,
) -> Case {
    Case { tool, input, between, outcome, expected }
}

fn fails(tool: &'static str, input: Value, expected: &'static str) -> Case {
    case(tool, input, no_events(), "tool.failed", expected)
}

fn refused(tool: &'static str, input: Value, expected: &'static str) -> Case {
    case(tool, input, no_events(), "tool.refused", expected)
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
        runs.push(scene.start(&format!("case {at}.")).await);
    }
    for (run, case) in runs.into_iter().zip(cases) {
        let events = scene.ended(run).await;
        let context = format!("{} {}: {:#?}", case.tool, case.input, scene.stored_lines(run).await);
        let types = types(&events);
        assert_eq!(types.last(), Some(&"run.finished"), "{context}");
        let end = types.iter().position(|name| *name == case.outcome).unwrap_or_else(|| panic!("{context}"));
        if case.outcome != "tool.refused" {
            let begin = types.iter().position(|name| *name == "tool.started").unwrap();
            let mut between = types[begin + 1..end].to_vec();
            between.dedup_by(|a, b| a == b && *a == "tool.shell.output_chunk");
            assert_eq!(between, case.between, "{context}");
        }
        let results = results(&events);
        let [(text, is_error)] = results.as_slice() else { panic!("{context}") };
        assert_eq!(*is_error, case.outcome != "tool.completed", "{context}");
        assert!(text.contains(case.expected), "{text:?} does not contain {:?}: {context}", case.expected);
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
        case(
            "write_file",
            json!({ "path": "new/c.txt", "content": "x\n" }),
            NEW,
            "tool.completed",
            "Created",
        ),
        case("write_file", json!({ "path": "a.txt", "content": "x\n" }), EDIT, "tool.completed", "Replaced"),
        fails("write_file", json!({ "path": "a.txt", "content": "one\nTWO\ntwo\n" }), "nothing was changed"),
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
            "(3000 replacements)",
        ),
        fails("edit_file", edit("a.txt", "four", "x"), "old_text"),
        fails("edit_file", edit("long.txt", "line", "x"), "3000"),
        fails("edit_file", edit("a.txt", "one", "one"), "nothing was changed"),
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
        // One edit is impossible, and none is made.
        fails("multi_edit", many(&[edit("a.txt", "one", "1"), edit("src/b.rs", "nowhere", "x")]), "old_text"),
        refused("multi_edit", many(&[]), "edits"),
    ])
    .await;
}

#[tokio::test]
async fn files_are_searched() {
    play(vec![
        case("glob", json!({ "pattern": "**/*.rs" }), &["tool.glob.completed"], "tool.completed", "src/b.rs"),
        case(
            "glob",
            json!({ "pattern": "*.none" }),
            &["tool.glob.completed"],
            "tool.completed",
            "No files match",
        ),
        fails("glob", json!({ "pattern": "a[" }), "not a valid glob pattern"),
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
            "No matches",
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
        // An exit status is a result, not a failure of the tool.
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
async fn a_todo_list_is_recorded() {
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
