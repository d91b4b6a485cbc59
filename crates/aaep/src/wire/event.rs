//! The event type: envelope, summaries, payload, and unknown fields, which are kept unchanged.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::body::Body;
use super::envelope::{Envelope, Summaries};
use super::error::ParseError;
use crate::field::Field;
use crate::json::{Place, Reader};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::table::{ALLOWED, ENVELOPE};

/// Unknown fields, unchanged and in order.
pub type Members = Vec<(Box<str>, Box<RawValue>)>;

/// One event.
///
/// ```
/// use recount_aaep::{Body, Event};
///
/// let event = Event::parse(r#"{
///     "@context": "https://aaep-protocol.org/context/v1",
///     "type": "https://aaep-protocol.org/types/agent.tool.completed",
///     "event_id": "evt_1", "session_id": "sess_1", "timestamp": "2026-05-24T14:22:16.412Z",
///     "producer": {"agent_id": "planner"},
///     "tool": "fetch_balance", "status": "success", "from_the_future": [1]
/// }"#)?;
/// let Body::ToolCompleted(completed) = &event.body else { panic!("full names are the same") };
/// assert_eq!(completed.tool, "fetch_balance");
/// assert_eq!(event.other[0].1.get(), "[1]");
/// assert!(event.to_json().contains("\"type\":\"aaep:agent.tool.completed\""));
/// # Ok::<(), recount_aaep::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Event {
    pub envelope: Envelope,
    pub summaries: Summaries,
    pub body: Body,
    /// Fields that the protocol does not define: of types of extensions, of later versions, or invalid ones.
    pub other: Members,
}

impl Event {
    /// Parses an event. Unknown fields are kept; known fields must have the right type.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new();
        let doc = reader.read(text)?;
        let Some(reading) = Reading::of(doc) else {
            let reason = format!("{} where an event is expected", doc.root().sort().with_article());
            return Err(ParseError {
                place: Place::of(text, doc.root().offset()),
                path: String::new(),
                reason,
            });
        };
        Self::of(&reading)
    }

    /// Creates an event from a parsed text.
    pub fn of(reading: &Reading<'_>) -> Result<Self, ParseError> {
        let text = reading.node().raw();
        let amiss = |error: serde_json::Error| ParseError::shape(text, &error);
        let envelope: Envelope = serde_json::from_str(text).map_err(amiss)?;
        let type_name = reading.text(Field::Type).ok_or_else(|| ParseError {
            place: Place { line: 1, column: 1 },
            path: reading.get(Field::Type).map_or(String::new(), |_| "type".into()),
            reason: "`type` is missing or not a string".into(),
        })?;
        let kind = reading.kind();
        let streaming = kind == Some(Kind::OutputStreaming);
        let summaries =
            if streaming { Summaries::default() } else { serde_json::from_str(text).map_err(amiss)? };
        let body = match kind {
            Some(kind) => Body::read(kind, text).map_err(amiss)?,
            None => Body::Other { type_name: type_name.into() },
        };
        let summary_bits =
            Field::SummaryTerse.bit() | Field::SummaryNormal.bit() | Field::SummaryDetailed.bit();
        let known = kind.map_or(ENVELOPE | summary_bits, |kind| ALLOWED[kind as usize]);
        let mut other = Members::new();
        for (key, value) in reading.node().members() {
            let name = key.str().unwrap_or_default();
            if Field::of_name(&name).is_some_and(|field| field.bit() & known != 0) {
                continue;
            }
            let value = RawValue::from_string(value.source().to_owned()).map_err(amiss)?;
            other.push((name.into(), value));
        }
        Ok(Event { envelope, summaries, body, other })
    }

    /// The kind of a core event.
    pub fn kind(&self) -> Option<Kind> {
        self.body.kind()
    }

    /// The type, as a compact name if it has one.
    pub fn type_name(&self) -> &str {
        match &self.body {
            Body::Other { type_name } => type_name,
            body => body.kind().map_or("", Kind::compact),
        }
    }

    /// Serializes it without white space, in the order that the specification recommends.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("keys are strings: {error}"))
    }
}

impl PartialEq for Event {
    /// Two events are equal if their JSON is equal.
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl std::str::FromStr for Event {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Event::parse(text)
    }
}

/// The serialization order of an event.
#[derive(Serialize)]
struct EventMembers<'e> {
    #[serde(rename = "@context")]
    context: &'e super::envelope::Context,
    #[serde(skip_serializing_if = "Option::is_none")]
    aaep_version: &'e Option<String>,
    r#type: &'e str,
    event_id: &'e super::id::EventId,
    session_id: &'e super::id::SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_number: Option<u64>,
    timestamp: &'e super::id::Timestamp,
    producer: &'e super::envelope::Producer,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: &'e Option<super::words::Verbosity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    urgency: &'e Option<super::words::Urgency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    localization_hints: &'e Option<super::envelope::LocalizationHints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: &'e Option<String>,
    #[serde(flatten)]
    summaries: &'e Summaries,
    #[serde(flatten)]
    body: &'e Body,
    #[serde(flatten)]
    other: Others<'e>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: &'e BTreeMap<String, Box<RawValue>>,
}

struct Others<'e>(&'e Members);

impl Serialize for Others<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let envelope = &self.envelope;
        EventMembers {
            context: &envelope.context,
            aaep_version: &envelope.aaep_version,
            r#type: self.type_name(),
            event_id: &envelope.event_id,
            session_id: &envelope.session_id,
            sequence_number: envelope.sequence_number,
            timestamp: &envelope.timestamp,
            producer: &envelope.producer,
            verbosity: &envelope.verbosity,
            urgency: &envelope.urgency,
            localization_hints: &envelope.localization_hints,
            correlation_id: &envelope.correlation_id,
            summaries: &self.summaries,
            body: &self.body,
            other: Others(&self.other),
            extensions: &envelope.extensions,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    /// Works with `serde_json` only, because unknown fields are kept as raw text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Event::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}
