//! Errors of starting a server or of its offline tools: a message for the operator and the exit code.
//!
//! It must not know what failed. Start at [`StartError`].

/// Why the server did not start, or ended with an error.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    message: String,
    exit_code: u8,
}

impl StartError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 2 }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 1 }
    }

    /// The operation was refused because the store is damaged.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 3 }
    }

    /// Logs the message and keeps only the exit code for the caller.
    pub(crate) fn logged(self) -> Self {
        tracing::error!("{}", self.message);
        StartError { message: String::new(), exit_code: self.exit_code }
    }

    /// 2 for an invalid request, 3 for a damaged store, 1 for a failure outside.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}
