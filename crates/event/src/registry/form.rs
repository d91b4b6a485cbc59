//! The form of a type: its fields as a flat list, as the lock freezes them and the reference page shows them.
//!
//! [`fields`] reads it from the schemas, which are made from the payload structs, so the three always agree.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::registry::Row;
use crate::registry::schema;

/// One field, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where it is: `for`, `for[]` for the items of a list, `for[].kind`.
    pub path: String,
    pub presence: Presence,
    /// `string`, `id`, `integer>=0`, `list`, `object`, `any` and so on; `|null` when `null` is taken.
    pub kind: String,
    /// The only allowed values; empty when any is allowed.
    pub words: BTreeSet<String>,
    pub description: String,
}

/// Whether a field is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Readers refuse an event without it.
    Required,
    /// We always write it, as `null` when there is no value; others may leave it out.
    Written,
    /// It may be left out.
    Optional,
    /// Not a field: what every item of a list is.
    Item,
}

impl Presence {
    pub(crate) const ALL: [Presence; 4] =
        [Presence::Required, Presence::Written, Presence::Optional, Presence::Item];

    pub fn as_str(self) -> &'static str {
        match self {
            Presence::Required => "required",
            Presence::Written => "written",
            Presence::Optional => "optional",
            Presence::Item => "item",
        }
    }

    pub fn parse(word: &str) -> Option<Presence> {
        Presence::ALL.into_iter().find(|presence| presence.as_str() == word)
    }
}

/// The fields of a type: required ones first, then by name; nested ones directly after their field.
pub fn fields(row: &Row) -> Vec<Field> {
    let read = schema::data(row);
    let written = schema::data_written(row);
    let parts = read.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut fields = Vec::new();
    object(&read, Some(&written), "", &parts, &mut fields);
    fields
}

fn names(schema: &Value) -> BTreeSet<&str> {
    let listed = schema.get("required").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn object(
    schema: &Value,
    written: Option<&Value>,
    prefix: &str,
    parts: &Map<String, Value>,
    out: &mut Vec<Field>,
) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let required = names(schema);
    let always = written.map(names).unwrap_or_default();
    let presence = |name: &str| {
        if required.contains(name) {
            Presence::Required
        } else if always.contains(name) {
            Presence::Written
        } else {
            Presence::Optional
        }
    };
    let mut order: Vec<&String> = properties.keys().collect();
    order.sort_by_key(|name| (presence(name) as u8, name.as_str()));
    for name in order {
        one(&properties[name], format!("{prefix}{name}"), presence(name), parts, out);
    }
}

fn one(schema: &Value, path: String, presence: Presence, parts: &Map<String, Value>, out: &mut Vec<Field>) {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (target, may_be_null) = resolved(schema, parts);
    let kind = kind(target) + if may_be_null { "|null" } else { "" };
    let listed = target.get("enum").and_then(Value::as_array);
    let words = listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    out.push(Field { path: path.clone(), presence, kind, words, description });
    object(target, None, &format!("{path}."), parts, out);
    if let Some(items) = target.get("items") {
        one(items, format!("{path}[]"), Presence::Item, parts, out);
    }
}

/// A schema with its references resolved, and whether it also allows `null`.
fn resolved<'a>(schema: &'a Value, parts: &'a Map<String, Value>) -> (&'a Value, bool) {
    if let Some(part) = schema.get("$ref").and_then(Value::as_str) {
        let name = part.rsplit('/').next().unwrap_or(part);
        return (&parts[name], false);
    }
    if let Some(either) = schema.get("anyOf").and_then(Value::as_array) {
        let is_null = |one: &&Value| one.get("type").and_then(Value::as_str) == Some("null");
        let nulls = either.iter().filter(is_null).count();
        let other = either.iter().find(|one| !is_null(one)).expect("a choice between null and something");
        assert_eq!(either.len(), nulls + 1, "the registry has no choices but with null: {schema}");
        return (resolved(other, parts).0, nulls > 0);
    }
    let several = schema.get("type").and_then(Value::as_array);
    (schema, several.is_some_and(|several| several.iter().any(|one| one == "null")))
}

fn kind(schema: &Value) -> String {
    let number = |name: &str| schema.get(name).and_then(Value::as_i64);
    let word = match schema.get("type") {
        Some(Value::String(one)) => one.as_str(),
        Some(Value::Array(several)) => {
            let other = several.iter().filter_map(Value::as_str).find(|one| *one != "null");
            other.unwrap_or("null")
        }
        _ => "any",
    };
    match (word, schema.get("pattern")) {
        ("array", _) => "list".into(),
        ("integer", _) if number("minimum") == Some(0) => "integer>=0".into(),
        ("string", Some(_)) => "id".into(),
        ("string", None) if schema.get("enum").is_some() => "word".into(),
        ("string", None) => match (number("minLength"), number("maxLength")) {
            (None, None) => "string".into(),
            (min, max) => {
                let end = |bound: Option<i64>| bound.map_or(String::new(), |bound| bound.to_string());
                format!("string[{}..{}]", end(min), end(max))
            }
        },
        (word, _) => word.into(),
    }
}
