//! The error of parsing a message: [`ParseError`].

use crate::json::{Place, Reader, SyntaxError};

/// Why a text is not a message, with the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({place}{})", if path.is_empty() { String::new() } else { format!(", in {path}") })]
pub struct ParseError {
    pub place: Place,
    /// The value, such as `producer.agent_id`; empty for the whole message.
    pub path: String,
    /// What is wrong; a sentence fragment.
    pub reason: String,
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        ParseError { place: error.place, path: error.path, reason: error.fault.to_string() }
    }
}

impl ParseError {
    /// Converts an error of serde for a JSON text, and finds the path.
    pub(super) fn shape(text: &str, error: &serde_json::Error) -> Self {
        let line_start: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        // Serde counts bytes, and its column is after the invalid value.
        let offset = (line_start + error.column()).saturating_sub(1).min(text.len());
        let path = Reader::new().read(text).map(|doc| doc.path_at(offset)).unwrap_or_default();
        let rendered = error.to_string();
        let reason = rendered.split(" at line ").next().unwrap_or_default().to_owned();
        ParseError { place: Place::of(text, offset), path, reason }
    }
}
