//! A prompt without an outcome, as the projection keeps it for listeners that join. It must not know sentences or joining.

use std::sync::Arc;

use recount_aaep::Event;

/// A prompt or a handoff without an outcome.
#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    /// The sequence of the event that asked.
    pub(super) sequence: u64,
    /// When its default applies, in milliseconds since 1970.
    pub(super) deadline_ms: Option<i64>,
    /// As it was emitted; `None` beyond [`crate::limits::PROMPTS_REPEATED_MAX`].
    pub(super) shown: Option<Arc<Event>>,
}
