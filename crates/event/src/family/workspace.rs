//! `workspace.*`: the folder in which an own run works. Its removal is an event of `gap`.

use crate::family::payload;

payload! {
    /// The workspace of the run is ready.
    Provisioned {
        /// `clone`, a copy of its own, or `in_place`.
        mode: String,
        /// The folder that the run works in.
        path: String,
        /// The number of its files.
        files: u64,
        /// The size of its files, in bytes.
        bytes: u64,
        duration_ms: u64,
    } {
        /// The folder that was copied.
        source: String,
        /// The earlier run whose files it starts with.
        files_from_run_id: String,
        /// The event of that run after which the files were so.
        files_from_sequence: u64,
    }

    /// The workspace of the run could not be prepared.
    Failed {
        /// The requested mode: `clone` or `in_place`.
        mode: String,
        code: String,
        message: String,
    } {
        /// The folder that would have been the workspace.
        path: String,
        /// The folder that would have been copied.
        source: String,
    }
}
