//! Reads the lines that a person types. See [`AnswerInput`].
//!
//! At a terminal lines are read all the time, so that text typed before a prompt appeared is never taken
//! for its answer. From a pipe a line is read only while a prompt is open.

use std::io::IsTerminal as _;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

use crate::limits::{DISCARD_WAIT, TYPED_BYTES_MAX};

pub(super) enum AnswerInput {
    Terminal(BufReader<Stdin>, Vec<u8>),
    Pipe(BufReader<Stdin>, Vec<u8>),
    /// No input: no person can answer here.
    Unattended,
}

impl AnswerInput {
    pub(super) fn open(even_from_a_pipe: bool) -> Self {
        match std::io::stdin().is_terminal() {
            true => AnswerInput::Terminal(BufReader::new(tokio::io::stdin()), Vec::new()),
            false if even_from_a_pipe => AnswerInput::Pipe(BufReader::new(tokio::io::stdin()), Vec::new()),
            false => AnswerInput::Unattended,
        }
    }

    pub(super) fn is_attended(&self) -> bool {
        !matches!(self, AnswerInput::Unattended)
    }

    /// Whether a line is to be waited for now.
    pub(super) fn listens(&self, has_prompt: bool) -> bool {
        match self {
            AnswerInput::Terminal(..) => true,
            AnswerInput::Pipe(..) => has_prompt,
            AnswerInput::Unattended => false,
        }
    }

    /// Drops what was typed before a prompt is shown.
    pub(super) async fn discard(&mut self) {
        let AnswerInput::Terminal(reader, gathered) = self else { return };
        discard_lines(reader, gathered).await;
    }

    /// The next line; `None` when there will be no more, and then never again. What was read of a line is kept when
    /// this is broken off.
    pub(super) async fn line(&mut self) -> Option<String> {
        let (reader, gathered) = match self {
            AnswerInput::Terminal(reader, gathered) | AnswerInput::Pipe(reader, gathered) => {
                (reader, gathered)
            }
            AnswerInput::Unattended => return std::future::pending().await,
        };
        let room = TYPED_BYTES_MAX.saturating_sub(gathered.len()) as u64;
        let read = reader.take(room).read_until(b'\n', gathered).await;
        match read {
            Ok(_) if !gathered.is_empty() => {
                Some(String::from_utf8_lossy(&std::mem::take(gathered)).into_owned())
            }
            _ => {
                *self = AnswerInput::Unattended;
                None
            }
        }
    }
}

/// Drops the lines that were typed so far. They are read for a moment, because another thread may just have got them.
pub(in crate::command) async fn discard_lines(reader: &mut BufReader<Stdin>, gathered: &mut Vec<u8>) {
    loop {
        gathered.clear();
        let mut limited = (&mut *reader).take(TYPED_BYTES_MAX as u64);
        let read = limited.read_until(b'\n', gathered);
        match tokio::time::timeout(DISCARD_WAIT, read).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => break,
        }
    }
    gathered.clear();
}
