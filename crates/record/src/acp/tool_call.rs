//! The state of one tool call, merged from its messages.

use serde_json::{Map, Value, json};

use super::replay::KINDS;
use crate::exit_status::exit_status;
use crate::patch::Patch;
use crate::recording::CallStart;
use crate::{cut, keep, limits};

#[derive(Debug, Default)]
pub(super) struct ToolCall {
    pub(super) title: Option<String>,
    name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) status: String,
    pub(super) input: Value,
    raw_output: Value,
    content: Value,
    changes: Vec<Value>,
    pub(super) patches: Vec<ShownPatch>,
    /// Changes whose place is not known; the agent may still send it.
    pub(super) fragments: Vec<Patch>,
    /// The changes of its last message that has any.
    pub(super) shown_changes: Vec<Value>,
    terminal: Option<TerminalOutput>,
    /// Fields of its messages for which no event has a place, together.
    rest: Map<String, Value>,
    rest_bytes: usize,
    recorded_rest: Map<String, Value>,
    /// The call is in the record.
    pub(super) is_recorded: bool,
    pub(super) recorded_input: Option<Value>,
    /// Its permission was refused.
    pub(super) is_denied: bool,
}

/// A patch that a call shows.
#[derive(Debug)]
pub(super) struct ShownPatch {
    pub(super) key: u64,
    pub(super) path: String,
    /// The key of the text that it results in.
    pub(super) result: u64,
}

/// The output of a command in the agent's own terminal. Agents send it in `_meta` of the call.
#[derive(Debug, Default)]
struct TerminalOutput {
    text: String,
    is_truncated: bool,
    exit: Value,
}

impl TerminalOutput {
    fn add(&mut self, piece: &str) {
        let (kept, is_truncated) = cut(piece, limits::VALUE_BYTES_MAX.saturating_sub(self.text.len()));
        self.text.push_str(kept);
        self.is_truncated |= is_truncated;
    }

    fn value(&self) -> Value {
        let mut value = json!({ "terminal_output": self.text });
        if !self.exit.is_null() {
            value["exit_code"] = self.exit["exit_code"].clone();
            value["signal"] = self.exit["signal"].clone();
        }
        if self.is_truncated {
            value["truncated"] = true.into();
        }
        value
    }
}

/// Fields that have their place in the events of a call.
const PLACED: [&str; 9] =
    ["sessionUpdate", "toolCallId", "title", "name", "kind", "status", "rawInput", "rawOutput", "content"];

impl ToolCall {
    /// Takes the fields that a message has.
    pub(super) fn merge(&mut self, update: &Value) {
        self.merge_terminal(&update["_meta"]);
        self.merge_rest(update);
        let text = |name: &str| update[name].as_str().map(str::to_owned);
        self.title = text("title").or(self.title.take());
        self.name = text("name").or(self.name.take());
        self.kind = text("kind").or(self.kind.take());
        if let Some(status) = text("status") {
            self.status = status;
        }
        if !update["rawInput"].is_null() {
            self.input = keep(&update["rawInput"], limits::VALUE_BYTES_MAX).0;
        }
        if !update["rawOutput"].is_null() {
            self.raw_output = keep(&update["rawOutput"], limits::VALUE_BYTES_MAX).0;
        }
        let Some(content) = update["content"].as_array() else { return };
        let is_change = |part: &&Value| part["type"] == "diff";
        let mut changes: Vec<Value> = content.iter().filter(is_change).cloned().collect();
        // This agent sends each changed place of a file as a change, with its line in `locations` once it is known.
        if update["_meta"]["claudeCode"].is_object() {
            for (at, change) in changes.iter_mut().enumerate() {
                change["startLine"] = update["locations"][at]["line"].clone();
                change["isPart"] = true.into();
            }
        }
        if !changes.is_empty() {
            self.shown_changes.clone_from(&changes);
        }
        self.changes.extend(changes);
        // A change is in its patch.
        let short = |part: &Value| match is_change(&part) {
            true => json!({ "type": "diff", "path": part["path"] }),
            false => part.clone(),
        };
        let content: Value = content.iter().map(short).collect();
        self.content = keep(&content, limits::VALUE_BYTES_MAX).0;
    }

