//! Errors of speech. See [`SsipError`].

use std::time::Duration;

/// Why speech is not available, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum SsipError {
    #[error("no response from speech-dispatcher at {at}: {why}")]
    Unreachable { at: String, why: String },
    #[error("SPEECHD_ADDRESS is {value:?}; set it to unix_socket:PATH or inet_socket:HOST:PORT")]
    Address { value: String },
    #[error("speech-dispatcher rejected {command:?} with {code}: {words}")]
    Refused { command: String, code: u16, words: String },
    #[error("speech-dispatcher did not respond to {command:?} within {} ms", .waited.as_millis())]
    Silent { command: String, waited: Duration },
    #[error("speech-dispatcher closed the connection")]
    Closed,
    #[error("speech-dispatcher sent an invalid SSIP reply: {0}")]
    Protocol(String),
    #[error("the connection to speech-dispatcher failed: {0}")]
    Broken(#[from] std::io::Error),
}
