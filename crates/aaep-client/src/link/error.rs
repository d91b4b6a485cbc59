//! Errors of links: [`LinkError`].

use std::time::Duration;

use crate::limits;

/// Why a producer is not heard, or not heard any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Nothing was sent, because what was given cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// Nobody answers there.
    #[error("no answer from {at}: {reason}")]
    Unreachable { at: String, reason: String },
    /// It answered, and the answer is no.
    #[error("{url} returned status {status}{}", excerpt(.body))]
    Refused { url: String, status: u16, body: Vec<u8> },
    /// It answered with something else than events.
    #[error(
        "{url} returned {what}, which is not an event stream; check that this is the URL of an AAEP producer"
    )]
    NotAStream { url: String, what: String },
    /// It answered a handshake with nothing, for as long as one waits.
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
    /// A message is longer than is read.
    #[error("a message exceeds {limit} bytes (MESSAGE_BYTES_MAX); it was discarded")]
    TooLong { limit: usize },
    #[error("received a binary message of {bytes} bytes; the protocol uses text only")]
    Binary { bytes: usize },
    #[error("a message is not UTF-8; the protocol uses UTF-8 only")]
    NotText,
    /// The last message is not whole.
    #[error("the connection ended inside a message, after {bytes} bytes; they were discarded")]
    CutOff { bytes: usize },
    /// What came is not what this transport carries.
    #[error("{0}")]
    Protocol(String),
    /// A request of ours was answered with an error of JSON-RPC. The link goes on.
    #[error("request {id} failed with error {code}: {message}")]
    Rpc { id: u64, code: i64, message: String },
    /// A command ended, and not well.
    #[error("the command {command:?} ended with {status}")]
    Died { command: String, status: std::process::ExitStatus },
}

impl LinkError {
    /// Whether connecting again may help.
    pub fn may_pass(&self) -> bool {
        match self {
            LinkError::Unreachable { .. } | LinkError::Broken { .. } | LinkError::CutOff { .. } => true,
            LinkError::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether the answer was no, and will be no again.
    pub fn is_final_refusal(&self) -> bool {
        matches!(self, LinkError::Refused { .. }) && !self.may_pass()
    }

    /// The status of a refusal.
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

/// The last of a chain of causes: what the operating system said.
fn innermost(why: &dyn std::error::Error) -> String {
    let mut cause = why;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The beginning of a body, for people.
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
