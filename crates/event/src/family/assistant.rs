//! `assistant.*`: the output of the model.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A piece of a text block, as it arrived.
    TextDelta { turn_index: u64, block_index: u64, delta: String } {
        /// The producer's own name of the piece, used to detect repeated pieces.
        source_ref: String,
    }

    /// A text block is complete: `text` is all its deltas, joined (or the whole text, if it had none).
    TextComplete { turn_index: u64, block_index: u64, text: String } {
        /// The block was cut off by a failure or a cancellation.
        aborted: bool,
        /// The producer's own name of the text, used to detect repeated texts.
        source_ref: String,
    }

    /// The model proposed a tool call. Nothing has run yet.
    ToolCallProposed { turn_index: u64, tool_call_id: ForeignId, tool_name: String, input: Json } {
        /// The provider's id of the call; providers repeat such ids, so `tool_call_id` is the id.
        provider_call_id: String,
        redacted_paths: Vec<String>,
    }

    /// A piece of a tool call's input, as it arrived. Experimental.
    ToolCallInputDelta { turn_index: u64, tool_call_id: ForeignId, delta: String } {}

    /// The model generated an image. Experimental.
    ImageBlock { turn_index: u64, artifact_id: ForeignId } { mime: String, summary: String }

    /// The model gave its final answer: no more tool calls follow.
    FinalAnswer {
        turn_index: u64,
        /// The answer, or a summary of it.
        summary: String,
    } {}
}
