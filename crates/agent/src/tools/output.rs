//! Collects the output of a command into events: losslessly, masked, in chunks that are not too small.
//!
//! It must never know processes or who receives the events.
//!
//! Start at [`OutputStream`], one of the two streams. A chunk is flushed at [`limits::CHUNK_BYTES`] or after
//! [`limits::CHUNK_WAIT`]. Text stays text with whole characters; anything else is base64. Reading continues while
//! chunks become durable, up to [`limits::OUTPUT_AHEAD_BYTES`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::shell::{Encoding, OutputChunk, Stream};
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::{Redactor, StreamRedactor};
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::held::HeldSince;
use crate::tools::limits;

/// One stream of a command.
pub(crate) struct OutputStream {
    stream: Stream,
    /// `None` once it has ended.
    pipe: Option<pipe::Receiver>,
    redactor: Option<StreamRedactor>,
    /// Masked bytes that are not reported yet.
    ready: Vec<u8>,
    /// When the first of these arrived.
    since: Option<Instant>,
    held: HeldSince,
    /// Bytes that were reported before.
    reported_bytes: u64,
    /// Bytes that were in the pipe when the command ended and are not read yet.
    unread_bytes: usize,
    /// Reading ended before the stream did.
    left_open: bool,
    excerpt: Excerpt,
}

impl OutputStream {
    pub(crate) fn new(stream: Stream, pipe: pipe::Receiver, redactor: &Arc<Redactor>) -> Self {
        let redactor = (!redactor.is_off()).then(|| StreamRedactor::new(redactor.clone()));
        OutputStream {
            stream,
            pipe: Some(pipe),
            redactor,
            ready: Vec::new(),
            since: None,
            held: HeldSince::default(),
            reported_bytes: 0,
            unread_bytes: 0,
            left_open: false,
            excerpt: Excerpt::default(),
        }
    }

    /// Whether more may be read now.
    pub(crate) fn has_room(&self) -> bool {
        self.pipe.is_some() && self.ready.len() < limits::OUTPUT_AHEAD_BYTES
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.pipe.is_none()
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// Whether the stream was not read to its end.
    pub(crate) fn is_left_open(&self) -> bool {
        self.left_open
    }

    /// Whether everything that the command wrote is read, and the output of other processes could be read.
    pub(crate) fn is_idle(&self) -> bool {
        self.unread_bytes == 0 && self.has_room()
    }

    /// The command has ended: the pipe now contains the rest of its output.
    pub(crate) fn command_ended(&mut self) {
        let unread = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        self.unread_bytes = unread.and_then(|unread| usize::try_from(unread).ok()).unwrap_or_default();
    }

    /// Stops waiting for other processes that hold the pipe open. If none does, the pipe is read to its end.
    pub(crate) fn leave_open(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut look = [PollFd::new(pipe, PollFlags::empty())];
        let looked = rustix::event::poll(&mut look, Some(&Timespec::default()));
        if looked.is_err() || !look[0].revents().contains(PollFlags::HUP) {
            self.left_open = true;
            self.end();
        }
    }

    pub(crate) fn bytes_reported(&self) -> u64 {
        self.reported_bytes
    }

    /// Reads once into `buffer` and accepts at most `most` bytes. Returns the number of bytes read; 0 at the end.
    /// Dropping the future loses nothing.
    pub(crate) async fn read(&mut self, buffer: &mut [u8], most: u64) -> usize {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        loop {
            if pipe.readable().await.is_err() {
                break;
            }
            match pipe.try_read(buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.take(&buffer[..usize::try_from(most).map_or(count, |most| most.min(count))]);
                    return count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.left_open = true;
                    break;
                }
            }
        }
        self.end();
        0
    }

