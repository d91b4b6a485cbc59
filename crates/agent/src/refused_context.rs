//! What providers refused as too long in a run: a fold over the events of its turns.
//!
//! It must not know how a conversation is shortened. Look at [`RefusedContext::see`].

use recount_event::Payload;

/// The code of a provider that refuses a conversation as too long.
pub(crate) const CONTEXT_FULL: &str = "model_context_full";

/// What providers refused as too long in this run, as its log says it.
#[derive(Default)]
pub(crate) struct RefusedContext {
    /// What the turn under way was estimated at.
    asked: Option<u64>,
    /// The least that was refused.
    pub(crate) tokens: Option<u64>,
    /// How often since the last answer.
    pub(crate) in_a_row: u64,
}

impl RefusedContext {
    /// Takes an event in.
    pub(crate) fn see(&mut self, payload: &Payload) {
        match payload {
            Payload::TurnStarted(started) => self.asked = started.input_tokens_estimate,
            Payload::TurnFailed(failed) if failed.code == CONTEXT_FULL => {
                self.tokens = self.tokens.into_iter().chain(self.asked).min();
                self.in_a_row += 1;
            }
            Payload::TurnCompleted(_) => self.in_a_row = 0,
            _ => {}
        }
    }
}
