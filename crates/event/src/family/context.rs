//! `context.*`: what the model no longer sees in full.

use crate::family::payload;

payload! {
    /// Earlier conversation was replaced by a summary.
    Compacted { through_run_id: String, through_sequence: u64,
        /// What the model sees instead.
        summary: String,
    } {
        tokens_before: u64,
        tokens_after: u64,
    }
}
