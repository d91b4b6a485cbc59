//! Captures of the messages between a producer and a subscriber: [`Writer`] writes them; [`Reader`] reads them and
//! those of other tools.
//!
//! A capture is JSON lines: one message per line, unchanged, in order and in both directions, so every AAEP tool can
//! read it. `FILE.times` has one line for each line of the capture: time, connection and direction. It may be missing.
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

/// The sender of a message.
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
    /// Its first line in the file, from 1.
    pub number: usize,
    /// The message, on one line.
    pub text: String,
    /// From the times file; otherwise derived from the message type.
    pub direction: Direction,
    /// From the times file, if present.
    pub time: Option<Time>,
}

/// The path of a capture's times file.
pub fn times_of(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".times");
    PathBuf::from(name)
}

/// The direction that a message's type implies.
pub fn direction_of(text: &str) -> Direction {
    match Glance::at(text).and_then(|glance| glance.kind()) {
        Some(
            MessageKind::SubscriptionRequest
            | MessageKind::SubscriptionRenegotiate
            | MessageKind::ConfirmationReply
            | MessageKind::ClarificationReply,
        ) => Direction::Out,
        // Either side may close; producers send all other messages.
        _ => Direction::In,
    }
}
