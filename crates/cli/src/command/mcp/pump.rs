//! Forwards bytes as they come, and cuts a copy of them into lines for the recorder. See [`forward`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use recount_record::mcp::McpSide;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::limits;

/// Something for the recorder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum McpItem {
    Line(McpSide, Vec<u8>),
    /// The beginning of a line that is too long to be held.
    LongLine(McpSide, Vec<u8>),
    /// `Err` is how it ended, if that was not well.
    ServerEnded(Result<(), String>),
}

/// The end of the pumps. It never makes them wait.
pub(super) struct McpQueue {
    send: Sender<McpItem>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// The end of the recorder.
pub(super) struct McpBacklog {
    receive: Receiver<McpItem>,
    bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

pub(super) fn queue() -> (McpQueue, McpBacklog) {
    let (send, receive) = channel(limits::MCP_QUEUE_MESSAGES_MAX);
    let (bytes, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let waiting = McpBacklog { receive, bytes: Arc::clone(&bytes), dropped: Arc::clone(&dropped) };
    (McpQueue { send, bytes, dropped }, waiting)
}

impl McpQueue {
    /// What does not fit is dropped and counted.
    pub(super) fn push(&self, side: McpSide, line: Vec<u8>, is_long: bool) {
        let size = line.len();
        let fits = self.bytes.load(Ordering::Relaxed) + size <= limits::MCP_QUEUE_BYTES_MAX;
        let item = if is_long { McpItem::LongLine(side, line) } else { McpItem::Line(side, line) };
        if fits && self.send.try_send(item).is_ok() {
            self.bytes.fetch_add(size, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for room, as nothing follows.
    pub(super) async fn push_last(&self, item: McpItem) {
        // The recorder may have ended.
        drop(self.send.send(item).await);
    }
}

impl McpBacklog {
    pub(super) async fn next(&mut self) -> Option<McpItem> {
        let item = self.receive.recv().await?;
        self.taken(&item);
        Some(item)
    }

    pub(super) fn next_now(&mut self) -> Option<McpItem> {
        let item = self.receive.try_recv().ok()?;
        self.taken(&item);
        Some(item)
    }

    fn taken(&self, item: &McpItem) {
        if let McpItem::Line(_, line) | McpItem::LongLine(_, line) = item {
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
        }
    }

    /// How many lines were dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Forwards until the input ends or the output takes no more.
pub(super) async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: McpSide,
    queue: &McpQueue,
) {
    let mut buffer = vec![0; limits::MCP_READ_BYTES];
    let mut lines = LineCutter::default();
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        let bytes = &buffer[..read];
        // The copy first, which waits for nothing: else the answer to a message could be recorded before the message.
        lines.take(bytes, |line, is_long| queue.push(side, line, is_long));
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    lines.end(|line, is_long| queue.push(side, line, is_long));
}

/// The line that is not whole yet.
#[derive(Default)]
pub(super) struct LineCutter {
    line: Vec<u8>,
    is_long: bool,
}

impl LineCutter {
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Vec<u8>, bool)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = limits::MCP_LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            self.is_long |= part.len() > room;
            if part.last() == Some(&b'\n') {
                self.end(&mut each);
            }
        }
    }

    pub(super) fn end(&mut self, mut each: impl FnMut(Vec<u8>, bool)) {
        let mut line = std::mem::take(&mut self.line);
        let is_long = std::mem::take(&mut self.is_long);
        if is_long {
            line.truncate(limits::MCP_LONG_BEGINNING_BYTES);
        }
        if !line.trim_ascii().is_empty() {
            each(line, is_long);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_long_ones_are_shortened() {
        let mut lines = LineCutter::default();
        let mut got: Vec<(Vec<u8>, bool)> = Vec::new();
        lines.take(b"{\"a\"", |line, long| got.push((line, long)));
        lines.take(b":1}\n\n{}", |line, long| got.push((line, long)));
        lines.end(|line, long| got.push((line, long)));
        let long = vec![b'x'; limits::MCP_LINE_BYTES_MAX + 1];
        lines.take(&long, |line, long| got.push((line, long)));
        lines.take(b"\n[]\n", |line, long| got.push((line, long)));
        assert_eq!(got[0], (b"{\"a\":1}\n".to_vec(), false));
        assert_eq!(got[1], (b"{}".to_vec(), false));
        assert_eq!((got[2].0.len(), got[2].1), (limits::MCP_LONG_BEGINNING_BYTES, true));
        assert_eq!(got[3], (b"[]\n".to_vec(), false));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (queue, mut waiting) = queue();
        for _ in 0..=limits::MCP_QUEUE_MESSAGES_MAX {
            queue.push(McpSide::Client, b"{}".to_vec(), false);
        }
        assert_eq!(waiting.take_dropped(), 1);
        assert_eq!(waiting.take_dropped(), 0);
        assert_eq!(waiting.next_now(), Some(McpItem::Line(McpSide::Client, b"{}".to_vec())));
    }
}
