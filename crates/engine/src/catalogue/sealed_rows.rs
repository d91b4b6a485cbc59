//! The sealed originals that an event makes obsolete. It must not know how they are encrypted.

use recount_event::{Event, ForeignId, Payload, RunId};
use recount_log::RowPut;

use crate::ground::rows;

pub(crate) fn key_of(run: RunId, id: &ForeignId) -> String {
    format!("{run}/{id}")
}

/// Deletes the original of a call that is settled, or of a patch that is closed.
pub(crate) fn settled(event: &Event) -> Option<RowPut> {
    let id = match event.payload() {
        Payload::ToolRefused(refused) => &refused.tool_call_id,
        Payload::ToolCompleted(ended)
        | Payload::ToolFailed(ended)
        | Payload::ToolCancelled(ended)
        | Payload::ToolTimedOut(ended) => &ended.tool_call_id,
        Payload::ArtifactUpdated(updated) if updated.field == "status" => &updated.artifact_id,
        _ => return None,
    };
    Some(rows::delete(rows::SEALED, key_of(event.run_id, id)))
}
