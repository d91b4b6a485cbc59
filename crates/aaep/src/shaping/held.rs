//! Held events: compact storage while they wait, and merging. It must not know rates. Start at [`HeldEvent`].

use super::note::Sources;
use super::text::{CutPiece, HeldText};
use crate::kind::Kind;
use crate::wire::{Body, Event, EventId, OutputStreaming, SessionId, Timestamp, Urgency};

/// An event that is waiting to be sent.
#[derive(Debug)]
pub(super) struct HeldEvent {
    session: SessionId,
    kind: Option<Kind>,
    /// Whether it is marked critical.
    is_critical: bool,
    /// The producer of a state or progress event; two of one producer can be merged.
    agent: Option<Box<str>>,
    stored: StoredEvent,
    /// The original events, if it is not output.
    pub(super) sources: Sources,
    pub(super) text: Option<Box<HeldText>>,
    /// The earliest time to send it, unless a later event of its session waits for it.
    pub(super) not_before: u64,
    /// Whether it describes the current state of a session joined in its middle: it is sent first and never merged.
    pub(super) is_lead_in: bool,
    /// Whether it enters or leaves the state in which a prompt is open: it is never merged.
    is_of_prompt: bool,
    /// The call of a tool event: its id, otherwise its tool.
    call: Option<Box<str>>,
}

/// The stored form of the event.
#[derive(Debug)]
enum StoredEvent {
    /// Parsed, with its serialized size once it is known.
    Read(Box<Event>, usize),
    /// Serialized, which takes a third of the memory.
    Written(Box<str>),
}

impl StoredEvent {
    fn take(self) -> Event {
        match self {
            StoredEvent::Read(event, _) => *event,
            StoredEvent::Written(text) => Event::parse(&text)
                .unwrap_or_else(|why| unreachable!("it was parsed when it was stored: {why}")),
        }
    }
}

impl HeldEvent {
    pub(super) fn plain(event: Event) -> Self {
        let sources = Sources::one(event.envelope.event_id.clone());
        let is_mergeable = matches!(event.body, Body::StateChanged(_) | Body::ProgressUpdated(_));
        HeldEvent {
            session: event.envelope.session_id.clone(),
            kind: event.kind(),
            is_critical: *event.envelope.urgency() == Urgency::Critical,
            agent: is_mergeable.then(|| event.envelope.producer.agent_id.as_str().into()),
            is_of_prompt: is_of_prompt(&event.body),
            call: call(&event.body).map(Into::into),
            stored: StoredEvent::Read(Box::new(event), 0),
            sources,
            text: None,
            not_before: 0,
            is_lead_in: false,
        }
    }

    pub(super) fn lead_in(event: Event) -> Self {
        HeldEvent { is_lead_in: true, ..HeldEvent::plain(event) }
    }

    /// Creates held output: the event without the fields of a single chunk, and its text.
    pub(super) fn output(mut event: Event, text: HeldText) -> Self {
        if let Body::OutputStreaming(output) = &mut event.body {
            *output = OutputStreaming {
                chunk: String::new(),
                position: 0,
                complete: false,
                coalesce_hint: None,
                ..output.clone()
            };
        }
        event.envelope.sequence_number = None;
        event.envelope.timestamp = Timestamp::of_millis(0);
        if let Ok(id) = EventId::new("evt_0") {
            event.envelope.event_id = id;
        }
        HeldEvent {
            session: event.envelope.session_id.clone(),
            kind: event.kind(),
            is_critical: *event.envelope.urgency() == Urgency::Critical,
            agent: None,
            sources: Sources::none(),
            stored: StoredEvent::Read(Box::new(event), 0),
            text: Some(Box::new(text)),
            not_before: 0,
            is_lead_in: false,
            is_of_prompt: false,
            call: None,
        }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.kind == Some(kind)
    }

    pub(super) fn is_progress(&self) -> bool {
        self.is(Kind::ProgressUpdated)
    }

    pub(super) fn is_state(&self) -> bool {
        self.is(Kind::StateChanged)
    }

    pub(super) fn is_of_prompt(&self) -> bool {
        self.is_of_prompt
    }

    pub(super) fn call(&self) -> Option<&str> {
        self.call.as_deref()
    }

    /// Whether both are states of one producer in one session, so that one continues the other.
    pub(super) fn is_same_course(&self, other: &HeldEvent) -> bool {
        self.is_state() && other.is_state() && self.session == other.session && self.agent == other.agent
    }

    /// The event of output that more chunks may be added to.
    pub(super) fn frame(&self) -> Option<&Event> {
        match &self.stored {
            StoredEvent::Read(event, _) if self.text.is_some() => Some(event),
            _ => None,
        }
    }

    /// Compacts an event that was not sent at once, and measures it. The event of an open text stays parsed, because
    /// each chunk is compared with it.
    pub(super) fn settle(&mut self) {
        let StoredEvent::Read(event, bytes) = &mut self.stored else { return };
        let is_open = self.text.as_ref().is_some_and(|text| !text.closed);
        if *bytes > 0 && (is_open || self.text.is_none()) {
            return;
        }
        let text = event.to_json();
        *bytes = text.len();
        // An event that cannot be parsed again stays as it is.
        if !is_open && Event::parse(&text).is_ok() {
            self.stored = StoredEvent::Written(text.into());
        }
    }

