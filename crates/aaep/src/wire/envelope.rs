//! The envelope of every event.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::id::{EventId, SessionId, Timestamp};
use super::words::{TextDirection, Urgency, Verbosity};
use crate::kind::CONTEXT;

/// `@context`: the protocol's context, or an array that begins with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Context {
    One(Box<str>),
    Many(Vec<Box<str>>),
}

impl Default for Context {
    fn default() -> Self {
        Context::One(CONTEXT.into())
    }
}

impl Context {
    /// Whether it is the protocol's context or begins with it. Subscribers check this first.
    pub fn is_core(&self) -> bool {
        match self {
            Context::One(context) => &**context == CONTEXT,
            Context::Many(contexts) => contexts.first().is_some_and(|first| &**first == CONTEXT),
        }
    }
}

/// The producer of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Producer {
    /// Stable across versions of the agent.
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_uri: Option<String>,
}

impl Producer {
    pub fn named(agent_id: impl Into<String>) -> Self {
        Producer { agent_id: agent_id.into(), ..Producer::default() }
    }
}

/// The language of the texts, and how to display them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LocalizationHints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_direction: Option<TextDirection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_languages: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_chain: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
}

impl LocalizationHints {
    /// Hints for texts in one language.
    pub fn in_language(tag: impl Into<String>) -> Self {
        LocalizationHints { primary_language: Some(tag.into()), ..LocalizationHints::default() }
    }

    /// Chooses an offered language for the requested ones; see [`crate::language::choose`].
    pub fn choose<'h>(&'h self, wishes: &[&str]) -> Option<&'h str> {
        let primary = self.primary_language.as_deref()?;
        let offers: Vec<&str> =
            self.available_languages.iter().map(String::as_str).chain(std::iter::once(primary)).collect();
        let chain: Vec<&str> = self.fallback_chain.iter().map(String::as_str).collect();
        Some(crate::language::choose(wishes, &offers, &chain, primary))
    }
}

/// The envelope of an event, without its `type`.
#[derive(Debug, Clone, Deserialize)]
pub struct Envelope {
    #[serde(rename = "@context")]
    pub context: Context,
    #[serde(default)]
    pub aaep_version: Option<String>,
    pub event_id: EventId,
    pub session_id: SessionId,
    #[serde(default, deserialize_with = "super::whole::may")]
    pub sequence_number: Option<u64>,
    pub timestamp: Timestamp,
    pub producer: Producer,
    #[serde(default)]
    pub verbosity: Option<Verbosity>,
    #[serde(default)]
    pub urgency: Option<Urgency>,
    #[serde(default)]
    pub localization_hints: Option<LocalizationHints>,
    #[serde(default)]
    pub correlation_id: Option<String>,
    /// Objects of extensions, unchanged.
    #[serde(default)]
    pub extensions: BTreeMap<String, Box<RawValue>>,
}

impl Envelope {
    /// The urgency; `normal` if absent.
    pub fn urgency(&self) -> &Urgency {
        self.urgency.as_ref().unwrap_or(&Urgency::Normal)
    }

    /// The verbosity; `normal` if absent.
    pub fn verbosity(&self) -> &Verbosity {
        self.verbosity.as_ref().unwrap_or(&Verbosity::Normal)
    }
}

/// Summaries for people, from short to long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summaries {
    #[serde(rename = "summary_terse", default, skip_serializing_if = "Option::is_none")]
    pub terse: Option<String>,
    #[serde(rename = "summary_normal", default, skip_serializing_if = "Option::is_none")]
    pub normal: Option<String>,
    #[serde(rename = "summary_detailed", default, skip_serializing_if = "Option::is_none")]
    pub detailed: Option<String>,
}

impl Summaries {
    /// The summary for a verbosity, or the nearest available one.
    pub fn at(&self, verbosity: &Verbosity) -> Option<&str> {
        let order = match verbosity {
            Verbosity::Terse => [&self.terse, &self.normal, &self.detailed],
            Verbosity::Detailed => [&self.detailed, &self.normal, &self.terse],
            _ => [&self.normal, &self.terse, &self.detailed],
        };
        order.into_iter().find_map(|summary| summary.as_deref())
    }
}
