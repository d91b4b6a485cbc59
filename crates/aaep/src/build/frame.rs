//! The shared envelope of a session's events, and the check of built events. Start at [`Frame`].

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::draft::Draft;
use crate::json::Reader;
use crate::kind::CONTEXT;
use crate::reading::Reading;
use crate::rule::{Finding, Findings, Profile, Severity, check_event, check_message, message_kind};
use crate::wire::{
    Body, Context, Envelope, Event, EventId, IdError, LocalizationHints, Message, Producer, SessionId,
    Timestamp, Urgency, Verbosity,
};

/// Why an event was not built: violated rules, or an invalid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not built: {}", findings.iter().map(ToString::to_string).chain(id.iter().map(ToString::to_string)).collect::<Vec<_>>().join("; "))]
pub struct BuildError {
    /// Errors of the profile strict.
    pub findings: Vec<Finding>,
    /// An invalid identifier.
    pub id: Option<IdError>,
}

impl From<IdError> for BuildError {
    fn from(id: IdError) -> Self {
        BuildError { findings: Vec::new(), id: Some(id) }
    }
}

/// The common fields of a session's events: session, producer and language.
#[derive(Debug, Clone)]
pub struct Frame {
    session: SessionId,
    producer: Producer,
    hints: LocalizationHints,
    correlation_id: Option<String>,
}

impl Frame {
    pub fn new(session_id: &str, agent_id: &str, language: &str) -> Result<Self, BuildError> {
        Ok(Frame {
            session: SessionId::new(session_id)?,
            producer: Producer::named(agent_id),
            hints: LocalizationHints::in_language(language),
            correlation_id: None,
        })
    }

    /// Sets the producer.
    #[must_use]
    pub fn with_producer(mut self, producer: Producer) -> Self {
        self.producer = producer;
        self
    }

    /// Sets the localization hints.
    #[must_use]
    pub fn with_hints(mut self, hints: LocalizationHints) -> Self {
        self.hints = hints;
        self
    }

    /// Sets the id of the trace that the session belongs to.
    #[must_use]
    pub fn with_correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Builds an event with the caller's id and time (milliseconds since 1970). Fails if the event would break a rule.
    pub fn event<B: Into<Body>>(
        &self,
        event_id: &str,
        millis: i64,
        draft: Draft<B>,
    ) -> Result<Event, BuildError> {
        self.build(event_id, millis, None, draft.into_body())
    }

    /// Builds an event with a `sequence_number`; then all events of the session must have one.
    pub fn numbered<B: Into<Body>>(
        &self,
        event_id: &str,
        millis: i64,
        number: u64,
        draft: Draft<B>,
    ) -> Result<Event, BuildError> {
        self.build(event_id, millis, Some(number), draft.into_body())
    }

    fn build(
        &self,
        event_id: &str,
        millis: i64,
        number: Option<u64>,
        draft: Draft<Body>,
    ) -> Result<Event, BuildError> {
        let critical = draft.body.kind().is_some_and(crate::Kind::is_critical);
        let mut hints = self.hints.clone();
        if let Some(language) = draft.language {
            hints.primary_language = Some(language);
        }
        let context = if draft.contexts.is_empty() {
            Context::default()
        } else {
            Context::Many(std::iter::once(CONTEXT.into()).chain(draft.contexts).collect())
        };
        let raw = |value: &dyn erased::Written| RawValue::from_string(value.json()).ok();
        let extensions: BTreeMap<String, Box<RawValue>> = draft
            .extensions
            .into_iter()
            .filter_map(|(prefix, object)| Some((prefix, raw(&object)?)))
            .collect();
        let other =
            draft.localized.into_iter().filter_map(|(name, text)| Some((name, raw(&text)?))).collect();
        let envelope = Envelope {
            context,
            aaep_version: Some(crate::VERSION.into()),
            event_id: EventId::new(event_id)?,
            session_id: self.session.clone(),
            sequence_number: number,
            timestamp: Timestamp::of_millis(millis),
            producer: self.producer.clone(),
            verbosity: Some(draft.verbosity.unwrap_or(Verbosity::Normal)),
            urgency: Some(if critical {
                Urgency::Critical
            } else {
                draft.urgency.unwrap_or(Urgency::Normal)
            }),
            localization_hints: Some(hints),
            correlation_id: self.correlation_id.clone(),
            extensions,
        };
        let event = Event { envelope, summaries: draft.summaries, body: draft.body, other };
        refuse(check_event(&event, Profile::Strict))?;
        Ok(event)
    }
}

fn refuse(mut findings: Vec<Finding>) -> Result<(), BuildError> {
    findings.retain(|finding| finding.severity == Severity::Error);
    if findings.is_empty() { Ok(()) } else { Err(BuildError { findings, id: None }) }
}

/// Checks a message against the rules and returns it if it is valid.
///
/// ```
/// use recount_aaep::build;
/// use recount_aaep::wire::{Capabilities, SubscriptionRequest};
///
/// let mut request = SubscriptionRequest::new("1.0.0".into(), "reader".into(), Capabilities::default());
/// assert!(build::message(request.clone()).is_ok());
/// request.capabilities.pace_wpm = Some(5);
/// assert_eq!(build::message(request).unwrap_err().findings[0].path, "capabilities.pace_wpm");
/// ```
pub fn message(message: impl Into<Message>) -> Result<Message, BuildError> {
    let message = message.into();
    if let Message::Event(event) = &message {
        refuse(check_event(event, Profile::Strict))?;
        return Ok(message);
    }
    let text = message.to_json();
    let mut findings = Findings::new(Profile::Strict);
    let mut reader = Reader::new();
    if let Some(reading) = reader.read(&text).ok().and_then(Reading::of)
        && let Some(kind) = message_kind(&reading)
    {
        check_message(kind, &reading, &mut findings);
    }
    refuse(findings.take())?;
    Ok(message)
}

/// Serialization of values whose keys are strings, which cannot fail.
mod erased {
    pub(super) trait Written {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Written for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap_or_else(|error| unreachable!("keys are strings: {error}"))
        }
    }
}
