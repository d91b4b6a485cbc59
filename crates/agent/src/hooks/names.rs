//! Translates calls for hooks of Claude Code: the names of its tools, and the shape of their inputs.
//!
//! Start at [`translate`]. A tool without a counterpart keeps its name and its input, and so do tools of MCP servers.
//! Pure.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::matcher::Matcher;
use crate::paths::WorkspacePath;
use crate::policy::quoted;

/// Names of Claude Code's tools. A matcher may also name those without a counterpart here.
pub(super) const FOREIGN_NAMES: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "Edit",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "Skill",
    "SlashCommand",
    "Task",
    "TodoRead",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// A translated call: usually one, but one for each file or edit of a `multi_edit`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ForeignCall {
    pub(super) name: String,
    pub(super) input: Value,
}

/// Translates a call. Empty if the matcher matches none of its names.
pub(super) fn translate(tool: &str, input: &Value, root: &Path, matcher: &Matcher) -> Vec<ForeignCall> {
    let call = |name: &str, input: Value| ForeignCall { name: name.to_owned(), input };
    let calls = match tool {
        "multi_edit" if matcher.is_match("MultiEdit") => split_by_file(input, root),
        // A hook for file edits receives these calls too.
        "multi_edit" => split_by_edit(input, root),
        "shell_exec" => vec![call("Bash", command(input))],
        "git_exec" => vec![call("Bash", git(words(input)))],
        "git_status" => vec![call("Bash", git(vec!["status"]))],
        "git_diff" => vec![call("Bash", git(diff_words(input)))],
        "read_file" => vec![call("Read", rename_members(input, root, FILE))],
        "write_file" => vec![call("Write", rename_members(input, root, FILE))],
        "edit_file" => vec![call("Edit", rename_members(input, root, FILE))],
        "glob" => vec![call("Glob", rename_members(input, root, &[]))],
        "grep" => {
            vec![call("Grep", rename_members(input, root, &[("ignore_case", "-i"), ("context", "-C")]))]
        }
        "todo_write" => vec![call("TodoWrite", input.clone())],
        "web_fetch" => vec![call("WebFetch", input.clone())],
        "web_search" => vec![call("WebSearch", input.clone())],
        other => vec![call(other, input.clone())],
    };
    calls.into_iter().filter(|call| matcher.is_match(&call.name)).collect()
}

/// Whether a matcher can match a call of this tool.
pub(super) fn can_match(tool: &str, matcher: &Matcher) -> bool {
    let probe = json!({ "edits": [{ "path": "a" }] });
    !translate(tool, &probe, Path::new("/"), matcher).is_empty()
}

const FILE: &[(&str, &str)] =
    &[("path", "file_path"), ("old_text", "old_string"), ("new_text", "new_string")];

/// Renames the members of an input and makes paths absolute.
fn rename_members(input: &Value, root: &Path, names: &[(&str, &str)]) -> Value {
    let mut out = Map::new();
    for (name, value) in input.as_object().into_iter().flatten() {
        let other = names.iter().find(|(known, _)| known == name).map_or(name.as_str(), |(_, other)| *other);
        let value = if name == "path" { absolute(value, root) } else { value.clone() };
        out.insert(other.to_owned(), value);
    }
    Value::Object(out)
}

/// Makes a path absolute and resolves `.` and `..` as the tool does. A path that the tool refuses is kept.
fn absolute(path: &Value, root: &Path) -> Value {
    let Some(text) = path.as_str() else { return path.clone() };
    let whole = match WorkspacePath::parse(root, text) {
        Ok(place) if place.is_top() => root.to_owned(),
        Ok(place) => root.join(place.as_path()),
        Err(_) => root.join(text),
    };
    Value::String(whole.to_string_lossy().into_owned())
}

fn command(input: &Value) -> Value {
    let mut out = Map::new();
    out.insert("command".to_owned(), input.get("command").cloned().unwrap_or_default());
    if let Some(seconds) = input.get("timeout_seconds").and_then(Value::as_u64) {
        out.insert("timeout".to_owned(), json!(seconds.saturating_mul(1_000)));
    }
    Value::Object(out)
}

fn git(words: Vec<&str>) -> Value {
    let words: Vec<&str> = std::iter::once("git").chain(words).collect();
    json!({ "command": quoted(&words) })
}

