//! Error responses of the native face: `application/problem+json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What a problem of this code names as its type.
pub fn type_of(code: &str) -> String {
    format!("urn:recount:error:{code}")
}

/// An error response. `code` is for programs, `detail` for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `urn:recount:error:` and the code; `docs/errors.md` describes each.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// What the code means.
    pub title: String,
    pub status: u16,
    /// What failed, the offending value, and what to do.
    pub detail: String,
    pub code: String,
    pub retryable: bool,
    pub request_id: String,
    /// Which event of a batch was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The type of the event that was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// The broken rule; see `docs/grammar.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
