//! Published Claude Code hook scripts, unchanged: they have the same effect here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use recount_event::Event;

use crate::runs::scene::{Scene, Setup, count, first, refusals, results};

/// A command line validator like the documented example: reasons on stderr, exit status 2.
const VALIDATOR: &str = r#"#!/usr/bin/env python3
import json
import re
import sys

VALIDATION_RULES = [
    (r"\bgrep\b(?!.*\|)", "Use 'rg' (ripgrep) instead of 'grep' for better performance and features"),
    (r"\bgit\s+push\b.*--force", "Never force-push"),
]

def validate_command(command):
    return [message for pattern, message in VALIDATION_RULES if re.search(pattern, command)]

try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

tool_name = input_data.get("tool_name", "")
tool_input = input_data.get("tool_input", {})
command = tool_input.get("command", "")

if tool_name != "Bash" or not command:
    sys.exit(1)

issues = validate_command(command)
if issues:
    for message in issues:
        print(f"• {message}", file=sys.stderr)
    # Exit code 2 blocks tool call and shows stderr to Claude
    sys.exit(2)
"#;

/// Decides with JSON on stdout.
const DECIDER: &str = r#"#!/usr/bin/env python3
import json
import sys

data = json.load(sys.stdin)
assert data["hook_event_name"] == "PreToolUse" and data["session_id"] and data["cwd"]
path = data["tool_input"].get("file_path", "")
def decide(decision, reason):
    print(json.dumps({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason
        }
    }))
    sys.exit(0)

if path.endswith((".md", ".txt")):
    decide("allow", "Documentation file auto-approved")
if path == data["cwd"] + "/.env":
    decide("deny", "Sensitive file")
if path.endswith(".lock"):
    decide("ask", "Lock files are edited by hand only")
"#;

/// The older contract, in shell.
const OLDER: &str = r#"#!/bin/bash
input=$(cat)
if echo "$input" | grep -q '"file_path":"'"$CLAUDE_PROJECT_DIR"'/generated/'; then
  echo '{"decision": "block", "reason": "generated files are not edited"}'
else
  echo '{"decision": "approve"}'
fi
"#;

/// Runs after edits, and records each one.
const FORMATTER: &str = r#"#!/usr/bin/env python3
import json
import os
import sys

data = json.load(sys.stdin)
file_path = data.get("tool_input", {}).get("file_path", "")
if not file_path.endswith(".md") or not data["tool_response"]["success"]:
    sys.exit(0)
with open(file_path) as f:
    content = f.read()
with open(file_path, "w") as f:
    f.write(content.rstrip() + "\n")
print(f"Fixed markdown formatting in {os.path.relpath(file_path, os.environ['CLAUDE_PROJECT_DIR'])}")
"#;

/// The documented one-liner that protects files.
const PROTECT: &str = r#"python3 -c "import json, sys; data=json.load(sys.stdin); path=data.get('tool_input',{}).get('file_path',''); sys.exit(2 if any(p in path for p in ['.env', 'package-lock.json', '.git/']) else 0)""#;

