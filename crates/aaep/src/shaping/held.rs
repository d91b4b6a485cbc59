//! A waiting event, and which two of them can be merged.

use super::note::Sources;
use super::text::{Cut, Text};
use crate::wire::{Body, Event, SessionId, Urgency};

/// An event that waits.
#[derive(Debug)]
pub(super) struct Held {
    /// As it will be sent; of output the frame, without the text.
    pub(super) event: Event,
    /// What stands in it, of what is no output.
    pub(super) sources: Sources,
    pub(super) text: Option<Text>,
    /// Not before this, as long as nothing of its session waits behind it.
    pub(super) ripe: u64,
    /// Bytes of the frame, once counted.
    pub(super) frame: usize,
}

impl Held {
    pub(super) fn plain(event: Event) -> Self {
        let sources = Sources::one(event.envelope.event_id.clone());
        Held { event, sources, text: None, ripe: 0, frame: 0 }
    }

    pub(super) fn output(event: Event, text: Text) -> Self {
        Held { text: Some(text), ..Held::plain(event) }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.event.envelope.session_id
    }

    pub(super) fn is_progress(&self) -> bool {
        matches!(self.event.body, Body::ProgressUpdated(_))
    }

    pub(super) fn is_state(&self) -> bool {
        matches!(self.event.body, Body::StateChanged(_))
    }

    pub(super) fn count_frame(&mut self) {
        if self.frame == 0 {
            self.frame = self.event.to_json().len();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.frame + self.sources.bytes() + self.text.as_ref().map_or(0, Text::bytes)
    }

    /// Takes an earlier state into this one: from where that began to where this one is.
    pub(super) fn continue_from(&mut self, earlier: Held) {
        if let (Body::StateChanged(to), Body::StateChanged(from)) =
            (&mut self.event.body, &earlier.event.body)
        {
            to.from_state.clone_from(&from.from_state);
        }
        self.stand_for(earlier);
    }

    /// Takes the place of an earlier one.
    pub(super) fn stand_for(&mut self, earlier: Held) {
        let newer = std::mem::replace(&mut self.sources, earlier.sources);
        self.sources.join(newer);
    }

    /// The event, with a note of what it stands for when that is several.
    pub(super) fn into_event(self, subscription: &str) -> Event {
        let mut event = self.event;
        if self.sources.count() > 1 {
            self.sources.note(&mut event, subscription, "");
        }
        event
    }

    /// The event of a piece that was cut off.
    pub(super) fn piece(&self, cut: Cut, subscription: &str) -> Event {
        let mut event = self.event.clone();
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
        event
    }
}

/// Whether a later state or report of progress of the same producer can stand for an earlier one. What somebody
/// called critical stands for itself.
pub(super) fn succeeds(later: &Event, earlier: &Event) -> bool {
    let critical = |event: &Event| *event.envelope.urgency() == Urgency::Critical;
    later.envelope.producer.agent_id == earlier.envelope.producer.agent_id
        && later.kind() == earlier.kind()
        && !critical(later)
        && !critical(earlier)
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
