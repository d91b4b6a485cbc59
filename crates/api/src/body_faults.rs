//! Names every fault in the fields of a body, where the derived reader stops at the first one.
//!
//! Runs only after a body was refused, so it may be slow; it compares the body with the schema of its type. Must not
//! decide whether a body is valid: the derived reader does. See [`body_faults`].

pub use schemars::JsonSchema;
use serde_json::{Map, Value};

/// Longer bodies are not looked at again: the tree of one takes many times its memory.
pub const EXPLAINED_BYTES_MAX: usize = 256 * 1024;

/// Names of unknown fields that are longer are not quoted.
pub const SHOWN_NAME_BYTES_MAX: usize = 128;

/// So many faults are named, the rest is counted.
pub const NAMED_MAX: usize = 16;

/// Every field of a body that is missing, unknown or of the wrong kind, in one sentence; `None` where that is fewer than two.
pub fn body_faults<T: JsonSchema>(text: &str) -> Option<String> {
    if text.len() > EXPLAINED_BYTES_MAX {
        return None;
    }
    let body: Value = serde_json::from_str(text).ok()?;
    let schema = schemars::schema_for!(T).to_value();
    let mut faults = BodyFaults { root: &schema, named: Vec::new(), count: 0 };
    faults.look(&schema, &body, "");
    if faults.count < 2 {
        return None;
    }
    let mut sentence = faults.named.join("; ");
    if faults.count > NAMED_MAX {
        sentence.push_str(&format!("; and {} more", faults.count - NAMED_MAX));
    }
    Some(sentence)
}

struct BodyFaults<'s> {
    root: &'s Value,
    named: Vec<String>,
    count: usize,
}

impl<'s> BodyFaults<'s> {
    fn note(&mut self, fault: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(fault());
        }
    }

    fn look(&mut self, schema: &'s Value, value: &Value, place: &str) {
        let schema = meant(self.root, schema, value);
        if let Some(kinds) = kinds(schema)
            && !kinds.iter().any(|kind| is_kind(value, kind))
        {
            return self
                .note(|| format!("field `{place}` is {}, expected {}", kind_of(value), kinds.join(" or ")));
        }
        match value {
            Value::Object(fields) => self.look_at_fields(schema, fields, place),
            Value::Array(items) => {
                let Some(of_items) = schema.get("items") else { return };
                for (index, item) in items.iter().enumerate() {
                    self.look(of_items, item, &format!("{place}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn look_at_fields(&mut self, schema: &'s Value, fields: &Map<String, Value>, place: &str) {
        let within = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            self.note(|| format!("missing field `{}`", within(name)));
        }
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, value) in fields {
            match known.get(name) {
                Some(schema) => self.look(schema, value, &within(name)),
                // Whole or not at all: of a secret that was cut, masking finds nothing.
                None if is_closed && name.len() <= SHOWN_NAME_BYTES_MAX => {
                    self.note(|| format!("unknown field `{}`", within(name)));
                }
                None if is_closed => self.note(|| {
                    let place = if place.is_empty() { "the body".to_owned() } else { format!("`{place}`") };
                    format!("unknown field in {place}, with a name of {} bytes", name.len())
                }),
                None => {}
            }
        }
    }
}

/// The schema that a reference names, or that of the value where null is allowed in its place.
fn meant<'s>(root: &'s Value, mut schema: &'s Value, value: &Value) -> &'s Value {
    loop {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        if let Some(named) = reference.and_then(|pointer| root.pointer(pointer)) {
            schema = named;
            continue;
        }
        let choices = schema.get("anyOf").and_then(Value::as_array);
        match choices.map(Vec::as_slice) {
            Some([one, null]) if null.get("type").is_some_and(|kind| kind == "null") && !value.is_null() => {
                schema = one;
            }
            _ => return schema,
        }
    }
}

fn kinds(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(kind) => Some(vec![kind]),
        Value::Array(kinds) => kinds.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        kind => kind_of(value) == kind,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{AppendEvents, CreateRun};

    #[test]
    fn every_fault_of_a_batch_is_reported_with_its_path() {
        let batch = r#"{"producer":{"id":7,"sequence":1},"events":[{"type":"run.started","data":{}},{"kind":"x"},[]],"x":1}"#;
        let message = body_faults::<AppendEvents>(batch).unwrap();
        for part in [
            "field `producer.id` is number, expected string",
            "missing field `producer.epoch`",
            "missing field `producer.seq`",
            "unknown field `producer.sequence`",
            "missing field `events[1].type`",
            "missing field `events[1].data`",
            "unknown field `events[1].kind`",
            "field `events[2]` is array, expected object",
            "unknown field `x`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(message.split("; ").count(), 9, "{message}");
    }

    #[test]
    fn a_single_fault_and_invalid_json_are_not_explained_here() {
        for body in [r#"{"producer":{"id":"p","epoch":0,"seq":0}}"#, "{", "[]"] {
            assert_eq!(body_faults::<AppendEvents>(body), None, "{body}");
        }
    }

    #[test]
    fn a_name_is_shown_whole_or_not_at_all() {
        let shown = |bytes: usize| {
            let name = "s".repeat(bytes);
            (body_faults::<AppendEvents>(&format!(r#"{{"{name}":1}}"#)).unwrap(), name)
        };
        let (message, name) = shown(SHOWN_NAME_BYTES_MAX);
        assert!(message.contains(&name), "{message}");
        let (message, _) = shown(SHOWN_NAME_BYTES_MAX + 1);
        assert!(
            message.contains("in the body, with a name of 129 bytes") && !message.contains("sss"),
            "{message}"
        );
    }

    #[test]
    fn faults_beyond_the_bound_are_counted() {
        let events = vec!["{}"; 20].join(",");
        let message = body_faults::<AppendEvents>(&format!(r#"{{"events":[{events}]}}"#)).unwrap();
        assert!(message.ends_with("; and 25 more"), "{message}");
        let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(EXPLAINED_BYTES_MAX));
        assert_eq!(body_faults::<CreateRun>(&long), None);
    }
}
