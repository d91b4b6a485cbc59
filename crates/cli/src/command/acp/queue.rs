//! What the recorder has still to read. Forwarding never waits for it: see [`Queue::push`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::gate::Held;
use super::head::Head;
use crate::limits;

/// The two ends that are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Editor,
    Agent,
}

/// Something that the recorder is told.
#[derive(Debug)]
pub(super) enum Item {
    /// A line that was forwarded, or why it was not.
    Message {
        from: Side,
        line: Arc<[u8]>,
        held: Option<Held>,
    },
    /// A line that was too long to be held: its beginning, its head, and how long it was.
    Long {
        from: Side,
        head: Head,
        beginning: Vec<u8>,
        bytes: u64,
    },
    /// Bytes without a line break at the end of an output.
    Unfinished {
        from: Side,
        bytes: Vec<u8>,
    },
    /// So much was forwarded before the next item and did not fit here.
    Dropped(Dropped),
    EditorLeft,
    AgentEnded(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Item::Message { line, .. } => line.len(),
            Item::Long { beginning, .. } => beginning.len(),
            Item::Unfinished { bytes, .. } => bytes.len(),
            Item::Dropped(_) | Item::EditorLeft | Item::AgentEnded(_) => 0,
        }
    }
}

/// The end that the pumps have.
#[derive(Clone)]
pub(super) struct Queue {
    send: Sender<Item>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<Mutex<Dropped>>,
}

/// The end that the recorder has.
pub(super) struct Waiting {
    receive: Receiver<Item>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<Mutex<Dropped>>,
}

pub(super) fn queue() -> (Queue, Waiting) {
    let (send, receive) = channel(limits::ACP_QUEUE_MESSAGES_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    let dropped = Arc::new(Mutex::default());
    let waiting = Waiting { receive, bytes: Arc::clone(&bytes), dropped: Arc::clone(&dropped) };
    (Queue { send, bytes, dropped }, waiting)
}

impl Queue {
    /// Puts something into the queue, or counts it as dropped where the queue is full. Never waits. Whether it is in.
    pub(super) fn push(&self, item: Item) -> bool {
        let size = item.bytes();
        let mut dropped = self.dropped.lock().expect("no code panics while it holds this lock");
        let fits = self.bytes.load(Ordering::Relaxed) + size <= limits::ACP_QUEUE_BYTES_MAX;
        // What was dropped is told before what comes after it.
        let is_told = *dropped == Dropped::default()
            || (fits && self.send.capacity() >= 2 && self.send.try_send(Item::Dropped(*dropped)).is_ok());
        if is_told {
            *dropped = Dropped::default();
        }
        if is_told && fits && self.send.try_send(item).is_ok() {
            self.bytes.fetch_add(size, Ordering::Relaxed);
            return true;
        }
        dropped.messages += 1;
        dropped.bytes += size as u64;
        false
    }

    /// Waits for room; for the last words of a pump, which nothing follows.
    pub(super) fn push_last(&self, item: Item) {
        // The recorder may be gone.
        drop(self.send.blocking_send(item));
    }
}

impl Waiting {
    /// The next item; `None` when no pump is left and all was read.
    pub(super) async fn next(&mut self) -> Option<Item> {
        let item = self.receive.recv().await?;
        self.bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// The next item, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<Item> {
        let item = self.receive.try_recv().ok()?;
        self.bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        Some(item)
    }

    /// What was dropped and not told yet.
    pub(super) fn take_dropped(&self) -> Dropped {
        std::mem::take(&mut *self.dropped.lock().expect("no code panics while it holds this lock"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> Item {
        Item::Message { from: Side::Agent, line: vec![b'x'; size].into(), held: None }
    }

    #[test]
    fn what_does_not_fit_is_counted_and_told_in_its_place() {
        let (queue, mut waiting) = queue();
        let most = limits::ACP_QUEUE_BYTES_MAX;
        assert!(queue.push(message(most - 1)));
        assert!(!queue.push(message(2)));
        assert!(!queue.push(message(3)));
        assert!(matches!(waiting.next_now(), Some(Item::Message { .. })));
        assert!(queue.push(message(1)));
        let Some(Item::Dropped(dropped)) = waiting.next_now() else { panic!("it is told") };
        assert_eq!(dropped, Dropped { messages: 2, bytes: 5 });
        assert!(matches!(waiting.next_now(), Some(Item::Message { .. })));
        assert_eq!(waiting.take_dropped(), Dropped::default());
    }

    #[test]
    fn so_is_what_comes_when_there_are_too_many() {
        let (queue, mut waiting) = queue();
        let all = limits::ACP_QUEUE_MESSAGES_MAX + 5;
        let taken = (0..all).filter(|_| queue.push(message(1))).count();
        assert_eq!(taken, limits::ACP_QUEUE_MESSAGES_MAX);
        while waiting.next_now().is_some() {}
        assert_eq!(waiting.take_dropped(), Dropped { messages: 5, bytes: 5 });
    }
}
