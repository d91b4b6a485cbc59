//! A server that is a process of the run: messages go to its standard input and come from its standard output, one a line.
//!
//! Look at [`Pipes`]. Everything happens within a call of it: no task reads beside. It must not know what messages are for.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::fault::{Fault, code};
use super::message::{self, Incoming};
use crate::limits::{NAMED_CHARS_MAX, READ_AT_ONCE_BYTES, TERM_GRACE};
use crate::mcp::limits;
use crate::sandbox::process::{Exit, Process, StartError, signal_name};
use crate::sandbox::{Order, Sandbox};

/// See the file's head. Dropping it kills the process.
pub(crate) struct Pipes {
    process: Process,
    input: pipe::Sender,
    output: pipe::Receiver,
    errors: pipe::Receiver,
    /// Whether stderr has ended.
    errors_ended: bool,
    /// What was read and is no whole line yet.
    held: Vec<u8>,
    /// What is still to be written.
    unwritten: Vec<u8>,
    /// The end of what it wrote to stderr.
    complaint: Vec<u8>,
    /// Lines that were no messages, over its whole life.
    odd_lines: usize,
}

/// What one call may still bring.
#[derive(Debug)]
pub(crate) struct ReadQuota {
    pub(crate) bytes: usize,
    pub(crate) messages: usize,
}

impl ReadQuota {
    pub(crate) fn new() -> Self {
        ReadQuota { bytes: limits::MCP_CALL_BYTES_MAX, messages: limits::MCP_CALL_MESSAGES_MAX }
    }

