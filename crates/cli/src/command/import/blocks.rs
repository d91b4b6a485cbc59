//! Cuts an export into runs, in bounded memory. See [`Blocks`].
//!
//! A run goes from its header to the next one, whatever stands between: so one that is damaged does not take
//! those behind it along. The last line of an export is a block of its own.

use std::io::{self, BufRead, Read};

use recount_client::export::{End, Header, lines};

/// The lines of one run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it begins, from 1.
    pub(super) line: u64,
    pub(super) lines: Vec<u8>,
    /// Then `lines` is only its beginning.
    pub(super) is_too_large: bool,
}

impl Block {
    /// The run's id, or the place in the file when there is no good header.
    pub(super) fn name(&self) -> String {
        self.header().map_or_else(|| format!("line {}", self.line), |header| header.run_id)
    }

    /// Its header, if it is valid.
    pub(super) fn header(&self) -> Option<Header> {
        lines(&self.lines).next().and_then(|line| Header::parse(line).ok())
    }

    /// The last line of an export, when it is that. An error is a sentence.
    pub(super) fn end(&self) -> Option<Result<End, String>> {
        let line = lines(&self.lines).next()?;
        End::is_meant_by(line).then(|| End::parse(line))
    }

    fn take(&mut self, line: &InputLine, bytes_max: usize) {
        if line.is_too_large || self.lines.len() + line.bytes.len() > bytes_max {
            self.is_too_large = true;
        }
        if !self.is_too_large {
            self.lines.extend_from_slice(&line.bytes);
        }
    }
}

struct InputLine {
    number: u64,
    bytes: Vec<u8>,
    is_too_large: bool,
}

pub(super) struct Blocks<R> {
    input: R,
    bytes_max: usize,
    lines: u64,
    /// A line that was read and belongs to the next run.
    ahead: Option<InputLine>,
}

impl<R: BufRead> Blocks<R> {
    /// Runs of more than `bytes_max` bytes are not kept.
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        Blocks { input, bytes_max, lines: 0, ahead: None }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Block>> {
        let Some(first) = self.line()? else { return Ok(None) };
        let mut block = Block { line: first.number, lines: Vec::new(), is_too_large: false };
        block.take(&first, self.bytes_max);
        if End::is_meant_by(&first.bytes) {
            return Ok(Some(block));
        }
        while let Some(line) = self.line()? {
            if Header::is_meant_by(&line.bytes) {
                self.ahead = Some(line);
                break;
            }
            block.take(&line, self.bytes_max);
        }
        Ok(Some(block))
    }

    fn line(&mut self) -> io::Result<Option<InputLine>> {
        if let Some(line) = self.ahead.take() {
            return Ok(Some(line));
        }
        let mut bytes = Vec::new();
        let most = self.bytes_max as u64 + 1;
        if (&mut self.input).take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        let is_too_large = bytes.len() > self.bytes_max;
        if is_too_large && bytes.last() != Some(&b'\n') {
            self.skip_line()?;
        }
        self.lines += 1;
        Ok(Some(InputLine { number: self.lines, bytes, is_too_large }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let there = self.input.fill_buf()?;
            let end = there.iter().position(|byte| *byte == b'\n');
            let (used, done) = (end.map_or(there.len(), |at| at + 1), end.is_some() || there.is_empty());
            self.input.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, bytes_max: usize) -> Vec<(u64, String, bool)> {
        let mut blocks = Blocks::new(io::BufReader::with_capacity(3, text.as_bytes()), bytes_max);
        let mut found = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            found.push((block.line, String::from_utf8(block.lines).unwrap(), block.is_too_large));
        }
        found
    }

    #[test]
    fn a_run_goes_to_the_next_header() {
        let (one, two) = ("{\"object\":1}\na\nb\n", "{\"object\":2}\n\nc");
        let whole = |line, text: &str| (line, text.to_owned(), false);
        assert_eq!(cut(&format!("{one}{two}"), 100), [whole(1, one), whole(4, two)]);
        assert_eq!(cut(&format!("x\ny\n{one}"), 100), [whole(1, "x\ny\n"), whole(3, one)]);
        assert_eq!(cut("", 100), []);
        assert_eq!(cut("\n", 100), [whole(1, "\n")]);
    }

    #[test]
    fn the_last_line_of_an_export_is_a_block_of_its_own() {
        let (end, run) = ("{\"object\":\"end\",\"runs\":1,\"events\":1}\n", "{\"object\":1}\na\n");
        let whole = |line, text: &str| (line, text.to_owned(), false);
        assert_eq!(
            cut(&format!("{run}{end}{run}{end}stray\n"), 100),
            [whole(1, run), whole(3, end), whole(4, run), whole(6, end), whole(7, "stray\n")]
        );
    }

    #[test]
    fn what_is_too_large_is_passed_over() {
        let text = format!("{{\"object\":1}}\n{}\nb\n{{\"object\":2}}\nc\n", "x".repeat(100));
        let found = cut(&text, 20);
        assert_eq!(found[0], (1, "{\"object\":1}\n".to_owned(), true));
        assert_eq!(found[1], (4, "{\"object\":2}\nc\n".to_owned(), false));
        let many = "{\"object\":1}\nabc\nabc\nabc\n{\"object\":2}\n";
        assert_eq!(cut(many, 20).iter().map(|block| block.2).collect::<Vec<_>>(), [true, false]);
        // A bound that is met exactly.
        assert_eq!(cut("{\"object\":1}\nabcdef\n", 20), [(1, "{\"object\":1}\nabcdef\n".to_owned(), false)]);
    }

    #[test]
    fn a_block_is_named_by_its_header() {
        let name = |lines: &str| Block { line: 7, lines: lines.into(), is_too_large: false }.name();
        assert_eq!(name(&format!("{}\nx\n", Header::new("run_1", 1, "ab").line())), "run_1");
        assert_eq!(name("{\"object\":\"run\"}\n"), "line 7");
        assert_eq!(name(""), "line 7");
    }
}
