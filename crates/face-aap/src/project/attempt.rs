//! The model's answer while its turn is open, as far as clients were told of it: what is held back until it counts, and
//! what has to be retracted if it never does.
//!
//! Whole blocks and calls cannot be taken back, so they wait for the end of the turn. Pieces are told as they come, and
//! retracted when another answer takes the place of this one. It must never know modes or events of the log. Look at
//! [`Attempt::release`] and [`Attempt::abandon`].

use std::collections::BTreeSet;

use recount_event::ForeignId;
use recount_run::view::CUT_OFF_NOTE;

use super::Told;
use crate::wire::{TextStatus, TurnEvent};

/// See the file's head.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempt {
    /// Characters that were told in pieces.
    text_chars: u64,
    thinking_chars: u64,
    held: Vec<Told>,
    held_calls: BTreeSet<ForeignId>,
}

impl Attempt {
    /// Whether something is held back: then all that follows is, too, because the order must stay.
    fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether results have to wait: a result closes the message of the assistant, and what it closed cannot be
    /// retracted.
    pub(super) fn holds_results(&self) -> bool {
        self.holds() || self.text_chars > 0 || self.thinking_chars > 0
    }

    pub(super) fn holds_call(&self, id: &ForeignId) -> bool {
        self.held_calls.contains(id)
    }

    pub(super) fn hold(&mut self, told: Vec<Told>) {
        self.held.extend(told);
    }

    pub(super) fn hold_call(&mut self, id: ForeignId, told: Vec<Told>) {
        self.held_calls.insert(id);
        self.hold(told);
    }

    /// Takes a piece that is told now, or holds it back.
    pub(super) fn piece(&mut self, event: TurnEvent) -> Vec<Told> {
        if self.holds() {
            self.hold(vec![Told::Event(event)]);
            return Vec::new();
        }
        match &event {
            TurnEvent::TextDelta { delta, .. } => self.text_chars += chars(delta),
            TurnEvent::ThinkingDelta { delta, .. } => self.thinking_chars += chars(delta),
            _ => {}
        }
        vec![Told::Event(event)]
    }

    /// The answer counts: all that was held back, as it came.
    pub(super) fn release(&mut self) -> Vec<Told> {
        std::mem::take(self).held
    }

    /// The answer ends here, incomplete, and nothing takes its place: what was held back, marked as aborted.
    pub(super) fn abort(&mut self) -> Vec<Told> {
        let mut held = self.release();
        for told in &mut held {
            if let Told::Event(TurnEvent::Text { status, .. } | TurnEvent::Thinking { status, .. }) = told {
                *status = Some(TextStatus::Aborted);
            }
        }
        held
    }

    /// Another answer takes the place of this one: what is told of that, and the calls that nobody will be told of.
    pub(super) fn abandon(&mut self) -> (Vec<Told>, BTreeSet<ForeignId>) {
        let Attempt { text_chars, thinking_chars, held, held_calls } = std::mem::take(self);
        let note = || CUT_OFF_NOTE.to_owned();
        let mut told = Vec::new();
        if thinking_chars > 0 {
            let retracts = Some(thinking_chars);
            told.push(Told::Event(TurnEvent::ThinkingDelta { delta: note(), retracts }));
        }
        if text_chars > 0 {
            told.push(Told::Event(TurnEvent::TextDelta { delta: note(), retracts: Some(text_chars) }));
        }
        // Results of earlier calls came in between, and stand.
        told.extend(held.into_iter().filter(|told| match told {
            Told::ToolResult { tool_call_id, .. } => !held_calls.contains(tool_call_id.as_str()),
            Told::Event(_) => false,
        }));
        (told, held_calls)
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
