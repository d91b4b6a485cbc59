//! Renders each type of event as a sentence. See [`of`].
//!
//! Data is read field by field, so fields of later releases do not matter. When a field that a sentence
//! needs is missing, there is no sentence, and the event is shown as it is.

mod prompt;
mod recorded;
mod run;
mod speech;
mod tool;

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{count, short};

/// The `data` of an event: read, and as it stands.
pub(super) struct Data(Value, Box<str>);

impl Data {
    pub(super) fn read(text: &str) -> Self {
        Data(serde_json::from_str(text).unwrap_or(Value::Null), text.into())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field unchanged, number for number and key for key.
    fn raw(&self, name: &str) -> Option<String> {
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(&self.1).ok()?;
        fields.remove(name).map(|raw| raw.get().to_owned())
    }

    pub(super) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        self.0.get(name)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A value as it is best read: text as it stands, text blocks joined, anything else as JSON.
    pub(super) fn readable(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let blocks = |blocks: &Vec<Value>| {
            let texts: Option<Vec<&str>> = blocks.iter().map(|block| block.get("text")?.as_str()).collect();
            texts.map(|texts| texts.join("\n"))
        };
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Array(list) if !list.is_empty() => blocks(list).or_else(|| self.raw(name)),
            _ => self.raw(name),
        }
    }
}

/// A sentence, and a text that may be long.
pub(super) struct Sentence {
    pub(super) line: String,
    pub(super) text: Option<String>,
}

impl Sentence {
    pub(super) fn line(line: impl Into<String>) -> Self {
        Sentence { line: line.into(), text: None }
    }

    pub(super) fn text(line: impl Into<String>, text: impl Into<String>) -> Self {
        Sentence { line: line.into(), text: Some(text.into()) }
    }

    fn with(line: impl Into<String>, text: Option<impl Into<String>>) -> Self {
        Sentence { line: line.into(), text: text.map(Into::into).filter(|text| !text.is_empty()) }
    }
}

/// The sentence for an event; `None` for types and shapes that are not known here.
pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    let (group, _) = type_name.split_once('.')?;
    match group {
        "run" | "child_run" | "turn" | "cost" | "gap" | "context" | "workspace" => run::of(type_name, data),
        "assistant" | "user" => speech::of(type_name, data),
        "tool" | "artifact" => tool::of(type_name, data),
        "approval" | "clarification" | "handoff" | "policy" | "error" => prompt::of(type_name, data),
        "ext" => recorded::of(type_name, data),
        _ => None,
    }
}

/// ` (312 ms, 2 turns)`, or nothing.
fn facts(facts: impl IntoIterator<Item = Option<String>>) -> String {
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

/// `1 byte on stdout`: a number of the event, its unit in the singular, and what follows the unit.
fn counted(data: &Data, field: &str, unit: &str, after: &str) -> Option<String> {
    data.number(field).map(|number| format!("{}{after}", count(number, unit)))
}

/// Streams of a command that were not read to their end.
pub(super) fn left_open(data: &Data) -> Option<String> {
    let streams = data.texts("left_open").filter(|streams| !streams.is_empty())?;
    Some(format!("{} left open by another process", streams.join(" and ")))
}

pub(super) fn turns(data: &Data) -> Option<String> {
    data.number("turns").map(|turns| count(turns, "turn"))
}

/// An identifier that a command may need is named in full, others short.
pub(super) fn call(data: &Data) -> Option<String> {
    Some(short(data.text("tool_call_id")?))
}

fn duration(data: &Data) -> Option<String> {
    data.number("duration_ms").map(|duration| format!("{duration} ms"))
}

/// `0.0123 USD`, with two to six digits after the point.
pub(super) fn money(data: &Data, field: &str) -> Option<String> {
    data.number(field).map(dollars)
}

/// Millionths of a dollar as people write them.
pub(super) fn dollars(micros: u64) -> String {
    let fraction = format!("{:06}", micros % 1_000_000);
    let kept = fraction.trim_end_matches('0').len().max(2);
    format!("{}.{} USD", micros / 1_000_000, &fraction[..kept])
}
