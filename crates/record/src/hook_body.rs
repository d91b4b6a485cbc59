//! The body of a hook: its content, and the fields that are not read yet.
//!
//! It must not know agents. Look at [`Seen`].

use serde_json::{Map, Value};

use crate::kept::short;
use crate::{CallStart, Outcome, limits};

/// The content of a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A session starts, or continues after a resumption or a compaction.
    SessionStarted,
    /// A person sent a prompt.
    Prompted {
        text: String,
    },
    /// A call is about to be made. Without an id of the agent, `foreign_id` is empty.
    CallStarting(CallStart),
    CallEnded {
        call: CallStart,
        outcome: Outcome,
    },
    /// The agent is about to ask its user for a permission.
    Permission {
        call: CallStart,
        summary: String,
        preview: Option<(&'static str, String)>,
    },
    /// A piece of a text, or all of it.
    Text {
        name: String,
        piece: Option<u64>,
        text: String,
        is_last: bool,
    },
    /// The agent has answered the prompt. `last_text` is its last message, if the hook has it.
    Stopped {
        last_text: Option<String>,
        error: Option<String>,
    },
    SessionEnded {
        reason: String,
    },
    /// An event outside of runs, such as a notification: it opens no run.
    Aside,
    Other,
}

/// The fields of a body that are not taken yet.
pub(crate) struct BodyFields(pub(crate) Map<String, Value>);

impl BodyFields {
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    pub(crate) fn take_text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.0.insert(name.to_owned(), other);
                None
            }
            None => None,
        }
    }

    pub(crate) fn take_number(&mut self, name: &str) -> Option<u64> {
        let number = self.0.get(name)?.as_u64()?;
        self.0.remove(name);
        Some(number)
    }

    pub(crate) fn take_bool(&mut self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(value)) => {
                let value = *value;
                self.0.remove(name);
                value
            }
            _ => false,
        }
    }

    /// The call that a body is about.
    pub(crate) fn call(&mut self) -> CallStart {
        let name = self.take_text("tool_name").unwrap_or_default();
        let input = self.take("tool_input").unwrap_or(Value::Null);
        let foreign_id = self.take_text("tool_use_id").unwrap_or_default();
        let mcp = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        let mcp = mcp.map(|(server, tool)| (server.to_owned(), tool.to_owned()));
        let kind = if mcp.is_some() { Some("mcp".to_owned()) } else { None };
        CallStart { foreign_id, summary: in_one_line(&name, &input), name, input, kind, mcp }
    }
}

/// The most informative field of an input, in one line.
fn in_one_line(name: &str, input: &Value) -> Option<String> {
    let fields = ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
    let text = fields.iter().find_map(|field| input.get(*field).and_then(Value::as_str))?;
    Some(short(&format!("{name}: {}", text.lines().next().unwrap_or("")), limits::NAME_BYTES_MAX * 2))
}

/// The text that a person reads before deciding on a call.
pub(crate) fn permission(call: CallStart) -> Seen {
    let command = call.input.get("command").and_then(Value::as_str);
    let preview = match command {
        Some(command) => ("command", command.to_owned()),
        None => ("input", serde_json::to_string_pretty(&call.input).unwrap_or_default()),
    };
    let summary = call.summary.clone().unwrap_or_else(|| format!("{} with an input", call.name));
    Seen::Permission { call, summary, preview: Some(preview) }
}
