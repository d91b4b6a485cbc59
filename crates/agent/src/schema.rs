//! Validates the input of a call against the tool's schema, with messages that let a model correct it.
//!
//! Start at [`check`]. It supports the part of JSON Schema that the tools use ([`KEYWORDS`]). A test finds schemas with
//! other keywords. Counting and equality follow the specification: lengths count characters, and `1.0` is an integer.

use serde_json::{Map, Value};

use crate::limits;

/// The supported keywords.
pub const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "description",
];

/// Why an input is invalid, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

/// Validates an input; returns the first violation.
pub fn check(schema: &Value, input: &Value) -> Result<(), Misfit> {
    InputPath(Vec::new()).check(schema, input).map_err(Misfit)
}

/// The current path in the input.
struct InputPath<'a>(Vec<PathStep<'a>>);

enum PathStep<'a> {
    Property(&'a str),
    Item(usize),
}

impl std::fmt::Display for InputPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the input");
        }
        f.write_str("`")?;
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Property(name) if at == 0 => f.write_str(name)?,
                PathStep::Property(name) => write!(f, ".{name}")?,
                PathStep::Item(index) => write!(f, "[{index}]")?,
            }
        }
        f.write_str("`")
    }
}

impl<'a> InputPath<'a> {
    fn check(&mut self, schema: &'a Value, input: &Value) -> Result<(), String> {
        if let Some(expected) = schema.get("type").and_then(Value::as_str)
            && !is_of_type(expected, input)
        {
            return Err(format!("{self} is {}; it must be {}", described(input), article(expected)));
        }
        if let Some(Value::Array(words)) = schema.get("enum")
            && !words.iter().any(|word| same(word, input))
        {
            let near =
                input.as_str().and_then(|given| nearest(given, words.iter().filter_map(Value::as_str)));
            let near = near.map_or_else(String::new, |word| format!("; did you mean \"{word}\"?"));
            let words = words.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("{self} is {}; it must be one of {words}{near}", shown(input)));
        }
        match input {
            Value::String(text) => self.text(schema, text),
            Value::Number(number) => self.number(schema, number),
            Value::Array(items) => self.items(schema, items),
            Value::Object(members) => self.members(schema, members),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn text(&self, schema: &Value, text: &str) -> Result<(), String> {
        self.count(schema, "minLength", "maxLength", "characters", text.chars().count())
    }

    fn number(&self, schema: &Value, number: &serde_json::Number) -> Result<(), String> {
        let bound = |word| schema.get(word).and_then(Value::as_number);
        if let Some(least) = bound("minimum")
            && less(number, least)
        {
            return Err(format!("{self} is {number}; it must be at least {least}"));
        }
        if let Some(most) = bound("maximum")
            && less(most, number)
        {
            return Err(format!("{self} is {number}; it must be at most {most}"));
        }
        Ok(())
    }

    fn items(&mut self, schema: &'a Value, items: &[Value]) -> Result<(), String> {
        self.count(schema, "minItems", "maxItems", "items", items.len())?;
        let Some(each) = schema.get("items") else { return Ok(()) };
        for (index, item) in items.iter().enumerate() {
            self.0.push(PathStep::Item(index));
            self.check(each, item)?;
            self.0.pop();
        }
        Ok(())
    }

    fn members(&mut self, schema: &'a Value, members: &Map<String, Value>) -> Result<(), String> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE);
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            for name in members.keys() {
                if !known.contains_key(name) {
                    return Err(self.unknown(name, known, members));
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for name in required.iter().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let kind = known.get(name).and_then(|schema| schema.get("type")).and_then(Value::as_str);
                let kind = kind.map_or_else(String::new, |kind| format!(" ({})", article(kind)));
                let within = if self.0.is_empty() { String::new() } else { format!(" in {self}") };
                return Err(format!("the property `{name}`{kind} is missing{within}"));
            }
        }
        for (name, schema) in known {
            if let Some(member) = members.get(name) {
                self.0.push(PathStep::Property(name));
                self.check(schema, member)?;
                self.0.pop();
            }
        }
        Ok(())
    }

    fn unknown(&self, name: &str, known: &Map<String, Value>, given: &Map<String, Value>) -> String {
        // A property that is already given is not suggested.
        let missing = known.keys().map(String::as_str).filter(|name| !given.contains_key(*name));
        let near = nearest(name, missing);
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let all = known.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let name = name.chars().take(limits::NAMED_CHARS_MAX).collect::<String>();
        let all = if all.is_empty() { "none".to_owned() } else { all };
        format!("{self} has the unknown property `{name}`{near} (known: {all})")
    }

    fn count(&self, schema: &Value, min: &str, max: &str, what: &str, count: usize) -> Result<(), String> {
        let bound = |word| schema.get(word).and_then(Value::as_u64);
        if let Some(least) = bound(min)
            && (count as u64) < least
        {
            return Err(format!("{self} has {count} {what}; it must have at least {least}"));
        }
        if let Some(most) = bound(max)
            && count as u64 > most
        {
            return Err(format!("{self} has {count} {what}; it must have at most {most}"));
        }
        Ok(())
    }
}

fn is_of_type(expected: &str, input: &Value) -> bool {
    match (expected, input) {
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("null", Value::Null)
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    }
}

fn described(input: &Value) -> String {
    match input {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

fn article(kind: &str) -> &'static str {
    match kind {
        "string" => "a string",
        "boolean" => "a boolean",
        "array" => "an array",
        "object" => "an object",
        "integer" => "an integer",
        "number" => "a number",
        _ => "null",
    }
}

fn shown(input: &Value) -> String {
    let text = match input {
        Value::Array(_) | Value::Object(_) => return described(input),
        other => other.to_string(),
    };
    text.chars().take(limits::NAMED_CHARS_MAX).collect()
}

/// Numbers are equal if their values are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => !less(a, b) && !less(b, a),
        _ => a == b,
    }
}

/// Compares without rounding if both are integers.
fn less(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return a < b;
    }
    matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a < b)
}

/// Returns the name that is most similar to the given text, if one is similar enough.
pub(crate) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.chars().take(limits::NAMED_CHARS_MAX).map(plain).collect();
    let scored = names.filter_map(|name| {
        let name_chars: Vec<char> = name.chars().map(plain).collect();
        let apart = distance(&given, &name_chars);
        let length = given.len().max(name_chars.len());
        let is_similar = apart * 2 <= length && (apart <= 2 || apart * 3 <= length);
        (is_similar && apart < name_chars.len()).then_some((apart, name))
    });
    scored.min().map(|(_, name)| name)
}

/// Treats `filePath`, `file-path` and `file_path` as similar.
fn plain(char: char) -> char {
    if char == '-' { '_' } else { char.to_ascii_lowercase() }
}

/// The edit distance: insertions, deletions and replacements.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = corner + usize::from(from != to);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
