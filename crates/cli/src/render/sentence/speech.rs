//! What models and people said.

use super::{Data, Said};
use crate::render::sentence::call;

pub(super) fn of(type_name: &str, data: &Data) -> Option<Said> {
    Some(match type_name {
        "assistant.text_delta" | "assistant.thinking_delta" => {
            Said::text(format!("turn {}", data.number("turn_index")?), data.text("delta")?)
        }
        "assistant.tool_call_input_delta" => Said::text(call(data)?, data.text("delta")?),
        "assistant.text_complete" | "assistant.thinking_complete" => {
            let cut = if data.is_true("aborted") { "cut off" } else { "" };
            Said::text(cut, data.text("text")?)
        }
        "assistant.tool_call_proposed" => {
            let line = format!("{} {}", data.text("tool_name")?, call(data)?);
            Said::with(line, data.raw("input"))
        }
        "assistant.image_block" => {
            Said::with(format!("picture {}", data.text("artifact_id")?), data.text("summary"))
        }
        "assistant.final_answer" => Said::text("", data.text("summary")?),
        "user.message" => Said::text("", data.text("text")?),
        "user.attachment" => {
            let (kind, mime) = (data.text("kind")?, data.text("mime")?);
            Said::line(format!("{kind} {} of type {mime}", data.text("artifact_id")?))
        }
        _ => return None,
    })
}
