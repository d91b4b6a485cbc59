//! The agreed terms of a subscription: the requested and the honored capabilities.

use super::Offer;
use super::compare::{DEFAULT_BOUNDARIES, DEFAULT_LANGUAGE};
use super::refusal::Refusal;
use crate::kind::Kind;
use crate::wire::{
    Boundary, Capabilities, EventFilters, Pace, SubscriptionAccepted, SubscriptionId, Verbosity,
};

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum HandshakeOutcome {
    Accepted(Box<Terms>),
    Rejected(Refusal),
}

impl HandshakeOutcome {
    /// The terms, if accepted.
    pub fn accepted(self) -> Option<Terms> {
        match self {
            HandshakeOutcome::Accepted(terms) => Some(*terms),
            HandshakeOutcome::Rejected(_) => None,
        }
    }

    /// The reason, if rejected.
    pub fn rejected(self) -> Option<Refusal> {
        match self {
            HandshakeOutcome::Accepted(_) => None,
            HandshakeOutcome::Rejected(refusal) => Some(refusal),
        }
    }
}

/// The agreement of a producer with one subscriber.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub(super) requested: Capabilities,
    pub(super) honored: Capabilities,
    /// The level of the subscription.
    pub(super) level: u8,
    pub(super) notes: Vec<String>,
    pub(super) correlation_id: Option<String>,
}

impl Terms {
    /// The requested capabilities, including renegotiations.
    pub fn requested(&self) -> &Capabilities {
        &self.requested
    }

    /// The honored capabilities, as in `honored_capabilities`.
    pub fn honored(&self) -> &Capabilities {
        &self.honored
    }

    /// Explanations of the differences, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The maximum rate of events that are not critical; `None` means no limit.
    pub fn events_per_second(&self) -> Option<u32> {
        self.honored.max_events_per_second
    }

    pub fn verbosity(&self) -> &Verbosity {
        self.honored.preferred_verbosity.as_ref().unwrap_or(&Verbosity::Normal)
    }

    /// The requested languages, in order; [`crate::language::choose`] selects texts by them.
    pub fn languages(&self) -> Vec<&str> {
        match &self.requested.languages {
            Some(languages) => languages.iter().map(String::as_str).collect(),
            None => vec![DEFAULT_LANGUAGE],
        }
    }

    /// The agreed boundaries of output.
    pub fn boundaries(&self) -> &[Boundary] {
        self.honored.coalesce_boundaries.as_deref().unwrap_or(&DEFAULT_BOUNDARIES)
    }

    /// Whether an event that is not critical passes the filters, by its compact type name.
    pub fn passes_filters(&self, type_name: &str) -> bool {
        match &self.honored.event_filters {
            Some(filters) => filters.pass(type_name),
            None => EventFilters::default().pass(type_name),
        }
    }

    /// Whether this subscriber may reply to a prompt of this kind. Others get prompts only if another subscriber can
    /// reply (G-11).
    pub fn replies(&self, kind: Kind) -> bool {
        match kind {
            Kind::AwaitingConfirmation => self.honored.supports_confirmation_reply == Some(true),
            Kind::AwaitingClarification => self.honored.supports_clarification_reply == Some(true),
            _ => false,
        }
    }

    /// The conformance level of this subscription: the highest common one.
    pub fn level(&self) -> u8 {
        self.level
    }

    pub fn cognitive_load(&self) -> &Pace {
        self.honored.cognitive_load.as_ref().unwrap_or(&Pace::Medium)
    }

    /// The speech rate in words per minute, if declared.
    pub fn pace_wpm(&self) -> Option<u32> {
        self.honored.pace_wpm
    }

    /// The message for the wire.
    pub fn to_message(&self, offer: &Offer, id: SubscriptionId) -> SubscriptionAccepted {
        let mut accepted = SubscriptionAccepted::new(
            id,
            crate::VERSION.into(),
            offer.producer.clone(),
            self.honored.clone(),
        );
        accepted.manifest_uri.clone_from(&offer.manifest_uri);
        accepted.signed_manifest.clone_from(&offer.signed_manifest);
        accepted.correlation_id.clone_from(&self.correlation_id);
        if !self.notes.is_empty() {
            let notes: String = self.notes.join(" ").chars().take(4_096).collect();
            accepted.negotiation_notes = Some(notes);
        }
        accepted
    }
}
