//! Adds a waiting event to the queue and merges it with earlier ones.

use super::Shaper;
use crate::kind::Kind;
use crate::limits;
use crate::shaping::held::{HeldEvent, same_output};
use crate::shaping::text::HeldText;
use crate::wire::{Body, Event, OutputStreaming, Pace, SessionId, Urgency};

impl Shaper {
    pub(super) fn hold(&mut self, event: Event) {
        let is_marked_critical = *event.envelope.urgency() == Urgency::Critical;
        match &event.body {
            Body::OutputStreaming(_) => {
                self.hold_text(event);
            }
            Body::StateChanged(_) if !is_marked_critical => self.hold_state(event),
            Body::ProgressUpdated(_) if !is_marked_critical => self.hold_progress(event),
            _ => {
                if event.kind().is_some_and(Kind::is_terminal) {
                    self.close(&event.envelope.session_id);
                }
                self.held.push_back(HeldEvent::plain(event));
            }
        }
    }

    /// The last held event of a session, ignoring progress, which states may pass.
    fn newest(&self, session: &SessionId) -> Option<usize> {
        self.held.iter().rposition(|held| held.session() == session && !held.is_progress())
    }

    fn hold_state(&mut self, event: Event) {
        let mut held = HeldEvent::plain(event);
        let earlier = self.newest(held.session()).filter(|at| held.succeeds(&self.held[*at]));
        if *self.terms.cognitive_load() == Pace::Low && !held.is_of_prompt() {
            held.not_before = self.now.saturating_add(limits::SHAPED_STATE_MS_LOW);
        }
        self.counts.merged += u64::from(earlier.is_some());
        match earlier {
            // It keeps the position and the time of the first, so that later states do not delay it.
            Some(at) => {
                held.not_before = held.not_before.min(self.held[at].not_before);
                let earlier = std::mem::replace(&mut self.held[at], held);
                self.held[at].continue_from(earlier);
            }
            None => self.held.push_back(held),
        }
    }

    fn hold_progress(&mut self, event: Event) {
        let mut held = HeldEvent::plain(event);
        let earlier = self.held.iter().position(|earlier| held.succeeds(earlier));
        let sent = self.tracks.get(held.session()).and_then(|track| track.progress_at);
        if *self.terms.cognitive_load() == Pace::Low
            && let Some(sent) = sent
        {
            held.not_before = sent.saturating_add(limits::SHAPED_PROGRESS_MS_LOW);
        }
        self.counts.merged += u64::from(earlier.is_some());
        match earlier {
            Some(at) if !self.is_blocking(at) => {
                let earlier = std::mem::replace(&mut self.held[at], held);
                self.held[at].replace(earlier.sources);
            }
            // It must follow the events that arrived before it.
            Some(at) => {
                if let Some(earlier) = self.held.remove(at) {
                    held.replace(earlier.sources);
                }
                self.held.push_back(held);
            }
            None => self.held.push_back(held),
        }
    }

    /// Inserts a lead-in before all events except other lead-ins.
    pub(super) fn hold_lead_in(&mut self, event: Event) {
        let at = self.held.iter().take_while(|held| held.is_lead_in).count();
        self.held.insert(at, HeldEvent::lead_in(event));
    }

    /// Adds a chunk to its text; returns the index of the text.
    pub(super) fn hold_text(&mut self, mut event: Event) -> Option<usize> {
        let Body::OutputStreaming(output) = &mut event.body else { return None };
        let chunk = std::mem::take(&mut output.chunk);
        let output: OutputStreaming = output.clone();
        let session = event.envelope.session_id.clone();
        let track = self.tracks.entry(session.clone()).or_default();
        let position = track.position(&output, chunk.chars().count() as u64);
        let (id, timestamp) = (event.envelope.event_id.clone(), event.envelope.timestamp.clone());
        let open = self.held.iter().rposition(|held| {
            let open = held.text.as_ref().is_some_and(|text| !text.closed);
            open && *held.session() == session && same_id(held, &output)
        });
        let at = match open {
            Some(at) if self.held[at].frame().is_some_and(|frame| same_output(frame, &event)) => {
                self.text_at_the_end(at)
            }
            other => {
                if let Some(text) = other.and_then(|at| self.held[at].text.as_mut()) {
                    text.closed = true;
                }
                self.held.push_back(HeldEvent::output(event, HeldText::new(position)));
                self.held.len() - 1
            }
        };
        if let Some(text) = &mut self.held[at].text {
            self.counts.merged += u64::from(!text.is_empty());
            text.add(&chunk, output.coalesce_hint.as_ref(), output.complete, id, timestamp, self.now);
            text.closed |= text.complete;
        }
        Some(at)
    }

    /// The index of the text to append to. If a later event follows the text, its unsendable rest moves to the end.
    fn text_at_the_end(&mut self, at: usize) -> usize {
        if !self.is_blocking(at) {
            return at;
        }
        let held = &mut self.held[at];
        let Some(frame) = held.frame().cloned() else { return at };
        let Some(text) = &mut held.text else { return at };
        let rest = text.split(&self.agreed);
        let done = text.is_done();
        if done {
            self.held.remove(at);
        }
        self.held.push_back(HeldEvent::output(frame, rest));
        self.held.len() - 1
    }
}

/// Whether a held text is of this output.
fn same_id(held: &HeldEvent, output: &OutputStreaming) -> bool {
    let frame = held.frame().map(|frame| &frame.body);
    matches!(frame, Some(Body::OutputStreaming(known)) if known.output_id == output.output_id)
}
