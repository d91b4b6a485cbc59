//! `tool.edit.*`, `tool.multi_edit.*`, `tool.file_write.*`, `tool.file_read.*` and the older `tool.file.*`.

use crate::ForeignId;
use crate::family::payload;

payload! {
    /// A change of one file was proposed as a patch.
    Proposed { tool_call_id: ForeignId, path: String, patch_artifact_id: ForeignId } {
        summary: String,
        auto_apply: bool,
    }

    /// A change of one file was applied.
    Applied { patch_artifact_id: ForeignId } { tool_call_id: ForeignId, applied_at: String, path: String }

    /// A change of one file was reverted.
    Reverted { patch_artifact_id: ForeignId } {
        tool_call_id: ForeignId,
        reverted_by: String,
        reason: String,
        path: String,
    }

    /// Changes of several files were proposed, to be applied together or not at all.
    MultiProposed { tool_call_id: ForeignId, patch_artifact_ids: Vec<ForeignId> } {
        paths: Vec<String>,
        summary: String,
        auto_apply: bool,
    }

    /// Changes of several files were applied together.
    MultiApplied { patch_artifact_ids: Vec<ForeignId> } { tool_call_id: ForeignId, applied_at: String }

    /// Changes of several files were reverted together.
    MultiReverted { patch_artifact_ids: Vec<ForeignId> } {
        tool_call_id: ForeignId,
        reverted_by: String,
        reason: String,
    }

    /// A file was read.
    Read { tool_call_id: ForeignId, path: String } {
        size_bytes: u64,
        lines: u64,
        snippet_artifact_id: ForeignId,
        truncated: bool,
    }

    /// The older form of a change of one file. Accepted and shown, but no longer written by this server.
    Legacy {} {
        tool_call_id: ForeignId,
        tool_name: String,
        kind: String,
        operation: String,
        path: String,
        artifact_id: ForeignId,
        artifact_status: String,
        bytes_written: u64,
        diff_bytes: u64,
        before_existed: bool,
    }
}
