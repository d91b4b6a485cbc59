//! Summarizes a session for a subscription that joins late: its start, its state, and what is open.

use recount_aaep::wire::{Body, Boundary, Event, EventId};

/// The current state of a session that has not ended.
pub(super) struct SessionSnapshot {
    started: Event,
    /// The last `state.changed`.
    state: Option<Event>,
    calls: Vec<Event>,
    /// The last piece of an incomplete output, and its text so far.
    output: Option<(Event, String)>,
    pub(super) prompt: Option<Event>,
}

impl SessionSnapshot {
    /// Starts with `session.started`.
    pub(super) fn new(started: Event) -> SessionSnapshot {
        SessionSnapshot { started, state: None, calls: Vec::new(), output: None, prompt: None }
    }

    pub(super) fn session(&self) -> &str {
        self.started.envelope.session_id.as_str()
    }

    /// Records an event of the session.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.body {
            Body::StateChanged(_) => self.state = Some(event.clone()),
            Body::ToolInvoked(_) => self.calls.push(event.clone()),
            Body::ToolCompleted(done) => self.calls.retain(|call| {
                !matches!(&call.body, Body::ToolInvoked(call) if call.tool_call_id == done.tool_call_id)
            }),
            Body::OutputStreaming(piece) if piece.complete => self.output = None,
            Body::OutputStreaming(piece) => {
                let mut text = self.output.take().map(|(_, text)| text).unwrap_or_default();
                text.push_str(&piece.chunk);
                self.output = Some((event.clone(), text));
            }
            Body::AwaitingConfirmation(_) | Body::AwaitingClarification(_) => {
                self.prompt = Some(event.clone());
            }
            _ => {}
        }
    }

    /// For a subscriber without any event of the session: a valid sequence by itself.
    pub(super) fn digest(&self, fresh: &mut dyn FnMut() -> EventId) -> Vec<Event> {
        let mut events = vec![self.started.clone()];
        events.extend(self.summary("idle", fresh));
        events.extend(self.calls.iter().cloned());
        if let Some((last, text)) = &self.output {
            let mut whole = last.clone();
            whole.envelope.event_id = fresh();
            if let Body::OutputStreaming(piece) = &mut whole.body {
                piece.chunk.clone_from(text);
                piece.position = 0;
                piece.coalesce_hint = Some(Boundary::None);
            }
            events.push(whole);
        }
        events.extend(self.prompt.clone());
        events
    }

    /// For a subscriber that missed some events: the current state and the open prompt.
    pub(super) fn reminder(&self, fresh: &mut dyn FnMut() -> EventId) -> Vec<Event> {
        let now = self.state.as_ref().and_then(|event| match &event.body {
            Body::StateChanged(change) => Some(change.to_state.clone()),
            _ => None,
        });
        let mut events: Vec<Event> =
            self.summary(now.as_deref().unwrap_or("idle"), fresh).into_iter().collect();
        events.extend(self.prompt.clone());
        events
    }

    /// A `state.changed` event with the current state.
    fn summary(&self, from: &str, fresh: &mut dyn FnMut() -> EventId) -> Option<Event> {
        let mut event = self.state.clone()?;
        event.envelope.event_id = fresh();
        let summary = event.summaries.normal.unwrap_or_default();
        event.summaries.normal = Some(format!("Current state: {summary}"));
        if let Body::StateChanged(change) = &mut event.body {
            change.from_state = from.into();
        }
        Some(event)
    }
}
