//! Splits a file of any length into JSON texts: JSON lines, values over several lines, or the elements of an array.
//! Start at [`Splitter`]. It reads no file; the caller pushes bytes.

use super::fault::Fault;
use crate::limits;

/// One text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'p> {
    /// The line where it begins, from 1.
    pub line: usize,
    /// The unparsed text, or why it is missing.
    pub text: Result<&'p [u8], &'p Fault>,
}

/// The layout of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Only white space so far.
    Unknown,
    /// The first line has not ended yet.
    FirstLine,
    /// The first line ended in the middle of a value; the next one decides.
    SecondLine,
    Lines,
    /// Values over many lines.
    Values,
    Array,
    /// After the end of an array.
    Done,
}

/// Splits bytes into pieces. Buffers one piece at a time, up to [`limits::PIECE_BYTES_MAX`].
#[derive(Debug)]
pub struct Splitter {
    form: Form,
    held: Vec<u8>,
    /// Bytes of the piece that exceed the buffer.
    lost: usize,
    line: usize,
    first_line: usize,
    depth: usize,
    quoted: bool,
    escaped: bool,
    seen: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    pub fn new() -> Self {
        Splitter {
            form: Form::Unknown,
            held: Vec::new(),
            lost: 0,
            line: 1,
            first_line: 1,
            depth: 0,
            quoted: false,
            escaped: false,
            seen: 0,
        }
    }