fn words(input: &Value) -> Vec<&str> {
    let words = input.get("args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    words.iter().filter_map(Value::as_str).collect()
}

fn diff_words(input: &Value) -> Vec<&str> {
    let mut words = vec!["diff"];
    if input.get("staged") == Some(&Value::Bool(true)) {
        words.push("--staged");
    }
    if let Some(path) = input.get("path").and_then(Value::as_str) {
        words.extend(["--", path]);
    }
    words
}

fn edits(input: &Value) -> &[Value] {
    input.get("edits").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Claude Code's tool changes one file, so a call for several files becomes several calls.
fn split_by_file(input: &Value, root: &Path) -> Vec<ForeignCall> {
    let mut files: Vec<(Value, Vec<Value>)> = Vec::new();
    for edit in edits(input) {
        let mut edit = rename_members(edit, root, FILE);
        let path = edit.as_object_mut().and_then(|edit| edit.remove("file_path")).unwrap_or_default();
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, edits)) => edits.push(edit),
            None => files.push((path, vec![edit])),
        }
    }
    let call = |(path, edits)| ForeignCall {
        name: "MultiEdit".to_owned(),
        input: json!({ "file_path": path, "edits": edits }),
    };
    files.into_iter().map(call).collect()
}

fn split_by_edit(input: &Value, root: &Path) -> Vec<ForeignCall> {
    let call = |edit| ForeignCall { name: "Edit".to_owned(), input: rename_members(edit, root, FILE) };
    edits(input).iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tool: &str, input: Value, matcher: &str) -> Vec<(String, Value)> {
        let calls = translate(tool, &input, Path::new("/srv"), &Matcher::parse(matcher).unwrap());
        calls.into_iter().map(|call| (call.name, call.input)).collect()
    }

    #[test]
    fn every_tool_is_translated_to_the_name_and_members_that_scripts_expect() {
        for (tool, input, name, expected) in [
            (
                "shell_exec",
                json!({ "command": "ls | wc", "timeout_seconds": 5 }),
                "Bash",
                json!({ "command": "ls | wc", "timeout": 5_000 }),
            ),
            (
                "git_exec",
                json!({ "args": ["commit", "-m", "two words"] }),
                "Bash",
                json!({ "command": "git commit -m 'two words'" }),
            ),
            ("git_status", json!({}), "Bash", json!({ "command": "git status" })),
            (
                "git_diff",
                json!({ "staged": true, "path": "a" }),
                "Bash",
                json!({ "command": "git diff --staged -- a" }),
            ),
            (
                "read_file",
                json!({ "path": "src/../.env", "limit": 3 }),
                "Read",
                json!({ "file_path": "/srv/.env", "limit": 3 }),
            ),
            (
                "write_file",
                json!({ "path": "/srv/a", "content": "x" }),
                "Write",
                json!({ "file_path": "/srv/a", "content": "x" }),
            ),
            (
                "edit_file",
                json!({ "path": "a", "old_text": "x", "new_text": "y", "replace_all": true }),
                "Edit",
                json!({ "file_path": "/srv/a", "old_string": "x", "new_string": "y", "replace_all": true }),
            ),
            (
                "grep",
                json!({ "pattern": "x", "path": ".", "ignore_case": true, "context": 2 }),
                "Grep",
                json!({ "pattern": "x", "path": "/srv", "-i": true, "-C": 2 }),
            ),
            ("glob", json!({ "pattern": "*.rs" }), "Glob", json!({ "pattern": "*.rs" })),
            ("todo_write", json!({ "todos": [] }), "TodoWrite", json!({ "todos": [] })),
            ("mcp__s__t", json!({ "path": "a" }), "mcp__s__t", json!({ "path": "a" })),
            ("other_tool", json!({ "path": "a" }), "other_tool", json!({ "path": "a" })),
        ] {
            assert_eq!(seen(tool, input.clone(), "*"), [(name.to_owned(), expected)], "{tool}");
            assert_eq!(seen(tool, input, "None"), [], "{tool}");
        }
    }

    #[test]
    fn edits_of_several_files_become_one_call_per_file() {
        let input = json!({ "edits": [
            { "path": "a", "old_text": "1", "new_text": "2" },
            { "path": "b", "old_text": "3", "new_text": "4" },
            { "path": "./a", "old_text": "5", "new_text": "6" },
        ] });
        let edit = |old: &str, new: &str| json!({ "old_string": old, "new_string": new });
        assert_eq!(
            seen("multi_edit", input.clone(), "Edit|MultiEdit|Write"),
            [
                (
                    "MultiEdit".to_owned(),
                    json!({ "file_path": "/srv/a", "edits": [edit("1", "2"), edit("5", "6")] })
                ),
                ("MultiEdit".to_owned(), json!({ "file_path": "/srv/b", "edits": [edit("3", "4")] })),
            ]
        );
        // A hook for edits also guards a tool that it does not know.
        let alone = seen("multi_edit", input.clone(), "Edit|Write");
        assert_eq!(alone.len(), 3);
        assert_eq!(
            alone[1],
            ("Edit".to_owned(), json!({ "file_path": "/srv/b", "old_string": "3", "new_string": "4" }))
        );
        assert_eq!(seen("multi_edit", input, "Write"), []);
    }
}
