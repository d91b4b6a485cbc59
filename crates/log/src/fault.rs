//! Errors of a store: faults, damage, and why an append did not happen.
//!
//! It must not know how a call is made.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::values::StreamKey;

/// A failure outside the store. Nothing was changed unless a sentence says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: FaultKind,
    /// Lower-case fragment that names the thing and the value.
    pub message: String,
    pub retry: Retry,
    /// What exactly is damaged, where a read knows it. Only with [`FaultKind::Corrupt`].
    pub damage: Option<Box<Damage>>,
}

/// Records whose stored bytes are not those that were written. They are never returned; a reader continues after them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// `None` where not even that can be read any more: then only positions are known.
    pub stream: Option<StreamKey>,
    /// The damaged sequences of the stream, from the first requested one on. A read continues after the last.
    pub sequences: Option<RangeInclusive<u64>>,
    /// For a read of the feed: the damaged positions, from the first requested one on. The feed continues after
    /// the last.
    pub positions: Option<RangeInclusive<u64>>,
}

/// The end of a write-ahead log that a store could not use when it was opened, and went on without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedEnd {
    /// What was there, and what is missing, in words.
    pub words: String,
    pub reason: DropReason,
    /// Where the store ended without it, as far as that could be read.
    pub last_position: Option<u64>,
}

/// Why a store may go on without the end of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// A commit was under way, and nothing shows that it was acknowledged.
    TornCommit,
    /// An operator gave up acknowledged records.
    Accepted,
    /// Acknowledged records are missing, which relaxed durability allows.
    RelaxedDurability,
}

impl DropReason {
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::TornCommit => "torn_commit",
            DropReason::Accepted => "accepted",
            DropReason::RelaxedDurability => "relaxed_durability",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.stream, &self.sequences) {
            (Some(stream), Some(range)) => {
                write!(f, "stream {stream} is damaged from sequence {} to {}", range.start(), range.end())?;
            }
            (Some(stream), None) => write!(f, "stream {stream} is damaged")?,
            (None, _) => f.write_str("the feed is damaged")?,
        }
        if let Some(range) = &self.positions {
            write!(f, " (positions {} to {})", range.start(), range.end())?;
        }
        Ok(())
    }
}

/// What sort of failure it was; stable, for mapping to codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Too much is waiting already; try again shortly.
    Busy,
    /// The store was closed, or is closing.
    Closed,
    /// Another node owns the store now. Nothing was changed, and nothing will be: open the store again.
    Fenced,
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
    /// A request exceeded a named limit.
    TooLarge,
    /// This kind of store cannot do it; the message names what can.
    Unsupported,
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
    #[error("row {space}/{key} does not meet the guard (version {actual:?})")]
    GuardFailed { space: String, key: String, actual: Option<u64> },
    /// The stream was erased: its name is never used again.
    #[error("stream {stream} was erased; nothing can be added to it")]
    Erased { stream: String },
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Fault {
    pub fn new(kind: FaultKind, retry: Retry, message: impl Into<String>) -> Self {
        Fault { kind, retry, message: message.into(), damage: None }
    }

    /// A read reached damaged records.
    pub fn damaged(damage: Damage) -> Self {
        let message = format!("{damage}; undamaged parts can be read; check the store with `recount verify`");
        Fault { kind: FaultKind::Corrupt, retry: Retry::Never, message, damage: Some(Box::new(damage)) }
    }
}
