//! Adds the seed messages of a session to a conversation.
//!
//! Content that cannot be sent to a model is left out: thinking, results without a call, and texts that the application
//! marks as aborted or abandoned. It must not depend on a provider. Start with [`Conversation::seed`].

use serde_json::Value;

use super::{Conversation, HistoryCall, HistoryItem, ModelTurn, StoredResult, parts};

impl Conversation {
    /// Adds the next seed message. System messages are kept apart, because they go into the system prompt.
    pub fn seed(&mut self, message: &Value) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match message.get("role").and_then(Value::as_str) {
            Some("system") => {
                let text: Vec<String> =
                    parts::of_content(content).iter().map(|part| part.text().to_owned()).collect();
                self.system.push(text.join("\n"));
            }
            Some("user") => {
                let parts = parts::of_content(content);
                if !parts.is_empty() {
                    self.push(HistoryItem::User(parts), None);
                }
            }
            Some("assistant") => {
                let turn = assistant_turn(content);
                if !turn.texts.is_empty() || !turn.calls.is_empty() {
                    self.push(HistoryItem::Turn(turn), None);
                }
            }
            Some("tool") => {
                let id = message.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
                self.seed_result(id, StoredResult { parts: parts::of_content(content), is_error: false });
            }
            _ => {}
        }
    }

    /// Sets the result of the newest call with this id that has none.
    fn seed_result(&mut self, id: &str, result: StoredResult) {
        let is_pending = |call: &&mut HistoryCall| call.provider_call_id == id && call.result.is_none();
        let call = self.history.iter_mut().rev().find_map(|entry| match &mut entry.item {
            HistoryItem::Turn(turn) => turn.calls.iter_mut().find(is_pending),
            HistoryItem::User(_) => None,
        });
        if let Some(call) = call {
            call.result = Some(result);
        }
    }
}

fn assistant_turn(content: &Value) -> ModelTurn {
    let mut turn = ModelTurn::default();
    if let Value::String(text) = content {
        turn.texts.push(text.clone());
    }
    for block in content.as_array().into_iter().flatten() {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") if matches!(text("status"), Some("aborted" | "abandoned")) => {}
            Some("text") => turn.texts.extend(text("text").map(str::to_owned)),
            Some("tool_use") => turn.calls.push(HistoryCall {
                tool_call_id: None,
                provider_call_id: text("toolCallId").unwrap_or_default().to_owned(),
                name: text("name").unwrap_or_default().to_owned(),
                input: block.get("input").cloned().unwrap_or_default(),
                result: None,
            }),
            _ => {}
        }
    }
    turn
}
