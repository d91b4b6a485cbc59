//! `assistant.*`: what the model said.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A piece of a text block, as it came.
    TextDelta { turn_index: u64, block_index: u64, delta: String } {}

    /// A text block is complete: `text` is all its deltas, joined (or the whole, when it had none).
    TextComplete { turn_index: u64, block_index: u64, text: String } {
        /// The block was cut off by a failure or a cancel.
        aborted: bool,
    }

    /// The model asks for a tool. Nothing has run yet.
    ToolCallProposed { turn_index: u64, tool_call_id: ForeignId, tool_name: String, input: Json } {
        /// What the provider calls this call; providers repeat such ids, so they do not name it here.
        provider_call_id: String,
        redacted_paths: Vec<String>,
    }

    /// A piece of a tool call's input, as it came. Experimental.
    ToolCallInputDelta { turn_index: u64, tool_call_id: ForeignId, delta: String } {}

    /// The model made a picture. Experimental.
    ImageBlock { turn_index: u64, artifact_id: ForeignId } { mime: String, summary: String }

    /// The model is done: no more tool calls will come.
    FinalAnswer {
        turn_index: u64,
        /// The answer, or what it comes to.
        summary: String,
    } {}
}
