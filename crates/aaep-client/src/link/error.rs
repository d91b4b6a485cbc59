//! Errors of links: [`LinkError`].

use std::time::Duration;

use crate::limits;

/// Why a producer cannot be reached, or why its stream ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Invalid arguments; nothing was sent.
    #[error("{0}")]
    Unusable(String),
    /// The producer does not respond.
    #[error("no answer from {at}: {reason}")]
    Unreachable { at: String, reason: String },
    /// The response has an error status.
    #[error("{url} returned status {status}{}", excerpt(.body))]
    Refused { url: String, status: u16, body: Vec<u8> },
    /// The response is not an event stream.
    #[error(
        "{url} returned {what}, which is not an event stream; check that this is the URL of an AAEP producer"
    )]
    NotAStream { url: String, what: String },
    /// The handshake got no response within the timeout.
    #[error("the subscription.request was not answered within {} ms", .waited.as_millis())]
    NoAnswer { waited: Duration },
    #[error(
        "{messages} messages arrived before the response to the subscription.request (HELD_MESSAGES_MAX, \
         HELD_BYTES_MAX)"
    )]
    Flooded { messages: usize },
    /// The connection broke.
    #[error("the connection failed: {reason}")]
    Broken { reason: String },
    /// A message exceeds the limit.
    #[error("a message exceeds {limit} bytes (MESSAGE_BYTES_MAX); it was discarded")]
    TooLong { limit: usize },
    #[error("received a binary message of {bytes} bytes; the protocol uses text only")]
    Binary { bytes: usize },
    #[error("a message is not UTF-8; the protocol uses UTF-8 only")]
    NotText,
    /// The last message is incomplete.
    #[error("the connection ended inside a message, after {bytes} bytes; they were discarded")]
    CutOff { bytes: usize },
    /// A received message violates the transport's protocol.
    #[error("{0}")]
    Protocol(String),
    /// A request got a JSON-RPC error. The link remains usable.
    #[error("request {id} failed with error {code}: {message}")]
    Rpc { id: u64, code: i64, message: String },
    /// The command exited with an error.
    #[error("the command {command:?} ended with {status}")]
    Died { command: String, status: std::process::ExitStatus },
}

impl LinkError {
    /// Whether reconnecting may help.
    pub fn may_pass(&self) -> bool {
        match self {
            LinkError::Unreachable { .. } | LinkError::Broken { .. } | LinkError::CutOff { .. } => true,
            LinkError::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether the request was rejected and will be rejected again.
    pub fn is_final_refusal(&self) -> bool {
        matches!(self, LinkError::Refused { .. }) && !self.may_pass()
    }

    /// The HTTP status of a rejection.
    pub fn status(&self) -> Option<u16> {
        match self {
            LinkError::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub(super) fn unreachable(at: &str, why: &dyn std::error::Error) -> Self {
        LinkError::Unreachable { at: at.to_owned(), reason: innermost(why) }
    }

    pub(super) fn broken(why: &dyn std::error::Error) -> Self {
        LinkError::Broken { reason: innermost(why) }
    }
}

/// The last of a chain of causes, such as the error of the operating system.
fn innermost(why: &dyn std::error::Error) -> String {
    let mut cause = why;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The beginning of a response body, for error messages.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let shown: String = text.chars().take(limits::REFUSAL_CHARS_MAX).collect();
    let more = if shown.len() < text.len() { " …" } else { "" };
    format!(": {shown}{more}")
}
