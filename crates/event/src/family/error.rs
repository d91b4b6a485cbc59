//! `error.*`: errors that belong to no single call.

use crate::ForeignId;
use crate::family::payload;

payload! {
    /// A requested tool is not available.
    ToolUnavailable { tool_name: String, reason: String } { tool_call_id: ForeignId }

    /// The model lacks a required capability.
    ModelCapabilityMissing { model: String, missing_capability: String } { fallback_strategy: String }

    /// A provider failed. One event for each attempt.
    Upstream { provider: String, message: String, retriable: bool } {
        status: u64,
        attempt: u64,
        max_attempts: u64,
    }
}