    fn take(&mut self, bytes: &[u8]) {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes.len());
        match &mut self.redactor {
            Some(redactor) => {
                self.ready.append(&mut redactor.push_bytes(bytes));
                self.held.received(bytes.len(), redactor.held(), recount_world::moment());
            }
            None => self.ready.extend_from_slice(bytes),
        }
        if !self.ready.is_empty() {
            self.since.get_or_insert_with(recount_world::moment);
        }
    }

    /// Stops reading.
    pub(crate) fn end(&mut self) {
        self.held = HeldSince::default();
        if self.pipe.take().is_some()
            && let Some(redactor) = &mut self.redactor
        {
            self.ready.append(&mut redactor.finish_bytes());
        }
    }

    /// When short output must be flushed, or held output released.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.flush_due().into_iter().chain(self.release_due()).min()
    }

    fn flush_due(&self) -> Option<Instant> {
        self.since.map(|since| since + limits::CHUNK_WAIT)
    }

    fn release_due(&self) -> Option<Instant> {
        self.held.due()
    }

    /// Releases held output when no more bytes arrive, as far as it identifies no secret.
    fn release(&mut self) {
        if let Some(redactor) = &mut self.redactor {
            self.ready.append(&mut redactor.release_bytes());
            self.held.released(redactor.held());
        }
        if !self.ready.is_empty() {
            self.since.get_or_insert_with(recount_world::moment);
        }
    }

    /// Turns due output into events; all of it if the command `is_over`. The reported bytes are added to `totals`.
    pub(crate) fn flush(
        &mut self,
        call: &ForeignId,
        totals: &mut OutputTotals,
        drafts: &mut Vec<Draft>,
        is_over: bool,
    ) {
        let is_past = |due: Option<Instant>| due.is_some_and(|due| due <= recount_world::moment());
        if is_past(self.release_due()) {
            self.release();
        }
        let overdue = is_past(self.flush_due());
        let mut from = 0;
        while from < self.ready.len() {
            let remaining = self.ready.len() - from;
            if remaining < limits::CHUNK_BYTES && !overdue && !is_over {
                break;
            }
            let piece = &self.ready[from..from + remaining.min(limits::CHUNK_BYTES)];
            let (length, encoding) = match std::str::from_utf8(piece) {
                Ok(_) => (piece.len(), None),
                // The rest of the last character arrives later …
                Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                    (error.valid_up_to(), None)
                }
                Err(error) if error.error_len().is_none() && from > 0 && !self.has_ended() => break,
                // … or not in time.
                Err(_) => (piece.len(), Some(Encoding::Base64)),
            };
            let piece = &piece[..length];
            let data = match (encoding, std::str::from_utf8(piece)) {
                (None, Ok(text)) => text.to_owned(),
                _ => STANDARD.encode(piece),
            };
            let mut chunk = OutputChunk::new(call.clone(), self.stream, data, self.reported_bytes);
            chunk.encoding = encoding;
            drafts.push(Payload::ToolShellOutputChunk(Box::new(chunk)).into());
            self.excerpt.take(piece);
            totals.bytes += length as u64;
            totals.is_binary |= encoding.is_some();
            self.reported_bytes += length as u64;
            from += length;
        }
        self.ready.drain(..from);
        if from > 0 {
            self.since = (!self.ready.is_empty()).then(recount_world::moment);
        }
    }

    /// The excerpt for the model, and whether it is truncated.
    pub(crate) fn excerpt(&mut self) -> (String, bool) {
        self.excerpt.text()
    }
}

/// The beginning and the end of a stream.
#[derive(Default)]
struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Excerpt {
    fn take(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(limits::OUTPUT_HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        let over = (self.tail.len() + rest.len()).saturating_sub(limits::OUTPUT_TAIL_BYTES);
        let old = over.min(self.tail.len());
        self.tail.drain(..old);
        self.tail.extend(&rest[over - old..]);
        self.omitted += over as u64;
    }

    /// The text, and whether it is truncated.
    fn text(&mut self) -> (String, bool) {
        if self.omitted == 0 {
            self.head.extend(self.tail.drain(..));
            return (String::from_utf8_lossy(&self.head).into_owned(), false);
        }
        let tail = self.tail.make_contiguous();
        // The cut may have split a character.
        let tail_start = tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        let head_end = match std::str::from_utf8(&self.head) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.head.len(),
        };
        let omitted = self.omitted + (tail_start + self.head.len() - head_end) as u64;
        let head = String::from_utf8_lossy(&self.head[..head_end]);
        let tail = String::from_utf8_lossy(&tail[tail_start..]);
        (format!("{head}\n[… {omitted} bytes omitted …]\n{tail}"), true)
    }
}

/// What was reported of both streams.
#[derive(Default)]
pub(crate) struct OutputTotals {
    pub(crate) bytes: u64,
    /// Whether some of it is not text.
    pub(crate) is_binary: bool,
}
