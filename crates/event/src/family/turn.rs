//! `turn.*`: one call of a model, from start to end.

use crate::family::{part, payload, words};

words! {
    /// Why a model stopped. Closed.
    StopReason {
        EndTurn = "end_turn",
        ToolUse = "tool_use",
        MaxTokens = "max_tokens",
        Refusal = "refusal",
        Error = "error",
    }
}

words! {
    /// Where a text comes from that the model is given before the conversation.
    InstructionSource {
        /// The server's default system prompt.
        Default = "default",
        /// An AGENTS.md file of the workspace.
        Workspace = "workspace",
    }
}

part! {
    /// A text that the model is given before the conversation.
    Instruction {
        /// Where the text comes from.
        source: InstructionSource,
        /// Bytes of the whole text.
        bytes: u64,
    } {
        /// The file, relative to the workspace.
        path: String,
        /// SHA-256 of the whole text, in hexadecimal, before secrets were masked.
        sha256: String,
        /// What the model is given.
        text: String,
        /// `true`: the model is given only the beginning.
        cut: bool,
        /// Why the file was not read, in words.
        refused: String,
    }
}

payload! {
    /// A model is about to be called.
    Started { turn_index: u64 } {
        model: String,
        provider: String,
        input_tokens_estimate: u64,
        /// What the model is given before the conversation in this run. Only on a run's first turn.
        instructions: Vec<Instruction>,
        /// `true`: the workspace may hold more AGENTS.md files than were looked for.
        instructions_incomplete: bool,
    }

    /// The call is over. Its figures are authoritative.
    Completed { turn_index: u64, stop_reason: StopReason } {
        input_tokens: u64,
        output_tokens: u64,
        cached_input_tokens: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
        tool_calls: u64,
        /// What of the provider's answer is not recorded as it was sent: `call_id_replaced`, `text_replaced` (half
        /// surrogate pairs, as U+FFFD), `tool_name_shortened`, `usage_bounded`, `usage_estimated` (none was
        /// reported) or `usage_unreadable`.
        adjusted: Vec<String>,
    }

    /// The call failed. The run may try again or fail.
    Failed { turn_index: u64, code: String, message: String, will_retry: bool } {}
}
