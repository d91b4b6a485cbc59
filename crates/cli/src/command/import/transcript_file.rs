//! Reads the lines of a transcript from where the last look stopped, in bounded memory. See [`TranscriptFile`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The next line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line(String),
    /// It is not UTF-8; with signs where it is not.
    NotText(String),
    /// Its beginning.
    TooLong(String),
    /// The last line is not whole yet.
    Half,
    End,
}

pub(super) struct TranscriptFile {
    input: BufReader<File>,
    /// The end of the last line that was taken.
    pub(super) offset: u64,
    bytes_max: usize,
}

impl TranscriptFile {
    pub(super) fn open(path: &Path, offset: u64, bytes_max: usize) -> io::Result<Self> {
        super::check_kind(path)?;
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(TranscriptFile { input: BufReader::new(file), offset, bytes_max })
    }

    /// Blank lines are passed over. A last line without its end is taken if it is a whole JSON value: none is the
    /// beginning of another object.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        loop {
            let mut bytes = Vec::new();
            let most = self.bytes_max as u64 + 1;
            let read = (&mut self.input).take(most).read_until(b'\n', &mut bytes)?;
            let is_ended = bytes.last() == Some(&b'\n');
            if read > self.bytes_max && !is_ended {
                let Some(rest) = self.skip_line()? else { return Ok(Next::Half) };
                self.offset += read as u64 + rest;
                let beginning = String::from_utf8_lossy(&bytes).into_owned();
                return Ok(Next::TooLong(beginning));
            }
            if bytes.trim_ascii().is_empty() {
                if read == 0 {
                    return Ok(Next::End);
                }
                self.offset += read as u64;
                continue;
            }
            if !is_ended && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err() {
                return Ok(Next::Half);
            }
            self.offset += read as u64;
            return Ok(match String::from_utf8(bytes) {
                Ok(line) => Next::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
                Err(bytes) => Next::NotText(String::from_utf8_lossy(bytes.as_bytes()).into_owned()),
            });
        }
    }

    /// The bytes of the rest of the line; `None` if it has no end yet.
    fn skip_line(&mut self) -> io::Result<Option<u64>> {
        let mut skipped = 0;
        loop {
            let there = self.input.fill_buf()?;
            if there.is_empty() {
                return Ok(None);
            }
            let end = there.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(there.len(), |at| at + 1);
            self.input.consume(used);
            skipped += used as u64;
            if end.is_some() {
                return Ok(Some(skipped));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_taken_whole_and_once() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"a\":1}\r\n\n{\"b\":\"\xff\"}\n{\"long\":\"xxxxxxxxxxxxxxxx\"}\n{\"c\":").unwrap();
        let mut lines = TranscriptFile::open(file.path(), 0, 20).unwrap();
        assert_eq!(lines.next().unwrap(), Next::Line("{\"a\":1}".into()));
        assert_eq!(lines.next().unwrap(), Next::NotText("{\"b\":\"\u{fffd}\"}\n".into()));
        assert!(
            matches!(lines.next().unwrap(), Next::TooLong(beginning) if beginning.starts_with("{\"long"))
        );
        assert_eq!(lines.next().unwrap(), Next::Half);
        let offset = lines.offset;
        file.write_all(b"2}").unwrap();
        let mut lines = TranscriptFile::open(file.path(), offset, 20).unwrap();
        assert_eq!(lines.next().unwrap(), Next::Line("{\"c\":2}".into()));
        assert_eq!(lines.next().unwrap(), Next::End);
        let offset = lines.offset;
        file.write_all(b"\n").unwrap();
        let mut lines = TranscriptFile::open(file.path(), offset, 20).unwrap();
        assert_eq!(lines.next().unwrap(), Next::End);
    }
}
