//! A read-only view of the state that a [`super::Checker`] keeps of one session, for display.
//!
//! A part (a call, a prompt, an output) is identified by the number of the event that opened it, which is
//! [`SessionView::last_event`] directly after that event.

use super::prompts::PromptStatus;
use super::track::Track;

/// A view of one open session.
#[derive(Clone, Copy)]
pub struct SessionView<'c> {
    pub(super) track: &'c Track,
}

impl SessionView<'_> {
    /// The number of the last event of this session, counted over all sessions from 1. Untracked events (duplicates, or
    /// events after the ending) have no number.
    pub fn last_event(&self) -> u64 {
        self.track.last_event
    }

    /// Whether the call that this event opened is open; `None` if the event opened none.
    pub fn call(&self, event_number: u64) -> Option<bool> {
        let calls = &self.track.calls;
        let at = calls.binary_search_by_key(&event_number, |call| call.opened_by).ok()?;
        Some(!calls[at].done)
    }

    /// The status of the prompt that this event opened.
    pub fn prompt(&self, event_number: u64) -> Option<PromptStatus> {
        let prompts = &self.track.prompts;
        let at = prompts.binary_search_by_key(&event_number, |prompt| prompt.opened_by).ok()?;
        Some(prompts[at].status)
    }

    /// Whether the output that this event opened still lacks its last chunk.
    pub fn output(&self, event_number: u64) -> Option<bool> {
        let outputs = &self.track.outputs;
        let at = outputs.binary_search_by_key(&event_number, |output| output.opened_by).ok()?;
        Some(!outputs[at].done)
    }
}
