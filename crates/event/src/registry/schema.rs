//! The JSON Schemas of the envelope and of every type's `data`, generated from the registry.
//!
//! [`files`] is the content of `docs/schemas/events/v1/`. A schema describes what readers accept: they ignore unknown
//! fields, and `null` in an optional field means that it is absent. Where the schema and the
//! typed reader could differ, the reader is stricter: it takes a whole number in digits only.

pub(crate) mod fields;

use serde_json::{Map, Value, json};

use crate::limits;
use crate::registry::{self, Row};

/// The largest integer that may be written down.
const INTEGER_LAST: u64 = limits::INTEGER_MAX - 1;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFile {
    pub name: String,
    pub text: String,
}

/// Every schema file: the envelope's and one a type.
pub fn files() -> Vec<SchemaFile> {
    let envelope = SchemaFile { name: "envelope.schema.json".into(), text: print(&envelope()) };
    let types = registry::TABLE
        .iter()
        .map(|row| SchemaFile { name: format!("{}.schema.json", row.type_name), text: print(&data(row)) });
    std::iter::once(envelope).chain(types).collect()
}

/// The schema of a whole event, whatever its type.
pub fn envelope() -> Value {
    let id = |prefix: &str, description: &str| {
        json!({
            "type": "string",
            "description": description,
            "pattern": format!("^{prefix}[0-7][0-9A-HJKMNP-TV-Z]{{25}}$"),
        })
    };
    json!({
        "$schema": DIALECT,
        "$id": "urn:recount:events:v1:envelope",
        "title": "Event envelope",
        "description": "One fact in a run, as it is stored and sent. Readers ignore fields and types that \
                        they do not know.",
        "type": "object",
        "additionalProperties": true,
        "required": ["schema_version", "event_id", "run_id", "sequence", "occurred_at", "type", "data"],
        "properties": {
            "schema_version": {
                "const": "1",
                "description": "The version of the envelope format. Readers of this version reject any other value.",
            },
            "event_id": id("evt_", "The id of the event, unique across stores and protocols."),
            "run_id": id("run_", "The run that the event belongs to."),
            "task_id": id("task_", "The task that the run belongs to, if any."),
            "session_id": id("chat_", "The conversation that the run belongs to, if any."),
            "sequence": {
                "type": "integer",
                "minimum": 0,
                "maximum": INTEGER_LAST,
                "description": "The number of the event in its run: 0, 1, 2 and so on, without gaps. The \
                                cursor of resumable reads.",
            },
            "occurred_at": {
                "type": "string",
                "format": "date-time",
                "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$",
                "description": "RFC 3339 in UTC with exactly three fraction digits, from the server's clock. \
                                Never earlier than the previous event of the run; order by sequence.",
            },
            "type": {
                "type": "string",
                "maxLength": limits::TYPE_NAME_BYTES_MAX,
                "pattern": "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$",
                "description": "The event type. See the schema of the same name for its data.",
            },
            "data": { "type": "object", "description": "The data of the event type. Always an object." },
        },
    })
}

/// The schema of a type's `data`.
pub fn data(row: &Row) -> Value {
    finished(row, (row.schema)().to_value())
}

/// The same as we write it: here `required` means always there.
pub(crate) fn data_written(row: &Row) -> Value {
    finished(row, (row.schema_written)().to_value())
}

fn finished(row: &Row, mut schema: Value) -> Value {
    finish(&mut schema);
    let object = schema.as_object_mut().expect("the schema of a struct is an object");
    object.insert("$schema".into(), DIALECT.into());
    object.insert("$id".into(), format!("urn:recount:events:v1:{}", row.type_name).into());
    object.insert("title".into(), row.type_name.into());
    object.insert("additionalProperties".into(), true.into());
    schema
}

/// Puts in what the derive cannot know, and takes out what means nothing in a schema.
fn finish(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if matches!(schema.get("default"), Some(Value::Null)) {
        schema.remove("default");
    }
    if says_integer(schema) {
        schema.remove("format");
        schema.insert("maximum".into(), INTEGER_LAST.into());
        if !schema.contains_key("minimum") {
            schema.insert("minimum".into(), json!(-(INTEGER_LAST as i64)));
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if property == &Value::Bool(true) {
                *property = json!({});
            }
            finish(property);
            let Value::Object(property) = property else { continue };
            let own = property.contains_key("description");
            if let Some(shared) = fields::description(name).filter(|_| !own) {
                property.insert("description".into(), shared.into());
            }
        }
    }
    if let Some(Value::Object(parts)) = schema.get_mut("$defs") {
        parts.values_mut().for_each(finish);
    }
    if let Some(items) = schema.get_mut("items") {
        finish(items);
    }
}

fn says_integer(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == "integer",
        Some(Value::Array(several)) => several.iter().any(|one| one == "integer"),
        _ => false,
    }
}

/// The order of the keys: the most important ones first.
const KEYS_FIRST: [&str; 8] =
    ["$schema", "$id", "title", "description", "type", "additionalProperties", "required", "properties"];

/// Writes a schema so that the same schema gives the same text, whatever order its maps keep.
pub fn print(schema: &Value) -> String {
    let mut text = String::new();
    print_value(schema, 0, true, &mut text);
    text.push('\n');
    text
}

fn print_value(value: &Value, depth: usize, keywords: bool, text: &mut String) {
    let line = |depth: usize, text: &mut String| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Object(object) if !object.is_empty() => {
            let place = |name: &str| {
                let known = KEYS_FIRST.iter().position(|first| keywords && *first == name);
                known.unwrap_or(KEYS_FIRST.len())
            };
            let mut names: Vec<&String> = object.keys().collect();
            names.sort_by(|a, b| place(a).cmp(&place(b)).then(a.cmp(b)));
            text.push('{');
            for (index, name) in names.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, text);
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push_str(": ");
                let inner_keywords = !(keywords && matches!(name.as_str(), "properties" | "$defs"));
                print_value(&object[name], depth + 1, inner_keywords, text);
            }
            line(depth, text);
            text.push('}');
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, text);
                print_value(item, depth + 1, true, text);
            }
            line(depth, text);
            text.push(']');
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            text.push_str(&format!("[{}]", items.join(", ")));
        }
        other => text.push_str(&other.to_string()),
    }
}
