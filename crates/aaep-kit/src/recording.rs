//! Captures of the messages between a producer and a subscriber: [`Writer`] writes them, [`Reader`] reads them, ours
//! and those of other tools.
//!
//! A capture is JSON lines, one message a line as it came, in order and in both directions, so every AAEP tool can
//! read it. `FILE.times` beside it has one line for each line of the capture: when it came, over which connection and
//! in which direction. It may be missing.
//!
//! Messages are not validated here.

mod reader;
mod times;
mod writer;

use std::path::{Path, PathBuf};

use recount_aaep::MessageKind;

use crate::glance::Glance;

pub use self::reader::{Reader, Unreadable};
pub use self::times::Time;
pub use self::writer::{Stamp, Writer};
pub use crate::glance::one_line;

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The producer.
    In,
    /// The subscriber.
    Out,
}

/// One message of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLine {
    /// Where it begins in its file, from 1.
    pub number: usize,
    /// As it came, on one line.
    pub text: String,
    /// As it was written down; where it was not, by its type: what only subscribers say was said by one.
    pub direction: Direction,
    /// When it came, where that was written down.
    pub time: Option<Time>,
}

/// The file of times of a capture.
pub fn times_of(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".times");
    PathBuf::from(name)
}

/// Who says a message of its type.
pub fn direction_of(text: &str) -> Direction {
    match Glance::at(text).and_then(|glance| glance.kind()) {
        Some(
            MessageKind::SubscriptionRequest
            | MessageKind::SubscriptionRenegotiate
            | MessageKind::ConfirmationReply
            | MessageKind::ClarificationReply,
        ) => Direction::Out,
        // Either side may close; and producers say all the rest.
        _ => Direction::In,
    }
}
