//! The setting that selects experimental events. Start at [`Experimental`].

/// Which experimental events are enabled; `docs/event-protocol-experimental.md` describes them. Child runs are enabled
/// by a tool instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Experimental {
    /// `run.branched_from`.
    pub branches: bool,
    /// `assistant.tool_call_input_delta`.
    pub input_deltas: bool,
    /// `assistant.image_block`.
    pub images: bool,
}
