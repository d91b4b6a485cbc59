//! `artifact.*`: things the agent made or used that are kept apart from the log.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// Something was kept.
    Created {
        artifact_id: ForeignId,
        /// What it is: `patch`, `file_snapshot`, `command_output`, `fetched_resource`, `search_results`,
        /// `image`, `tool_result_blob`, or another word.
        kind: String,
    } {
        size_bytes: u64,
        summary: String,
        created_by_event_id: ForeignId,
        mime: String,
        hash: String,
        tool_call_id: ForeignId,
        /// What it was called where it came from.
        name: String,
        /// Whether only its head was kept.
        truncated: bool,
        /// How many bytes there were before only the head was kept.
        original_size_bytes: u64,
        /// For a patch: the file that it changes, relative to the workspace.
        path: String,
        /// For a patch: what the file was before, by the digest of its content, or `absent`.
        base_revision: String,
        /// For a patch: how many lines it adds.
        additions: u64,
        /// For a patch: how many lines it takes away.
        deletions: u64,
        /// For a patch: how many places it changes.
        hunks: u64,
    }

    /// Something kept earlier was used.
    Referenced { artifact_id: ForeignId, relation: String } { by_event_id: ForeignId }

    /// Something about a kept thing changed.
    Updated { artifact_id: ForeignId, field: String, old_value: Json, new_value: Json } {}
}
