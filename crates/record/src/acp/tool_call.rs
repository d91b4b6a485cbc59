//! What is known of one tool call, put together from its messages.

use serde_json::{Value, json};

use super::replay::KINDS;
use crate::recording::CallStart;
use crate::{keep, limits};

#[derive(Debug, Default)]
pub(super) struct ToolCall {
    title: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    pub(super) status: String,
    pub(super) input: Value,
    raw_output: Value,
    content: Value,
    changes: Vec<Value>,
    /// The call is in the record.
    pub(super) is_told: bool,
    pub(super) told_input: Option<Value>,
    /// Its permission was refused.
    pub(super) is_denied: bool,
}

impl ToolCall {
    /// Takes the fields that a message has.
    pub(super) fn merge(&mut self, update: &Value) {
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
        self.changes.extend(content.iter().filter(is_change).cloned());
        // A change is in its patch.
        let short = |part: &Value| match is_change(&part) {
            true => json!({ "type": "diff", "path": part["path"] }),
            false => part.clone(),
        };
        let content: Value = content.iter().map(short).collect();
        self.content = keep(&content, limits::VALUE_BYTES_MAX).0;
    }

    pub(super) fn has_input(&self) -> bool {
        !self.input.is_null() && self.input != json!({})
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

    /// The agent's own output, or else what it showed.
    pub(super) fn output(&self) -> Option<Value> {
        [&self.raw_output, &self.content].into_iter().find(|value| !value.is_null()).cloned()
    }
}
