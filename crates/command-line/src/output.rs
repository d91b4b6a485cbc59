//! Where data goes. See [`Output`]; words for people go to stderr by [`note`].

#[cfg(unix)]
mod terminal;

#[cfg(windows)]
#[path = "output/console.rs"]
mod terminal;

use std::io::{IsTerminal, Write};
use std::marker::PhantomData;

use serde::Serialize;

use self::terminal::AsTerminal;
use crate::{clean, flow, limits};

/// Why data is not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
    #[error("the bytes are binary; write them to a file with -o FILE")]
    NotText,
    #[error(transparent)]
    Unwritable(#[from] serde_json::Error),
}

impl OutputError {
    /// Whether the reader of the output has closed it.
    pub fn is_closed(&self) -> bool {
        matches!(self, OutputError::Write(why) if why.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// Standard output: whole lines, flushed one by one, so that a reader sees each at once. Its failures are those of the
/// program.
pub struct Output<F> {
    out: std::io::Stdout,
    is_terminal: bool,
    goes_on_unread: bool,
    failure: PhantomData<fn() -> F>,
}

impl<F: From<OutputError>> Default for Output<F> {
    fn default() -> Self {
        Output::new()
    }
}

impl<F: From<OutputError>> Output<F> {
    pub fn new() -> Self {
        let out = std::io::stdout();
        Output { is_terminal: out.is_terminal(), out, goes_on_unread: false, failure: PhantomData }
    }

    /// From here on a closed output is no reason to stop: for work whose result is the exit status.
    pub fn go_on_unread(&mut self) {
        self.goes_on_unread = true;
    }

    /// A line that was made harmless where it was made.
    pub fn line(&mut self, line: &str) -> Result<(), F> {
        self.write(&[line.as_bytes(), b"\n"])
    }

    /// Text that was made harmless where it was made, as it stands: its last line may go on later.
    pub fn text(&mut self, text: &str) -> Result<(), F> {
        self.write(&[text.as_bytes()])
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), F> {
        match write(&mut self.out.lock(), parts) {
            Err(why) if self.goes_on_unread && why.is_closed() => Ok(()),
            written => Ok(written?),
        }
    }

    /// Whether colours may be used: on a terminal that has them, unless the environment turns them off.
    pub fn may_be_coloured(&self) -> bool {
        let env_value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        self.is_terminal
            && env_value("NO_COLOR").is_none()
            && env_value("TERM").is_none_or(|term| term != "dumb")
    }

    /// Columns after which lines are broken: those of the terminal. Elsewhere lines stay whole, for programs that read them.
    pub fn width(&self) -> Option<usize> {
        self.is_terminal.then(|| columns_of(&self.out))
    }

    /// Whether a line can be drawn and erased: on a terminal that moves its cursor.
    pub fn may_be_redrawn(&self) -> bool {
        self.is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub fn lines(&mut self, lines: &[String]) -> Result<(), F> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// One JSON value a line: byte for byte into a pipe or a file, harmless on a terminal.
    pub fn json(&mut self, json: &str) -> Result<(), F> {
        self.json_behind("", json)
    }

    /// The same behind words of ours.
    pub fn json_behind(&mut self, words: &str, json: &str) -> Result<(), F> {
        if self.is_terminal {
            self.line(&format!("{words}{}", clean::json(json)))
        } else {
            self.line(&format!("{words}{json}"))
        }
    }

    /// A part of one JSON value that is too long to be held. It is seen when much has gathered, or the line is ended.
    pub fn json_part(&mut self, part: &str) -> Result<(), F> {
        let harmless = self.is_terminal.then(|| clean::json(part));
        let part = harmless.as_deref().unwrap_or(part);
        Ok(self.out.lock().write_all(part.as_bytes()).map_err(OutputError::from)?)
    }

    /// Bytes as they are: into a pipe or a file all of them, on a terminal only what is text, made harmless.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), F> {
        if self.is_terminal {
            let text = std::str::from_utf8(bytes).map_err(|_| OutputError::NotText)?;
            let lines: Vec<String> = clean::lines(text).collect();
            return self.lines(&lines);
        }
        self.write(&[bytes])
    }

    pub fn value(&mut self, value: &impl Serialize) -> Result<(), F> {
        let json = serde_json::to_string(value).map_err(OutputError::from)?;
        self.json(&json)
    }
}

fn write(out: &mut impl Write, parts: &[&[u8]]) -> Result<(), OutputError> {
    parts.iter().try_for_each(|part| out.write_all(part))?;
    Ok(out.flush()?)
}

/// Words beside the data, broken between words on a terminal. What is indented by four columns, such as a command to be
/// copied, stays whole.
pub fn note(words: &str) {
    let err = std::io::stderr();
    let width = err.is_terminal().then(|| columns_of(&err));
    aside(&format!("{}\n", flow::broken(&clean::line(words), width)));
}

/// Text for people that was made harmless where it was made, as it stands. Where nobody reads it any more, as behind
/// `2>&1 | head -1`, it is lost, and the work goes on: the data decides how a command ends.
pub fn aside(text: &str) {
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush()).ok();
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    pub columns: usize,
    pub rows: usize,
}

impl Screen {
    /// The screen that text for people is shown on: that of standard output, or else of standard error.
    pub fn find() -> Option<Screen> {
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let of_error = || err.is_terminal().then(|| size_of(&err));
        out.is_terminal().then(|| size_of(&out)).or_else(of_error)
    }
}

/// Columns of a terminal.
fn columns_of(terminal: &impl AsTerminal) -> usize {
    size_of(terminal).columns
}

fn size_of(terminal: &impl AsTerminal) -> Screen {
    let (columns, rows) = terminal::columns_and_rows(terminal);
    let or = |size: usize, variable: &str, default: usize| {
        let by_variable = || std::env::var(variable).ok().and_then(|size| size.parse().ok());
        let known = Some(size).filter(|size| *size > 0).or_else(by_variable);
        known.filter(|size| *size > 0).unwrap_or(default)
    };
    Screen {
        columns: or(columns, "COLUMNS", limits::COLUMNS_DEFAULT),
        rows: or(rows, "LINES", limits::ROWS_DEFAULT),
    }
}
