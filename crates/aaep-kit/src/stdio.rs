//! A producer over standard input and output: JSON-RPC 2.0, one object a line, passed on to a producer at an address. For
//! subscribers that start a program rather than connect to one.
//!
//! [`relay`] is the entry point. It must not know what events say.

use std::collections::VecDeque;
use std::time::Duration;

use recount_aaep::MessageKind;
use recount_world::World;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::limits;
use crate::link::{Dial, Link, LinkError, Target};

/// Where requests are passed on to.
#[derive(Debug, Clone)]
pub struct Upstream {
    pub target: Target,
    pub token: Option<String>,
    pub patience: Duration,
}

/// Why the relay ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("standard input cannot be read: {0}")]
    Input(std::io::Error),
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
    #[error("a line on standard input is longer than {limit} bytes; send shorter messages")]
    TooLong { limit: usize },
}

/// A line of the subscriber.
#[derive(Deserialize)]
struct Request<'l> {
    #[serde(borrow, default)]
    method: Option<&'l str>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
}

/// Codes of JSON-RPC.
const NOT_JSON: i64 = -32700;
const NOT_A_REQUEST: i64 = -32600;
const METHOD_UNKNOWN: i64 = -32601;
/// Ours: the producer cannot be reached, or the connection to it is lost.
const NO_PRODUCER: i64 = -32000;

/// Passes requests on until the input ends.
pub async fn relay(
    world: &World,
    upstream: &Upstream,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), RelayError> {
    let mut input = Lines { input, read: Vec::new() };
    let mut relay = Relay { world, upstream, output, link: None, asked: VecDeque::new() };
    loop {
        let heard = async {
            match &mut relay.link {
                Some(link) => link.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            line = input.next() => match line? {
                Some(line) => relay.take(&line).await?,
                None => break,
            },
            heard = heard => match heard {
                Ok(Some(heard)) => relay.pass_on(&heard.text).await?,
                Ok(None) => relay.has_ended("the producer ended the subscription").await?,
                Err(why) => relay.has_ended(&why.to_string()).await?,
            },
        }
    }
    if let Some(link) = relay.link {
        link.close().await;
    }
    Ok(())
}

struct Relay<'r, W> {
    world: &'r World,
    upstream: &'r Upstream,
    output: W,
    /// The one subscription.
    link: Option<Link>,
    /// Ids of renegotiations without an answer.
    asked: VecDeque<String>,
}

