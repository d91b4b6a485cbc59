//! State of one tool call.

/// One call.
pub(super) struct Call {
    /// Hash of `tool_call_id`.
    pub(super) id: Option<u64>,
    pub(super) tool: u64,
    /// The number of the event that opened it.
    pub(super) opened_by: u64,
    pub(super) speaker: usize,
    pub(super) done: bool,
    /// Whether the state after the tool was announced while it was open.
    pub(super) late: bool,
    /// Whether `calling_tool` was announced for it.
    pub(super) announced: bool,
}
