//! Buffers the model's response while its turn is open, and retracts it when the turn is retried.
//!
//! Whole blocks and calls cannot be retracted, so they wait for the end of the turn. Pieces are sent at once, and
//! retracted when another response replaces this one. Must not depend on modes or events of the log. Start with
//! [`Attempt::release`] and [`Attempt::abandon`].

use std::collections::BTreeSet;

use recount_event::ForeignId;
use recount_run::view::CUT_OFF_NOTE;

use super::FramePayload;
use crate::wire::{TextStatus, TurnEvent};

/// The response of one turn that is not complete.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempt {
    /// Characters that were sent in pieces.
    text_chars: u64,
    thinking_chars: u64,
    held: Vec<FramePayload>,
    held_calls: BTreeSet<ForeignId>,
}

impl Attempt {
    /// Whether frames are held back. Then later frames are held back too, to keep the order.
    fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether results have to wait: a result closes the message of the assistant, and a closed message cannot be
    /// retracted.
    pub(super) fn holds_results(&self) -> bool {
        self.holds() || self.text_chars > 0 || self.thinking_chars > 0
    }

    pub(super) fn holds_call(&self, id: &ForeignId) -> bool {
        self.held_calls.contains(id)
    }

    pub(super) fn hold(&mut self, payloads: Vec<FramePayload>) {
        self.held.extend(payloads);
    }

    pub(super) fn hold_call(&mut self, id: ForeignId, payloads: Vec<FramePayload>) {
        self.held_calls.insert(id);
        self.hold(payloads);
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

    /// The turn is complete: returns everything that was held back, in order.
    pub(super) fn release(&mut self) -> Vec<FramePayload> {
        std::mem::take(self).held
    }

    /// The response ends incomplete and is not replaced: returns what was held back, marked as aborted.
    pub(super) fn abort(&mut self) -> Vec<FramePayload> {
        let mut held = self.release();
        for payload in &mut held {
            if let FramePayload::Event(TurnEvent::Text { status, .. } | TurnEvent::Thinking { status, .. }) =
                payload
            {
                *status = Some(TextStatus::Aborted);
            }
        }
        held
    }

    /// Another response replaces this one: returns the retraction, and the calls that will never be sent.
    pub(super) fn abandon(&mut self) -> (Vec<FramePayload>, BTreeSet<ForeignId>) {
        let Attempt { text_chars, thinking_chars, held, held_calls } = std::mem::take(self);
        let note = || CUT_OFF_NOTE.to_owned();
        let mut payloads = Vec::new();
        if thinking_chars > 0 {
            let retracts = Some(thinking_chars);
            payloads.push(FramePayload::Event(TurnEvent::ThinkingDelta { delta: note(), retracts }));
        }
        if text_chars > 0 {
            payloads.push(FramePayload::Event(TurnEvent::TextDelta {
                delta: note(),
                retracts: Some(text_chars),
            }));
        }
        // Results of earlier calls that came in between remain.
        payloads.extend(held.into_iter().filter(|payload| match payload {
            FramePayload::ToolResult { tool_call_id, .. } => !held_calls.contains(tool_call_id.as_str()),
            FramePayload::Event(_) => false,
        }));
        (payloads, held_calls)
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
