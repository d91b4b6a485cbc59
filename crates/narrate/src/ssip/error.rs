//! How speech fails. See [`SsipError`].

use std::time::Duration;

/// Why nothing is spoken, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum SsipError {
    #[error("no speech-dispatcher answers at {at}: {why}")]
    Unreachable { at: String, why: String },
    #[error("SPEECHD_ADDRESS is {value:?}; set it to unix_socket:PATH or inet_socket:HOST:PORT")]
    Address { value: String },
    #[error("speech-dispatcher refused {command:?} with {code}: {words}")]
    Refused { command: String, code: u16, words: String },
    #[error("speech-dispatcher did not answer {command:?} within {} ms", .waited.as_millis())]
    Silent { command: String, waited: Duration },
    #[error("speech-dispatcher closed the connection")]
    Closed,
    #[error("speech-dispatcher sent something that is not SSIP: {0}")]
    Protocol(String),
    #[error("the connection to speech-dispatcher broke: {0}")]
    Broken(#[from] std::io::Error),
}
