//! Events to stored bytes and back. Stored bytes are wire bytes: encoded once, never again.
//!
//! Keys in this order, compact: `schema_version event_id run_id task_id? session_id? sequence
//! occurred_at type data`, then whatever fields a later release added.

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::{Draft, Event};
use crate::id::{EventId, RunId, SessionId, TaskId};
use crate::limits;
use crate::registry::{Payload, PayloadError};
use crate::time;

/// The only version there is.
pub const SCHEMA_VERSION: &str = "1";

/// Why bytes are not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("not an event envelope: {0}")]
    Envelope(String),
    /// Written by rules we do not know; nothing in it may be trusted to mean what we think.
    #[error("schema_version {0:?} is not {SCHEMA_VERSION:?}: read it with a newer release")]
    SchemaVersion(String),
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

/// Writes an event down.
pub fn encode(event: &Event) -> Vec<u8> {
    let written;
    let data = match &event.body.verbatim {
        Some(text) => text.as_ref(),
        None => {
            written = event.body.payload.write();
            &written
        }
    };
    let mut out = String::with_capacity(data.len() + 256);
    out.push_str("{\"schema_version\":\"1\",\"event_id\":\"");
    push(&mut out, event.event_id);
    out.push_str("\",\"run_id\":\"");
    push(&mut out, event.run_id);
    if let Some(task_id) = event.task_id {
        out.push_str("\",\"task_id\":\"");
        push(&mut out, task_id);
    }
    if let Some(session_id) = event.session_id {
        out.push_str("\",\"session_id\":\"");
        push(&mut out, session_id);
    }
    out.push_str("\",\"sequence\":");
    push(&mut out, event.sequence);
    out.push_str(",\"occurred_at\":\"");
    out.push_str(&time::format_ms(event.occurred_ms));
    out.push_str("\",\"type\":\"");
    // A type's name is dotted lower-case words, so it needs no escaping.
    out.push_str(event.type_name());
    out.push_str("\",\"data\":");
    out.push_str(data);
    for (name, value) in &event.extra {
        out.push(',');
        out.push_str(&serde_json::Value::from(name.as_ref()).to_string());
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    out.into_bytes()
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    use std::fmt::Write as _;
    write!(out, "{value}").expect("writing into a string does not fail");
}

/// The envelope's fields as they stand, `data` unread. Borrowed: no copying for those who only route.
#[derive(Debug)]
pub struct Envelope<'a> {
    pub schema_version: std::borrow::Cow<'a, str>,
    pub event_id: EventId,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub session_id: Option<SessionId>,
    pub sequence: u64,
    pub occurred_ms: u64,
    pub type_name: std::borrow::Cow<'a, str>,
    pub data: &'a str,
    pub extra: Vec<(Box<str>, Box<str>)>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope and leaves `data` as text.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let raw: RawEnvelope<'a> =
            serde_json::from_slice(bytes).map_err(|why| DecodeError::Envelope(why.to_string()))?;
        raw.checked()
    }
}

/// Reads an event. Types that are not in the registry are kept as they are.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let envelope = Envelope::read(bytes)?;
    let payload = Payload::read(&envelope.type_name, envelope.data)?;
    Ok(Event {
        event_id: envelope.event_id,
        run_id: envelope.run_id,
        task_id: envelope.task_id,
        session_id: envelope.session_id,
        sequence: envelope.sequence,
        occurred_ms: envelope.occurred_ms,
        body: Draft { payload, verbatim: Some(envelope.data.into()) },
        extra: envelope.extra,
    })
}

/// Fields as JSON gives them, before any is believed.
#[derive(Default)]
struct RawEnvelope<'a> {
    known: [Option<&'a RawValue>; 9],
    extra: Vec<(Box<str>, Box<str>)>,
}

const FIELDS: [&str; 9] = [
    "schema_version",
    "event_id",
    "run_id",
    "task_id",
    "session_id",
    "sequence",
    "occurred_at",
    "type",
    "data",
];

impl<'a> RawEnvelope<'a> {
    fn field<T: Deserialize<'a>>(&self, place: usize) -> Result<Option<T>, DecodeError> {
        let Some(raw) = self.known[place] else { return Ok(None) };
        serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|why| DecodeError::Envelope(format!("{}: {why}", FIELDS[place])))
    }

    fn must<T: Deserialize<'a>>(&self, place: usize) -> Result<T, DecodeError> {
        self.field(place)?.ok_or_else(|| DecodeError::Envelope(format!("{} is missing", FIELDS[place])))
    }

    fn id<T: std::str::FromStr<Err = crate::IdError>>(&self, place: usize) -> Result<Option<T>, DecodeError> {
        let Some(text) = self.field::<std::borrow::Cow<'a, str>>(place)? else { return Ok(None) };
        text.parse().map(Some).map_err(|why| DecodeError::Envelope(format!("{}: {why}", FIELDS[place])))
    }

    fn must_id<T: std::str::FromStr<Err = crate::IdError>>(&self, place: usize) -> Result<T, DecodeError> {
        self.id(place)?.ok_or_else(|| DecodeError::Envelope(format!("{} is missing", FIELDS[place])))
    }

    fn checked(self) -> Result<Envelope<'a>, DecodeError> {
        let schema_version: std::borrow::Cow<'a, str> = self.must(0)?;
        if schema_version != SCHEMA_VERSION {
            return Err(DecodeError::SchemaVersion(schema_version.into_owned()));
        }
        let occurred_at: std::borrow::Cow<'a, str> = self.must(6)?;
        // Any other way to write the same instant would not survive being written again.
        let occurred_ms = time::parse_stored_ms(&occurred_at).ok_or_else(|| {
            DecodeError::Envelope(format!(
                "occurred_at: {occurred_at:?} is not RFC 3339 in UTC with three fraction digits"
            ))
        })?;
        let data = self.known[8].ok_or_else(|| DecodeError::Envelope("data is missing".into()))?.get();
        if !data.starts_with('{') {
            return Err(DecodeError::Envelope("data is not an object".into()));
        }
        Ok(Envelope {
            schema_version,
            event_id: self.must_id(1)?,
            run_id: self.must_id(2)?,
            task_id: self.id(3)?,
            session_id: self.id(4)?,
            sequence: self.must(5)?,
            occurred_ms,
            type_name: self.must(7)?,
            data,
            extra: self.extra,
        })
    }
}

impl<'de> Deserialize<'de> for RawEnvelope<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawEnvelope<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut raw = RawEnvelope::default();
                while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    match FIELDS.iter().position(|field| *field == name) {
                        Some(place) if raw.known[place].is_some() => {
                            return Err(serde::de::Error::custom(format_args!("{name} comes twice")));
                        }
                        Some(place) => raw.known[place] = Some(value),
                        None if raw.extra.iter().any(|(there, _)| **there == *name) => {
                            return Err(serde::de::Error::custom(format_args!("{name:?} comes twice")));
                        }
                        None if raw.extra.len() == limits::ENVELOPE_FIELDS_EXTRA_MAX => {
                            return Err(serde::de::Error::custom("too many fields that are not known"));
                        }
                        None => raw.extra.push((name.into(), value.get().into())),
                    }
                }
                Ok(raw)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}
