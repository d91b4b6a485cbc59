//! `context.*`: parts of the conversation that the model no longer sees in full.

use crate::ForeignId;
use crate::family::{part, payload};

part! {
    /// A result of a call that the model gets only in part.
    TrimmedResult {
        tool_call_id: ForeignId,
        /// The size in bytes of the result before.
        bytes: u64,
        /// The size in bytes that the model still gets: half from the beginning and half from the end.
        kept_bytes: u64,
    } {}
}

payload! {
    /// Earlier conversation was replaced by a summary.
    Compacted { through_run_id: String, through_sequence: u64,
        /// The summary that the model gets instead.
        summary: String,
    } {
        tokens_before: u64,
        tokens_after: u64,
        /// `true`: the last user message up to there is not replaced; the model still gets it completely, after the
        /// summary.
        request_kept: bool,
    }

    /// Results of earlier calls were shortened for the model. The log keeps them completely.
    Trimmed {
        /// The results, oldest first.
        results: Vec<TrimmedResult>,
    } {
        tokens_before: u64,
        tokens_after: u64,
    }
}
