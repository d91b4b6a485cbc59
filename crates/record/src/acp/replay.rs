//! Creates the `session/update` notifications that replay a recorded run. See [`Replay`].
//!
//! It must not show what the record does not have.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Shows the events of one run, in order.
#[derive(Debug, Default)]
pub struct Replay {
    calls: BTreeMap<String, Map<String, Value>>,
}

impl Replay {
    /// The updates that an event becomes.
    pub fn event(&mut self, kind: &str, data: &Value) -> Option<Value> {
        let text = |name: &str| data[name].as_str().unwrap_or("");
        match kind {
            "user.message" => Some(chunk("user_message_chunk", text("text"))),
            "assistant.text_complete" if text("text").is_empty() => None,
            "assistant.text_complete" => Some(chunk("agent_message_chunk", text("text"))),
            "ext.acp.agent_thought_chunk" => {
                Some(json!({"sessionUpdate": "agent_thought_chunk", "content": data["raw"]["content"]}))
                    .filter(|_| data["raw"]["content"].is_object())
            }
            "assistant.tool_call_proposed" => {
                let mut call = Map::new();
                let id = data["provider_call_id"].as_str().unwrap_or(text("tool_call_id"));
                call.insert("sessionUpdate".into(), "tool_call".into());
                call.insert("toolCallId".into(), id.into());
                call.insert("title".into(), text("tool_name").into());
                call.insert("rawInput".into(), data["input"].clone());
                self.calls.insert(text("tool_call_id").to_owned(), call);
                None
            }
            "tool.invoked" => {
                let call = self.calls.get_mut(text("tool_call_id"))?;
                if let Some(title) = data["args_summary"].as_str() {
                    call.insert("title".into(), title.into());
                }
                if let Some(kind) = data["kind"].as_str().filter(|kind| KINDS.contains(kind)) {
                    call.insert("kind".into(), kind.into());
                }
                None
            }
            "tool.completed" => self.settle(data, "completed"),
            "tool.failed" | "tool.cancelled" | "tool.timed_out" | "tool.refused" => {
                self.settle(data, "failed")
            }
            "tool.todo_write.updated" => Some(plan(data)),
            _ => None,
        }
    }

    /// A call is shown with its outcome. Requests to the editor are no calls of the model and are not shown.
    fn settle(&mut self, data: &Value, status: &str) -> Option<Value> {
        let mut call = self.calls.remove(data["tool_call_id"].as_str()?)?;
        call.insert("status".into(), status.into());
        let output =
            [&data["output"], &data["error"], &data["message"]].into_iter().find(|value| !value.is_null());
        if let Some(output) = output {
            call.insert("rawOutput".into(), output.clone());
        }
        Some(Value::Object(call))
    }
}

/// Kinds of tools that the protocol has.
pub(super) const KINDS: [&str; 10] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];

fn chunk(update: &str, text: &str) -> Value {
    json!({"sessionUpdate": update, "content": {"type": "text", "text": text}})
}

fn plan(data: &Value) -> Value {
    let entry = |todo: &Value| {
        json!({
            "content": todo["content"],
            "status": todo["status"],
            // The protocol requires one.
            "priority": todo["priority"].as_str().unwrap_or("medium"),
        })
    };
    let entries: Vec<Value> = data["todos"].as_array().into_iter().flatten().map(entry).collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}
