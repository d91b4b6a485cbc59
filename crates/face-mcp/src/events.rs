//! Events for a model: short by default, whole on request, and the messages among them. Start at [`shown`] and [`message`].
//!
//! Pure.

use recount_event::Json;
use recount_run::view;
use serde_json::{Value, json};

use crate::limits;
use crate::project::{cut, cut_strings, quote};

/// An event as a result shows it.
#[derive(Debug, PartialEq)]
pub(crate) struct ShownEvent {
    pub(crate) text: String,
    pub(crate) structured: Value,
}

/// The sequence of an envelope; 0 if it has none, which no event of the log lacks.
pub(crate) fn sequence(envelope: &Value) -> u64 {
    envelope["sequence"].as_u64().unwrap_or_default()
}

/// A piece of a text whose whole is another event.
pub(crate) fn is_piece(envelope: &Value) -> bool {
    let name = envelope["type"].as_str().unwrap_or_default();
    name.ends_with("_delta") || name == "tool.shell.output_chunk"
}

/// An event with its number, time and type, and its data with long strings cut.
pub(crate) fn short(envelope: &Value) -> ShownEvent {
    let sequence = sequence(envelope);
    let data = cut_strings(&envelope["data"], limits::FIELD_CHARS_MAX);
    let (at, name) = (&envelope["occurred_at"], &envelope["type"]);
    let text = format!(
        "#{sequence} {} {} {data}",
        at.as_str().unwrap_or_default(),
        name.as_str().unwrap_or_default()
    );
    ShownEvent {
        text: quote(&text),
        structured: json!({ "sequence": sequence, "at": at, "type": name, "data": data }),
    }
}

/// A whole envelope, as it is stored.
pub(crate) fn whole(stored: &str, envelope: &Value) -> ShownEvent {
    ShownEvent { text: quote(stored), structured: envelope.clone() }
}

/// A message of a run: who wrote it, and what. Most events are none.
pub(crate) fn message(stored: &str, envelope: &Value) -> Option<ShownEvent> {
    let event = recount_event::codec::decode(stored.as_bytes()).ok()?;
    let (role, text) = match view::message(&event)? {
        view::Message::User { text } => ("user", text),
        view::Message::Attached { artifact_id } => ("user", format!("attached {artifact_id}")),
        view::Message::Assistant { text, .. } => ("assistant", text),
        view::Message::Called { tool_name, input, .. } => {
            ("assistant", format!("calls {tool_name} {}", input.text()))
        }
        view::Message::ToolResult { tool_name, outcome, output, .. } => {
            let output = output.as_ref().map(Json::texts).unwrap_or_default();
            ("tool", format!("{tool_name} {}: {output}", outcome.as_str()))
        }
    };
    let (sequence, text) = (sequence(envelope), cut(&text, limits::MESSAGE_CHARS_MAX));
    Some(ShownEvent {
        text: quote(&format!("#{sequence} {role}: {text}")),
        structured: json!({ "sequence": sequence, "at": envelope["occurred_at"], "role": role, "text": text }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_every_story_can_be_shown() {
        let stories = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/runs");
        let mut messages = 0;
        for story in std::fs::read_dir(stories).unwrap() {
            let story = std::fs::read_to_string(story.unwrap().path()).unwrap();
            for stored in story.lines() {
                let envelope: Value = serde_json::from_str(stored).unwrap();
                let event = short(&envelope);
                assert_eq!(event.structured["type"], envelope["type"]);
                let quoted = whole(stored, &envelope).text;
                let quoted: Value = serde_json::from_str(quoted.strip_prefix("| ").unwrap()).unwrap();
                assert_eq!(quoted, envelope);
                let message = message(stored, &envelope);
                messages += usize::from(message.is_some());
                for event in std::iter::once(event).chain(message) {
                    assert!(event.text.lines().all(|line| line.starts_with("| ")), "{}", event.text);
                }
            }
        }
        assert!(messages > 100, "{messages}");
    }
}
