//! Sentences for messages of models and people.

use super::{Data, Sentence};
use crate::render::sentence::call;

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "assistant.text_delta" | "assistant.thinking_delta" => {
            Sentence::text(format!("turn {}", data.number("turn_index")?), data.text("delta")?)
        }
        "assistant.tool_call_input_delta" => Sentence::text(call(data)?, data.text("delta")?),
        "assistant.text_complete" | "assistant.thinking_complete" => {
            let cut = if data.is_true("aborted") { "cut off" } else { "" };
            Sentence::text(cut, data.text("text")?)
        }
        "assistant.tool_call_proposed" => {
            let line = format!("{} {}", data.text("tool_name")?, call(data)?);
            Sentence::with(line, data.raw("input"))
        }
        "assistant.image_block" => {
            Sentence::with(format!("picture {}", data.text("artifact_id")?), data.text("summary"))
        }
        "assistant.final_answer" => Sentence::text("", data.text("summary")?),
        "user.message" => Sentence::text("", data.text("text")?),
        "user.attachment" => {
            let (kind, mime) = (data.text("kind")?, data.text("mime")?);
            Sentence::line(format!("{kind} {} of type {mime}", data.text("artifact_id")?))
        }
        _ => return None,
    })
}
