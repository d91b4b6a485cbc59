//! Builds the protocol events of one event of the log: their envelopes and ids. Must not decide what to emit. Start
//! with [`EventBuilder::push`].

use recount_aaep::Event;
use recount_aaep::shaping::{EXTENSION_CONTEXT, EXTENSION_PREFIX};
use recount_aaep::wire::{
    Body, Context, Envelope, LocalizationHints, Producer, SessionId, Summaries, TextDirection, Timestamp,
    Urgency, Verbosity,
};
use recount_event::RunId;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::id::Place;
use crate::speech::{Arg, Key, Speech};

/// What the events of one session share.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) speech: &'static Speech,
    pub(super) session: SessionId,
    pub(super) producer: Producer,
    hints: LocalizationHints,
}

impl Frame {
    pub(super) fn new(speech: &'static Speech, session: SessionId, producer: Producer) -> Self {
        Frame { speech, session, producer, hints: speech.hints() }
    }
}

/// Collects the protocol events of one event of the log.
pub(super) struct EventBuilder<'f> {
    pub(super) frame: &'f Frame,
    run: RunId,
    sequence: u64,
    millis: i64,
    /// The part of the next event.
    part: u64,
    events: Vec<Event>,
}

impl<'f> EventBuilder<'f> {
    pub(super) fn new(frame: &'f Frame, run: RunId, sequence: u64, millis: i64) -> Self {
        EventBuilder { frame, run, sequence, millis, part: 0, events: Vec::new() }
    }

    /// Numbers the events from a part other than 0.
    pub(super) fn begin_at_part(&mut self, part: u64) {
        self.part = part;
    }

    pub(super) fn push(&mut self, body: impl Into<Body>, summaries: Summaries, urgency: Urgency) {
        let body = body.into();
        let place = Place { run: self.run, sequence: self.sequence, part: self.part };
        self.part += 1;
        let mut hints = self.frame.hints.clone();
        let texts = [&summaries.terse, &summaries.normal, &summaries.detailed];
        let auto =
            texts.into_iter().flatten().any(|text| self.frame.speech.direction(text) == TextDirection::Auto);
        if auto || matches!(body, Body::OutputStreaming(_)) {
            // The language of model output is not known.
            hints.text_direction = Some(TextDirection::Auto);
        }
        let critical = body.kind().is_some_and(recount_aaep::Kind::is_critical);
        self.events.push(Event {
            envelope: Envelope {
                context: Context::default(),
                aaep_version: Some(recount_aaep::VERSION.into()),
                event_id: place.event_id(),
                session_id: self.frame.session.clone(),
                sequence_number: None,
                timestamp: Timestamp::of_millis(self.millis),
                producer: self.frame.producer.clone(),
                verbosity: Some(Verbosity::Normal),
                urgency: Some(if critical { Urgency::Critical } else { urgency }),
                localization_hints: Some(hints),
                correlation_id: None,
                extensions: Default::default(),
            },
            summaries,
            body,
            other: Default::default(),
        });
    }

    /// Adds members of this producer's extension to the event that was pushed last.
    pub(super) fn extend_last(&mut self, members: Map<String, Value>) {
        let Some(last) = self.events.last_mut() else { return };
        let Ok(members) = RawValue::from_string(Value::Object(members).to_string()) else { return };
        last.envelope.context =
            Context::Many(vec![recount_aaep::kind::CONTEXT.into(), EXTENSION_CONTEXT.into()]);
        last.envelope.extensions.insert(EXTENSION_PREFIX.into(), members);
    }

    pub(super) fn render(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> Summaries {
        self.frame.speech.render(key, args)
    }

    pub(super) fn sentence(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> String {
        self.frame.speech.sentence(key, args)
    }

    /// The time of the events.
    pub(super) fn millis(&self) -> i64 {
        self.millis
    }

    /// The sequence of the event of the log.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The event that was pushed last.
    pub(super) fn last(&self) -> Option<&Event> {
        self.events.last()
    }

    pub(super) fn finish(self) -> Vec<Event> {
        self.events
    }
}
