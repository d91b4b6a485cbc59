//! What a [`super::Checker`] follows of one session, for who shows it. Read only; nothing is copied, nothing judged.
//!
//! A part (a call, a prompt, an output) is known by the event that opened it: [`View::heard`] right behind that event.

use super::prompts::Standing;
use super::track::Track;

/// One session that is being followed.
#[derive(Clone, Copy)]
pub struct View<'c> {
    pub(super) track: &'c Track,
}

impl View<'_> {
    /// The number of the event of this session that was heard last, counted over all sessions from 1. An event that
    /// was not followed (it came twice, or behind the ending) has no number.
    pub fn heard(&self) -> u64 {
        self.track.heard
    }

    /// Whether the call that this event opened is open; `None` when the event opened none.
    pub fn call(&self, heard: u64) -> Option<bool> {
        let calls = &self.track.calls;
        let at = calls.binary_search_by_key(&heard, |call| call.heard).ok()?;
        Some(!calls[at].done)
    }

    /// What became of the prompt that this event opened.
    pub fn prompt(&self, heard: u64) -> Option<Standing> {
        let prompts = &self.track.prompts;
        let at = prompts.binary_search_by_key(&heard, |prompt| prompt.heard).ok()?;
        Some(prompts[at].standing)
    }

    /// Whether the output that this event began is waiting for its last piece.
    pub fn output(&self, heard: u64) -> Option<bool> {
        let outputs = &self.track.outputs;
        let at = outputs.binary_search_by_key(&heard, |output| output.heard).ok()?;
        Some(!outputs[at].done)
    }
}
