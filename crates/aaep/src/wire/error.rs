//! Why a text is not a message.

use crate::json::{Place, Reader, SyntaxError};

/// Why a text was not read as a message, with the place of what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({place}{})", if path.is_empty() { String::new() } else { format!(", in {path}") })]
pub struct ParseError {
    pub place: Place,
    /// The value, as `producer.agent_id`; empty for the message as a whole.
    pub path: String,
    /// What is wrong; a fragment.
    pub reason: String,
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        ParseError { place: error.place, path: error.path, reason: error.fault.to_string() }
    }
}

impl ParseError {
    /// Finds the path for what serde says of a text that is JSON.
    pub(super) fn shape(text: &str, error: &serde_json::Error) -> Self {
        let line_start: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        // Serde counts bytes and stands behind what it did not like.
        let offset = (line_start + error.column()).saturating_sub(1).min(text.len());
        let path = Reader::new().read(text).map(|doc| doc.path_at(offset)).unwrap_or_default();
        let rendered = error.to_string();
        let reason = rendered.split(" at line ").next().unwrap_or_default().to_owned();
        ParseError { place: Place::of(text, offset), path, reason }
    }
}
