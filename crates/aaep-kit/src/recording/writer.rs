//! Writes captures: [`Writer`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::times::Time;
use super::{Direction, one_line, times_of};

/// Writes a capture and its times file. Each line is written whole, and to the capture first, so whenever the program
/// ends, both files have whole lines and at most one time is missing.
#[derive(Debug)]
pub struct Writer {
    capture: File,
    times: File,
    lines: usize,
}

impl Writer {
    /// Creates both files, or truncates existing ones. Only the owner can read them.
    pub fn create(path: &Path) -> io::Result<Writer> {
        Ok(Writer { capture: begin(path)?, times: begin(&times_of(path))?, lines: 0 })
    }

    /// Writes a JSON message and its time.
    pub fn put(&mut self, text: &str, direction: Direction, time: &Stamp<'_>) -> io::Result<()> {
        let mut line = one_line(text).into_owned();
        line.push('\n');
        self.capture.write_all(line.as_bytes())?;
        self.lines += 1;
        let time = Time {
            line: self.lines,
            direction,
            at_ms: i64::try_from(time.at_ms).unwrap_or(i64::MAX),
            after_ms: time.after_ms,
            connection: time.connection,
            id: time.id.map(str::to_owned),
        };
        let mut line = time.to_json();
        line.push('\n');
        self.times.write_all(line.as_bytes())
    }

    /// The number of lines so far.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Flushes both files to disk.
    pub fn finish(self) -> io::Result<()> {
        self.capture.sync_all()?;
        self.times.sync_all()
    }
}

/// When a message arrived, for [`Writer::put`].
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'s> {
    /// Milliseconds since 1970 by the wall clock.
    pub at_ms: u64,
    /// Milliseconds since the capture began.
    pub after_ms: u64,
    /// The connection, from 1.
    pub connection: u64,
    /// The event's id.
    pub id: Option<&'s str>,
}

fn begin(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}
