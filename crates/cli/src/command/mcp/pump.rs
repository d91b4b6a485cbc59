//! Forwards bytes as they come, and cuts a copy of them into lines for the recorder. See [`forward`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use recount_record::mcp::{LongMessage, McpSide};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::message_head::HeadScanner;
use crate::limits;

/// Something for the recorder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum McpItem {
    Line(McpSide, Vec<u8>),
    /// The beginning of a line that is too long to be held, and what was seen of the rest.
    LongLine(McpSide, Vec<u8>, LongMessage),
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
    pub(super) fn push(&self, side: McpSide, line: Vec<u8>, long: Option<LongMessage>) {
        let size = line.len();
        let fits = self.bytes.load(Ordering::Relaxed) + size <= limits::MCP_QUEUE_BYTES_MAX;
        let item = match long {
            Some(long) => McpItem::LongLine(side, line, long),
            None => McpItem::Line(side, line),
        };
        if fits && self.send.try_send(item).is_ok() {
            self.bytes.fetch_add(size, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A message that was read whole, however long it is.
    pub(super) fn push_whole(&self, side: McpSide, message: &[u8]) {
        let mut lines = LineCutter::default();
        let mut each = |line, long| self.push(side, line, long);
        lines.take(message, &mut each);
        lines.end(&mut each);
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
        if let McpItem::Line(_, line) | McpItem::LongLine(_, line, _) = item {
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
        lines.take(bytes, |line, long| queue.push(side, line, long));
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    lines.end(|line, long| queue.push(side, line, long));
}

/// The line that is not whole yet.
#[derive(Default)]
pub(super) struct LineCutter {
    line: Vec<u8>,
    long: Option<LongLine>,
}

/// A line that is too long to be held: what is looked for in all of it.
#[derive(Default)]
struct LongLine {
    head: HeadScanner,
    size_bytes: u64,
    /// The end of what was scanned, in which the mark of an error may begin.
    tail: Vec<u8>,
    is_error: bool,
}

/// The mark of a result that is an error. Within a text its quotes would be escaped.
const ERROR_MARK: &[u8] = b"\"isError\"";

impl LongLine {
    fn scan(&mut self, bytes: &[u8]) {
        self.head.feed(bytes);
        self.size_bytes += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        self.is_error |= self.tail.windows(ERROR_MARK.len()).enumerate().any(|(at, part)| {
            let after =
                || self.tail[at + ERROR_MARK.len()..].iter().filter(|byte| !byte.is_ascii_whitespace());
            part == ERROR_MARK && after().take(5).copied().eq(*b":true")
        });
        let kept = self.tail.len().saturating_sub(2 * ERROR_MARK.len());
        self.tail.drain(..kept);
    }

    fn seen(self) -> LongMessage {
        let head = self.head.finish();
        LongMessage {
            id: head.id,
            method: head.method,
            is_error: self.is_error || head.has_error,
            size_bytes: self.size_bytes,
        }
    }
}

impl LineCutter {
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Vec<u8>, Option<LongMessage>)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = limits::MCP_LINE_BYTES_MAX - self.line.len();
            if let Some(long) = &mut self.long {
                long.scan(part);
            } else if part.len() > room {
                let mut long = LongLine::default();
                long.scan(&self.line);
                long.scan(part);
                self.long = Some(long);
                let kept = limits::MCP_LONG_BEGINNING_BYTES.saturating_sub(self.line.len());
                self.line.extend_from_slice(&part[..part.len().min(kept)]);
                self.line.truncate(limits::MCP_LONG_BEGINNING_BYTES);
            } else {
                self.line.extend_from_slice(part);
            }
            if part.last() == Some(&b'\n') {
                self.end(&mut each);
            }
        }
    }

    pub(super) fn end(&mut self, mut each: impl FnMut(Vec<u8>, Option<LongMessage>)) {
        let line = std::mem::take(&mut self.line);
        let long = self.long.take().map(LongLine::seen);
        if !line.trim_ascii().is_empty() {
            each(line, long);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_long_ones_are_shortened() {
        let mut lines = LineCutter::default();
        let mut got: Vec<(Vec<u8>, Option<LongMessage>)> = Vec::new();
        lines.take(b"{\"a\"", |line, long| got.push((line, long)));
        lines.take(b":1}\n\n{}", |line, long| got.push((line, long)));
        lines.end(|line, long| got.push((line, long)));
        let text = "x".repeat(limits::MCP_LINE_BYTES_MAX);
        for part in [
            r#"{"result":{"content":[{"type":"text","text":""#,
            &text,
            r#""}],"isErr"#,
            r#"or": true},"id":7}"#,
        ] {
            lines.take(part.as_bytes(), |line, long| got.push((line, long)));
        }
        lines.take(b"\n[]\n", |line, long| got.push((line, long)));
        assert_eq!(got[0], (b"{\"a\":1}\n".to_vec(), None));
        assert_eq!(got[1], (b"{}".to_vec(), None));
        let (beginning, Some(long)) = &got[2] else { panic!("it is long") };
        assert_eq!(
            (beginning.len(), long.id.as_deref(), long.is_error),
            (limits::MCP_LONG_BEGINNING_BYTES, Some("7"), true)
        );
        assert!(long.size_bytes > limits::MCP_LINE_BYTES_MAX as u64);
        assert_eq!(got[3], (b"[]\n".to_vec(), None));
    }

    #[test]
    fn an_error_is_seen_wherever_a_piece_ends_and_not_in_a_text() {
        for (message, is_error) in [
            (r#"{"id":1,"result":{"isError" : true}}"#, true),
            (r#"{"id":1,"result":{"isError":false}}"#, false),
            (r#"{"id":1,"result":{"content":"\"isError\":true"}}"#, false),
            (r#"{"id":1,"error":{"code":1}}"#, true),
        ] {
            let mut whole = LongLine::default();
            whole.scan(message.as_bytes());
            assert_eq!(whole.seen().is_error, is_error, "{message}");
            let mut pieces = LongLine::default();
            message.as_bytes().iter().for_each(|byte| pieces.scan(&[*byte]));
            assert_eq!(pieces.seen().is_error, is_error, "{message}");
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (queue, mut waiting) = queue();
        for _ in 0..=limits::MCP_QUEUE_MESSAGES_MAX {
            queue.push(McpSide::Client, b"{}".to_vec(), None);
        }
        assert_eq!(waiting.take_dropped(), 1);
        assert_eq!(waiting.take_dropped(), 0);
        assert_eq!(waiting.next_now(), Some(McpItem::Line(McpSide::Client, b"{}".to_vec())));
    }
}
