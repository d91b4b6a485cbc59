//! Prints the output of a command while it runs: the first lines as they come, then their number, and the last
//! ones when it is over.
//!
//! Look at [`CallOutput`]. Bounded in lines and in the bytes of a line, whatever the command does.

use std::collections::VecDeque;

use super::super::{clean, count};

/// Lines that are printed as they come.
const FIRST_LINES: u64 = 20;

/// Lines that are printed at the end, of those that were not printed as they came.
const LAST_LINES: usize = 10;

/// Bytes of a line that are printed; the number of omitted ones is printed.
const LINE_BYTES_MAX: usize = 2_000;

/// One call's output.
#[derive(Default)]
pub(super) struct CallOutput {
    /// By stream: what came after the last line end.
    open: [Open; 2],
    lines: u64,
    last: VecDeque<String>,
    /// The number of lines at which the count is printed again.
    next_count: u64,
}

#[derive(Default)]
struct Open {
    text: String,
    /// Bytes of the same line that were left out.
    left_out: usize,
}

impl CallOutput {
    /// Adds a piece and returns the lines to print now.
    pub(super) fn piece(&mut self, is_stderr: bool, piece: &str) -> Vec<String> {
        let mut shown = Vec::new();
        for part in piece.split_inclusive('\n') {
            let open = &mut self.open[usize::from(is_stderr)];
            let (text, ends) = match part.strip_suffix('\n') {
                Some(text) => (text, true),
                None => (part, false),
            };
            open.take(text);
            if ends {
                let line = open.close();
                self.line(line, &mut shown);
            }
        }
        shown
    }

    /// Takes in something that is not text.
    pub(super) fn opaque(&mut self, bytes: usize) -> Vec<String> {
        let mut shown = Vec::new();
        self.line(format!("({} of binary data)", count(bytes as u64, "byte")), &mut shown);
        shown
    }

    /// The lines to print when the call is over.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut shown = Vec::new();
        for stream in 0..self.open.len() {
            if !self.open[stream].text.is_empty() {
                let line = self.open[stream].close();
                self.line(line, &mut shown);
            }
        }
        let left_out = self.lines.saturating_sub(FIRST_LINES).saturating_sub(self.last.len() as u64);
        if left_out > 0 {
            shown.push(format!("({} not shown; the last lines follow)", count(left_out, "line")));
        }
        shown.extend(self.last.drain(..));
        shown
    }

    /// Whether lines came, and all were printed.
    pub(super) fn is_whole(&self) -> bool {
        self.lines > 0 && self.lines <= FIRST_LINES + LAST_LINES as u64
    }

    fn line(&mut self, line: String, shown: &mut Vec<String>) {
        self.lines += 1;
        if self.lines <= FIRST_LINES {
            shown.push(line);
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
        self.next_count = self.next_count.max(100);
        if self.lines == self.next_count {
            shown.push(format!("({} lines so far)", self.lines));
            self.next_count = self.next_count.saturating_mul(10);
        }
    }
}

impl Open {
    fn take(&mut self, text: &str) {
        let room = LINE_BYTES_MAX.saturating_sub(self.text.len());
        let mut end = room.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&text[..end]);
        self.left_out += text.len() - end;
    }

    fn close(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        let line = clean::line(text.strip_suffix('\r').unwrap_or(&text));
        match std::mem::take(&mut self.left_out) {
            0 => line,
            bytes => format!("{line} ({} in this line)", count(bytes as u64, "more byte")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_printed_as_it_comes() {
        let mut output = CallOutput::default();
        assert_eq!(output.piece(false, "one\ntw"), ["one"]);
        assert_eq!(output.piece(true, "warning\n"), ["warning"]);
        assert_eq!(output.piece(false, "o\r\nthr\u{1b}[31m"), ["two"]);
        assert_eq!(output.opaque(7), ["(7 bytes of binary data)"]);
        assert_eq!(output.finish(), [r"thr\u{1b}[31m"]);
        assert!(output.is_whole());
    }

    #[test]
    fn of_a_long_output_both_ends_are_printed() {
        let mut output = CallOutput::default();
        let mut shown = Vec::new();
        for line in 0..1_234 {
            shown.extend(output.piece(false, &format!("line {line}\n")));
        }
        assert_eq!(shown.len(), 22);
        assert_eq!(shown[19..], ["line 19", "(100 lines so far)", "(1000 lines so far)"]);
        assert!(!output.is_whole());
        let last = output.finish();
        assert_eq!(last[0], "(1204 lines not shown; the last lines follow)");
        assert_eq!((last.len(), last[10].as_str()), (11, "line 1233"));
    }

    #[test]
    fn a_line_is_bounded() {
        let mut output = CallOutput::default();
        for _ in 0..1_000 {
            assert!(output.piece(false, &"ä".repeat(500)).is_empty());
        }
        let line = output.piece(false, "\n").remove(0);
        assert_eq!(line, format!("{} (998000 more bytes in this line)", "ä".repeat(1_000)));
    }
}
