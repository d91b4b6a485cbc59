//! `turn.*`: one call of a model, from start to end.

use crate::family::{payload, words};

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

payload! {
    /// A model is about to be called.
    Started { turn_index: u64 } {
        model: String,
        provider: String,
        input_tokens_estimate: u64,
    }

    /// The call is over. Its figures are authoritative.
    Completed { turn_index: u64, stop_reason: StopReason } {
        input_tokens: u64,
        output_tokens: u64,
        cached_input_tokens: u64,
        cost_micros_usd: u64,
        duration_ms: u64,
        tool_calls: u64,
    }

    /// The call failed. The run may try again or fail.
    Failed { turn_index: u64, code: String, message: String, will_retry: bool } {}
}
