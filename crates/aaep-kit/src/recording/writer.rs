//! Writes captures: [`Writer`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::times::Time;
use super::{Direction, one_line, times_of};

/// A capture being written, with its file of times. Each line is handed to the operating system whole, and first, so
/// whatever ends the program, both files are whole lines, and times are missing for one line at most.
#[derive(Debug)]
pub struct Writer {
    capture: File,
    times: File,
    lines: usize,
}

impl Writer {
    /// Begins both files. What stood in files of these names is gone. What was captured is for its owner's eyes.
    pub fn create(path: &Path) -> io::Result<Writer> {
        Ok(Writer { capture: begin(path)?, times: begin(&times_of(path))?, lines: 0 })
    }

    /// Writes a message, which is JSON, and when it came.
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

    /// Lines so far.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Both files are on the disk when this is done.
    pub fn finish(self) -> io::Result<()> {
        self.capture.sync_all()?;
        self.times.sync_all()
    }
}

/// When a message came, for who writes it down.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'s> {
    /// Milliseconds since 1970 by the wall clock.
    pub at_ms: u64,
    /// Milliseconds since the capture began.
    pub after_ms: u64,
    /// The how many-th connection, from 1.
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
