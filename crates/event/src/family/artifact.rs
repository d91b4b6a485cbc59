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
    }

    /// Something kept earlier was used.
    Referenced { artifact_id: ForeignId, relation: String } { by_event_id: ForeignId }

    /// Something about a kept thing changed.
    Updated { artifact_id: ForeignId, field: String, old_value: Json, new_value: Json } {}
}
