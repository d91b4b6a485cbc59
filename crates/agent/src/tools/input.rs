//! Common schema parts and the parsing of call inputs. Inputs were already checked against the schema; one that still
//! does not parse is refused.

use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::limits::{PATH_BYTES_MAX, SUMMARY_CHARS_MAX};
use crate::tool::{Assessment, Targets};
use crate::tools::ending::{CallFailure, cut};
use crate::tools::limits;

pub(crate) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, CallFailure> {
    T::deserialize(input)
        .map_err(|error| CallFailure::failed("invalid_input", format!("invalid input: {error}")))
}

/// The text of a property, or an empty text.
pub(crate) fn text<'a>(input: &'a Value, name: &str) -> &'a str {
    input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The schema of an object with exactly these properties.
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

/// The schema of a text to replace.
pub(crate) fn old_text() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::EDIT_FILE_BYTES_MAX,
        "description": "The text to replace, with enough context to be unique in the file."
    })
}

/// The schema of a replacement.
pub(crate) fn new_text() -> Value {
    json!({
        "type": "string", "maxLength": limits::EDIT_FILE_BYTES_MAX,
        "description": "The replacement text."
    })
}

/// The assessment of a call that changes nothing.
pub(crate) fn harmless(summary: &str, action: impl Into<String>, paths: Vec<String>) -> Assessment {
    Assessment {
        risk: RiskLevel::Low,
        reversibility: Reversibility::Reversible,
        summary: cut(summary, SUMMARY_CHARS_MAX),
        action: action.into(),
        consequence: "Changes nothing.".to_owned(),
        targets: Targets { paths, ..Targets::default() },
        writes: false,
    }
}
