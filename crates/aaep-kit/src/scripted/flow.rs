//! Events on their way to one subscriber, held to what was agreed.

use std::collections::VecDeque;

use recount_aaep::wire::{Body, Boundary, Capabilities, Event, EventFilters, EventId, Urgency};

/// Events on their way to one subscriber.
pub(super) struct Flow {
    rate: Option<u32>,
    filters: EventFilters,
    boundaries: Vec<Boundary>,
    held: VecDeque<Event>,
    next_at_ms: u64,
    piece: Option<Event>,
}

impl Flow {
    pub(super) fn new(terms: &Capabilities) -> Flow {
        let mut flow = Flow {
            rate: None,
            filters: EventFilters::default(),
            boundaries: Vec::new(),
            held: VecDeque::new(),
            next_at_ms: 0,
            piece: None,
        };
        flow.change(terms);
        flow
    }

    pub(super) fn change(&mut self, terms: &Capabilities) {
        self.rate = terms.max_events_per_second;
        self.filters = terms.event_filters.clone().unwrap_or_default();
        self.boundaries = terms
            .coalesce_boundaries
            .clone()
            .unwrap_or_else(|| vec![Boundary::Sentence, Boundary::Completion]);
    }

    pub(super) fn push(
        &mut self,
        event: Event,
        now_ms: u64,
        fresh: &mut dyn FnMut() -> EventId,
    ) -> Vec<Event> {
        if event.envelope.urgency() == &Urgency::Critical {
            let mut out: Vec<Event> = self.piece.take().into_iter().collect();
            out.extend(self.held.drain(..));
            out.push(event);
            return out;
        }
        if !self.filters.pass(event.type_name()) {
            return self.due(now_ms, fresh);
        }
        if let Body::OutputStreaming(piece) = &event.body {
            let ends = piece.complete
                || piece.coalesce_hint.as_ref().is_some_and(|hint| self.boundaries.contains(hint));
            let joined = match self.piece.take() {
                Some(first) => join(first, event, fresh),
                None => event,
            };
            if ends { self.hold(joined, fresh) } else { self.piece = Some(joined) }
        } else {
            self.hold(event, fresh);
        }
        self.due(now_ms, fresh)
    }

    fn hold(&mut self, event: Event, fresh: &mut dyn FnMut() -> EventId) {
        let Some(last) = self.held.pop_back() else { return self.held.push_back(event) };
        let same = last.envelope.session_id == event.envelope.session_id;
        match (&last.body, &event.body) {
            (Body::ProgressUpdated(_), Body::ProgressUpdated(_)) if same => self.held.push_back(event),
            (Body::OutputStreaming(one), Body::OutputStreaming(_)) if same && !one.complete => {
                self.held.push_back(join(last, event, fresh));
            }
            _ => self.held.extend([last, event]),
        }
    }

    pub(super) fn due(&mut self, now_ms: u64, _fresh: &mut dyn FnMut() -> EventId) -> Vec<Event> {
        let Some(rate) = self.rate else { return self.held.drain(..).collect() };
        let mut out = Vec::new();
        while now_ms >= self.next_at_ms
            && let Some(event) = self.held.pop_front()
        {
            self.next_at_ms = self.next_at_ms.max(now_ms) + 1_000 / u64::from(rate.max(1));
            out.push(event);
        }
        out
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        (!self.held.is_empty()).then_some(self.next_at_ms)
    }
}

fn join(mut first: Event, second: Event, fresh: &mut dyn FnMut() -> EventId) -> Event {
    if let (Body::OutputStreaming(one), Body::OutputStreaming(two)) = (&mut first.body, second.body) {
        one.chunk.push_str(&two.chunk);
        one.complete = two.complete;
        one.coalesce_hint = two.coalesce_hint;
    }
    first.envelope.timestamp = second.envelope.timestamp;
    first.envelope.event_id = fresh();
    first
}
