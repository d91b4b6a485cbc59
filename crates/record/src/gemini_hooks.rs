//! The hooks of Gemini CLI: the content of each body.
//!
//! It must not know how the body arrived. Entry point: `seen`.

use serde_json::Value;

use crate::exit_status::exit_status;
use crate::hook_body::{BodyFields, Seen};
use crate::{How, Outcome, Source};

pub(crate) fn source() -> Source {
    Source::new(
        "gemini",
        "gemini-cli-hooks",
        &["prompts and their responses, tool calls with input and output, model requests and responses as \
             raw events"],
        &[
            "call ids (an outcome is matched to the open call with the same tool and input)",
            "who decided in the agent's own dialog",
            "texts before the response, except in raw events",
            "the start and end of model calls (the run has one turn for all of them)",
        ],
    )
}

pub(crate) fn seen(event: &str, fields: &mut BodyFields) -> Seen {
    match event {
        "SessionStart" => Seen::SessionStarted,
        "BeforeAgent" => Seen::Prompted { text: fields.take_text("prompt").unwrap_or_default() },
        "BeforeTool" => Seen::CallStarting(fields.call()),
        "AfterTool" => {
            let call = fields.call();
            let output = fields.take("tool_response");
            let error =
                output.as_ref().and_then(|output| output.get("error")).filter(|error| !error.is_null());
            let error = error.map(|error| match error {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            let how = if error.is_some() { How::Failed } else { How::Completed };
            let status = output.as_ref().and_then(|output| exit_status(output.get("llmContent")?));
            let outcome = Outcome { output, error, ..Outcome::of(how) }.with_exit_status(status);
            Seen::CallEnded { call, outcome }
        }
        "AfterAgent" => {
            // The prompt is recorded already.
            fields.take_text("prompt");
            Seen::Stopped { last_text: fields.take_text("prompt_response"), error: None }
        }
        "SessionEnd" => Seen::SessionEnded { reason: fields.take_text("reason").unwrap_or_default() },
        "Notification" => Seen::Aside,
        _ => Seen::Other,
    }
}