    /// Estimated memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let stored = match &self.stored {
            StoredEvent::Written(text) => text.len(),
            StoredEvent::Read(_, bytes) => size_of::<Event>() + bytes,
        };
        let texts = [&self.agent, &self.call].into_iter().flatten().map(|text| text.len()).sum::<usize>()
            + self.session.as_str().len();
        size_of::<HeldEvent>()
            + stored
            + texts
            + self.sources.bytes()
            + self.text.as_ref().map_or(0, |text| text.bytes())
    }

    /// Whether this state or progress event can replace an earlier one: both are from one producer, and neither is
    /// marked critical or belongs to a prompt.
    pub(super) fn succeeds(&self, earlier: &HeldEvent) -> bool {
        self.agent.is_some()
            && self.agent == earlier.agent
            && self.kind == earlier.kind
            && self.session == earlier.session
            && !self.is_critical
            && !earlier.is_critical
            && !self.is_lead_in
            && !earlier.is_lead_in
            && !self.is_of_prompt
            && !earlier.is_of_prompt
    }

    /// Merges an earlier state into this one: the change starts from the earlier `from_state`.
    pub(super) fn continue_from(&mut self, earlier: HeldEvent) {
        let HeldEvent { stored, sources, .. } = earlier;
        let placeholder = StoredEvent::Written(Box::default());
        let mut to = std::mem::replace(&mut self.stored, placeholder).take();
        if let (Body::StateChanged(to), Body::StateChanged(from)) = (&mut to.body, stored.take().body) {
            to.from_state = from.from_state;
        }
        self.stored = StoredEvent::Read(Box::new(to), 0);
        self.replace(sources);
    }

    /// Replaces an earlier event.
    pub(super) fn replace(&mut self, earlier: Sources) {
        let newer = std::mem::replace(&mut self.sources, earlier);
        self.sources.join(newer);
    }

    /// The event, with a note of the original events if there are several.
    pub(super) fn into_event(self, subscription: &str) -> Event {
        let mut event = self.stored.take();
        if self.sources.count() > 1 {
            self.sources.note(&mut event, subscription, "");
        }
        event
    }

    /// The event for a piece that was cut off.
    pub(super) fn piece(&self, cut: CutPiece, subscription: &str) -> Option<Event> {
        let mut event = match &self.stored {
            StoredEvent::Read(event, _) => Event::clone(event),
            StoredEvent::Written(text) => Event::parse(text).ok()?,
        };
        let place = format!("{} {}", cut.position, cut.chunk.len());
        event.envelope.timestamp = cut.timestamp;
        if let Body::OutputStreaming(output) = &mut event.body {
            output.chunk = cut.chunk;
            output.position = cut.position;
            output.complete = cut.complete;
            output.coalesce_hint = Some(cut.hint);
        }
        if cut.whole
            && let Some(id) = cut.ids.first()
        {
            event.envelope.event_id = id.clone();
        } else {
            Sources::of(cut.ids, cut.count).note(&mut event, subscription, &place);
        }
        Some(event)
    }

    /// Appends a later text of the same output. The result is open if the later text is.
    pub(super) fn join(&mut self, later: HeldEvent) {
        if let (Some(text), Some(more)) = (&mut self.text, later.text) {
            text.join(*more);
            self.stored = later.stored;
        }
    }

    /// Whether two texts belong to one output: their events are equal except for the chunk.
    pub(super) fn is_same_output(&self, other: &HeldEvent) -> bool {
        if self.text.is_none() || other.text.is_none() || self.session != other.session {
            return false;
        }
        match (&self.stored, &other.stored) {
            (StoredEvent::Read(one, _), StoredEvent::Read(two, _)) => same_output(one, two),
            (StoredEvent::Written(one), StoredEvent::Written(two)) => one == two,
            (StoredEvent::Read(one, _), StoredEvent::Written(two))
            | (StoredEvent::Written(two), StoredEvent::Read(one, _)) => one.to_json() == **two,
        }
    }
}

/// The state of a session while a prompt is open.
const AWAITING_INPUT: &str = "awaiting_input";

/// Whether a change of state shows that a prompt opens, is open, or has ended.
pub(super) fn is_of_prompt(body: &Body) -> bool {
    matches!(body, Body::StateChanged(change)
        if change.from_state == AWAITING_INPUT || change.to_state == AWAITING_INPUT)
}

/// Whether a change of state shows that a prompt has ended.
pub(super) fn ends_prompt(body: &Body) -> bool {
    matches!(body, Body::StateChanged(change)
        if change.from_state == AWAITING_INPUT && change.to_state != AWAITING_INPUT)
}

/// The call of a tool event.
fn call(body: &Body) -> Option<&str> {
    match body {
        Body::ToolInvoked(call) => Some(call.tool_call_id.as_deref().unwrap_or(&call.tool)),
        Body::ToolCompleted(call) => Some(call.tool_call_id.as_deref().unwrap_or(&call.tool)),
        _ => None,
    }
}

/// Whether two chunks of output can be merged without loss: all fields except the id, the time, the number and the text
/// are equal.
pub(super) fn same_output(one: &Event, two: &Event) -> bool {
    let (Body::OutputStreaming(x), Body::OutputStreaming(y)) = (&one.body, &two.body) else { return false };
    let (a, b) = (&one.envelope, &two.envelope);
    let others = one.other.len() == two.other.len()
        && one.other.iter().zip(&two.other).all(|(x, y)| x.0 == y.0 && x.1.get() == y.1.get());
    let extensions = a.extensions.len() == b.extensions.len()
        && a.extensions.iter().zip(&b.extensions).all(|(x, y)| x.0 == y.0 && x.1.get() == y.1.get());
    x.output_id == y.output_id
        && x.content_type == y.content_type
        && x.language == y.language
        && a.session_id == b.session_id
        && a.producer == b.producer
        && a.urgency == b.urgency
        && a.verbosity == b.verbosity
        && a.localization_hints == b.localization_hints
        && a.context == b.context
        && a.aaep_version == b.aaep_version
        && a.correlation_id == b.correlation_id
        && others
        && extensions
}
