//! Tracks which context sizes providers rejected as too long in a run: a fold over the events of its turns.
//!
//! It must not know how a conversation is shortened. Start with [`RefusedContext::event`].

use recount_event::Payload;

/// The failure code of a request whose conversation is too long.
pub(crate) const CONTEXT_FULL: &str = "model_context_full";

/// The rejected context sizes of this run.
#[derive(Default)]
pub(crate) struct RefusedContext {
    /// The estimated tokens of the open turn.
    requested: Option<u64>,
    /// The smallest rejected size.
    pub(crate) tokens: Option<u64>,
    /// Rejections since the last completed turn.
    pub(crate) in_a_row: u64,
}

impl RefusedContext {
    /// Adds an event of the run.
    pub(crate) fn event(&mut self, payload: &Payload) {
        match payload {
            Payload::TurnStarted(started) => self.requested = started.input_tokens_estimate,
            Payload::TurnFailed(failed) if failed.code == CONTEXT_FULL => {
                self.tokens = self.tokens.into_iter().chain(self.requested).min();
                self.in_a_row += 1;
            }
            Payload::TurnCompleted(_) => self.in_a_row = 0,
            _ => {}
        }
    }
}
