//! Projects one tool call for the editor: its title, kind, files and result. Pure.
//!
//! Must not depend on events other than the outcome of a call. Start with [`Call`].

use std::path::Path;

use recount_event::ForeignId;
use recount_event::family::tool::Ended;
use serde_json::{Value, json};

use crate::limits;
use crate::patch::Sides;

#[derive(Debug, Clone)]
pub(super) struct Call {
    id: String,
    title: String,
    kind: &'static str,
    input: Option<Value>,
    /// Absolute paths.
    locations: Vec<String>,
    status: &'static str,
    /// Permanent content: diffs and texts about them.
    content: Vec<Value>,
    /// The beginning of the output of a running command.
    output: String,
    output_is_cut: bool,
    /// The result as text.
    result: String,
}

pub(super) fn text(words: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": words } })
}

pub(crate) fn diff(path: &str, place: &Sides) -> Value {
    json!({ "type": "diff", "path": path, "oldText": place.old, "newText": place.new })
}

/// A path in the folder of a run.
pub(crate) fn absolute(root: Option<&str>, path: &str) -> String {
    match root {
        Some(root) if !Path::new(path).is_absolute() => {
            Path::new(root).join(path).to_string_lossy().into_owned()
        }
        _ => path.to_owned(),
    }
}

impl Call {
    pub(super) fn proposed(id: &ForeignId, name: &str, input: Value, root: Option<&str>) -> Self {
        let paths = input.get("path").into_iter().chain(
            input
                .get("edits")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|edit| edit.get("path")),
        );
        let mut locations: Vec<String> =
            paths.filter_map(Value::as_str).map(|path| absolute(root, path)).collect();
        locations.dedup();
        let title = title(name, subject(&input).as_deref());
        Call { input: Some(input), locations, ..Call::new(id, name, title) }
    }

    pub(super) fn invoked(id: &ForeignId, name: &str, summary: Option<&str>) -> Self {
        Call::new(id, name, title(name, summary))
    }

    fn new(id: &ForeignId, name: &str, title: String) -> Self {
        Call {
            id: id.as_str().to_owned(),
            title,
            kind: kind(name),
            input: None,
            locations: Vec::new(),
            status: "pending",
            content: Vec::new(),
            output: String::new(),
            output_is_cut: false,
            result: String::new(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The first update of the call.
    pub(super) fn opening(&self) -> Value {
        let mut update = self.shown();
        update["sessionUpdate"] = json!("tool_call");
        update
    }

    /// The complete current state of the call.
    pub(super) fn shown(&self) -> Value {
        let mut shown = json!({
            "toolCallId": self.id,
            "title": self.title,
            "kind": self.kind,
            "status": self.status,
        });
        let content = self.content_now();
        if !content.is_empty() {
            shown["content"] = json!(content);
        }
        if !self.locations.is_empty() {
            let place = |path: &String| json!({ "path": path });
            shown["locations"] = self.locations.iter().map(place).collect();
        }
        if let Some(input) = &self.input {
            shown["rawInput"] = input.clone();
        }
        shown
    }

    fn update(&self, fields: &Value) -> Value {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": self.id });
        if let (Some(update), Some(fields)) = (update.as_object_mut(), fields.as_object()) {
            update.extend(fields.clone());
        }
        update
    }

    pub(super) fn start(&mut self) -> Option<Value> {
        if self.status != "pending" {
            return None;
        }
        self.status = "in_progress";
        Some(self.update(&json!({ "status": self.status })))
    }

    pub(super) fn refuse(&mut self, message: &str) -> Value {
        self.finish("failed", message)
    }

    pub(super) fn end(&mut self, ended: &Ended, is_completed: bool) -> Value {
        let output = ended.output.as_ref().map(recount_event::Json::texts).filter(|text| !text.is_empty());
        let mut words: Vec<String> = output.into_iter().collect();
        if let Some(error) = &ended.error {
            let code = ended.code.as_ref().map_or(String::new(), |code| format!(" ({code})"));
            let is_included = words.iter().any(|word| word.contains(error.as_str()));
            if !is_included {
                words.push(format!("{error}{code}"));
            }
        }
        if words.is_empty() {
            words.extend(ended.summary.clone());
        }
        if ended.output_incomplete == Some(true) {
            words.push("The command was interrupted; output after this may be missing.".to_owned());
        }
        if let Some(artifact) = &ended.result_artifact_id {
            words.push(format!("The complete output is in the artifact {}.", artifact.as_str()));
        }
        self.finish(if is_completed { "completed" } else { "failed" }, &words.join("\n"))
    }

    fn finish(&mut self, status: &'static str, words: &str) -> Value {
        self.status = status;
        self.output.clear();
        self.output_is_cut = false;
        words.clone_into(&mut self.result);
        self.update(&json!({ "status": status, "content": self.content_now() }))
    }

    /// Adds output of a running command. Only its beginning is shown.
    pub(super) fn output(&mut self, piece: &str) -> Option<Value> {
        if self.output_is_cut || piece.is_empty() {
            return None;
        }
        let left = limits::LIVE_OUTPUT_BYTES_MAX - self.output.len();
        let fits = piece.floor_char_boundary(left);
        self.output.push_str(&piece[..fits]);
        self.output_is_cut = fits < piece.len();
        Some(self.update_content())
    }

    /// Adds permanent content.
    pub(super) fn add(&mut self, content: Value) {
        self.content.push(content);
    }

    pub(super) fn update_content(&self) -> Value {
        self.update(&json!({ "content": self.content_now() }))
    }

    /// The permanent content, then the result, or the output so far.
    fn content_now(&self) -> Vec<Value> {
        let mut content = self.content.clone();
        if !self.result.is_empty() {
            content.push(text(&self.result));
        } else if self.output_is_cut {
            content.push(text(&format!("{}\n[More output follows with the result.]", self.output)));
        } else if !self.output.is_empty() {
            content.push(text(&self.output));
        }
        content
    }
}

fn kind(name: &str) -> &'static str {
    match name {
        "read_file" | "git_status" | "git_diff" | "git_log" | "git_show" => "read",
        "write_file" | "edit_file" | "multi_edit" => "edit",
        "glob" | "grep" => "search",
        "shell_exec" | "git" => "execute",
        "http_request" | "web_fetch" | "web_search" => "fetch",
        "todo_write" => "think",
        _ if name.starts_with("git_") => "execute",
        _ => "other",
    }
}

/// The subject of a call, from its input.
fn subject(input: &Value) -> Option<String> {
    let keys = ["command", "pattern", "path", "url", "query", "prompt", "reason"];
    let value = keys.iter().find_map(|key| input.get(key).and_then(Value::as_str)).map(str::to_owned);
    let words = |args: &Vec<Value>| args.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    value.or_else(|| input.get("args").and_then(Value::as_array).map(words))
}

fn title(name: &str, subject: Option<&str>) -> String {
    let subject = subject.map(|subject| subject.split_whitespace().collect::<Vec<_>>().join(" "));
    match subject.filter(|subject| !subject.is_empty()) {
        Some(subject) => shortened(&format!("{name}: {subject}")),
        None => shortened(name),
    }
}

/// The beginning of a text of one line.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(limits::TITLE_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
