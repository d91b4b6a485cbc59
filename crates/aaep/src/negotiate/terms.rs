//! The agreed terms of a subscription: what was requested, what is honoured, and what both mean.

use super::Offer;
use super::compare::{DEFAULT_BOUNDARIES, DEFAULT_LANGUAGE};
use super::refusal::Refusal;
use crate::kind::Kind;
use crate::wire::{
    Boundary, Capabilities, EventFilters, Pace, SubscriptionAccepted, SubscriptionId, Verbosity,
};

/// The answer to a request: there is always one.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Accepted(Box<Terms>),
    Rejected(Refusal),
}

impl Answer {
    /// The terms, if it is a yes.
    pub fn accepted(self) -> Option<Terms> {
        match self {
            Answer::Accepted(terms) => Some(*terms),
            Answer::Rejected(_) => None,
        }
    }

    /// The reason, if it is a no.
    pub fn rejected(self) -> Option<Refusal> {
        match self {
            Answer::Accepted(_) => None,
            Answer::Rejected(refusal) => Some(refusal),
        }
    }
}

/// What a producer and one subscriber have agreed.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub(super) requested: Capabilities,
    pub(super) honored: Capabilities,
    /// The level that is operated at.
    pub(super) level: u8,
    pub(super) notes: Vec<String>,
    pub(super) correlation_id: Option<String>,
}

impl Terms {
    /// What the subscriber wished for, all in all.
    pub fn asked(&self) -> &Capabilities {
        &self.requested
    }

    /// What is honoured of it, as `honored_capabilities` says it.
    pub fn honored(&self) -> &Capabilities {
        &self.honored
    }

    /// What a person might want to know about the differences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The most events in a second that are not critical; `None` means no limit.
    pub fn events_per_second(&self) -> Option<u32> {
        self.honored.max_events_per_second
    }

    pub fn verbosity(&self) -> &Verbosity {
        self.honored.preferred_verbosity.as_ref().unwrap_or(&Verbosity::Normal)
    }

    /// The languages that were asked for, in order; texts are chosen by them ([`crate::language::choose`]).
    pub fn languages(&self) -> Vec<&str> {
        match &self.requested.languages {
            Some(languages) => languages.iter().map(String::as_str).collect(),
            None => vec![DEFAULT_LANGUAGE],
        }
    }

    /// Where output may be cut.
    pub fn boundaries(&self) -> &[Boundary] {
        self.honored.coalesce_boundaries.as_deref().unwrap_or(&DEFAULT_BOUNDARIES)
    }

    /// Whether an event that is not critical is wanted, by its compact type name.
    pub fn wants(&self, type_name: &str) -> bool {
        match &self.honored.event_filters {
            Some(filters) => filters.pass(type_name),
            None => EventFilters::default().pass(type_name),
        }
    }

    /// Whether this subscriber may answer a prompt of this kind. A producer sends prompts to nobody else, unless
    /// another subscriber can answer (G-11).
    pub fn replies(&self, kind: Kind) -> bool {
        match kind {
            Kind::AwaitingConfirmation => self.honored.supports_confirmation_reply == Some(true),
            Kind::AwaitingClarification => self.honored.supports_clarification_reply == Some(true),
            _ => false,
        }
    }

    /// The level of conformance that this subscription is served at: the highest that both know.
    pub fn level(&self) -> u8 {
        self.level
    }

    pub fn cognitive_load(&self) -> &Pace {
        self.honored.cognitive_load.as_ref().unwrap_or(&Pace::Medium)
    }

    /// How fast speech is, in words in a minute, if that was said.
    pub fn pace_wpm(&self) -> Option<u32> {
        self.honored.pace_wpm
    }

    /// As it goes over the wire.
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
