//! Gathers the output of a command into events: losslessly, masked, in pieces that are not too small.
//!
//! Look at [`Side`], one of the two streams. A piece is as long as [`limits::CHUNK_BYTES`] or as old as
//! [`limits::CHUNK_WAIT`]; text stays text and characters whole, anything else is base64. Reading goes on while
//! pieces become durable, up to [`limits::OUTPUT_AHEAD_BYTES`]. It must never know processes or who is told.

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
pub(crate) struct Side {
    stream: Stream,
    /// None once it has ended.
    pipe: Option<pipe::Receiver>,
    redactor: Option<StreamRedactor>,
    /// Masked, and not told yet.
    ready: Vec<u8>,
    /// Since when the first of these wait.
    since: Option<Instant>,
    held: HeldSince,
    /// Bytes told before.
    told: u64,
    /// Bytes that the command left in the pipe when it ended, and that are not read yet.
    owed: usize,
    /// Reading ended before the stream did.
    left_open: bool,
    excerpt: Excerpt,
}

impl Side {
    pub(crate) fn new(stream: Stream, pipe: pipe::Receiver, redactor: &Arc<Redactor>) -> Self {
        let redactor = (!redactor.is_off()).then(|| StreamRedactor::new(redactor.clone()));
        Side {
            stream,
            pipe: Some(pipe),
            redactor,
            ready: Vec::new(),
            since: None,
            held: HeldSince::default(),
            told: 0,
            owed: 0,
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

    /// Whether all that the command wrote is read and there is room for what others may write.
    pub(crate) fn is_idle(&self) -> bool {
        self.owed == 0 && self.has_room()
    }

    /// The command has ended: what is in the pipe now is the rest of what it wrote.
    pub(crate) fn command_ended(&mut self) {
        let left = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        self.owed = left.and_then(|left| usize::try_from(left).ok()).unwrap_or_default();
    }

    /// Stops waiting for who else holds the pipe open. A pipe that nobody holds is read on: its end is there.
    pub(crate) fn leave_open(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut look = [PollFd::new(pipe, PollFlags::empty())];
        let looked = rustix::event::poll(&mut look, Some(&Timespec::default()));
        if looked.is_err() || !look[0].revents().contains(PollFlags::HUP) {
            self.left_open = true;
            self.end();
        }
    }

    pub(crate) fn bytes_told(&self) -> u64 {
        self.told
    }

    /// Reads once, what there is room for, and takes `most` of it. Answers how many there were; 0 at the end. Dropping
    /// the future loses nothing.
    pub(crate) async fn read(&mut self, room: &mut [u8], most: u64) -> usize {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        loop {
            if pipe.readable().await.is_err() {
                break;
            }
            match pipe.try_read(room) {
                Ok(0) => break,
                Ok(count) => {
                    self.take(&room[..usize::try_from(most).map_or(count, |most| most.min(count))]);
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
        self.owed = self.owed.saturating_sub(bytes.len());
        match &mut self.redactor {
            Some(redactor) => {
                self.ready.append(&mut redactor.push_bytes(bytes));
                self.held.came(bytes.len(), redactor.held(), recount_world::moment());
            }
            None => self.ready.extend_from_slice(bytes),
        }
        if !self.ready.is_empty() {
            self.since.get_or_insert_with(recount_world::moment);
        }
    }

    /// Nothing more is read.
    pub(crate) fn end(&mut self) {
        self.held = HeldSince::default();
        if self.pipe.take().is_some()
            && let Some(redactor) = &mut self.redactor
        {
            self.ready.append(&mut redactor.finish_bytes());
        }
    }

    /// When what waits is to be told although it is short, or what is held back to be released.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.tell_due().into_iter().chain(self.release_due()).min()
    }

    fn tell_due(&self) -> Option<Instant> {
        self.since.map(|since| since + limits::CHUNK_WAIT)
    }

    fn release_due(&self) -> Option<Instant> {
        self.held.due()
    }

    /// Lets out what is held back for bytes that do not come, as far as it identifies no secret.
    fn release(&mut self) {
        if let Some(redactor) = &mut self.redactor {
            self.ready.append(&mut redactor.release_bytes());
            self.held.released(redactor.held());
        }
        if !self.ready.is_empty() {
            self.since.get_or_insert_with(recount_world::moment);
        }
    }

    /// Makes events of what is to be told by now, which is all when the command `is_over`. What is told counts in
    /// `all`, too.
    pub(crate) fn tell(
        &mut self,
        call: &ForeignId,
        all: &mut OutputTold,
        drafts: &mut Vec<Draft>,
        is_over: bool,
    ) {
        let is_past = |due: Option<Instant>| due.is_some_and(|due| due <= recount_world::moment());
        if is_past(self.release_due()) {
            self.release();
        }
        let overdue = is_past(self.tell_due());
        let mut from = 0;
        while from < self.ready.len() {
            let left = self.ready.len() - from;
            if left < limits::CHUNK_BYTES && !overdue && !is_over {
                break;
            }
            let piece = &self.ready[from..from + left.min(limits::CHUNK_BYTES)];
            let (length, encoding) = match std::str::from_utf8(piece) {
                Ok(_) => (piece.len(), None),
                // The rest of the last character comes later …
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
            let mut chunk = OutputChunk::new(call.clone(), self.stream, data, self.told);
            chunk.encoding = encoding;
            drafts.push(Payload::ToolShellOutputChunk(Box::new(chunk)).into());
            self.excerpt.take(piece);
            all.bytes += length as u64;
            all.is_binary |= encoding.is_some();
            self.told += length as u64;
            from += length;
        }
        self.ready.drain(..from);
        if from > 0 {
            self.since = (!self.ready.is_empty()).then(recount_world::moment);
        }
    }

    /// What the model is told of it.
    pub(crate) fn excerpt(&mut self) -> (String, bool) {
        self.excerpt.text()
    }
}

/// Beginning and end of a stream.
#[derive(Default)]
struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Excerpt {
    fn take(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(limits::OUTPUT_HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        let over = (self.tail.len() + rest.len()).saturating_sub(limits::OUTPUT_TAIL_BYTES);
        let old = over.min(self.tail.len());
        self.tail.drain(..old);
        self.tail.extend(&rest[over - old..]);
        self.left_out += over as u64;
    }

    /// The text, and whether it is not all of it.
    fn text(&mut self) -> (String, bool) {
        if self.left_out == 0 {
            self.head.extend(self.tail.drain(..));
            return (String::from_utf8_lossy(&self.head).into_owned(), false);
        }
        let tail = self.tail.make_contiguous();
        // Where it was cut, a character may have been.
        let begin = tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        let head_end = match std::str::from_utf8(&self.head) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.head.len(),
        };
        let left_out = self.left_out + (begin + self.head.len() - head_end) as u64;
        let head = String::from_utf8_lossy(&self.head[..head_end]);
        let tail = String::from_utf8_lossy(&tail[begin..]);
        (format!("{head}\n[… {left_out} bytes left out …]\n{tail}"), true)
    }
}

/// What was told of both streams.
#[derive(Default)]
pub(crate) struct OutputTold {
    pub(crate) bytes: u64,
    /// Whether some of it is no text.
    pub(crate) is_binary: bool,
}
