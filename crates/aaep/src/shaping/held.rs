//! A waiting event, small while it waits, and which two of them can be merged. It must not know rates.

use super::note::Sources;
use super::text::{Cut, Text};
use crate::kind::Kind;
use crate::wire::{Body, Event, EventId, OutputStreaming, SessionId, Timestamp, Urgency};

/// An event that waits.
#[derive(Debug)]
pub(super) struct Held {
    session: SessionId,
    kind: Option<Kind>,
    /// Whether it is called critical.
    is_critical: bool,
    /// The producer of a state or of a report of progress; two of one producer can be merged.
    agent: Option<Box<str>>,
    stored: Stored,
    /// The events that it is made of, when it is not output.
    pub(super) sources: Sources,
    pub(super) text: Option<Box<Text>>,
    /// Not before this, as long as nothing of its session waits after it.
    pub(super) ripe: u64,
    /// It says where a session stands that is joined in its middle: it goes first, and nothing is merged with it.
    pub(super) is_lead_in: bool,
}

/// The event itself.
#[derive(Debug)]
enum Stored {
    /// As it was read. Beside it the bytes it is written with, once they were counted.
    Read(Box<Event>, usize),
    /// As it is written: a third of the memory.
    Written(Box<str>),
}

impl Stored {
    fn take(self) -> Event {
        match self {
            Stored::Read(event, _) => *event,
            Stored::Written(text) => Event::parse(&text)
                .unwrap_or_else(|why| unreachable!("it was read when it was written: {why}")),
        }
    }
}

impl Held {
    pub(super) fn plain(event: Event) -> Self {
        let sources = Sources::one(event.envelope.event_id.clone());
        let is_mergeable = matches!(event.body, Body::StateChanged(_) | Body::ProgressUpdated(_));
        Held {
            session: event.envelope.session_id.clone(),
            kind: event.kind(),
            is_critical: *event.envelope.urgency() == Urgency::Critical,
            agent: is_mergeable.then(|| event.envelope.producer.agent_id.as_str().into()),
            stored: Stored::Read(Box::new(event), 0),
            sources,
            text: None,
            ripe: 0,
            is_lead_in: false,
        }
    }

    pub(super) fn lead_in(event: Event) -> Self {
        Held { is_lead_in: true, ..Held::plain(event) }
    }

    /// Output: its frame, without what each piece has of its own, and its text.
    pub(super) fn output(mut event: Event, text: Text) -> Self {
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
        Held {
            session: event.envelope.session_id.clone(),
            kind: event.kind(),
            is_critical: *event.envelope.urgency() == Urgency::Critical,
            agent: None,
            sources: Sources::none(),
            stored: Stored::Read(Box::new(event), 0),
            text: Some(Box::new(text)),
            ripe: 0,
            is_lead_in: false,
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

    /// The frame of output that more may be added to.
    pub(super) fn frame(&self) -> Option<&Event> {
        match &self.stored {
            Stored::Read(event, _) if self.text.is_some() => Some(event),
            _ => None,
        }
    }

    /// Makes it small and counts it: it did not go out at once. The frame of a text that more may be added to stays as it
    /// is, because each piece is compared with it.
    pub(super) fn settle(&mut self) {
        let Stored::Read(event, bytes) = &mut self.stored else { return };
        let is_open = self.text.as_ref().is_some_and(|text| !text.closed);
        if *bytes > 0 && (is_open || self.text.is_none()) {
            return;
        }
        let text = event.to_json();
        *bytes = text.len();
        // What cannot be read back stays.
        if !is_open && Event::parse(&text).is_ok() {
            self.stored = Stored::Written(text.into());
        }
    }

    /// What it takes, as far as is known.
    pub(super) fn bytes(&self) -> usize {
        let stored = match &self.stored {
            Stored::Written(text) => text.len(),
            Stored::Read(_, bytes) => size_of::<Event>() + bytes,
        };
        let texts = self.session.as_str().len() + self.agent.as_deref().map_or(0, str::len);
        size_of::<Held>()
            + stored
            + texts
            + self.sources.bytes()
            + self.text.as_ref().map_or(0, |text| text.bytes())
    }

    /// Whether this state or report of progress can stand for an earlier one: both are of one producer. What is called
    /// critical stands for itself.
    pub(super) fn succeeds(&self, earlier: &Held) -> bool {
        self.agent.is_some()
            && self.agent == earlier.agent
            && self.kind == earlier.kind
            && self.session == earlier.session
            && !self.is_critical
            && !earlier.is_critical
            && !self.is_lead_in
            && !earlier.is_lead_in
    }

    /// Takes an earlier state into this one: from where that began to where this one is.
    pub(super) fn continue_from(&mut self, earlier: Held) {
        let Held { stored, sources, .. } = earlier;
        let placeholder = Stored::Written(Box::default());
        let mut to = std::mem::replace(&mut self.stored, placeholder).take();
        if let (Body::StateChanged(to), Body::StateChanged(from)) = (&mut to.body, stored.take().body) {
            to.from_state = from.from_state;
        }
        self.stored = Stored::Read(Box::new(to), 0);
        self.stand_for(sources);
    }

    /// Takes the place of an earlier one.
    pub(super) fn stand_for(&mut self, earlier: Sources) {
        let newer = std::mem::replace(&mut self.sources, earlier);
        self.sources.join(newer);
    }

    /// The event, with a note of what it stands for when that is several.
    pub(super) fn into_event(self, subscription: &str) -> Event {
        let mut event = self.stored.take();
        if self.sources.count() > 1 {
            self.sources.note(&mut event, subscription, "");
        }
        event
    }

    /// The event of a piece that was cut off.
    pub(super) fn piece(&self, cut: Cut, subscription: &str) -> Option<Event> {
        let mut event = match &self.stored {
            Stored::Read(event, _) => Event::clone(event),
            Stored::Written(text) => Event::parse(text).ok()?,
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

    /// Appends a later text of the same output. More may be added to it if that one is open.
    pub(super) fn join(&mut self, later: Held) {
        if let (Some(text), Some(more)) = (&mut self.text, later.text) {
            text.join(*more);
            self.stored = later.stored;
        }
    }

    /// Whether two are pieces of one text: their frames are alike.
    pub(super) fn is_same_output(&self, other: &Held) -> bool {
        if self.text.is_none() || other.text.is_none() || self.session != other.session {
            return false;
        }
        match (&self.stored, &other.stored) {
            (Stored::Read(one, _), Stored::Read(two, _)) => same_output(one, two),
            (Stored::Written(one), Stored::Written(two)) => one == two,
            (Stored::Read(one, _), Stored::Written(two)) | (Stored::Written(two), Stored::Read(one, _)) => {
                one.to_json() == **two
            }
        }
    }
}

/// Whether two pieces of output can be one text: all is alike but the id, the time, the number and the text, so that
/// nothing is lost.
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
