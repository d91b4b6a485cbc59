//! `context.*`: what the model no longer sees in full.

use crate::ForeignId;
use crate::family::{part, payload};

part! {
    /// A result of a call that the model sees only in part.
    TrimmedResult {
        tool_call_id: ForeignId,
        /// Bytes of the result that the model saw before.
        bytes: u64,
        /// Bytes of it that the model still sees, half of them from its beginning and half from its end.
        kept_bytes: u64,
    } {}
}

payload! {
    /// Earlier conversation was replaced by a summary.
    Compacted { through_run_id: String, through_sequence: u64,
        /// What the model sees instead.
        summary: String,
    } {
        tokens_before: u64,
        tokens_after: u64,
        /// `true`: the last message of a person up to there is not replaced; the model still sees it whole, after the
        /// summary.
        request_kept: bool,
    }

    /// Results of earlier calls were shortened for the model. The log keeps them whole.
    Trimmed {
        /// The results, oldest first.
        results: Vec<TrimmedResult>,
    } {
        tokens_before: u64,
        tokens_after: u64,
    }
}
