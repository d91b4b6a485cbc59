//! Requests of OTLP, logs and traces, in both encodings: read as records and spans with plain JSON values.
//!
//! Protobuf is first turned into the JSON encoding, and both are read by the same tables of fields. It must not know what a record or a
//! span means. Start with [`logs`] and [`spans`].

mod json;
mod protobuf;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::limits;
use protobuf::Message;

/// How a request or response is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

/// A log record.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// Its event name; empty without one.
    pub event: String,
    pub time_ns: u64,
    pub attributes: Map<String, Value>,
    /// The name of the part of the program that reports it.
    pub scope: Arc<str>,
    pub resource: Arc<Map<String, Value>>,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// In hexadecimal digits, as all ids here.
    pub trace_id: String,
    pub span_id: String,
    /// Empty for the root of a trace.
    pub parent_id: String,
    /// Whether the parent is in another process, as far as the exporter reports that.
    pub is_parent_remote: bool,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: Map<String, Value>,
    pub is_error: bool,
    /// The message of an error.
    pub error: Option<String>,
    pub resource: Arc<Map<String, Value>>,
}

/// The flags of a span: whether it reports where its parent is, and whether that is another process.
const PARENT_IS_REMOTE: u64 = 0x300;

/// The status code of a failed span.
const STATUS_ERROR: u64 = 2;

/// Reads the body of a request to `/v1/logs`. `Err`: why it cannot be read.
pub fn logs(body: &[u8], encoding: Encoding) -> Result<Vec<LogRecord>, String> {
    let request = request(body, encoding, &protobuf::LOGS)?;
    let mut records = Vec::new();
    for group in list(&request, "resourceLogs") {
        let resource = Arc::new(attributes(&group["resource"]));
        let scoped = list(group, "scopeLogs").iter().flat_map(|scope| {
            let name: Arc<str> = text(&scope["scope"], "name").unwrap_or_default().into();
            list(scope, "logRecords").iter().map(move |record| (name.clone(), record))
        });
        for (scope, record) in scoped {
            let attributes = attributes(record);
            let named = text(record, "eventName").or_else(|| attributes.get("event.name")?.as_str());
            let event = named.unwrap_or_default().to_owned();
            records.push(LogRecord {
                event,
                time_ns: number(record, "timeUnixNano"),
                attributes,
                scope,
                resource: resource.clone(),
            });
        }
    }
    Ok(records)
}

/// Reads the body of a request to `/v1/traces`. `Err`: why it cannot be read.
pub fn spans(body: &[u8], encoding: Encoding) -> Result<Vec<Span>, String> {
    let request = request(body, encoding, &protobuf::TRACES)?;
    let mut spans = Vec::new();
    for group in list(&request, "resourceSpans") {
        let resource = Arc::new(attributes(&group["resource"]));
        for span in list(group, "scopeSpans").iter().flat_map(|scope| list(scope, "spans")) {
            let id = |name: &str| text(span, name).unwrap_or_default().to_ascii_lowercase();
            spans.push(Span {
                trace_id: id("traceId"),
                span_id: id("spanId"),
                parent_id: id("parentSpanId"),
                is_parent_remote: number(span, "flags") & PARENT_IS_REMOTE == PARENT_IS_REMOTE,
                name: text(span, "name").unwrap_or_default().to_owned(),
                start_ns: number(span, "startTimeUnixNano"),
                end_ns: number(span, "endTimeUnixNano"),
                attributes: attributes(span),
                is_error: number(&span["status"], "code") == STATUS_ERROR,
                error: text(&span["status"], "message").filter(|text| !text.is_empty()).map(str::to_owned),
                resource: resource.clone(),
            });
        }
    }
    Ok(spans)
}

/// The body of a response: empty, or with the number of items that were not taken and why. `field` is the name of that
/// number, such as `rejectedSpans`.
pub fn response(encoding: Encoding, field: &str, rejected: u64, why: &str) -> Vec<u8> {
    match encoding {
        Encoding::Json if rejected == 0 => b"{}".to_vec(),
        Encoding::Json => {
            // 64-bit integers are texts in the JSON of protobuf.
            let partial = serde_json::json!({ field: rejected.to_string(), "errorMessage": why });
            serde_json::json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
        Encoding::Protobuf if rejected == 0 => Vec::new(),
        Encoding::Protobuf => {
            let mut partial = Vec::new();
            protobuf::put_number(&mut partial, 1, rejected);
            protobuf::put_bytes(&mut partial, 2, why.as_bytes());
            let mut response = Vec::new();
            protobuf::put_bytes(&mut response, 1, &partial);
            response
        }
    }
}

/// The body of a refusal: `google.rpc.Status`. `code` is one of gRPC.
pub fn status(encoding: Encoding, code: u32, message: &str) -> Vec<u8> {
    match encoding {
        Encoding::Json => serde_json::json!({ "code": code, "message": message }).to_string().into_bytes(),
        Encoding::Protobuf => {
            let mut status = Vec::new();
            protobuf::put_number(&mut status, 1, u64::from(code));
            protobuf::put_bytes(&mut status, 2, message.as_bytes());
            status
        }
    }
}

fn request(body: &[u8], encoding: Encoding, message: &'static Message) -> Result<Value, String> {
    match encoding {
        Encoding::Protobuf => protobuf::read(body, message)
            .ok_or_else(|| "the body is not a protobuf message of this signal".to_owned()),
        Encoding::Json => json::read(body, message),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// A number, which the JSON encoding may have as a text; 0 without one.
fn number(value: &Value, name: &str) -> u64 {
    match value.get(name) {
        Some(Value::String(text)) => text.parse().unwrap_or(0),
        Some(value) => value.as_u64().unwrap_or(0),
        None => 0,
    }
}

/// The attributes of a record, a span or a resource. Of a repeated name the last one counts.
fn attributes(holder: &Value) -> Map<String, Value> {
    let pairs = list(holder, "attributes").iter();
    let named = pairs.filter_map(|pair| Some((text(pair, "key")?.to_owned(), plain(&pair["value"], 0))));
    named.collect()
}

/// A value of OTLP, `{"intValue": "1"}`, as it is in JSON.
fn plain(value: &Value, depth: usize) -> Value {
    let Some((kind, value)) = value.as_object().and_then(|fields| fields.iter().next()) else {
        return Value::Null;
    };
    if depth > limits::DEPTH_MAX {
        return Value::Null;
    }
    match (kind.as_str(), value) {
        ("intValue", Value::String(text)) => text.parse::<i64>().map_or(Value::Null, Value::from),
        ("stringValue" | "boolValue" | "intValue" | "doubleValue" | "bytesValue", value) => value.clone(),
        ("arrayValue", array) => list(array, "values").iter().map(|item| plain(item, depth + 1)).collect(),
        ("kvlistValue", pairs) => {
            let pairs = list(pairs, "values").iter();
            let named =
                |pair: &Value| Some((text(pair, "key")?.to_owned(), plain(&pair["value"], depth + 1)));
            Value::Object(pairs.filter_map(named).collect())
        }
        _ => Value::Null,
    }
}
