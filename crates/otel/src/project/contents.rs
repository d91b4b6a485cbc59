//! Texts of a run in attributes: messages in the form of the GenAI conventions, all cut at a limit.
//!
//! Pure. Start with [`Messages`].

use recount_event::Json;
use serde_json::{Map, Value, json};

use super::attributes::CONTENTS_CUT;
use crate::limits;
use crate::proto::KeyValue;

/// A growing list of messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Messages {
    messages: Vec<Value>,
    bytes: usize,
    is_cut: bool,
}

impl Messages {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn text(&mut self, role: &str, kind: &str, text: &str) {
        let Some(text) = self.fit(text) else { return };
        self.part(role, json!({"type": kind, "content": text}));
    }

    pub(super) fn call(&mut self, id: &str, name: &str, input: &Json) {
        let Some(text) = self.fit(input.text()) else { return };
        let whole = if text.len() == input.text().len() { serde_json::from_str(&text).ok() } else { None };
        let arguments = whole.unwrap_or(Value::String(text));
        self.part("assistant", json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments}));
    }

    pub(super) fn response(&mut self, id: &str, text: &str) {
        let Some(text) = self.fit(text) else { return };
        self.part("tool", json!({"type": "tool_call_response", "id": id, "response": text}));
    }

    /// The last message is complete.
    pub(super) fn finish(&mut self, reason: &str) {
        if let Some(last) = self.messages.last_mut() {
            last["finish_reason"] = reason.into();
        }
    }

    /// Adds the messages as an attribute, unless there are none.
    pub(super) fn write(&self, key: &str, attributes: &mut Vec<KeyValue>) {
        if !self.messages.is_empty() {
            attributes.push(KeyValue::new(key, Value::from(self.messages.clone()).to_string()));
        }
        if self.is_cut {
            mark_cut(attributes);
        }
    }

    /// The beginning of a text that still fits; `None` if none of it does.
    fn fit(&mut self, text: &str) -> Option<String> {
        let free = limits::CONTENT_BYTES_MAX.saturating_sub(self.bytes + limits::PART_BYTES);
        let fitting = beginning(text, free);
        self.is_cut |= fitting.len() < text.len();
        if fitting.is_empty() && !text.is_empty() {
            return None;
        }
        self.bytes += fitting.len() + limits::PART_BYTES;
        Some(fitting.to_owned())
    }

    fn part(&mut self, role: &str, part: Value) {
        if let Some(Value::Object(last)) = self.messages.last_mut()
            && last.get("role").is_some_and(|there| there == role)
            && let Some(Value::Array(parts)) = last.get_mut("parts")
        {
            parts.push(part);
            return;
        }
        let message = [("role".to_owned(), role.into()), ("parts".to_owned(), vec![part].into())];
        self.messages.push(Map::from_iter(message).into());
    }
}

/// Adds a text as an attribute.
pub(super) fn write_text(key: &str, text: &str, attributes: &mut Vec<KeyValue>) {
    let fitting = beginning(text, limits::CONTENT_BYTES_MAX);
    attributes.push(KeyValue::new(key, fitting));
    if fitting.len() < text.len() {
        mark_cut(attributes);
    }
}

fn mark_cut(attributes: &mut Vec<KeyValue>) {
    if !attributes.iter().any(|there| there.key == CONTENTS_CUT) {
        attributes.push(KeyValue::new(CONTENTS_CUT, true));
    }
}

/// At most so many bytes of a text, whole characters.
fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(messages: &Messages) -> (Value, bool) {
        let mut attributes = Vec::new();
        messages.write("k", &mut attributes);
        let is_cut = attributes.iter().any(|there| there.key == CONTENTS_CUT);
        let text = match attributes[0].value.clone().unwrap().value.unwrap() {
            crate::proto::Value::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.len() <= 4 * limits::CONTENT_BYTES_MAX);
        (serde_json::from_str(&text).unwrap(), is_cut)
    }

    #[test]
    fn parts_of_one_role_are_one_message() {
        let mut messages = Messages::default();
        messages.text("assistant", "reasoning", "hm");
        messages.text("assistant", "text", "I look");
        messages.call("c1", "shell", &Json::parse(r#"{"cmd":"ls"}"#).unwrap());
        messages.finish("tool_call");
        messages.response("c1", "a b");
        let expected = json!([
            {"role": "assistant", "finish_reason": "tool_call", "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "I look"},
                {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"cmd": "ls"}},
            ]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a b"}]},
        ]);
        assert_eq!(written(&messages), (expected, false));
    }

    #[test]
    fn long_texts_are_cut_at_a_character_and_marked() {
        let mut messages = Messages::default();
        messages.text("user", "text", &"é".repeat(limits::CONTENT_BYTES_MAX));
        messages.text("user", "text", "nothing of this fits");
        let (list, is_cut) = written(&messages);
        let parts = list[0]["parts"].as_array().unwrap();
        assert_eq!((parts.len(), is_cut), (1, true));
        assert_eq!(
            parts[0]["content"].as_str().unwrap().len(),
            limits::CONTENT_BYTES_MAX - limits::PART_BYTES
        );

        let mut messages = Messages::default();
        let long = format!("[{}1]", "1,".repeat(limits::CONTENT_BYTES_MAX));
        messages.call("c1", "shell", &Json::parse(&long).unwrap());
        let (list, is_cut) = written(&messages);
        assert!(is_cut && list[0]["parts"][0]["arguments"].is_string());
    }
}
