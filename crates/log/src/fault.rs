//! How a store says that something went wrong.

use std::time::Duration;

/// The world failed. Nothing was changed unless a sentence says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: FaultKind,
    /// Lower-case fragment that names the thing and the value.
    pub message: String,
    pub retry: Retry,
}

/// What sort of failure it was; stable, for mapping to codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Too much is waiting already; try again shortly.
    Busy,
    /// The store was closed, or is closing.
    Closed,
    /// What was read is not what was written.
    Corrupt,
    /// No space is left.
    Full,
    /// Reading or writing failed in another way.
    Io,
    /// Another process holds the store.
    Locked,
    /// The store was written by a newer release.
    Newer,
    /// A request went beyond a named limit.
    TooLarge,
}

/// Whether the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    Never,
    Maybe,
    After(Duration),
}

/// Why an append did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The stream does not end where the writer believed, or is to be cut beyond its end.
    #[error("stream {stream} ends at {actual}, not at {expected}")]
    TailMoved { stream: String, expected: u64, actual: u64 },
    /// A row was not as the append demanded. `actual` is its version, if it exists.
    #[error("row {space}/{key} is not as demanded (version {actual:?})")]
    GuardFailed { space: String, key: String, actual: Option<u64> },
    /// The stream was erased: its name is never used again.
    #[error("stream {stream} was erased; nothing can be added to it")]
    Erased { stream: String },
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Fault {
    pub fn new(kind: FaultKind, retry: Retry, message: impl Into<String>) -> Self {
        Fault { kind, retry, message: message.into() }
    }
}