async fn scene(hooks: &str, policy: &str, calls: &[&str]) -> Scene {
    let turn = |call: &&str| format!("[[turn]]\ncall = [{{ {call} }}]\n");
    let script: String = calls.iter().map(turn).chain(["[[turn]]\ntext = 'Done.'\n".to_owned()]).collect();
    let setup = Setup { script, hooks: hooks.to_owned(), policy: policy.to_owned(), ..Setup::default() };
    let scene = Scene::with_setup(setup).await;
    for (name, text) in [
        ("validator.py", VALIDATOR),
        ("decider.py", DECIDER),
        ("older.sh", OLDER),
        ("formatter.py", FORMATTER),
    ] {
        let path = scene.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene
}

fn hook(event: &str, matcher: &str, command: &str) -> String {
    format!(
        "[script]\nevent = '{event}'\nstyle = 'claude-code'\nmatcher = '{matcher}'\ncommand = {command}\n"
    )
}

fn content(events: &[Event], path: &str) -> String {
    let root = first!(*events, RunQueued).workspace_path.unwrap();
    std::fs::read_to_string(Path::new(&root).join(path)).unwrap_or_default()
}

/// The veto of each call, in order, with the reason.
fn vetoes(events: &[Event]) -> Vec<String> {
    refusals(events).into_iter().map(|(code, error)| format!("{code}: {error}")).collect()
}

#[tokio::test]
async fn a_command_line_validator_blocks_with_its_exit_status() {
    let hooks = hook("PreToolUse", "Bash", "['./validator.py']");
    let calls = &[
        "name = 'shell_exec', input = { command = 'grep x a' }",
        "name = 'shell_exec', input = { command = 'echo fine' }",
        "name = 'git_exec', input = { args = ['push', '--force'] }",
        // Its matcher does not select this call.
        "name = 'write_file', input = { path = 'a', content = 'grep x a' }",
    ];
    let scene = scene(&hooks, "[[rules]]\nid = 'all'\ntool = 'git_exec'\naction = 'allow'\n", calls).await;
    let run = scene.start("go").await;
    let events = scene.approve_all(run).await;
    assert_eq!(
        vetoes(&events),
        [
            "vetoed: the hook script vetoed the call: • Use 'rg' (ripgrep) instead of 'grep' for better performance and features",
            "vetoed: the hook script vetoed the call: • Never force-push",
        ]
    );
    assert_eq!((count(&events, "tool.completed"), count(&events, "ext.recount.hook_failed")), (2, 0));
    assert_eq!(content(&events, "a"), "grep x a");
}

#[tokio::test]
async fn a_script_with_json_output_allows_denies_and_asks() {
    let hooks = hook("PreToolUse", "Read|Edit|MultiEdit|Write", "['./decider.py']");
    let calls = &[
        "name = 'write_file', input = { path = 'notes.md', content = 'x' }",
        "name = 'write_file', input = { path = 'src/../.env', content = 'x' }",
        "name = 'multi_edit', input = { edits = [{ path = 'notes.md', old_text = 'x', new_text = 'y' }, { path = '.env', old_text = 'x', new_text = 'y' }] }",
        "name = 'write_file', input = { path = 'a.lock', content = 'x' }",
    ];
    let scene = scene(&hooks, "", calls).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    let messages = vetoes(&events);
    assert_eq!(messages[..2], ["vetoed: the hook script vetoed the call: Sensitive file"; 2]);
    assert!(
        messages[2].contains("requires approval")
            && messages[2].contains("Lock files are edited by hand only")
            && messages[2].contains("policy"),
        "{messages:?}"
    );
    assert_eq!(
        (content(&events, "notes.md"), content(&events, ".env"), messages.len()),
        ("x".into(), String::new(), 3)
    );
}

#[tokio::test]
async fn an_approved_call_is_not_asked_about_again_by_a_hook() {
    let hooks = hook("PreToolUse", "Write", "['./decider.py']");
    let policy = "[[rules]]\nid = 'locks'\ntool = 'write_file'\naction = 'ask'\n";
    let scene =
        scene(&hooks, policy, &["name = 'write_file', input = { path = 'a.lock', content = 'x' }"]).await;
    let run = scene.start("go").await;
    let events = scene.approve_all(run).await;
    assert_eq!((content(&events, "a.lock"), vetoes(&events)), ("x".to_owned(), Vec::new()));
}

#[tokio::test]
async fn older_responses_and_command_lines_are_accepted() {
    let calls = &[
        "name = 'write_file', input = { path = 'generated/a', content = 'x' }",
        "name = 'write_file', input = { path = 'package-lock.json', content = 'x' }",
        "name = 'write_file', input = { path = 'b', content = 'x' }",
    ];
    let older = scene(&hook("PreToolUse", "Edit|Write", "['./older.sh']"), "", calls).await;
    let events = older.ended(older.start("go").await).await;
    assert_eq!(vetoes(&events), ["vetoed: the hook script vetoed the call: generated files are not edited"]);
    let line = format!("'''{PROTECT}'''");
    let protect = scene(&hook("PreToolUse", "Edit|MultiEdit|Write", &line), "", calls).await;
    let events = protect.ended(protect.start("go").await).await;
    assert_eq!(vetoes(&events), ["vetoed: the hook script vetoed the call"]);
    assert_eq!(
        (content(&events, "package-lock.json"), content(&events, "b")),
        (String::new(), "x".to_owned())
    );
}

#[tokio::test]
async fn a_formatter_runs_after_each_edit_and_before_the_next_call() {
    let calls = &[
        "name = 'write_file', input = { path = 'a.md', content = \"one  \\n\\n\\n\" }",
        "name = 'read_file', input = { path = 'a.md' }",
        "name = 'edit_file', input = { path = 'missing.md', old_text = 'x', new_text = 'y' }",
    ];
    let scene = scene(&hook("PostToolUse", "Edit|MultiEdit|Write", "['./formatter.py']"), "", calls).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(content(&events, "a.md"), "one\n");
    assert_eq!(count(&events, "ext.recount.hook_failed"), 0, "{:#?}", scene.stored_lines(run).await);
    let messages = results(&events);
    assert!(messages[1].0.ends_with("one\n") || messages[1].0.ends_with("one"), "{messages:?}");
}