    /// Takes what has come from it.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => self.bytes = left,
            None => {
                let most = limits::MCP_CALL_BYTES_MAX;
                return Err(Fault::new(
                    code::FLOODED,
                    format!(
                        "the server sent more than {most} bytes for one request, and the connection was ended"
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn take_message(&mut self) -> Result<(), Fault> {
        match self.messages.checked_sub(1) {
            Some(left) => self.messages = left,
            None => {
                let most = limits::MCP_CALL_MESSAGES_MAX;
                return Err(Fault::new(
                    code::FLOODED,
                    format!(
                        "the server sent more than {most} messages for one request, and the connection was ended"
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Pipes {
    pub(crate) async fn start(
        sandbox: &Sandbox,
        argv: &[String],
        environment: &[(String, String)],
        root: &Path,
        network: bool,
    ) -> Result<Pipes, StartError> {
        let order = Order { argv: argv.to_vec(), root, network, environment: environment.to_vec() };
        let (mut process, input) = sandbox.start_with_input(order).await?;
        let (output, errors) = process.outputs().expect("nobody has taken them before");
        Ok(Pipes {
            process,
            input,
            output,
            errors,
            errors_ended: false,
            held: Vec::new(),
            unwritten: Vec::new(),
            complaint: Vec::new(),
            odd_lines: 0,
        })
    }

    /// Puts a message behind those that are still to be written.
    pub(crate) fn send(&mut self, message: &[u8]) {
        self.unwritten.extend_from_slice(message);
        self.unwritten.push(b'\n');
    }

    /// Waits until all is written. What comes meanwhile waits.
    pub(crate) async fn flush(&mut self) -> Result<(), Fault> {
        while !self.unwritten.is_empty() {
            let written = self.input.write(&self.unwritten).await;
            self.wrote(written).await?;
        }
        Ok(())
    }

    /// Writes what is to be written and waits for the answer to a request. `heard` is given every notification.
    pub(crate) async fn answer(
        &mut self,
        wanted: u64,
        quota: &mut ReadQuota,
        heard: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        loop {
            while let Some(line) = self.next_line()? {
                let Some(incoming) = self.read(&line)? else { continue };
                quota.take_message()?;
                match incoming.into_answer_to(wanted) {
                    Ok(answer) => return Ok(answer),
                    Err(Incoming::Request { id, method }) => self.send(&message::answer(&id, &method)),
                    Err(Incoming::Notification { method }) => heard(&method),
                    // The answer to a request that was given up.
                    Err(Incoming::Answer { .. }) => {}
                }
            }
            let count = self.step().await?;
            quota.take(count)?;
        }
    }

    /// Takes what has come already, without waiting for more.
    pub(crate) fn drain(&mut self, heard: &mut (dyn FnMut(&str) + Send)) -> Result<(), Fault> {
        let mut quota = ReadQuota::new();
        let mut room = vec![0; READ_AT_ONCE_BYTES];
        loop {
            while let Some(line) = self.next_line()? {
                match self.read(&line)? {
                    Some(Incoming::Request { id, method }) => self.send(&message::answer(&id, &method)),
                    Some(Incoming::Notification { method }) => heard(&method),
                    _ => {}
                }
                quota.take_message()?;
            }
            match self.output.try_read(&mut room) {
                // That it has ended is said when it is asked for something.
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => {
                    self.held.extend_from_slice(&room[..count]);
                    quota.take(count)?;
                }
            }
        }
    }

    /// Ends the process: it sees the end of its input, is asked to end when it does not, and what is left of it is killed.
    pub(crate) async fn close(mut self) {
        drop(self.input);
        if tokio::time::timeout(limits::MCP_FAREWELL_WAIT, self.process.ended()).await.is_err() {
            self.process.stop();
            self.process.ended().await;
        }
    }

    /// Reads or writes the next piece; answers how many bytes came from standard output.
    async fn step(&mut self) -> Result<usize, Fault> {
        let mut room = vec![0; READ_AT_ONCE_BYTES];
        let mut complaint = [0; 4096];
        let (has_unwritten, errors_open) = (!self.unwritten.is_empty(), !self.errors_ended);
        tokio::select! {
            read = self.output.read(&mut room) => match read {
                Ok(0) | Err(_) => Err(self.ended().await),
                Ok(count) => {
                    self.held.extend_from_slice(&room[..count]);
                    Ok(count)
                }
            },
            read = self.errors.read(&mut complaint), if errors_open => {
                match read {
                    Ok(0) | Err(_) => self.errors_ended = true,
                    Ok(count) => self.complained(&complaint[..count]),
                }
                Ok(0)
            }
            written = self.input.write(&self.unwritten), if has_unwritten => {
                self.wrote(written).await?;
                Ok(0)
            }
        }
    }

    async fn wrote(&mut self, written: std::io::Result<usize>) -> Result<(), Fault> {
        match written {
            Ok(count) => {
                self.unwritten.drain(..count);
                Ok(())
            }
            Err(_) => Err(self.ended().await),
        }
    }

    fn complained(&mut self, bytes: &[u8]) {
        self.complaint.extend_from_slice(bytes);
        let beyond = self.complaint.len().saturating_sub(limits::MCP_ERROR_BYTES_MAX);
        self.complaint.drain(..beyond);
    }

    /// The next whole line that was read.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if let Some(end) = memchr::memchr(b'\n', &self.held) {
            let mut line: Vec<u8> = self.held.drain(..=end).collect();
            line.pop();
            return Ok(Some(line));
        }
        if self.held.len() > limits::MCP_MESSAGE_BYTES_MAX {
            let most = limits::MCP_MESSAGE_BYTES_MAX;
            return Err(Fault::new(
                code::FLOODED,
                format!("a message of the server is longer than {most} bytes, and the connection was ended"),
            ));
        }
        Ok(None)
    }

    /// A line as a message. A few lines may be something else: programs write notes where they should not.
    fn read(&mut self, line: &[u8]) -> Result<Option<Incoming>, Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let incoming = Incoming::read(line);
        if incoming.is_none() {
            self.odd_lines += 1;
            if self.odd_lines > limits::MCP_ODD_LINES_MAX {
                let shown = String::from_utf8_lossy(&line[..line.len().min(NAMED_CHARS_MAX)]).into_owned();
                let most = limits::MCP_ODD_LINES_MAX;
                return Err(Fault::new(
                    code::GARBLED,
                    format!(
                        "the server wrote more than {most} lines that are no messages of the protocol, the last one {shown:?}; the connection was ended"
                    ),
                ));
            }
        }
        Ok(incoming)
    }

    /// That the server has ended, and what is known of why.
    async fn ended(&mut self) -> Fault {
        self.process.stop();
        let exit = tokio::time::timeout(END_WAIT, self.process.ended()).await.unwrap_or_default();
        let mut room = vec![0; READ_AT_ONCE_BYTES];
        while let Ok(count @ 1..) = self.errors.try_read(&mut room) {
            self.complained(&room[..count]);
        }
        let said = String::from_utf8_lossy(&self.complaint);
        let said = said.trim();
        let how = in_words(exit);
        Fault::new(code::ENDED, if said.is_empty() { how } else { format!("{how}; it wrote: {said}") })
    }
}

/// How long the exit status of a server is waited for that has closed its output.
const END_WAIT: Duration = Duration::from_secs(TERM_GRACE.as_secs() + 1);

fn in_words(exit: Exit) -> String {
    match exit {
        Exit { limit: Some(limit), .. } => {
            format!("the server was ended by a bound of the sandbox ({limit:?})")
        }
        Exit { code: Some(code), .. } => format!("the server ended with exit code {code}"),
        Exit { signal: Some(signal), .. } => format!("the server was ended by {}", signal_name(signal)),
        _ => "the server ended".to_owned(),
    }
}
