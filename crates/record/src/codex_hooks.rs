//! The hooks of Codex: the content of each body. They have Claude Code's form, with `turn_id` for the prompt, and one hook
//! for calls that completed and calls that failed.
//!
//! It must not know how the body arrived. Entry point: `seen`.

use serde_json::Value;

use crate::claude_hooks;
use crate::exit_status::exit_status;
use crate::hook_body::{BodyFields, Seen};
use crate::{How, Outcome, Source};

pub(crate) fn source() -> Source {
    Source::new(
        "codex",
        "codex-hooks",
        &["prompts, tool calls with input and output, permission requests, the last text of a response"],
        &[
            "tokens and cost",
            "reasoning",
            "texts before the last one",
            "the start and end of model calls (the run has one turn for all of them)",
            "who decided in the agent's own dialog",
            "tools that have no hook",
            "whether a command failed, where the hook has its output without the exit status",
        ],
    )
}

pub(crate) fn seen(event: &str, fields: &mut BodyFields) -> Seen {
    match claude_hooks::seen(event, fields) {
        Seen::CallEnded { call, outcome } => Seen::CallEnded { call, outcome: checked(outcome) },
        other => other,
    }
}

fn checked(outcome: Outcome) -> Outcome {
    let output = outcome.output.as_ref().unwrap_or(&Value::Null);
    if outcome.how == How::Completed && output.get("isError") == Some(&Value::Bool(true)) {
        return Outcome { how: How::Failed, ..outcome };
    }
    let status = exit_status(output);
    outcome.with_exit_status(status)
}
