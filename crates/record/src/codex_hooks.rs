//! The hooks of Codex: the content of each body. They have Claude Code's form, with `turn_id` for the prompt.
//!
//! It must not know how the body arrived. Entry point: `seen`.

use crate::Source;
use crate::claude_hooks;
use crate::hook_body::{BodyFields, Seen};

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
        ],
    )
}

pub(crate) fn seen(event: &str, fields: &mut BodyFields) -> Seen {
    claude_hooks::seen(event, fields)
}
