//! The error of paths. It must never know what a path is for.

/// Why a path is not opened or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// Stable and lower case.
    pub code: &'static str,
    pub message: String,
}

impl PathError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        PathError { code, message: message.into() }
    }
}
