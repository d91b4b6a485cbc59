//! Reads newline-delimited messages within a bound of memory. See [`LineReader`].
//!
//! It must not know what a message means, and it never changes a byte.

use std::io::{self, BufRead, BufReader, Read};

/// What was read next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinePiece {
    /// A complete line with its line break.
    Line(Vec<u8>),
    /// A piece of a line that is longer than the bound. The last piece has the line break.
    Part { bytes: Vec<u8>, is_last: bool },
    /// The input ended. These bytes followed the last line break, and no line break followed them.
    End(Vec<u8>),
}

/// Splits an input into lines. A line within the bound comes whole; a longer one comes in pieces, as it is read.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    line_bytes_max: usize,
    in_long_line: bool,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(input: R, line_bytes_max: usize, buffer_bytes: usize) -> Self {
        LineReader {
            input: BufReader::with_capacity(buffer_bytes, input),
            line_bytes_max,
            in_long_line: false,
        }
    }

    /// Waits for the next piece. A failed read counts as the end of the input.
    pub(super) fn next(&mut self) -> LinePiece {
        let mut held = Vec::new();
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return LinePiece::End(held),
            };
            if buffer.is_empty() {
                return LinePiece::End(held);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            held.extend_from_slice(&buffer[..taken]);
            self.input.consume(taken);
            match (end.is_some(), self.in_long_line) {
                (true, false) => return LinePiece::Line(held),
                (true, true) => {
                    self.in_long_line = false;
                    return LinePiece::Part { bytes: held, is_last: true };
                }
                (false, true) => return LinePiece::Part { bytes: held, is_last: false },
                (false, false) if held.len() > self.line_bytes_max => {
                    self.in_long_line = true;
                    return LinePiece::Part { bytes: held, is_last: false };
                }
                (false, false) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(input: &str, line_bytes_max: usize, buffer_bytes: usize) -> Vec<LinePiece> {
        let mut reader = LineReader::new(input.as_bytes(), line_bytes_max, buffer_bytes);
        let mut pieces = Vec::new();
        loop {
            let piece = reader.next();
            let is_end = matches!(piece, LinePiece::End(_));
            pieces.push(piece);
            if is_end {
                return pieces;
            }
        }
    }

    #[test]
    fn lines_come_whole_and_long_ones_in_pieces() {
        let line = |text: &str| LinePiece::Line(text.as_bytes().to_vec());
        let part = |text: &str, is_last| LinePiece::Part { bytes: text.as_bytes().to_vec(), is_last };
        let end = |text: &str| LinePiece::End(text.as_bytes().to_vec());
        assert_eq!(pieces("ab\n\ncd", 8, 3), [line("ab\n"), line("\n"), end("cd")]);
        assert_eq!(
            pieces("abcdefgh\nx\n", 4, 3),
            [part("abcdef", false), part("gh\n", true), line("x\n"), end("")]
        );
        assert_eq!(pieces("abcdefgh", 4, 3), [part("abcdef", false), part("gh", false), end("")]);
    }

    #[test]
    fn joined_pieces_are_the_input() {
        let input: String = (0..400).map(|n| if n % 37 == 0 { '\n' } else { 'a' }).collect();
        for (bound, buffer) in [(1, 1), (5, 2), (40, 7), (1000, 1000)] {
            let joined: Vec<u8> = pieces(&input, bound, buffer)
                .into_iter()
                .flat_map(|piece| match piece {
                    LinePiece::Line(bytes) | LinePiece::Part { bytes, .. } | LinePiece::End(bytes) => bytes,
                })
                .collect();
            assert_eq!(joined, input.as_bytes());
        }
    }
}
