//! Records what is not a call of the model: requests to the client, todo lists, patches.

use serde_json::{Map, Value};

use super::Recording;
use super::calls::OpenCall;
use crate::draft::Fields;
use crate::ids::{key, map_id};
use crate::kept::{keep, short};
use crate::limits;

/// One item of a list of things to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    pub content: String,
    /// `completed`, `in_progress` or `pending`; anything else is `pending`.
    pub status: String,
    /// In the words of the agent.
    pub priority: Option<String>,
}

/// A patch whose bytes the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFacts {
    /// The id of the artifact in this run.
    pub artifact_id: String,
    /// The digest of the bytes, as the server names it.
    pub hash: Option<String>,
    pub path: String,
    pub size_bytes: u64,
    pub additions: u64,
    pub deletions: u64,
    pub hunks: u64,
}

impl Recording {
    /// The agent sends its client a request: a call that no model proposed and that the client executes.
    pub fn client_call(&mut self, foreign_id: &str, name: &str, input: &Value, summary: &str) {
        let id = map_id(foreign_id);
        if self.ended || self.calls.contains_key(&id) || self.over.get(key(&id)).is_some() {
            return;
        }
        let (input, _) = keep(input, limits::VALUE_BYTES_MAX);
        let name = short(name, limits::NAME_BYTES_MAX);
        if self.calls.len() >= limits::CALLS_OPEN_MAX || self.calls_seen >= limits::CALLS_MAX {
            let body = serde_json::json!({ "tool_call_id": id, "tool_name": name, "input": input });
            return self.note("call_beyond_limit", &body);
        }
        self.calls_seen += 1;
        let summary = short(summary, limits::SENTENCE_BYTES_MAX);
        let fields = Fields::new()
            .put("tool_call_id", id.as_str())
            .put("tool_name", name.as_str())
            .put("args_summary", summary.as_str())
            .put("executor", "client")
            .put("kind", "client")
            .put("input", input.clone());
        self.put("tool.invoked", fields);
        let call = OpenCall {
            name,
            invoked: true,
            denied: false,
            input,
            summary: Some(summary),
            kind: Some("client".to_owned()),
            mcp: None,
        };
        self.calls.insert(id, call);
    }

    /// The list of things to do was replaced. `foreign_id` names this change.
    pub fn todos(&mut self, foreign_id: &str, todos: &[Todo]) {
        let id = map_id(foreign_id);
        if self.ended || self.calls.contains_key(&id) || self.over.get(key(&id)).is_some() {
            return;
        }
        let items: Vec<Value> = todos
            .iter()
            .take(limits::TODOS_MAX)
            .map(|todo| {
                let status = match &*todo.status {
                    known @ ("completed" | "in_progress") => known,
                    _ => "pending",
                };
                let fields = Fields::new()
                    .put("content", short(&todo.content, limits::TODO_BYTES_MAX))
                    .put("status", status)
                    .maybe(
                        "priority",
                        todo.priority.as_deref().map(|text| short(text, limits::NAME_BYTES_MAX)),
                    );
                Value::Object(fields.done())
            })
            .collect();
        let named = || Fields::new().put("tool_call_id", id.as_str()).put("tool_name", "plan");
        self.calls_seen += 1;
        self.put("tool.invoked", named().put("kind", "plan"));
        self.put("tool.todo_write.updated", named().put("todos", items));
        self.put("tool.completed", named().put("kind", "plan"));
        self.over.insert(key(&id), super::How::Completed);
        if todos.len() > limits::TODOS_MAX {
            self.truncated("tool.todo_write.updated", todos.len(), limits::TODOS_MAX);
        }
    }

    /// A change of a file that a call shows.
    pub fn patch(&mut self, foreign_call: Option<&str>, patch: &PatchFacts) {
        let fields = Fields::new()
            .put("artifact_id", map_id(&patch.artifact_id))
            .put("kind", "patch")
            .put("mime", "text/x-diff")
            .put("path", short(&patch.path, limits::SENTENCE_BYTES_MAX))
            .put("size_bytes", patch.size_bytes)
            .put("additions", patch.additions)
            .put("deletions", patch.deletions)
            .put("hunks", patch.hunks)
            .maybe("hash", patch.hash.clone())
            .maybe("tool_call_id", foreign_call.map(map_id));
        self.put("artifact.created", fields);
    }

    /// A draft that the server did not take, kept as `ext.recount.not_taken` with the reason.
    pub fn not_taken(kind: &str, data: &Value, reason: &str) -> crate::Draft {
        let (data, _) = keep(data, limits::RAW_BYTES_MAX);
        let fields: Map<String, Value> = Fields::new()
            .put("of", short(kind, limits::NAME_BYTES_MAX))
            .put("reason", short(reason, limits::SENTENCE_BYTES_MAX))
            .put("data", data)
            .done();
        crate::Draft::new("ext.recount.not_taken", fields)
    }
}
