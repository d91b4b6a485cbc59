//! Reads captures of this and other tools: [`Reader`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use recount_aaep::json::{Fault, Piece, Splitter};

use super::times::Time;
use super::{RecordedLine, direction_of, one_line, times_of};
use crate::glance::Glance;
use crate::limits;

/// Reads a capture line by line: JSON lines, a single JSON value, or an array. It holds only one chunk, so files may
/// have any length. Reading blocks.
pub struct Reader {
    source: Box<dyn Read + Send>,
    splitter: Option<Splitter>,
    ready: VecDeque<Result<(usize, String), Unreadable>>,
    chunk: Vec<u8>,
    times: Option<TimesReader>,
    remark: Option<String>,
}

/// Why a line cannot be read. Later lines are still read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("the file cannot be read: {0}")]
    File(#[from] io::Error),
    #[error("line {line} is not a message: {why}")]
    Line { line: usize, why: String },
}

/// Reads the times file one line ahead.
struct TimesReader {
    source: BufReader<Box<dyn Read + Send>>,
    next: Option<Time>,
}

impl Reader {
    /// Opens a capture and its times file, if present.
    pub fn open(path: &Path) -> io::Result<Reader> {
        let source = File::open(path)?;
        let mut reader = Reader::over(source);
        match File::open(times_of(path)) {
            Ok(times) => {
                reader.times = Some(TimesReader { source: BufReader::new(Box::new(times)), next: None })
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => reader.remark = Some(format!("the times cannot be read ({why})")),
        }
        Ok(reader)
    }

    /// Reads another source, such as standard input, without times.
    pub fn over(source: impl Read + Send + 'static) -> Reader {
        Reader {
            source: Box::new(source),
            splitter: Some(Splitter::new()),
            ready: VecDeque::new(),
            chunk: vec![0; limits::RECORDING_READ_BYTES],
            times: None,
            remark: None,
        }
    }

    /// Why times are missing or end early; returned once.
    pub fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    /// Reads the next texts; leaves the queue empty at the end.
    fn fill(&mut self) -> io::Result<()> {
        while self.ready.is_empty() {
            let Some(splitter) = &mut self.splitter else { return Ok(()) };
            let ready = &mut self.ready;
            let mut take = |piece: Piece<'_>| ready.push_back(parse_line(piece));
            match self.source.read(&mut self.chunk) {
                Ok(0) => {
                    splitter.finish(&mut take);
                    self.splitter = None;
                }
                Ok(read) => splitter.push(&self.chunk[..read], &mut take),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    self.splitter = None;
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// The time of a line. A row that does not match belongs to another file; then no further times are used.
    fn time(&mut self, number: usize, text: &str) -> Option<Time> {
        let times = self.times.as_mut()?;
        loop {
            if times.next.is_none() {
                match times.read() {
                    Ok(Some(time)) => times.next = Some(time),
                    Ok(None) => {
                        self.times = None;
                        return None;
                    }
                    Err(why) => {
                        self.times = None;
                        self.remark = Some(why);
                        return None;
                    }
                }
            }
            let time = times.next.as_ref()?;
            if time.line > number {
                return None;
            }
            let time = times.next.take()?;
            if time.line < number {
                continue;
            }
            let id = Glance::at(text).and_then(|glance| glance.event_id);
            if let (Some(written), Some(found)) = (&time.id, &id)
                && written != found
            {
                self.times = None;
                self.remark = Some(format!(
                    "the times belong to another file: line {number} is {found}, but they name {written}; \
                     they are not used"
                ));
                return None;
            }
            return Some(time);
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordedLine, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(why) = self.fill() {
            return Some(Err(Unreadable::File(why)));
        }
        let (number, text) = match self.ready.pop_front()? {
            Ok(line) => line,
            Err(why) => return Some(Err(why)),
        };
        let time = self.time(number, &text);
        let direction = time.as_ref().map_or_else(|| direction_of(&text), |time| time.direction);
        Some(Ok(RecordedLine { number, text, direction, time }))
    }
}

impl TimesReader {
    /// Reads the next row. The last one may be incomplete if the writing program was killed.
    fn read(&mut self) -> Result<Option<Time>, String> {
        let mut bytes = Vec::new();
        let most = u64::try_from(limits::TIMES_LINE_BYTES_MAX).unwrap_or(u64::MAX);
        let read = (&mut self.source).take(most).read_until(b'\n', &mut bytes);
        read.map_err(|why| format!("the times cannot be read further ({why})"))?;
        if bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&bytes);
        let time = Time::parse(text.trim());
        let shown: String = text.trim().chars().take(80).collect();
        time.map(Some).ok_or_else(|| format!("the times are invalid at {shown:?}; the rest is not used"))
    }
}

fn parse_line(piece: Piece<'_>) -> Result<(usize, String), Unreadable> {
    let bad = |why: String| Unreadable::Line { line: piece.line, why };
    let bytes = piece.text.map_err(|fault: &Fault| bad(fault.to_string()))?;
    let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    let text = one_line(text);
    if Glance::at(&text).is_none() {
        return Err(bad("it is not a complete JSON object".to_owned()));
    }
    Ok((piece.line, text.into_owned()))
}
