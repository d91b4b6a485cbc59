//! The model's answer while its turn is open: what is held back until it counts, and
//! what has to be retracted if it never does.
//!
//! Whole blocks and calls cannot be retracted, so they wait for the end of the turn. Pieces are sent as they come, and
//! retracted when another answer replaces this one. It must never know modes or events of the log. Look at
//! [`Attempt::release`] and [`Attempt::abandon`].

use std::collections::BTreeSet;

use recount_event::ForeignId;
use recount_run::view::CUT_OFF_NOTE;

use super::FramePayload;
use crate::wire::{TextStatus, TurnEvent};

/// See the file's head.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempt {
    /// Characters that were sent in pieces.
    text_chars: u64,
    thinking_chars: u64,
    held: Vec<FramePayload>,
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

    pub(super) fn hold(&mut self, told: Vec<FramePayload>) {
        self.held.extend(told);
    }

    pub(super) fn hold_call(&mut self, id: ForeignId, told: Vec<FramePayload>) {
        self.held_calls.insert(id);
        self.hold(told);
    }

    /// Sends a piece, or holds it back.
    pub(super) fn piece(&mut self, event: TurnEvent) -> Vec<FramePayload> {
        if self.holds() {
            self.hold(vec![FramePayload::Event(event)]);
            return Vec::new();
        }
        match &event {
            TurnEvent::TextDelta { delta, .. } => self.text_chars += chars(delta),
            TurnEvent::ThinkingDelta { delta, .. } => self.thinking_chars += chars(delta),
            _ => {}
        }
        vec![FramePayload::Event(event)]
    }

    /// The answer counts: returns everything that was held back, in order.
    pub(super) fn release(&mut self) -> Vec<FramePayload> {
        std::mem::take(self).held
    }

    /// The answer ends here, incomplete, and nothing takes its place: what was held back, marked as aborted.
    pub(super) fn abort(&mut self) -> Vec<FramePayload> {
        let mut held = self.release();
        for told in &mut held {
            if let FramePayload::Event(TurnEvent::Text { status, .. } | TurnEvent::Thinking { status, .. }) =
                told
            {
                *status = Some(TextStatus::Aborted);
            }
        }
        held
    }

    /// Another answer replaces this one: returns the retraction, and the calls that will never be sent.
    pub(super) fn abandon(&mut self) -> (Vec<FramePayload>, BTreeSet<ForeignId>) {
        let Attempt { text_chars, thinking_chars, held, held_calls } = std::mem::take(self);
        let note = || CUT_OFF_NOTE.to_owned();
        let mut told = Vec::new();
        if thinking_chars > 0 {
            let retracts = Some(thinking_chars);
            told.push(FramePayload::Event(TurnEvent::ThinkingDelta { delta: note(), retracts }));
        }
        if text_chars > 0 {
            told.push(FramePayload::Event(TurnEvent::TextDelta {
                delta: note(),
                retracts: Some(text_chars),
            }));
        }
        // Results of earlier calls that came in between remain.
        told.extend(held.into_iter().filter(|told| match told {
            FramePayload::ToolResult { tool_call_id, .. } => !held_calls.contains(tool_call_id.as_str()),
            FramePayload::Event(_) => false,
        }));
        (told, held_calls)
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
