//! An open tool call in the projection. Must not depend on sentences.

/// A call without an outcome.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) tool_name: String,
    /// When it was invoked, in milliseconds since 1970.
    invoked_ms: i64,
    /// When an event about it was last emitted.
    emitted_ms: i64,
}

impl OpenCall {
    pub(super) fn new(tool_name: &str, now_ms: i64) -> Self {
        OpenCall { tool_name: tool_name.to_owned(), invoked_ms: now_ms, emitted_ms: now_ms }
    }

    /// The seconds that the call has run, if nothing was emitted about it for this time. Restarts the interval.
    pub(super) fn seconds_when_due(&mut self, now_ms: i64, every_ms: i64) -> Option<u64> {
        if now_ms.saturating_sub(self.emitted_ms) < every_ms {
            return None;
        }
        self.emitted_ms = now_ms;
        Some(now_ms.abs_diff(self.invoked_ms) / 1_000)
    }
}
