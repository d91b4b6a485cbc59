//! Connects to a server process: messages go to its standard input and come from its standard output, one per line.
//!
//! Start at [`Pipes`]. All reading happens inside a call; there is no reader task. The module must not depend on the
//! meaning of messages.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::fault::{Fault, code};
use super::message::{self, Incoming};
use super::quota::ReadQuota;
use crate::limits::{NAMED_CHARS_MAX, READ_AT_ONCE_BYTES, TERM_GRACE};
use crate::mcp::limits;
use crate::sandbox::process::{Exit, Process, StartError, signal_name};
use crate::sandbox::{Sandbox, SandboxCommand};

/// A server process. Dropping it kills the process.
pub(crate) struct Pipes {
    process: Process,
    input: pipe::Sender,
    output: pipe::Receiver,
    errors: pipe::Receiver,
    /// Whether stderr has ended.
    errors_ended: bool,
    /// Bytes that were read and not parsed yet.
    held: Vec<u8>,
    /// Bytes that are still to be written.
    unwritten: Vec<u8>,
    /// The end of its stderr.
    stderr: Vec<u8>,
    /// The number of lines that were not messages, since the start.
    other_lines: usize,
}

impl Pipes {
    pub(crate) async fn start(
        sandbox: &Sandbox,
        argv: &[String],
        environment: &[(String, String)],
        root: &Path,
        network: bool,
    ) -> Result<Pipes, StartError> {
        let order = SandboxCommand { argv: argv.to_vec(), root, network, environment: environment.to_vec() };
        let (mut process, input) = sandbox.start_with_input(order).await?;
        let (output, errors) = process.outputs().expect("the outputs are taken once");
        Ok(Pipes {
            process,
            input,
            output,
            errors,
            errors_ended: false,
            held: Vec::new(),
            unwritten: Vec::new(),
            stderr: Vec::new(),
            other_lines: 0,
        })
    }

    /// Queues a message to be written.
    pub(crate) fn send(&mut self, message: &[u8]) {
        self.unwritten.extend_from_slice(message);
        self.unwritten.push(b'\n');
    }

    /// Waits until everything is written. Incoming data stays unread.
    pub(crate) async fn flush(&mut self) -> Result<(), Fault> {
        while !self.unwritten.is_empty() {
            let written = self.input.write(&self.unwritten).await;
            self.wrote(written).await?;
        }
        Ok(())
    }

    /// Writes the queue and waits for the response to a request. `on_notification` receives each notification.
    pub(crate) async fn exchange(
        &mut self,
        id: u64,
        quota: &mut ReadQuota,
        on_notification: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        loop {
            while let Some(line) = self.next_line()? {
                let Some(incoming) = self.read(&line)? else { continue };
                quota.take_message()?;
                match incoming.into_response_to(id) {
                    Ok(result) => return Ok(result),
                    Err(Incoming::Request { id, method }) => self.send(&message::respond(&id, &method)),
                    Err(Incoming::Notification { method }) => on_notification(&method),
                    // The response to a cancelled request.
                    Err(Incoming::Response { .. }) => {}
                }
            }
            let count = self.step().await?;
            quota.take(count)?;
        }
    }

    /// Processes the data that has already arrived, without waiting.
    pub(crate) fn drain(&mut self, on_notification: &mut (dyn FnMut(&str) + Send)) -> Result<(), Fault> {
        let mut quota = ReadQuota::new();
        let mut buffer = vec![0; READ_AT_ONCE_BYTES];
        loop {
            while let Some(line) = self.next_line()? {
                match self.read(&line)? {
                    Some(Incoming::Request { id, method }) => self.send(&message::respond(&id, &method)),
                    Some(Incoming::Notification { method }) => on_notification(&method),
                    _ => {}
                }
                quota.take_message()?;
            }
            match self.output.try_read(&mut buffer) {
                // The end of the process is reported by the next request.
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => {
                    self.held.extend_from_slice(&buffer[..count]);
                    quota.take(count)?;
                }
            }
        }
    }

    /// Ends the process: closes its input, then asks it to end, then kills it.
    pub(crate) async fn close(mut self) {
        drop(self.input);
        if tokio::time::timeout(limits::MCP_CLOSE_WAIT, self.process.ended()).await.is_err() {
            self.process.stop();
            self.process.ended().await;
        }
    }

    /// Reads or writes the next piece. Returns the number of bytes from standard output.
    async fn step(&mut self) -> Result<usize, Fault> {
        let mut buffer = vec![0; READ_AT_ONCE_BYTES];
        let mut stderr = [0; 4096];
        let (has_unwritten, errors_open) = (!self.unwritten.is_empty(), !self.errors_ended);
        tokio::select! {
            read = self.output.read(&mut buffer) => match read {
                Ok(0) | Err(_) => Err(self.ended().await),
                Ok(count) => {
                    self.held.extend_from_slice(&buffer[..count]);
                    Ok(count)
                }
            },
            read = self.errors.read(&mut stderr), if errors_open => {
                match read {
                    Ok(0) | Err(_) => self.errors_ended = true,
                    Ok(count) => self.keep_stderr(&stderr[..count]),
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

    fn keep_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        let beyond = self.stderr.len().saturating_sub(limits::MCP_ERROR_BYTES_MAX);
        self.stderr.drain(..beyond);
    }

    /// The next complete line.
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
                format!("a message of the server is larger than {most} bytes; the connection was closed"),
            ));
        }
        Ok(None)
    }

    /// Parses a line as a message. A few other lines are tolerated, because programs may print notes to standard
    /// output.
    fn read(&mut self, line: &[u8]) -> Result<Option<Incoming>, Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let incoming = Incoming::read(line);
        if incoming.is_none() {
            self.other_lines += 1;
            if self.other_lines > limits::MCP_OTHER_LINES_MAX {
                let shown = String::from_utf8_lossy(&line[..line.len().min(NAMED_CHARS_MAX)]).into_owned();
                let most = limits::MCP_OTHER_LINES_MAX;
                return Err(Fault::new(
                    code::GARBLED,
                    format!(
                        "the server wrote more than {most} lines that are not protocol messages (last: \
                         {shown:?}); the connection was closed"
                    ),
                ));
            }
        }
        Ok(incoming)
    }

    /// Builds the fault for an ended server, with its exit and stderr.
    async fn ended(&mut self) -> Fault {
        self.process.stop();
        let exit = tokio::time::timeout(END_WAIT, self.process.ended()).await.unwrap_or_default();
        let mut buffer = vec![0; READ_AT_ONCE_BYTES];
        while let Ok(count @ 1..) = self.errors.try_read(&mut buffer) {
            self.keep_stderr(&buffer[..count]);
        }
        let stderr = String::from_utf8_lossy(&self.stderr);
        let stderr = stderr.trim();
        let how = in_words(exit);
        Fault::new(code::ENDED, if stderr.is_empty() { how } else { format!("{how}; its stderr: {stderr}") })
    }
}

/// How long to wait for the exit status of a server that closed its output.
const END_WAIT: Duration = Duration::from_secs(TERM_GRACE.as_secs() + 1);

fn in_words(exit: Exit) -> String {
    match exit {
        Exit { limit: Some(limit), .. } => {
            format!("the server exceeded a limit of the sandbox and was killed ({limit:?})")
        }
        Exit { code: Some(code), .. } => format!("the server exited with code {code}"),
        Exit { signal: Some(signal), .. } => format!("the server was terminated by {}", signal_name(signal)),
        _ => "the server exited".to_owned(),
    }
}
