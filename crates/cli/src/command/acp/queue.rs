//! What the recorder has still to read. Forwarding never waits for it: see [`AcpQueue::push`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::message_head::Head;
use super::gate::Held;
use crate::limits;

/// The two ends that are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcpSide {
    Editor,
    Agent,
}

/// One item in the queue of the recorder.
#[derive(Debug)]
pub(super) enum AcpItem {
    /// A line that was forwarded, or why it was not.
    Message {
        from: AcpSide,
        line: Arc<[u8]>,
        held: Option<Held>,
    },
    /// A line that was too long to be held: its beginning, its head, and how long it was.
    Long {
        from: AcpSide,
        head: Head,
        beginning: Vec<u8>,
        bytes: u64,
    },
    /// Bytes without a line break at the end of an output.
    Unfinished {
        from: AcpSide,
        bytes: Vec<u8>,
    },
    /// So much was forwarded before the next item and did not fit here.
    Dropped(DroppedMessages),
    EditorLeft,
    AgentEnded(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DroppedMessages {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl AcpItem {
    fn bytes(&self) -> usize {
        match self {
            AcpItem::Message { line, .. } => line.len(),
            AcpItem::Long { beginning, .. } => beginning.len(),
            AcpItem::Unfinished { bytes, .. } => bytes.len(),
            AcpItem::Dropped(_) | AcpItem::EditorLeft | AcpItem::AgentEnded(_) => 0,
        }
    }
}

/// The end that the pumps have.
#[derive(Clone)]
pub(super) struct AcpQueue {
    send: Sender<AcpItem>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<Mutex<DroppedMessages>>,
}

/// The end that the recorder has.
pub(super) struct AcpBacklog {
    receive: Receiver<AcpItem>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<Mutex<DroppedMessages>>,
}

pub(super) fn queue() -> (AcpQueue, AcpBacklog) {
    let (send, receive) = channel(limits::ACP_QUEUE_MESSAGES_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let dropped = Arc::new(Mutex::default());
    let waiting = AcpBacklog { receive, bytes: Arc::clone(&bytes), dropped: Arc::clone(&dropped) };
    (AcpQueue { send, bytes, dropped }, waiting)
}

impl AcpQueue {
    /// Puts something into the queue, or counts it as dropped where the queue is full. Never waits. Whether it is in.
    pub(super) fn push(&self, item: AcpItem) -> bool {
        let size = item.bytes();
        let mut dropped = self.dropped.lock().expect("no code panics while it holds this lock");
        let fits = self.bytes.load(Ordering::Relaxed) + size <= limits::ACP_QUEUE_BYTES_MAX;
        // Dropped messages are reported before the items after them.
        let is_reported = *dropped == DroppedMessages::default()
            || (fits && self.send.capacity() >= 2 && self.send.try_send(AcpItem::Dropped(*dropped)).is_ok());
        if is_reported {
            *dropped = DroppedMessages::default();
        }
        if is_reported && fits && self.send.try_send(item).is_ok() {
            self.bytes.fetch_add(size, Ordering::Relaxed);
            return true;
        }
        dropped.messages += 1;
        dropped.bytes += size as u64;
        false
    }

    /// Waits for room; for the last words of a pump, which nothing follows.
    pub(super) fn push_last(&self, item: AcpItem) {
        // The recorder may have ended.
        drop(self.send.blocking_send(item));
    }
}

impl AcpBacklog {
    /// The next item; `None` when no pump is left and all was read.
    pub(super) async fn next(&mut self) -> Option<AcpItem> {
        let item = self.receive.recv().await?;
        self.bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// The next item, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<AcpItem> {
        let item = self.receive.try_recv().ok()?;
        self.bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// What was dropped and not reported yet.
    pub(super) fn take_dropped(&self) -> DroppedMessages {
        std::mem::take(&mut *self.dropped.lock().expect("no code panics while it holds this lock"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> AcpItem {
        AcpItem::Message { from: AcpSide::Agent, line: vec![b'x'; size].into(), held: None }
    }

    #[test]
    fn dropped_messages_are_counted_and_reported_in_order() {
        let (queue, mut waiting) = queue();
        let most = limits::ACP_QUEUE_BYTES_MAX;
        assert!(queue.push(message(most - 1)));
        assert!(!queue.push(message(2)));
        assert!(!queue.push(message(3)));
        assert!(matches!(waiting.next_now(), Some(AcpItem::Message { .. })));
        assert!(queue.push(message(1)));
        let Some(AcpItem::Dropped(dropped)) = waiting.next_now() else { panic!("it is told") };
        assert_eq!(dropped, DroppedMessages { messages: 2, bytes: 5 });
        assert!(matches!(waiting.next_now(), Some(AcpItem::Message { .. })));
        assert_eq!(waiting.take_dropped(), DroppedMessages::default());
    }

    #[test]
    fn so_is_what_comes_when_there_are_too_many() {
        let (queue, mut waiting) = queue();
        let all = limits::ACP_QUEUE_MESSAGES_MAX + 5;
        let taken = (0..all).filter(|_| queue.push(message(1))).count();
        assert_eq!(taken, limits::ACP_QUEUE_MESSAGES_MAX);
        while waiting.next_now().is_some() {}
        assert_eq!(waiting.take_dropped(), DroppedMessages { messages: 5, bytes: 5 });
    }
}
