//! Reads lines of bounded length and skips longer ones. See [`InputLines::next`].

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits;

pub(super) struct InputLines<R> {
    input: R,
    read: BytesMut,
    /// How many of its bytes contain no line end.
    searched: usize,
    /// Whether the rest of a too long line is being skipped.
    skips: bool,
}

pub(super) enum InputLine {
    /// Not blank, without its end.
    Text(String),
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> InputLines<R> {
    pub(super) fn new(input: R) -> Self {
        InputLines { input, read: BytesMut::new(), searched: 0, skips: false }
    }

    /// Reads the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> std::io::Result<InputLine> {
        loop {
            while let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(self.searched + end);
                self.read.advance(1);
                self.searched = 0;
                if std::mem::take(&mut self.skips) {
                    return Ok(InputLine::TooLong);
                }
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_matches(['\u{feff}', ' ', '\t', '\r']);
                if !line.is_empty() {
                    return Ok(InputLine::Text(line.to_owned()));
                }
            }
            self.searched = self.read.len();
            if self.searched > limits::MESSAGE_BYTES_MAX {
                self.skips = true;
                self.read.clear();
                self.searched = 0;
            }
            self.read.reserve(limits::READ_BYTES);
            if self.input.read_buf(&mut self.read).await? == 0 {
                return Ok(InputLine::End);
            }
        }
    }
}
