//! An open prompt in the projection, kept for joining listeners. Must not depend on sentences or joining.

use std::sync::Arc;

use recount_aaep::Event;

/// A prompt or a handoff without an outcome.
#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    /// The sequence of the event that opened it.
    pub(super) sequence: u64,
    /// When its default applies, in milliseconds since 1970.
    pub(super) deadline_ms: Option<i64>,
    /// The emitted event; `None` above [`crate::limits::PROMPTS_REPEATED_MAX`].
    pub(super) shown: Option<Arc<Event>>,
}
