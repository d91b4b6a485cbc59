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

/// The fields of the envelope, with `data` unparsed. Borrowed, so that routing copies nothing.
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

    /// Whether this event ends its run.
    pub fn is_ending(&self) -> bool {
        matches!(&*self.type_name, "run.finished" | "run.failed" | "run.cancelled")
    }
}

/// Reads an event. Types that are not in the registry are kept as they are.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    if let Some((envelope, payload)) = read_as_written(bytes) {
        return Ok(envelope.with(payload));
    }
    let envelope = Envelope::read(bytes)?;
    let payload = Payload::read(&envelope.type_name, envelope.data)?;
    Ok(envelope.with(payload))
}

/// Reads what [`encode`] wrote of a type that is in the registry, with no field beyond those: nearly all there is, and
/// its fields need not be looked for. Anything else is `None`, be it right or wrong.
fn read_as_written(bytes: &[u8]) -> Option<(Envelope<'_>, Payload)> {
    let mut rest = str::from_utf8(bytes).ok()?.strip_prefix("{\"schema_version\":\"1\",\"event_id\":\"")?;
    let event_id = until_quote(&mut rest)?.parse().ok()?;
    let run_id = field(&mut rest, ",\"run_id\":\"")??.parse().ok()?;
    let task_id = match field(&mut rest, ",\"task_id\":\"") {
        Some(text) => Some(text?.parse().ok()?),
        None => None,
    };
    let session_id = match field(&mut rest, ",\"session_id\":\"") {
        Some(text) => Some(text?.parse().ok()?),
        None => None,
    };
    let (sequence, after) = rest.strip_prefix(",\"sequence\":")?.split_once(',')?;
    let is_number = sequence.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || (sequence.len() > 1 && sequence.starts_with('0')) {
        return None;
    }
    rest = after.strip_prefix("\"occurred_at\":\"")?;
    let occurred_ms = time::parse_stored_ms(until_quote(&mut rest)?)?;
    let type_name = field(&mut rest, ",\"type\":\"")??;
    let data = rest.strip_prefix(",\"data\":")?.strip_suffix('}')?;
    if !(data.starts_with('{') && data.ends_with('}')) {
        return None;
    }
    // Unknown fields are not examined.
    let payload =
        Payload::read(type_name, data).ok().filter(|payload| !matches!(payload, Payload::Opaque(_)))?;
    let envelope = Envelope {
        schema_version: SCHEMA_VERSION.into(),
        event_id,
        run_id,
        task_id,
        session_id,
        sequence: sequence.parse().ok()?,
        occurred_ms,
        type_name: type_name.into(),
        data,
        extra: Vec::new(),
    };
    Some((envelope, payload))
}

/// The text of a field that begins like this; the inner `None` is for one that does not end.
fn field<'a>(rest: &mut &'a str, beginning: &str) -> Option<Option<&'a str>> {
    *rest = rest.strip_prefix(beginning)?;
    Some(until_quote(rest))
}

fn until_quote<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (text, after) = rest.split_once('"')?;
    *rest = after;
    Some(text)
}

impl Envelope<'_> {
    fn with(self, payload: Payload) -> Event {
        Event {
            event_id: self.event_id,
            run_id: self.run_id,
            task_id: self.task_id,
            session_id: self.session_id,
            sequence: self.sequence,
            occurred_ms: self.occurred_ms,
            body: Draft { payload, verbatim: Some(self.data.into()) },
            extra: self.extra,
        }
    }
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
        struct ObjectFields;

        impl<'de> Visitor<'de> for ObjectFields {
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
                            return Err(serde::de::Error::custom(format_args!("{name} is duplicated")));
                        }
                        Some(place) => raw.known[place] = Some(value),
                        None if raw.extra.iter().any(|(there, _)| **there == *name) => {
                            return Err(serde::de::Error::custom(format_args!("{name:?} is duplicated")));
                        }
                        None if raw.extra.len() == limits::ENVELOPE_FIELDS_EXTRA_MAX => {
                            return Err(serde::de::Error::custom("too many unknown fields"));
                        }
                        None => raw.extra.push((name.into(), value.get().into())),
                    }
                }
                Ok(raw)
            }
        }

        deserializer.deserialize_map(ObjectFields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = concat!(
        r#"{"schema_version":"1","event_id":"evt_01M81T6GG9Y2C6N8KB1K93E4JJ","run_id":"run_01M81T6GG7FM1WFFER1CWXF7EP","#,
        r#""session_id":"chat_01M81T6AD54KF7EY6HT7NJT5CR","sequence":40,"occurred_at":"2026-11-22T14:22:40.649Z","#,
        r#""type":"assistant.text_delta","data":{"turn_index":0,"block_index":0,"delta":"So \"it\" goes {}"}}"#
    );

    fn at_length(bytes: &[u8]) -> Result<Event, DecodeError> {
        let envelope = Envelope::read(bytes)?;
        let payload = Payload::read(&envelope.type_name, envelope.data)?;
        Ok(envelope.with(payload))
    }

    #[test]
    fn what_was_written_is_read_the_short_way() {
        let (envelope, payload) = read_as_written(WRITTEN.as_bytes()).unwrap();
        assert_eq!(Ok(envelope.with(payload)), at_length(WRITTEN.as_bytes()));
        let without = WRITTEN.replace(r#""session_id":"chat_01M81T6AD54KF7EY6HT7NJT5CR","#, "");
        assert!(read_as_written(without.as_bytes()).is_some());
    }

    /// A byte replaced, inserted or removed: both parsers must agree on the result.
    #[test]
    fn both_ways_of_reading_agree_on_everything() {
        let (mut short, mut refused) = (0, 0);
        let mut check = |bytes: &[u8]| {
            let expected = at_length(bytes);
            short += u32::from(read_as_written(bytes).is_some());
            refused += u32::from(expected.is_err());
            assert_eq!(decode(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        };
        for place in 0..WRITTEN.len() {
            let (before, after) = WRITTEN.as_bytes().split_at(place);
            for byte in *b"\"\\{}[],:0a \n-+.\xff" {
                check(&[before, &[byte], &after[1..]].concat());
                check(&[before, &[byte], after].concat());
            }
            check(&[before, &after[1..]].concat());
            check(before);
        }
        for (from, to) in [
            (r#"}}"#, r#"},"more":{}}"#),
            (r#"}}"#, r#"} }"#),
            (r#""data":{"#, r#""data": {"#),
            (r#"40,"#, r#"040,"#),
            (r#"40,"#, r#"18446744073709551616,"#),
            (r#"assistant.text_delta"#, r#"assistant.text_\u0064elta"#),
            (r#"assistant.text_delta"#, r#"ext.other"#),
            (r#""delta""#, r#""delta":"twice","delta""#),
            (r#""delta""#, r#""turn_index""#),
            (r#"goes {}"#, r#"goes \ud800"#),
        ] {
            check(WRITTEN.replacen(from, to, 1).as_bytes());
        }
        assert!(short > 100 && refused > 1000, "{short} {refused}");
    }
}
