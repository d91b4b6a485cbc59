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
    /// The source of a text that the model gets before the conversation.
    InstructionSource {
        /// The server's default system prompt.
        Default = "default",
        /// An AGENTS.md file of the workspace.
        Workspace = "workspace",
    }
}

part! {
    /// A text that the model gets before the conversation.
    Instruction {
        /// The source of the text.
        source: InstructionSource,
        /// The size of the complete text, in bytes.
        bytes: u64,
    } {
        /// The file, relative to the workspace.
        path: String,
        /// The SHA-256 of the complete text, in hexadecimal, before secrets were masked.
        sha256: String,
        /// The text that the model gets.
        text: String,
        /// `true`: the model gets only the beginning.
        cut: bool,
        /// The reason why the file was not read.
        refused: String,
    }
}

payload! {
    /// A model is about to be called.
    Started { turn_index: u64 } {
        model: String,
        provider: String,
        input_tokens_estimate: u64,
        /// The texts that the model gets before the conversation. Only on the first turn of a run.
        instructions: Vec<Instruction>,
        /// `true`: the workspace may have more AGENTS.md files than were found.
        instructions_incomplete: bool,
    }

    /// The turn completed. Its figures are authoritative.
    Completed { turn_index: u64, stop_reason: StopReason } {
        input_tokens: u64,
        output_tokens: u64,
        cached_input_tokens: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
        tool_calls: u64,
        /// Parts of the provider's answer that are not recorded unchanged: `call_id_replaced`, `text_replaced` (half
        /// surrogate pairs, as U+FFFD), `tool_name_shortened`, `usage_bounded`, `usage_estimated` (none was reported)
        /// or `usage_unreadable`.
        adjusted: Vec<String>,
    }

    /// The turn failed. The run may retry it or fail.
    Failed { turn_index: u64, code: String, message: String, will_retry: bool } {}
}
