//! Reads messages of the editor, one per line, with a limit of length.
//!
//! Must not depend on JSON. Start with [`Reader::next`].

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// A message above the limit; it was skipped.
    TooLong,
}

pub(super) struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer without a line end.
    searched: usize,
    is_skipping: bool,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(input: R) -> Self {
        Reader { input, buffer: Vec::new(), searched: 0, is_skipping: false, is_over: false }
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.line() {
                return Ok(Some(line));
            }
            if self.is_over {
                return Ok(None);
            }
            self.buffer.reserve(limits::READ_BYTES);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                self.is_over = true;
                // A last line without a line end counts as a line.
                if !self.buffer.is_empty() {
                    self.buffer.push(b'\n');
                }
            }
        }
    }

    fn line(&mut self) -> Option<Line> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.buffer.len();
            if self.buffer.len() > limits::MESSAGE_BYTES_MAX {
                self.is_skipping = true;
            }
            if self.is_skipping {
                self.buffer.clear();
                self.searched = 0;
            }
            return None;
        };
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        self.searched = 0;
        line.pop();
        let was_skipping = std::mem::take(&mut self.is_skipping);
        Some(if was_skipping || line.len() > limits::MESSAGE_BYTES_MAX {
            Line::TooLong
        } else {
            Line::Whole(line)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8]) -> Vec<Line> {
        let mut reader = Reader::new(input);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_end_with_a_line_feed_or_the_input() {
        let whole = |line: &[u8]| Line::Whole(line.to_vec());
        assert_eq!(lines(b"").await, []);
        assert_eq!(lines(b"a\n\nb").await, [whole(b"a"), whole(b""), whole(b"b")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let mut input = vec![b'x'; limits::MESSAGE_BYTES_MAX + 1];
        input.extend(b"\nnext\n");
        assert_eq!(lines(&input).await, [Line::TooLong, Line::Whole(b"next".to_vec())]);
        let fits = vec![b'y'; limits::MESSAGE_BYTES_MAX];
        assert_eq!(lines(&fits).await, [Line::Whole(fits.clone())]);
    }
}