    fn merge_terminal(&mut self, meta: &Value) {
        let (whole, piece, exit) = (
            &meta["terminal_output"]["data"],
            &meta["terminal_output_delta"]["data"],
            &meta["terminal_exit"],
        );
        if let Some(whole) = whole.as_str() {
            let terminal = self.terminal.get_or_insert_default();
            // Some agents send all of it again, and others what is new.
            if !terminal.text.is_empty() && whole.starts_with(&terminal.text) {
                terminal.text.clear();
            }
            terminal.add(whole);
        }
        if let Some(piece) = piece.as_str() {
            self.terminal.get_or_insert_default().add(piece);
        }
        if exit.is_object() {
            self.terminal.get_or_insert_default().exit = exit.clone();
        }
    }

    fn merge_rest(&mut self, update: &Value) {
        let Some(fields) = update.as_object() else { return };
        for (name, value) in fields.iter().filter(|(name, _)| !PLACED.contains(&&***name)) {
            let mut value = value.clone();
            if let ("_meta", Some(meta)) = (&**name, value.as_object_mut()) {
                meta.retain(|name, _| !name.starts_with("terminal_"));
            }
            let is_empty = match &value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if is_empty {
                continue;
            }
            if self.rest_bytes >= limits::RAW_BYTES_MAX {
                self.rest.insert("truncated".to_owned(), true.into());
                return;
            }
            let value = keep(&value, limits::RAW_BYTES_MAX).0;
            self.rest_bytes += name.len() + value.to_string().len();
            self.rest.insert(name.clone(), value);
        }
    }

    /// The fields without a typed event, if they changed since the last call of this function.
    pub(super) fn take_rest(&mut self) -> Option<Map<String, Value>> {
        if self.rest == self.recorded_rest {
            return None;
        }
        self.recorded_rest.clone_from(&self.rest);
        Some(self.rest.clone())
    }

    pub(super) fn take_changes(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn start(&self, id: &str) -> CallStart {
        let kind = self.kind.clone().filter(|kind| KINDS.contains(&&**kind));
        let named = self.name.clone().or(kind.clone().filter(|kind| kind != "other"));
        CallStart {
            foreign_id: id.to_owned(),
            name: named.unwrap_or_else(|| "tool".to_owned()),
            input: self.input.clone(),
            summary: self.title.clone(),
            kind,
            mcp: None,
        }
    }

    /// Whether the agent sent the input.
    pub(super) fn has_input(&self) -> bool {
        match &self.input {
            Value::Null => false,
            Value::Object(fields) => !fields.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        }
    }

    /// The exit status of a command, from its terminal, its output, or what the agent shows of it.
    pub(super) fn exit_status(&self) -> Option<i64> {
        let terminal = self.terminal.as_ref().and_then(|terminal| terminal.exit["exit_code"].as_i64());
        let is_command = self.kind.as_deref() == Some("execute");
        let text = || self.text().map(Value::String);
        terminal.or_else(|| {
            is_command.then(|| exit_status(&self.raw_output).or_else(|| exit_status(&text()?)))?
        })
    }

    /// The text that the agent shows of the outcome.
    pub(super) fn text(&self) -> Option<String> {
        let parts = self.content.as_array().into_iter().flatten();
        let texts: Vec<&str> = parts.filter_map(|part| part["content"]["text"].as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// What the agent shows of the outcome, if its own output is something else.
    pub(super) fn shown_beside_output(&self) -> Option<&Value> {
        let differs = |text: String| self.raw_output.as_str() != Some(&*text);
        (!self.raw_output.is_null() && self.text().is_some_and(differs)).then_some(&self.content)
    }

    /// The agent's own output, or else what its terminal printed, or else what it showed.
    pub(super) fn output(&self) -> Option<Value> {
        let terminal = self.terminal.as_ref().map(TerminalOutput::value);
        [Some(&self.raw_output), terminal.as_ref(), Some(&self.content)]
            .into_iter()
            .flatten()
            .find(|value| !value.is_null())
            .cloned()
    }
}