    /// Processes the next bytes of the file; `take` gets each complete piece.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Piece<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.form == Form::Lines {
                // The common case: only line ends matter.
                let end = rest.iter().position(|byte| *byte == b'\n');
                let (line, after) = end.map_or((rest, &rest[..0]), |at| (&rest[..at], &rest[at + 1..]));
                if end.is_some() && self.held.is_empty() && line.len() <= limits::PIECE_BYTES_MAX {
                    // Complete in the input: no copy.
                    if !is_blank(line) {
                        take(Piece { line: self.first_line, text: Ok(line) });
                    }
                } else {
                    self.hold(line);
                }
                if end.is_some() {
                    self.emit(&mut take);
                    self.line += 1;
                    self.first_line = self.line;
                }
                rest = after;
            } else {
                self.byte(rest[0], &mut take);
                rest = &rest[1..];
            }
        }
    }

    /// Processes the end of the file.
    pub fn finish(&mut self, mut take: impl FnMut(Piece<'_>)) {
        if self.form == Form::Array {
            self.emit(&mut take);
            take(Piece { line: self.line, text: Err(&Fault::Truncated) });
        } else {
            self.emit(&mut take);
        }
    }

    /// Buffers more of a piece. Leading white space is not part of it, so its line is the first line with text.
    fn hold(&mut self, bytes: &[u8]) {
        let free = limits::PIECE_BYTES_MAX.saturating_sub(self.held.len());
        self.held.extend_from_slice(&bytes[..bytes.len().min(free)]);
        self.lost += bytes.len().saturating_sub(free);
    }

    fn emit(&mut self, take: &mut impl FnMut(Piece<'_>)) {
        if self.lost > 0 {
            take(Piece { line: self.first_line, text: Err(&Fault::TooLong(self.held.len() + self.lost)) });
        } else if !is_blank(&self.held) {
            take(Piece { line: self.first_line, text: Ok(&self.held) });
        }
        self.held.clear();
        self.lost = 0;
    }

    fn byte(&mut self, byte: u8, take: &mut impl FnMut(Piece<'_>)) {
        self.seen += 1;
        if self.seen <= 3 && self.form == Form::Unknown && self.mark(byte, take) {
            return;
        }
        match self.form {
            Form::Unknown if byte.is_ascii_whitespace() => {}
            Form::Unknown if byte == b'[' => {
                self.form = Form::Array;
                self.first_line = self.line;
                return;
            }
            Form::Unknown => {
                self.form = Form::FirstLine;
                self.first_line = self.line;
            }
            Form::SecondLine => {
                // Formatters indent nested objects, so this is a new value.
                if byte == b'{' {
                    self.form = Form::Lines;
                    self.emit(take);
                    self.first_line = self.line;
                    (self.depth, self.quoted, self.escaped) = (0, false, false);
                } else {
                    self.form = Form::Values;
                }
            }
            Form::Array if self.depth == 0 && !self.quoted && (byte == b',' || byte == b']') => {
                if self.held.is_empty() && byte == b',' {
                    take(Piece { line: self.line, text: Err(&Fault::Unexpected(',', "a value")) });
                }
                self.emit(take);
                self.first_line = self.line;
                if byte == b']' {
                    self.form = Form::Done;
                }
                return;
            }
            _ => {}
        }
        if byte == b'\n' {
            self.line_end(take);
            return;
        }
        if self.held.is_empty() {
            if byte.is_ascii_whitespace() {
                return;
            }
            self.first_line = self.line;
        }
        self.track(byte);
        self.hold(&[byte]);
        if self.form == Form::Values && self.depth == 0 && !self.quoted && matches!(byte, b'}' | b']') {
            self.emit(take);
        }
    }

    fn line_end(&mut self, take: &mut impl FnMut(Piece<'_>)) {
        match self.form {
            Form::FirstLine if self.depth == 0 || self.quoted => {
                self.form = Form::Lines;
                self.emit(take);
            }
            Form::FirstLine => {
                self.form = Form::SecondLine;
                self.hold(b"\n");
            }
            _ if self.held.is_empty() => {}
            _ => self.hold(b"\n"),
        }
        self.line += 1;
        if self.form == Form::Lines {
            self.first_line = self.line;
        }
    }

    fn track(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
        } else if self.quoted {
            match byte {
                b'\\' => self.escaped = true,
                b'"' => self.quoted = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.quoted = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Reports and skips a byte order mark.
    fn mark(&mut self, byte: u8, take: &mut impl FnMut(Piece<'_>)) -> bool {
        const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
        let at = self.seen - 1;
        if MARK[at] != byte || self.held[..] != MARK[..at] {
            return false;
        }
        self.held.push(byte);
        if at == 2 {
            self.held.clear();
            take(Piece { line: 1, text: Err(&Fault::ByteOrderMark) });
        }
        true
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(usize, Result<String, Fault>)> {
        let run = |size: usize| {
            let mut pieces = Vec::new();
            let mut splitter = Splitter::new();
            let mut take = |piece: Piece<'_>| {
                let text = piece.text.map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
                pieces.push((piece.line, text.map_err(Clone::clone)));
            };
            for chunk in text.as_bytes().chunks(size) {
                splitter.push(chunk, &mut take);
            }
            splitter.finish(&mut take);
            pieces
        };
        let whole = run(text.len().max(1));
        assert_eq!(whole, run(1), "the result does not depend on the chunk size");
        whole
    }

    fn ok(line: usize, text: &str) -> (usize, Result<String, Fault>) {
        (line, Ok(text.into()))
    }

    #[test]
    fn blank_lines_and_carriage_returns_are_skipped() {
        assert_eq!(
            cut("{\"a\":1}\r\n\r\n{\"b\":2}\n{\"c\""),
            [ok(1, "{\"a\":1}"), ok(3, "{\"b\":2}"), ok(4, "{\"c\"")]
        );
        assert_eq!(cut(""), []);
        assert_eq!(cut(" \n\n"), []);
        assert_eq!(cut("7"), [ok(1, "7")]);
    }

    #[test]
    fn a_truncated_first_line_does_not_hide_the_rest() {
        assert_eq!(cut("{\"a\":\n{\"b\":2}\n"), [ok(1, "{\"a\":"), ok(2, "{\"b\":2}")]);
        assert_eq!(cut("{\"a\":\"x\n{\"b\":2}\n"), [ok(1, "{\"a\":\"x"), ok(2, "{\"b\":2}")]);
    }

    #[test]
    fn a_value_may_span_several_lines() {
        assert_eq!(cut("{\n  \"a\": {\n  }\n}\n"), [ok(1, "{\n  \"a\": {\n  }\n}")]);
        assert_eq!(cut("{\n}\n{\n \"b\":\"}\"}\n"), [ok(1, "{\n}"), ok(3, "{\n \"b\":\"}\"}")]);
    }

    #[test]
    fn arrays_are_split_into_elements() {
        assert_eq!(
            cut("[{\"a\":\",]\"},\n {\"b\":[1,2]}\n]"),
            [ok(1, "{\"a\":\",]\"}"), ok(2, "{\"b\":[1,2]}")]
        );
        assert_eq!(cut("[]"), []);
        assert_eq!(cut("[1,"), [ok(1, "1"), (1, Err(Fault::Truncated))]);
        assert_eq!(cut("[1]x"), [ok(1, "1"), ok(1, "x")]);
    }

    #[test]
    fn a_piece_reports_its_first_line() {
        let mut begins = Vec::new();
        let mut take = |piece: Piece<'_>| begins.push((piece.line, piece.text.unwrap()[0]));
        let mut splitter = Splitter::new();
        splitter.push(b"[\n\n{},\n\n  {}\n,1\n]\n", &mut take);
        splitter.finish(&mut take);
        assert_eq!(begins, [(3, b'{'), (5, b'{'), (6, b'1')]);
        let mut begins = Vec::new();
        let mut take = |piece: Piece<'_>| begins.push((piece.line, piece.text.unwrap()[0]));
        let mut splitter = Splitter::new();
        splitter.push(b"{\n}\n\n\n{\n}\n", &mut take);
        splitter.finish(&mut take);
        assert_eq!(begins, [(1, b'{'), (5, b'{')]);
    }

    #[test]
    fn a_byte_order_mark_is_reported_and_skipped() {
        assert_eq!(cut("\u{feff}{\"a\":1}\n"), [(1, Err(Fault::ByteOrderMark)), ok(1, "{\"a\":1}")]);
    }
}
