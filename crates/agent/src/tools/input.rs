//! The input of a call: what tools share of its schema, and reading it. It was held against the tool's schema before; what does not fit all the same is
//! refused once more instead of believed.

use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::limits::{PATH_BYTES_MAX, SUMMARY_CHARS_MAX};
use crate::tool::{Assessment, Targets};
use crate::tools::ending::{Stop, cut};
use crate::tools::limits;

pub(crate) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, Stop> {
    T::deserialize(input)
        .map_err(|error| Stop::failed("invalid_input", format!("the input does not fit: {error}")))
}

/// The text of a property, or nothing.
pub(crate) fn text<'a>(input: &'a Value, name: &str) -> &'a str {
    input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The schema of an object that has these properties and no others.
pub(crate) fn schema(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false
    })
}

/// The schema of a path in the workspace.
pub(crate) fn path(description: &str) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": PATH_BYTES_MAX, "description": description
    })
}

/// The schema of a text that is replaced.
pub(crate) fn old_text() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::EDIT_FILE_BYTES_MAX,
        "description": "The text to be replaced, with enough around it to be unique."
    })
}

/// The schema of what it is replaced by.
pub(crate) fn new_text() -> Value {
    json!({
        "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
        "description": "What stands there afterwards."
    })
}

/// A call that looks and changes nothing.
pub(crate) fn harmless(summary: &str, action: impl Into<String>, paths: Vec<String>) -> Assessment {
    Assessment {
        risk: RiskLevel::Low,
        reversibility: Reversibility::Reversible,
        summary: cut(summary, SUMMARY_CHARS_MAX),
        action: action.into(),
        consequence: "Nothing is changed.".to_owned(),
        targets: Targets { paths, ..Targets::default() },
        writes: false,
    }
}
