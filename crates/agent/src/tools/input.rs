//! Reading the input of a call. It was held against the tool's schema before; what does not fit all the same is
//! refused once more instead of believed.

use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::{Assessment, Targets};
use crate::tools::ending::{Stop, cut};

pub(crate) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, Stop> {
    T::deserialize(input)
        .map_err(|error| Stop::failed("invalid_input", format!("the input does not fit: {error}")))
}

/// The text of a property, or nothing.
pub(crate) fn text<'a>(input: &'a Value, name: &str) -> &'a str {
    input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A call that looks and changes nothing.
pub(crate) fn harmless(summary: &str, action: impl Into<String>, paths: Vec<String>) -> Assessment {
    Assessment {
        risk: RiskLevel::Low,
        reversibility: Reversibility::Reversible,
        summary: cut(summary, crate::limits::SUMMARY_CHARS_MAX),
        action: action.into(),
        consequence: "Nothing is changed.".to_owned(),
        targets: Targets { paths, ..Targets::default() },
        writes: false,
    }
}
