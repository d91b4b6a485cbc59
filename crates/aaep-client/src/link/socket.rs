//! The client side of a WebSocket: [`Socket`].
//!
//! [`super::call`] opens the connection, so TLS, tokens and errors are those of HTTP requests. The WebSocket library
//! handles only the connection after the upgrade.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use recount_world::World;
use reqwest::header::{CONNECTION, HeaderMap, UPGRADE};
use reqwest::{Method, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::ReceivedMessage;
use super::call::Caller;
use super::error::LinkError;
use crate::limits;

/// The offered subprotocol. Producers that do not support it are accepted too.
const SUBPROTOCOL: &str = "aaep.v1";

/// The protocol's close code for a clean end.
const CLEAN: u16 = 4000;

pub(super) struct Socket {
    world: World,
    stream: WebSocketStream<Upgraded>,
    subprotocol: Option<String>,
    closed: Option<(u16, String)>,
    comments: u64,
    comments_reported: u64,
    has_ended: bool,
}

impl Socket {
    pub(super) async fn open(
        world: &World,
        url: &str,
        token: Option<&str>,
        patience: Duration,
    ) -> Result<Socket, LinkError> {
        let caller = Caller::new(url, token, patience)?;
        // `ws` is `http` and `wss` is `https`.
        let address = format!("http{}", url.strip_prefix("ws").unwrap_or(url));
        let key = generate_key();
        let request = caller
            .request(Method::GET, &address)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-protocol", SUBPROTOCOL)
            .header("sec-websocket-key", &key);
        let response = caller.head(url, request).await?;
        let status = response.status().as_u16();
        if status != 101 {
            let body = caller.body(url, response).await.unwrap_or_default();
            return Err(LinkError::Refused { url: url.to_owned(), status, body });
        }
        let header = |name: &str| text(response.headers(), name);
        if header("sec-websocket-accept") != Some(derive_accept_key(key.as_bytes()).as_str()) {
            return Err(LinkError::Protocol(format!("{url} switched to a protocol other than WebSocket")));
        }
        let subprotocol = header("sec-websocket-protocol").map(str::to_owned);
        if let Some(other) = subprotocol.as_deref().filter(|name| *name != SUBPROTOCOL) {
            return Err(LinkError::Protocol(format!(
                "{url} chose the subprotocol {other:?}, but only {SUBPROTOCOL:?} was offered"
            )));
        }
        let raw = response.upgrade().await.map_err(|why| LinkError::unreachable(url, &why))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits::MESSAGE_BYTES_MAX))
            .max_frame_size(Some(limits::MESSAGE_BYTES_MAX));
        let stream = WebSocketStream::from_raw_socket(raw, Role::Client, Some(config)).await;
        Ok(Socket {
            world: world.clone(),
            stream,
            subprotocol,
            closed: None,
            comments: 0,
            comments_reported: 0,
            has_ended: false,
        })
    }

    pub(super) async fn next(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        while !self.has_ended {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    let comments = self.comments - self.comments_reported;
                    self.comments_reported = self.comments;
                    return Ok(Some(ReceivedMessage {
                        text: text.as_str().to_owned(),
                        id: None,
                        event: None,
                        at: recount_world::moment(),
                        at_ms: self.world.clock.now_ms(),
                        comments,
                    }));
                }
                Some(Ok(Message::Binary(bytes))) => {
                    self.close_with_error(CloseCode::Unsupported, "text frames only").await;
                    return Err(LinkError::Binary { bytes: bytes.len() });
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => self.comments += 1,
                Some(Ok(Message::Close(frame))) => {
                    self.closed = Some(match frame {
                        Some(frame) => (frame.code.into(), frame.reason.as_str().to_owned()),
                        // The reserved code for a close frame without a code.
                        None => (1005, String::new()),
                    });
                }
                Some(Ok(Message::Frame(_))) => {}
                None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => self.has_ended = true,
                Some(Err(Error::Capacity(_))) => {
                    self.close_with_error(CloseCode::Size, "the message is too long").await;
                    return Err(LinkError::TooLong { limit: limits::MESSAGE_BYTES_MAX });
                }
                Some(Err(Error::Utf8(_))) => {
                    self.close_with_error(CloseCode::Invalid, "the message is not UTF-8").await;
                    return Err(LinkError::NotText);
                }
                Some(Err(why)) => {
                    self.has_ended = true;
                    // After a close frame, errors do not matter.
                    if self.closed.is_some() {
                        return Ok(None);
                    }
                    return Err(LinkError::broken(&why));
                }
            }
        }
        Ok(None)
    }

    pub(super) async fn send(&mut self, text: &str) -> Result<(), LinkError> {
        self.stream.send(Message::text(text)).await.map_err(|why| LinkError::broken(&why))
    }

    pub(super) fn subprotocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    pub(super) fn closed(&self) -> Option<(u16, &str)> {
        self.closed.as_ref().map(|(code, reason)| (*code, reason.as_str()))
    }

    pub(super) fn comments(&self) -> u64 {
        self.comments
    }

    /// Closes the connection with an error code. The producer may not read it.
    async fn close_with_error(&mut self, code: CloseCode, reason: &'static str) {
        self.has_ended = true;
        let frame = CloseFrame { code, reason: reason.into() };
        tokio::time::timeout(limits::CLOSE_WAIT, self.stream.close(Some(frame))).await.ok();
    }

    pub(super) async fn close(mut self) {
        let code = match self.subprotocol {
            Some(_) => CloseCode::from(CLEAN),
            None => CloseCode::Normal,
        };
        let closing = async {
            let frame = CloseFrame { code, reason: "".into() };
            if self.stream.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.stream.next().await {}
            }
        };
        tokio::time::timeout(limits::CLOSE_WAIT, closing).await.ok();
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
