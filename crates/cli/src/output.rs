//! Where data goes. See [`Output`]; words for people go to stderr by [`note`].

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::failure::Failure;
use crate::limits;
use crate::render::{clean, flow};

/// Standard output: whole lines, flushed one by one, so that a reader sees each at once.
pub(crate) struct Output {
    out: std::io::Stdout,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        let out = std::io::stdout();
        Output { is_terminal: out.is_terminal(), out }
    }

    /// A line that was made harmless where it was made.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        let mut out = self.out.lock();
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// Text that was made harmless where it was made, as it stands: its last line may go on later.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Whether colours may be used: on a terminal that has them, unless the environment turns them off.
    pub(crate) fn may_be_coloured(&self) -> bool {
        let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        self.is_terminal && says("NO_COLOR").is_none() && says("TERM").is_none_or(|term| term != "dumb")
    }

    /// Columns after which lines are broken: those of the terminal. Elsewhere lines stay whole, for programs that read them.
    pub(crate) fn width(&self) -> Option<usize> {
        self.is_terminal.then(|| columns_of(&self.out))
    }

    /// Whether a line can be drawn and erased: on a terminal that moves its cursor.
    pub(crate) fn may_be_redrawn(&self) -> bool {
        self.is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn lines(&mut self, lines: &[String]) -> Result<(), Failure> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// One JSON value a line: byte for byte into a pipe or a file, harmless on a terminal.
    pub(crate) fn json(&mut self, json: &str) -> Result<(), Failure> {
        self.json_behind("", json)
    }

    /// The same behind words of ours.
    pub(crate) fn json_behind(&mut self, words: &str, json: &str) -> Result<(), Failure> {
        if self.is_terminal {
            self.line(&format!("{words}{}", clean::json(json)))
        } else {
            self.line(&format!("{words}{json}"))
        }
    }

    /// A part of one JSON value that is too long to be held. It is seen when much has gathered, or the line is ended.
    pub(crate) fn json_part(&mut self, part: &str) -> Result<(), Failure> {
        let mut out = self.out.lock();
        if self.is_terminal {
            out.write_all(clean::json(part).as_bytes())?;
        } else {
            out.write_all(part.as_bytes())?;
        }
        Ok(())
    }

    /// Bytes as they are: into a pipe or a file all of them, on a terminal only what is text, made harmless.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.is_terminal {
            let Ok(text) = std::str::from_utf8(bytes) else {
                let why = "the bytes are not text; write them to a file with -o FILE";
                return Err(Failure::Own(why.to_owned()));
            };
            let lines: Vec<String> = clean::lines(text).collect();
            return self.lines(&lines);
        }
        let mut out = self.out.lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string(value).map_err(|why| Failure::Own(why.to_string()))?;
        self.json(&json)
    }
}

/// Words beside the data, broken between words on a terminal. What is indented by four columns, such as a command to be
/// copied, stays whole.
pub(crate) fn note(words: &str) {
    let err = std::io::stderr();
    let width = err.is_terminal().then(|| columns_of(&err));
    aside(&format!("{}\n", flow::broken(&clean::line(words), width)));
}

/// Text for people that was made harmless where it was made, as it stands. Where nobody reads it any more, as behind
/// `2>&1 | head -1`, it is lost, and the work goes on: the data decides how a command ends.
pub(crate) fn aside(text: &str) {
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush()).ok();
}

/// Columns of a terminal.
fn columns_of(terminal: &impl AsFd) -> usize {
    let said = tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col));
    let by_variable = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    match said {
        0 => by_variable().filter(|columns| *columns > 0).unwrap_or(limits::COLUMNS_DEFAULT),
        columns => columns,
    }
}
