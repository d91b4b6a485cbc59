//! Completed items of rollouts of Codex: messages, and the outcome of each command and call, which their outputs do not
//! show.
//!
//! An item of a call that the rollout has is an outcome of that call; one that a script of the model ran is a call of its
//! own. It must not know other lines. Entry point: `CodexRollout::completed`.

use serde_json::{Value, json};

use super::{CodexRollout, kind_of, texts_of};
use crate::claude_transcripts::within;
use crate::patch::Patch;
use crate::recording::{CallStart, How, Outcome};
use crate::transcript::{LinePlace, TranscriptLine, TranscriptStep, text};

/// Items that hold nothing which is translated: their lines or those of the responses have the content.
const KNOWN: [&str; 11] = [
    "CollabAgentToolCall",
    "ContextCompaction",
    "HookPrompt",
    "ImageGeneration",
    "ImageView",
    "Plan",
    "Reasoning",
    "Sleep",
    "SubAgentActivity",
    "UserShellCommand",
    "WebSearch",
];

impl CodexRollout {
    pub(super) fn completed(&mut self, item: &Value, line: &mut TranscriptLine) {
        match text(item, "type").unwrap_or_default() {
            "UserMessage" => {
                let content = item.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let images = content.iter().filter(|block| text(block, "type") != Some("text")).count();
                self.message(&texts_of(item), images, line);
            }
            "AgentMessage" => self.assistant_text(&texts_of(item), 1, line),
            "CommandExecution" => self.command_ended(item, line),
            "McpToolCall" => self.mcp_call_ended(item, line),
            "DynamicToolCall" => {
                let error = text(item, "error").unwrap_or("the call failed");
                let failed = item.get("success") == Some(&Value::Bool(false));
                let outcome =
                    Outcome { output: item.get("content_items").cloned(), ..ended(item, failed, error) };
                let call = CallStart {
                    name: text(item, "tool").unwrap_or_default().to_owned(),
                    input: item.get("arguments").cloned().unwrap_or(Value::Null),
                    ..CallStart::default()
                };
                self.call_ended(item, call, outcome, line);
            }
            "FileChange" => self.files_changed(item, line),
            known if KNOWN.contains(&known) => {}
            other => line.unknown = Some(format!("item_completed {other}")),
        }
    }

    /// A command has ended: an item, or the event of earlier versions.
    pub(super) fn command_ended(&mut self, item: &Value, line: &mut TranscriptLine) {
        let status = item.get("exit_code").and_then(Value::as_i64);
        self.shows_status |= status.is_some();
        let output = text(item, "aggregated_output").or_else(|| text(item, "stdout"));
        let outcome = match status {
            Some(0) | None => ended(item, false, "the command failed"),
            Some(_) => Outcome::of(How::Completed).with_exit_status(status),
        };
        let outcome = Outcome { output: output.map(Value::from), ..outcome };
        let call = CallStart {
            name: "exec_command".to_owned(),
            input: json!({ "command": item.get("command"), "cwd": item.get("cwd") }),
            summary: command_of(item.get("command").unwrap_or(&Value::Null)),
            kind: Some("shell".to_owned()),
            ..CallStart::default()
        };
        self.call_ended(item, call, outcome, line);
    }

    /// Files were changed: an item, or the event of earlier versions.
    pub(super) fn files_changed(&mut self, item: &Value, line: &mut TranscriptLine) {
        let failed = item.get("success") == Some(&Value::Bool(false));
        let error =
            text(item, "stderr").filter(|error| !error.is_empty()).unwrap_or("the change was not made");
        let outcome = Outcome { output: text(item, "stdout").map(Value::from), ..ended(item, failed, error) };
        let call = CallStart {
            name: "apply_patch".to_owned(),
            input: json!({ "changes": item.get("changes") }),
            kind: kind_of("apply_patch").map(str::to_owned),
            ..CallStart::default()
        };
        let how = outcome.how;
        let Some(id) = self.call_ended(item, call, outcome, line).filter(|_| how == How::Completed) else {
            return;
        };
        let changes = item.get("changes").and_then(Value::as_object).into_iter().flatten();
        for (path, change) in changes {
            let path = within(path, self.folder.as_deref());
            let content = || text(change, "content");
            let patch = match text(change, "type") {
                Some("add") => content().map(|content| Patch::of(&id, path, None, content)),
                Some("delete") => content().map(|content| Patch::of(&id, path, Some(content), "")),
                _ => text(change, "unified_diff").and_then(|diff| Patch::of_unified(&id, path, diff)),
            };
            if let Some(patch) = patch.filter(|patch| patch.hunks > 0) {
                line.steps.push(TranscriptStep::Patch { patch, status: Some("applied") });
            }
        }
    }