impl<W: AsyncWrite + Unpin> Relay<'_, W> {
    async fn take(&mut self, line: &str) -> Result<(), RelayError> {
        let Ok(request) = serde_json::from_str::<Request<'_>>(line) else {
            return self.refuse(Some("null"), NOT_JSON, "the line is not a JSON-RPC object").await;
        };
        let id = request.id.map(RawValue::get);
        let params = request.params.map_or("{}", RawValue::get);
        match (request.method, id) {
            (Some("aaep.subscribe"), Some(id)) => self.subscribe(id, params).await,
            (Some("aaep.renegotiate"), Some(id)) => match self.send(params).await {
                Ok(()) => {
                    self.asked.push_back(id.to_owned());
                    Ok(())
                }
                Err(why) => self.refuse(Some(id), NO_PRODUCER, &why).await,
            },
            (Some("aaep.ping"), Some(id)) => self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await,
            (Some("aaep.reply" | "aaep.user_input"), None) => {
                // A notification has no answer, whatever comes of it.
                self.send(params).await.ok();
                Ok(())
            }
            (Some("aaep.close"), None) => {
                self.send(params).await.ok();
                if let Some(link) = self.link.take() {
                    link.close().await;
                }
                Ok(())
            }
            (Some(_), None) => Ok(()),
            (Some(method), id) => {
                let known = "aaep.subscribe, aaep.renegotiate and aaep.ping are requests";
                self.refuse(id, METHOD_UNKNOWN, &format!("{method} is no request of a subscriber; {known}")).await
            }
            (None, id) => self.refuse(id.or(Some("null")), NOT_A_REQUEST, "the object has no method").await,
        }
    }

    async fn subscribe(&mut self, id: &str, request: &str) -> Result<(), RelayError> {
        if let Some(link) = self.link.take() {
            link.close().await;
        }
        let dial = Dial {
            token: self.upstream.token.clone(),
            request: Some(request.to_owned()),
            patience: self.upstream.patience,
            ..Dial::to(self.upstream.target.clone())
        };
        match Link::open(self.world, &dial).await {
            Ok(link) => {
                let answer = link.answer().unwrap_or("null").to_owned();
                if link.is_rejected() {
                    link.close().await;
                } else {
                    self.link = Some(link);
                }
                self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{answer}}}"#)).await
            }
            Err(why) => self.refuse(Some(id), NO_PRODUCER, &why.to_string()).await,
        }
    }

    async fn send(&mut self, text: &str) -> Result<(), String> {
        let Some(link) = &mut self.link else {
            return Err("there is no subscription; send aaep.subscribe first".to_owned());
        };
        link.send(text).await.map(drop).map_err(|why: LinkError| why.to_string())
    }

    /// An event becomes a notification, the answer to a renegotiation its result.
    async fn pass_on(&mut self, text: &str) -> Result<(), RelayError> {
        let kind = serde_json::from_str::<Value>(text).ok();
        let kind = kind.as_ref().and_then(|message| message.get("type")).and_then(Value::as_str);
        let answers = [MessageKind::SubscriptionAccepted, MessageKind::SubscriptionRejected];
        if answers.iter().any(|answer| Some(answer.name()) == kind)
            && let Some(id) = self.asked.pop_front()
        {
            return self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{text}}}"#)).await;
        }
        self.write(&format!(r#"{{"jsonrpc":"2.0","method":"aaep.event","params":{text}}}"#)).await
    }

    async fn has_ended(&mut self, why: &str) -> Result<(), RelayError> {
        let Some(link) = self.link.take() else { return Ok(()) };
        let close = serde_json::json!({
            "type": "subscription.close", "subscription_id": link.subscription(), "reason_code": "stream_ended",
            "reason_message": why,
        });
        link.close().await;
        for id in std::mem::take(&mut self.asked) {
            self.refuse(Some(&id), NO_PRODUCER, why).await?;
        }
        self.write(&format!(r#"{{"jsonrpc":"2.0","method":"aaep.close","params":{close}}}"#)).await
    }

    async fn refuse(&mut self, id: Option<&str>, code: i64, message: &str) -> Result<(), RelayError> {
        let Some(id) = id else { return Ok(()) };
        let error = serde_json::json!({ "code": code, "message": message });
        self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await
    }

    async fn write(&mut self, line: &str) -> Result<(), RelayError> {
        let written = async {
            self.output.write_all(line.as_bytes()).await?;
            self.output.write_all(b"\n").await?;
            self.output.flush().await
        };
        written.await.map_err(RelayError::Output)
    }
}

/// Lines of bounded length.
struct Lines<R> {
    input: R,
    read: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The next line that is not blank; `None` at the end. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<String>, RelayError> {
        loop {
            let there = self.input.fill_buf().await.map_err(RelayError::Input)?;
            let is_over = there.is_empty();
            let end = there.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(there.len(), |end| end + 1);
            self.read.extend_from_slice(&there[..taken]);
            self.input.consume(taken);
            if self.read.len() > limits::MESSAGE_BYTES_MAX {
                return Err(RelayError::TooLong { limit: limits::MESSAGE_BYTES_MAX });
            }
            if end.is_none() && !is_over {
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.read)).trim().to_owned();
            if !line.is_empty() {
                return Ok(Some(line));
            }
            if is_over {
                return Ok(None);
            }
        }
    }
}
