//! Reads protobuf as the JSON encoding of OTLP, by tables of the fields that are used: `collector/logs/v1`,
//! `collector/trace/v1` and what they contain, of opentelemetry-proto 1.x. Numbers of fields never change.
//!
//! Own code, because a generated reader allocates for every empty message that a client sends. See [`read`].

use serde_json::{Map, Value};

use crate::limits;

/// The fields of a message that are read; others are skipped.
pub(super) struct Message(pub(super) &'static [Field]);

/// The number, the name in JSON, and what it has.
pub(super) type Field = (u64, &'static str, Kind);

pub(super) enum Kind {
    One(&'static Message),
    Many(&'static Message),
    Text,
    /// Bytes, in hexadecimal digits.
    Bytes,
    Whole,
    Unsigned,
    Flag,
    Decimal,
}

pub(super) static LOGS: Message = Message(&[(1, "resourceLogs", Kind::Many(&RESOURCE_LOGS))]);
static RESOURCE_LOGS: Message =
    Message(&[(1, "resource", Kind::One(&RESOURCE)), (2, "scopeLogs", Kind::Many(&SCOPE_LOGS))]);
static SCOPE_LOGS: Message =
    Message(&[(1, "scope", Kind::One(&SCOPE)), (2, "logRecords", Kind::Many(&LOG_RECORD))]);
static LOG_RECORD: Message = Message(&[
    (1, "timeUnixNano", Kind::Unsigned),
    (6, "attributes", Kind::Many(&KEY_VALUE)),
    (12, "eventName", Kind::Text),
]);

pub(super) static TRACES: Message = Message(&[(1, "resourceSpans", Kind::Many(&RESOURCE_SPANS))]);
static RESOURCE_SPANS: Message =
    Message(&[(1, "resource", Kind::One(&RESOURCE)), (2, "scopeSpans", Kind::Many(&SCOPE_SPANS))]);
static SCOPE_SPANS: Message = Message(&[(2, "spans", Kind::Many(&SPAN))]);
static SPAN: Message = Message(&[
    (1, "traceId", Kind::Bytes),
    (2, "spanId", Kind::Bytes),
    (4, "parentSpanId", Kind::Bytes),
    (5, "name", Kind::Text),
    (7, "startTimeUnixNano", Kind::Unsigned),
    (8, "endTimeUnixNano", Kind::Unsigned),
    (9, "attributes", Kind::Many(&KEY_VALUE)),
    (15, "status", Kind::One(&STATUS)),
    (16, "flags", Kind::Unsigned),
]);
static STATUS: Message = Message(&[(2, "message", Kind::Text), (3, "code", Kind::Unsigned)]);

static SCOPE: Message = Message(&[(1, "name", Kind::Text)]);
static RESOURCE: Message = Message(&[(1, "attributes", Kind::Many(&KEY_VALUE))]);
static KEY_VALUE: Message = Message(&[(1, "key", Kind::Text), (2, "value", Kind::One(&ANY_VALUE))]);
static ANY_VALUE: Message = Message(&[
    (1, "stringValue", Kind::Text),
    (2, "boolValue", Kind::Flag),
    (3, "intValue", Kind::Whole),
    (4, "doubleValue", Kind::Decimal),
    (5, "arrayValue", Kind::One(&ARRAY)),
    (6, "kvlistValue", Kind::One(&KEY_VALUES)),
    (7, "bytesValue", Kind::Bytes),
]);
static ARRAY: Message = Message(&[(1, "values", Kind::Many(&ANY_VALUE))]);
static KEY_VALUES: Message = Message(&[(1, "values", Kind::Many(&KEY_VALUE))]);

/// What a field has on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// `None` for a body that is not such a message.
pub(super) fn read(bytes: &[u8], message: &Message) -> Option<Value> {
    let mut values = limits::OTLP_VALUES_MAX;
    object(bytes, message, 0, &mut values).map(Value::Object)
}

/// `values`: how many more may be read.
fn object(
    mut rest: &[u8],
    message: &Message,
    depth: usize,
    values: &mut usize,
) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    // Each level of a value takes three messages.
    if depth > 3 * limits::DEPTH_MAX {
        return None;
    }
    while !rest.is_empty() {
        let (number, wire) = field(&mut rest)?;
        *values = values.checked_sub(1)?;
        let Some((_, name, kind)) = message.0.iter().find(|(known, ..)| *known == number) else { continue };
        let value = match (kind, wire) {
            (Kind::One(message), Wire::Bytes(bytes)) => object(bytes, message, depth + 1, values)?.into(),
            (Kind::Many(message), Wire::Bytes(bytes)) => {
                let item = object(bytes, message, depth + 1, values)?.into();
                match fields.get_mut(*name) {
                    Some(Value::Array(items)) => items.push(item),
                    _ => drop(fields.insert((*name).to_owned(), Value::Array(vec![item]))),
                }
                continue;
            }
            (Kind::Text, Wire::Bytes(bytes)) => String::from_utf8_lossy(bytes).into(),
            (Kind::Bytes, Wire::Bytes(bytes)) => {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
            }
            (Kind::Whole, Wire::Number(bits)) => bits.cast_signed().into(),
            (Kind::Unsigned, Wire::Number(bits)) => bits.into(),
            (Kind::Flag, Wire::Number(bits)) => (bits != 0).into(),
            (Kind::Decimal, Wire::Number(bits)) => f64::from_bits(bits).into(),
            _ => return None,
        };
        fields.insert((*name).to_owned(), value);
    }
    Some(fields)
}

/// Takes the next field. `None`: the message is cut, or has a wire type that is not in use.
fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        1 => Wire::Number(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Wire::Bytes(take(rest, length)?)
        }
        5 => Wire::Number(u64::from(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (start, end) = rest.split_at_checked(count)?;
    *rest = end;
    Some(start)
}

/// Writes a number as a field.
pub(super) fn put_number(to: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(to, field << 3);
    put_varint(to, number);
}

/// Writes a text or a message as a field.
pub(super) fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(to, field << 3 | 2);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}
