//! The events of one method call. They are built before the session changes, so that a refused call leaves nothing.

use super::Misuse;
use super::stamp::Stamp;
use super::texts::StateTexts;
use crate::build::{self, Draft, Frame};
use crate::wire::{Body, Event};

/// Events that are being built, with the numbering and the state that hold after them.
pub(super) struct Batch<'s> {
    pub(super) frame: &'s Frame,
    pub(super) texts: &'s StateTexts,
    pub(super) stamp: Stamp,
    /// The time of these events, never before that of the last one.
    pub(super) now_ms: i64,
    pub(super) sequence: u64,
    pub(super) state: String,
    pub(super) events: Vec<Event>,
}

impl Batch<'_> {
    pub(super) fn push<B: Into<Body>>(&mut self, draft: Draft<B>) -> Result<(), Misuse> {
        let (half, _) = self.stamp.halves();
        // The number makes ids differ within a session whatever the entropy is.
        let id = format!("evt_{half:032x}{:x}", self.sequence);
        self.events.push(self.frame.numbered(&id, self.now_ms, self.sequence, draft)?);
        self.sequence += 1;
        Ok(())
    }

    /// Announces a state, unless it is the present one.
    pub(super) fn enter(&mut self, state: &str, text: &str) -> Result<(), Misuse> {
        if self.state == state { Ok(()) } else { self.change(state, text) }
    }

    pub(super) fn change(&mut self, state: &str, text: &str) -> Result<(), Misuse> {
        let from = std::mem::replace(&mut self.state, state.to_owned());
        self.push(build::state_changed(from, state, text))
    }
}
