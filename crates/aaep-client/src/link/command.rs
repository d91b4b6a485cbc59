//! Connects to a producer that runs as a child process: [`Command`] starts it, reads lines from its output and writes
//! lines to its input. Its standard error is inherited.

use std::borrow::Cow;
use std::process::Stdio;

use bytes::{Buf as _, BytesMut};
use recount_aaep::MessageKind;
use recount_world::World;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::error::LinkError;
use super::{Framing, ReceivedMessage};
use crate::glance::one_line;
use crate::limits;

pub(super) struct Command {
    world: World,
    name: String,
    child: Child,
    /// `None` after it is closed.
    input: Option<ChildStdin>,
    /// `None` after its end.
    output: Option<ChildStdout>,
    framing: Framing,
    /// Bytes that are read but not yet returned.
    read: BytesMut,
    /// How many of them are known to contain no line end.
    searched: usize,
    /// Bytes to be written. A cancelled write continues with the next one.
    outbox: BytesMut,
    requests: u64,
    comments: u64,
    comments_reported: u64,
    is_started: bool,
}

/// One line of JSON-RPC.
#[derive(Deserialize)]
struct Rpc<'l> {
    #[serde(borrow, default)]
    method: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
    #[serde(borrow, default)]
    result: Option<&'l RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl Command {
    pub(super) fn start(world: &World, argv: &[String], framing: Framing) -> Result<Command, LinkError> {
        let name = argv.join(" ");
        let Some((program, arguments)) = argv.split_first() else {
            return Err(LinkError::Unusable(
                "the command is empty; pass a program and its arguments".to_owned(),
            ));
        };
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| LinkError::Unreachable {
                at: format!("the command {name:?}"),
                reason: why.to_string(),
            })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Command {
            world: world.clone(),
            name,
            child,
            input,
            output,
            framing,
            read: BytesMut::new(),
            searched: 0,
            outbox: BytesMut::new(),
            requests: 0,
            comments: 0,
            comments_reported: 0,
            is_started: false,
        })
    }

    pub(super) async fn next(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        loop {
            self.flush().await?;
            while let Some(line) = self.line()? {
                if let Some(text) = self.interpret(line)? {
                    return Ok(Some(self.received(text)));
                }
                self.flush().await?;
            }
            let Some(output) = &mut self.output else { return self.finish_output().await };
            self.read.reserve(limits::READ_BYTES);
            match output.read_buf(&mut self.read).await {
                Ok(0) => self.output = None,
                Ok(_) => {}
                Err(why) => {
                    self.output = None;
                    return Err(LinkError::broken(&why));
                }
            }
        }
    }

    fn received(&mut self, text: String) -> ReceivedMessage {
        let comments = self.comments - self.comments_reported;
        self.comments_reported = self.comments;
        let (at, at_ms) = (recount_world::moment(), self.world.clock.now_ms());
        ReceivedMessage { text, id: None, event: None, at, at_ms, comments }
    }

    /// The next whole line that is not blank, without its end.
    fn line(&mut self) -> Result<Option<String>, LinkError> {
        loop {
            let unseen = &self.read[self.searched..];
            let Some(end) = unseen.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.read.len();
                if self.read.len() > limits::MESSAGE_BYTES_MAX {
                    self.output = None;
                    self.read.clear();
                    self.searched = 0;
                    return Err(LinkError::TooLong { limit: limits::MESSAGE_BYTES_MAX });
                }
                return Ok(None);
            };
            let line = self.read.split_to(self.searched + end);
            self.read.advance(1);
            self.searched = 0;
            let mut line = std::str::from_utf8(&line).map_err(|_| LinkError::NotText)?;
            if !std::mem::replace(&mut self.is_started, true) {
                line = line.strip_prefix('\u{feff}').unwrap_or(line);
            }
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.len() > limits::MESSAGE_BYTES_MAX {
                return Err(LinkError::TooLong { limit: limits::MESSAGE_BYTES_MAX });
            }
            if !line.is_empty() {
                return Ok(Some(line.to_owned()));
            }
        }
    }

    /// Extracts the message of a line, if any. Responds to JSON-RPC requests at once.
    fn interpret(&mut self, line: String) -> Result<Option<String>, LinkError> {
        if self.framing == Framing::Lines {
            return Ok(Some(line));
        }
        let rpc: Rpc<'_> = serde_json::from_str(&line).map_err(|why| self.no_rpc(&line, &why.to_string()))?;
        let Some(method) = rpc.method.as_deref() else {
            let id = rpc.id.and_then(|id| id.get().parse().ok()).unwrap_or_default();
            return match (rpc.result, rpc.error) {
                (Some(result), None) => Ok(Some(result.get().to_owned())),
                (_, Some(RpcError { code, message })) => Err(LinkError::Rpc { id, code, message }),
                (None, None) => Err(self.no_rpc(&line, "it has no method, no result and no error")),
            };
        };
        match (method, rpc.id) {
            ("aaep.event" | "aaep.close", None) => Ok(rpc.params.map(|params| params.get().to_owned())),
            ("aaep.ping", id) => {
                self.comments += 1;
                if let Some(id) = id {
                    self.enqueue(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
                }
                Ok(None)
            }
            (_, Some(id)) => {
                let error = r#"{"code":-32601,"message":"a subscriber does not know this method"}"#;
                self.enqueue(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
                Ok(None)
            }
            // An unknown notification of a later version.
            (_, None) => Ok(None),
        }
    }

    fn no_rpc(&self, line: &str, why: &str) -> LinkError {
        let shown: String = line.chars().take(limits::REFUSAL_CHARS_MAX).collect();
        LinkError::Protocol(format!(
            "the command {:?} wrote a line that is not JSON-RPC ({why}): {shown}; if its lines are plain \
             messages, pass --framing lines",
            self.name
        ))
    }

    pub(super) async fn send(&mut self, text: &str, kind: Option<MessageKind>) -> Result<(), LinkError> {
        let text = one_line(text);
        if self.framing == Framing::Lines {
            self.enqueue(&text);
            return self.flush().await;
        }
        let (method, expects_response) = match kind {
            Some(MessageKind::SubscriptionRequest) => ("aaep.subscribe", true),
            Some(MessageKind::SubscriptionRenegotiate) => ("aaep.renegotiate", true),
            Some(MessageKind::SubscriptionClose) => ("aaep.close", false),
            Some(_) => ("aaep.reply", false),
            // The protocol has no method for the drivers' message; this one is our own.
            None => ("aaep.user_input", false),
        };
        let id = if expects_response {
            self.requests += 1;
            format!(r#""id":{},"#, self.requests)
        } else {
            String::new()
        };
        self.enqueue(&format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{text}}}"#));
        self.flush().await
    }

    fn enqueue(&mut self, line: &str) {
        self.outbox.extend_from_slice(line.as_bytes());
        self.outbox.extend_from_slice(b"\n");
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        while !self.outbox.is_empty() {
            let Some(input) = &mut self.input else {
                self.outbox.clear();
                break;
            };
            let wrote = tokio::time::timeout(limits::PATIENCE, input.write_buf(&mut self.outbox)).await;
            match wrote {
                Ok(Ok(wrote)) if wrote > 0 => {}
                // The program no longer reads; its output is still received.
                Ok(_) => {
                    self.input = None;
                    return Ok(());
                }
                Err(_) => {
                    return Err(LinkError::Broken {
                        reason: format!("the command {:?} does not read its input", self.name),
                    });
                }
            }
        }
        Ok(())
    }

    /// Handles the end of the output: the last line and the exit status.
    async fn finish_output(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        if !self.read.is_empty() {
            let rest = std::mem::take(&mut self.read);
            self.searched = 0;
            let text = std::str::from_utf8(&rest).unwrap_or_default().trim();
            // A last line without a line end is complete if it is valid JSON.
            return match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => {
                    let text = self.interpret(text.to_owned())?;
                    Ok(text.map(|text| self.received(text)))
                }
                Err(_) => Err(LinkError::CutOff { bytes: rest.len() }),
            };
        }
        self.input = None;
        // A program may close its output and keep running; no more messages can come.
        match tokio::time::timeout(limits::CLOSE_WAIT, self.child.wait()).await {
            Ok(Ok(status)) if !status.success() => {
                Err(LinkError::Died { command: self.name.clone(), status })
            }
            _ => Ok(None),
        }
    }

    pub(super) fn comments(&self) -> u64 {
        self.comments
    }

    /// Closes the input, which requests the exit, and kills the program if it does not exit in time.
    pub(super) async fn close(mut self) {
        self.input = None;
        self.output = None;
        if tokio::time::timeout(limits::CLOSE_WAIT, self.child.wait()).await.is_err() {
            self.child.kill().await.ok();
        }
    }
}
