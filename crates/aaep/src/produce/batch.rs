//! Builds the events of one method call before the session changes, so that a rejected call has no effect.

use super::Misuse;
use super::stamp::Stamp;
use super::texts::StateTexts;
use crate::build::{self, Draft, Frame};
use crate::wire::{Body, Event};

/// Events under construction, with the numbering and the state after them.
pub(super) struct Batch<'s> {
    pub(super) frame: &'s Frame,
    pub(super) texts: &'s StateTexts,
    pub(super) stamp: Stamp,
    /// The time of these events, never before that of the previous event.
    pub(super) now_ms: i64,
    pub(super) sequence: u64,
    pub(super) state: String,
    pub(super) events: Vec<Event>,
}

impl Batch<'_> {
    pub(super) fn push<B: Into<Body>>(&mut self, draft: Draft<B>) -> Result<(), Misuse> {
        let (half, _) = self.stamp.halves();
        // The number makes ids unique within a session, whatever the entropy.
        let id = format!("evt_{half:032x}{:x}", self.sequence);
        self.events.push(self.frame.numbered(&id, self.now_ms, self.sequence, draft)?);
        self.sequence += 1;
        Ok(())
    }

    /// Announces a state unless it is the current one.
    pub(super) fn enter(&mut self, state: &str, text: &str) -> Result<(), Misuse> {
        if self.state == state { Ok(()) } else { self.change(state, text) }
    }

    pub(super) fn change(&mut self, state: &str, text: &str) -> Result<(), Misuse> {
        let from = std::mem::replace(&mut self.state, state.to_owned());
        self.push(build::state_changed(from, state, text))
    }
}
