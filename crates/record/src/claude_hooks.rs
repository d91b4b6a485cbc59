//! The hooks of Claude Code: the content of each body.
//!
//! It must not know how the body arrived. Entry point: `seen`.

use serde_json::Value;

use crate::hook_body::{BodyFields, Seen, permission};
use crate::{How, Outcome, Source, claude_telemetry};

pub(crate) fn source() -> Source {
    Source::new(
        "claude",
        "claude-code-hooks",
        &[
            "prompts, texts as displayed, tool calls with input and output, permission requests, the start and \
           end of sub-agents, compactions, notifications",
        ],
        &[
            claude_telemetry::NOT_SHOWN,
            "thinking",
            "the start and end of model calls (the run has one turn for all of them)",
            "who decided in the agent's own dialog",
            "calls that the agent makes while its hooks are disabled",
        ],
    )
}

pub(crate) fn seen(event: &str, fields: &mut BodyFields) -> Seen {
    match event {
        "SessionStart" => Seen::SessionStarted,
        "UserPromptSubmit" => Seen::Prompted { text: fields.take_text("prompt").unwrap_or_default() },
        "PreToolUse" => Seen::CallStarting(fields.call()),
        "PostToolUse" => ended(fields, How::Completed),
        "PostToolUseFailure" => {
            let how = if fields.take_bool("is_interrupt") { How::Cancelled } else { How::Failed };
            ended(fields, how)
        }
        "PermissionDenied" => ended(fields, How::Refused),
        "PermissionRequest" => permission(fields.call()),
        "MessageDisplay" => text(fields),
        "Stop" => Seen::Stopped { last_text: fields.take_text("last_assistant_message"), error: None },
        "StopFailure" => {
            let error = fields.take_text("error").unwrap_or_else(|| "the agent stopped with an error".into());
            Seen::Stopped { last_text: fields.take_text("last_assistant_message"), error: Some(error) }
        }
        "SessionEnd" => Seen::SessionEnded { reason: fields.take_text("reason").unwrap_or_default() },
        "Notification" => Seen::Aside,
        _ => Seen::Other,
    }
}

/// A piece of a displayed message. One without a name is kept as it came.
fn text(fields: &mut BodyFields) -> Seen {
    let (Some(message), true) =
        (fields.take_text("message_id"), fields.0.get("delta").is_some_and(Value::is_string))
    else {
        return Seen::Other;
    };
    let text = fields.take_text("delta").unwrap_or_default();
    let (piece, is_last) = (fields.take_number("index"), fields.take_bool("final"));
    // The turn of the display; the prompt is known.
    fields.take_text("turn_id");
    Seen::Text { name: message, piece, text, is_last }
}

fn ended(fields: &mut BodyFields, how: How) -> Seen {
    let call = fields.call();
    let error = fields.take_text("error").or_else(|| fields.take_text("reason"));
    let outcome = Outcome {
        output: fields.take("tool_response"),
        error,
        duration_ms: fields.take_number("duration_ms"),
        ..Outcome::of(how)
    };
    Seen::CallEnded { call, outcome }
}