    fn mcp_call_ended(&mut self, item: &Value, line: &mut TranscriptLine) {
        let result = item.get("result").filter(|result| !result.is_null());
        let failed = result.is_some_and(|result| result.get("isError") == Some(&Value::Bool(true)));
        let error =
            item.pointer("/error/message").and_then(Value::as_str).unwrap_or("the tool reported an error");
        let outcome = Outcome { output: result.cloned(), ..ended(item, failed, error) };
        let named = |name: &str| text(item, name).unwrap_or_default().to_owned();
        let (server, tool) = (named("server"), named("tool"));
        let call = CallStart {
            name: format!("mcp__{server}__{tool}"),
            input: item.get("arguments").cloned().unwrap_or(Value::Null),
            kind: Some("mcp".to_owned()),
            mcp: Some((server, tool)),
            ..CallStart::default()
        };
        self.call_ended(item, call, outcome, line);
    }

    /// The outcome of a call that the rollout has, or a call of its own. Returns the id of the call.
    fn call_ended(
        &mut self,
        item: &Value,
        call: CallStart,
        outcome: Outcome,
        line: &mut TranscriptLine,
    ) -> Option<String> {
        let Some(id) = text(item, "call_id").or_else(|| text(item, "id")) else {
            line.unknown = Some("an item without id".to_owned());
            return None;
        };
        line.place = LinePlace::Within;
        let outcome = Outcome { duration_ms: duration_ms(item), ..outcome };
        if let Some(open) = self.open_call(id, call.summary.as_deref()) {
            self.outcomes.insert(open.clone(), outcome);
            return Some(open);
        } else if self.over.contains(id) {
            // Its output came first, and shows no status.
            if outcome.how != How::Completed {
                line.steps.push(TranscriptStep::CallEnd { id: id.to_owned(), outcome });
            }
        } else {
            self.turn(line);
            self.is_answered = false;
            self.over.insert(id.to_owned());
            line.steps.push(TranscriptStep::Call(CallStart { foreign_id: id.to_owned(), ..call }));
            line.steps.push(TranscriptStep::CallEnd { id: id.to_owned(), outcome });
        }
        Some(id.to_owned())
    }

    /// The open call with this id, or the only one that runs this command.
    fn open_call(&self, id: &str, command: Option<&str>) -> Option<String> {
        if self.open_calls.contains_key(id) {
            return Some(id.to_owned());
        }
        let mut same =
            self.open_calls.iter().filter(|(_, of_call)| command.is_some() && of_call.as_deref() == command);
        match (same.next(), same.next()) {
            (Some((only, _)), None) => Some(only.clone()),
            _ => None,
        }
    }
}

/// The outcome by the status of an item.
fn ended(item: &Value, failed: bool, error: &str) -> Outcome {
    match text(item, "status") {
        Some("declined") => Outcome {
            error: Some("the call was declined in the agent's own dialog or by its rules".to_owned()),
            ..Outcome::of(How::Refused)
        },
        Some("failed") => Outcome { error: Some(error.to_owned()), ..Outcome::of(How::Failed) },
        _ if failed => Outcome { error: Some(error.to_owned()), ..Outcome::of(How::Failed) },
        _ => Outcome::of(How::Completed),
    }
}

/// `{"secs":1,"nanos":500000000}`.
fn duration_ms(item: &Value) -> Option<u64> {
    let part = |name: &str| item.get("duration")?.get(name)?.as_u64();
    part("secs")?.checked_mul(1_000)?.checked_add(part("nanos")? / 1_000_000)
}

/// The command that a call's input has.
pub(super) fn command_of_input(input: &Value) -> Option<String> {
    command_of(input.get("cmd").or_else(|| input.get("command"))?)
}

/// A command in one line: what a shell gets as its script, or the words.
fn command_of(command: &Value) -> Option<String> {
    if let Some(line) = command.as_str() {
        return Some(line.to_owned());
    }
    let words: Vec<&str> = command.as_array()?.iter().filter_map(Value::as_str).collect();
    match &words[..] {
        [] => None,
        [_, "-c" | "-lc", script] => Some((*script).to_owned()),
        words => Some(words.join(" ")),
    }
}
