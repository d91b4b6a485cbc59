//! `artifact.*`: files and other content of a run that are stored apart from the log.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// An artifact was created.
    Created {
        artifact_id: ForeignId,
        /// The kind: `patch`, `file_snapshot`, `command_output`, `fetched_resource`, `search_results`, `image`,
        /// `tool_result_blob`, or another value.
        kind: String,
    } {
        size_bytes: u64,
        summary: String,
        created_by_event_id: ForeignId,
        mime: String,
        hash: String,
        tool_call_id: ForeignId,
        /// The original file name.
        name: String,
        /// Whether only its beginning was stored.
        truncated: bool,
        /// The size in bytes before it was truncated.
        original_size_bytes: u64,
        /// Whether a secret in it was masked, so that it differs from the original.
        masked: bool,
        /// For a patch: the file that it changes, relative to the workspace.
        path: String,
        /// For a patch: the digest of the file before the change, or `absent`.
        base_revision: String,
        /// For a patch: the number of added lines.
        additions: u64,
        /// For a patch: the number of removed lines.
        deletions: u64,
        /// For a patch: the number of changed places.
        hunks: u64,
        /// For the output of a command that is not stored twice: a sequence of this run. The bytes are the
        /// `tool.shell.output_chunk` events of the call from there up to this event.
        log_from_sequence: u64,
    }

    /// An artifact was used.
    Referenced { artifact_id: ForeignId, relation: String } { by_event_id: ForeignId }

    /// A field of an artifact changed.
    Updated { artifact_id: ForeignId, field: String, old_value: Json, new_value: Json } {}
}
