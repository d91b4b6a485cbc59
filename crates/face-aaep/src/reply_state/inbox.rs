//! Messages of one subscription that wait to be handled, in order and bounded. See [`Inbox::put`].

use std::collections::VecDeque;

use super::message::PromptReply;
use crate::limits;

/// A message and when the server received it.
pub(crate) struct Received {
    pub(crate) reply: PromptReply,
    pub(crate) at_ms: u64,
}

#[derive(Default)]
pub(crate) struct Inbox {
    waiting: VecDeque<Received>,
    is_worked_off: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    /// The caller handles the waiting messages now.
    Starts,
    /// The message is handled after the ones before it.
    Waits,
    /// The message is dropped.
    Full,
}

impl Inbox {
    pub(crate) fn put(&mut self, received: Received) -> PutOutcome {
        if self.waiting.len() >= limits::REPLIES_WAITING_MAX {
            return PutOutcome::Full;
        }
        self.waiting.push_back(received);
        if std::mem::replace(&mut self.is_worked_off, true) { PutOutcome::Waits } else { PutOutcome::Starts }
    }

    /// The next message; after `None` the next one that is put starts anew.
    pub(crate) fn take(&mut self) -> Option<Received> {
        let next = self.waiting.pop_front();
        self.is_worked_off = next.is_some();
        next
    }
}
