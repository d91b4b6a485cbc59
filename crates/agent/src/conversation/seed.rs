//! What was said before a session began, as its application words it, taken into a conversation.
//!
//! Look at [`Conversation::seed`]. What no model can be told is left out: thoughts, results of calls that nobody made, and
//! texts that a history marks as no part of the answer.

use serde_json::Value;

use super::{Asked, Conversation, ModelTurn, Said, StoredResult, words};

impl Conversation {
    /// Takes in the next message. Messages of the system's are kept apart: they are told before all others.
    pub fn seed(&mut self, message: &Value) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match message.get("role").and_then(Value::as_str) {
            Some("system") => {
                let text: Vec<String> =
                    words::content(content).iter().map(|words| words.text().to_owned()).collect();
                self.system.push(text.join("\n"));
            }
            Some("user") => {
                let words = words::content(content);
                if !words.is_empty() {
                    self.push(Said::User(words), None);
                }
            }
            Some("assistant") => {
                let turn = assistant(content);
                if !turn.texts.is_empty() || !turn.calls.is_empty() {
                    self.push(Said::Turn(turn), None);
                }
            }
            Some("tool") => {
                let id = message.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
                self.seed_result(id, StoredResult { words: words::content(content), is_error: false });
            }
            _ => {}
        }
    }

    /// Answers the newest call of that name that has no answer yet.
    fn seed_result(&mut self, id: &str, told: StoredResult) {
        let unanswered = |asked: &&mut Asked| asked.provider_call_id == id && asked.result.is_none();
        let call = self.said.iter_mut().rev().find_map(|placed| match &mut placed.said {
            Said::Turn(turn) => turn.calls.iter_mut().find(unanswered),
            Said::User(_) => None,
        });
        if let Some(asked) = call {
            asked.result = Some(told);
        }
    }
}

fn assistant(content: &Value) -> ModelTurn {
    let mut turn = ModelTurn::default();
    if let Value::String(text) = content {
        turn.texts.push(text.clone());
    }
    for block in content.as_array().into_iter().flatten() {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") if matches!(text("status"), Some("aborted" | "abandoned")) => {}
            Some("text") => turn.texts.extend(text("text").map(str::to_owned)),
            Some("tool_use") => turn.calls.push(Asked {
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
