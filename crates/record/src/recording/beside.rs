//! Records what is not a call of the model: requests to the client, todo lists, patches.

use serde_json::{Map, Value};

use super::Recording;
use super::calls::OpenCall;
use crate::draft::Fields;
use crate::ids::{extension_kind, key, map_id};
use crate::kept::{cut, keep, short};
use crate::limits;
use crate::patch::Patch;

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
    pub is_fragment: bool,
}

impl PatchFacts {
    /// Of a patch that the server stored as this artifact.
    pub fn of(patch: &Patch, artifact_id: &str, hash: Option<String>, size_bytes: u64) -> Self {
        PatchFacts {
            artifact_id: artifact_id.to_owned(),
            hash,
            path: patch.path.clone(),
            size_bytes,
            additions: patch.additions,
            deletions: patch.deletions,
            hunks: patch.hunks,
            is_fragment: patch.is_fragment,
        }
    }
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
        let place_unknown = "a part of the file; its place in the file is not known";
        let fields = Fields::new()
            .put("artifact_id", map_id(&patch.artifact_id))
            .put("kind", if patch.is_fragment { "patch_fragment" } else { "patch" })
            .maybe("summary", patch.is_fragment.then_some(place_unknown))
            .put("mime", "text/x-diff")
            .put("path", short(&patch.path, limits::SENTENCE_BYTES_MAX))
            .put("size_bytes", patch.size_bytes)
            .put("additions", patch.additions)
            .put("deletions", patch.deletions)
            .maybe("hunks", (!patch.is_fragment).then_some(patch.hunks))
            .maybe("hash", patch.hash.clone())
            .maybe("tool_call_id", foreign_call.map(map_id));
        self.put("artifact.created", fields);
    }

    /// The agent reports that the call of a patch completed (`applied`), or was refused (`rejected`).
    pub fn patch_status(&mut self, artifact_id: &str, status: &str) {
        let fields = Fields::new()
            .put("artifact_id", map_id(artifact_id))
            .put("field", "status")
            .put("old_value", "proposed")
            .put("new_value", status);
        self.put("artifact.updated", fields);
    }

    /// A patch that the server did not store: its text, within the bound, and the reason.
    pub fn patch_not_stored(&mut self, patch: &Patch, reason: &str) {
        let (text, truncated) = cut(&patch.text, limits::RAW_BYTES_MAX);
        let fields = Fields::new()
            .put("tool_call_id", map_id(&patch.call))
            .put("path", short(&patch.path, limits::SENTENCE_BYTES_MAX))
            .put("diff", text)
            .put("reason", short(reason, limits::SENTENCE_BYTES_MAX))
            .maybe("is_fragment", patch.is_fragment.then_some(true))
            .maybe("truncated", truncated.then_some(true))
            .maybe("size_bytes", truncated.then_some(patch.text.len()));
        self.put(extension_kind(&self.source.agent.clone(), "patch"), fields);
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
