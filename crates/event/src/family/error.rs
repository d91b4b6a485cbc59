//! `error.*`: what went wrong outside any single call.

use crate::ForeignId;
use crate::family::payload;

payload! {
    /// A tool that was asked for is not there.
    ToolUnavailable { tool_name: String, reason: String } { tool_call_id: ForeignId }

    /// The model cannot do what is needed.
    ModelCapabilityMissing { model: String, missing_capability: String } { fallback_strategy: String }

    /// A provider failed. One event an attempt.
    Upstream { provider: String, message: String, retriable: bool } {
        status: u64,
        attempt: u64,
        max_attempts: u64,
    }
}
