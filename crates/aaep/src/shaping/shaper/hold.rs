//! Where an event is put that has to wait, and what it is merged with at once.

use super::Shaper;
use crate::kind::Kind;
use crate::limits;
use crate::shaping::held::{Held, same_output};
use crate::shaping::text::Text;
use crate::wire::{Body, Event, OutputStreaming, Pace, SessionId, Urgency};

impl Shaper {
    pub(super) fn hold(&mut self, event: Event) {
        let called = *event.envelope.urgency() == Urgency::Critical;
        match &event.body {
            Body::OutputStreaming(_) => {
                self.hold_text(event);
            }
            Body::StateChanged(_) if !called => self.hold_state(event),
            Body::ProgressUpdated(_) if !called => self.hold_progress(event),
            _ => {
                if event.kind().is_some_and(Kind::is_terminal) {
                    self.close(&event.envelope.session_id);
                }
                self.held.push_back(Held::plain(event));
            }
        }
    }

    /// The end of what is held of a session, without progress, which any state may pass.
    fn newest(&self, session: &SessionId) -> Option<usize> {
        self.held.iter().rposition(|held| held.session() == session && !held.is_progress())
    }

    fn hold_state(&mut self, event: Event) {
        let mut held = Held::plain(event);
        let earlier = self.newest(held.session()).filter(|at| held.succeeds(&self.held[*at]));
        if *self.terms.cognitive_load() == Pace::Low {
            held.ripe = self.now.saturating_add(limits::SHAPED_STATE_MS_LOW);
        }
        self.counts.merged += u64::from(earlier.is_some());
        match earlier {
            // It keeps the place and the time of the first: neither waits longer because others follow it.
            Some(at) => {
                held.ripe = held.ripe.min(self.held[at].ripe);
                let earlier = std::mem::replace(&mut self.held[at], held);
                self.held[at].continue_from(earlier);
            }
            None => self.held.push_back(held),
        }
    }

    fn hold_progress(&mut self, event: Event) {
        let mut held = Held::plain(event);
        let earlier = self.held.iter().position(|earlier| held.succeeds(earlier));
        let sent = self.tracks.get(held.session()).and_then(|track| track.progress_at);
        if *self.terms.cognitive_load() == Pace::Low
            && let Some(sent) = sent
        {
            held.ripe = sent.saturating_add(limits::SHAPED_PROGRESS_MS_LOW);
        }
        self.counts.merged += u64::from(earlier.is_some());
        match earlier {
            Some(at) if !self.is_pressed(at) => {
                let earlier = std::mem::replace(&mut self.held[at], held);
                self.held[at].stand_for(earlier.sources);
            }
            // It comes after what came before it.
            Some(at) => {
                if let Some(earlier) = self.held.remove(at) {
                    held.stand_for(earlier.sources);
                }
                self.held.push_back(held);
            }
            None => self.held.push_back(held),
        }
    }

    /// Puts it before everything but other lead-ins.
    pub(super) fn hold_lead_in(&mut self, event: Event) {
        let at = self.held.iter().take_while(|held| held.is_lead_in).count();
        self.held.insert(at, Held::lead_in(event));
    }

    /// Answers where the text is now.
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
                self.held.push_back(Held::output(event, Text::new(position)));
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

    /// Where to add to a text: where it is, or, when something came behind it, behind that, with what could not be
    /// spoken yet.
    fn text_at_the_end(&mut self, at: usize) -> usize {
        if !self.is_pressed(at) {
            return at;
        }
        let held = &mut self.held[at];
        let Some(frame) = held.frame().cloned() else { return at };
        let Some(text) = &mut held.text else { return at };
        let rest = text.split(&self.legal);
        let done = text.is_done();
        if done {
            self.held.remove(at);
        }
        self.held.push_back(Held::output(frame, rest));
        self.held.len() - 1
    }
}

/// Whether a held text is of this output.
fn same_id(held: &Held, output: &OutputStreaming) -> bool {
    let frame = held.frame().map(|frame| &frame.body);
    matches!(frame, Some(Body::OutputStreaming(known)) if known.output_id == output.output_id)
}
