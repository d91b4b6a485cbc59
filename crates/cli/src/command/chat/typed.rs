//! Lines that a person types, or that come from a pipe, and Ctrl-C. See [`Typed`].
//!
//! At a terminal lines are read all the time, so that what was typed before a question stood there is never taken for
//! its answer. From a pipe a line is read when there is use for it.

use std::io::IsTerminal as _;

use recount_world::platform::{Signal, TerminalMode};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

use crate::command::run::discard_lines;
use crate::failure::Failure;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::output::aside;
use crate::render::clean;

pub(super) struct Typed {
    reader: BufReader<Stdin>,
    gathered: Vec<u8>,
    interrupts: Signal,
    is_terminal: bool,
    is_over: bool,
}

/// What came first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    Line(String),
    /// There will be no more lines.
    End,
    Interrupt,
}

impl Typed {
    pub(super) fn open(interrupts: Signal) -> Self {
        Typed {
            reader: BufReader::new(tokio::io::stdin()),
            gathered: Vec::new(),
            interrupts,
            is_terminal: std::io::stdin().is_terminal(),
            is_over: false,
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Reads no more: what is typed from now on is for others.
    pub(super) fn close(&mut self) {
        self.is_over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next line, or Ctrl-C. What was read of a line is kept when this is broken off.
    pub(super) async fn next(&mut self) -> Result<Input, Failure> {
        if self.is_over {
            return Ok(Input::End);
        }
        let room = (MESSAGE_BYTES_MAX + 1).saturating_sub(self.gathered.len()) as u64;
        let mut limited = (&mut self.reader).take(room);
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => return Ok(Input::Interrupt),
            read = limited.read_until(b'\n', &mut self.gathered) => {
                read.map_err(|why| Failure::Own(format!("cannot read standard input: {why}")))?;
            }
        }
        if self.gathered.len() > MESSAGE_BYTES_MAX {
            let why = format!(
                "the message is larger than {MESSAGE_BYTES_MAX} bytes (MESSAGE_BYTES_MAX); it was not sent"
            );
            return Err(Failure::Usage(why));
        }
        if self.gathered.is_empty() {
            self.is_over = true;
            return Ok(Input::End);
        }
        Ok(Input::Line(String::from_utf8_lossy(&std::mem::take(&mut self.gathered)).into_owned()))
    }

    /// Drops what was typed at a terminal before a prompt is shown.
    pub(super) async fn discard(&mut self) {
        if self.is_terminal && !self.is_over {
            discard_lines(&mut self.reader, &mut self.gathered).await;
        }
    }

    /// While something else is awaited: Ctrl-C, and at a terminal lines, too.
    pub(super) async fn meanwhile(&mut self) -> Result<Input, Failure> {
        if self.is_terminal && !self.is_over {
            return self.next().await;
        }
        self.interrupts.recv().await;
        Ok(Input::Interrupt)
    }

    /// A line that is not shown while it is typed.
    pub(super) async fn unseen(&mut self, prompt: &str) -> Result<Input, Failure> {
        let hidden = TerminalMode::hidden();
        if hidden.is_none() && self.is_terminal {
            aside("This terminal cannot hide what you type.\n");
        }
        ask(prompt);
        let input = self.next().await;
        drop(hidden);
        // The line end was not shown either.
        aside("\n");
        input
    }
}

/// Words that an answer follows in the same line.
pub(super) fn ask(words: &str) {
    aside(&format!("{} ", clean::line(words)));
}
