//! WebSocket routes: one JSON value per text frame in both directions. `/ws` sends events at once, as existing
//! subscribers expect; `/aaep/v1/ws` requires the subprotocol and a handshake first.

use std::future::pending;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt as _;
use http::StatusCode;

use crate::{Close, Feed, Item, Problem, Producer, Reply, Route, SUBPROTOCOL, Sockets, Source, StreamRoute};

/// How a connection ends.
enum End {
    /// With a close frame, if the policy has one for it.
    Close(Close),
    /// The peer has disconnected.
    Disconnected,
    /// Without a close frame.
    HangUp,
}

impl End {
    /// Classifies an error of receiving.
    fn of(error: axum::Error) -> End {
        use tokio_tungstenite::tungstenite::Error;
        let error = error.into_inner();
        match error.downcast_ref::<Error>() {
            Some(Error::Io(_) | Error::ConnectionClosed | Error::AlreadyClosed) => End::Disconnected,
            Some(Error::Utf8(_)) => End::Close(Close::NotUtf8),
            Some(Error::Capacity(_)) => End::Close(Close::TooLarge),
            _ => End::Close(Close::Unreadable),
        }
    }
}

/// `/ws`
pub(super) async fn legacy<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    upgrade: WebSocketUpgrade,
) -> Response {
    bounded(&*producer, upgrade).on_upgrade(async move |mut socket| {
        let end = run(&*producer, &caller, &mut socket, StreamRoute::LegacySocket).await;
        finish(&*producer, socket, end).await;
    })
}

/// `/aaep/v1/ws`
pub(super) async fn versioned<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = bounded(&*producer, upgrade);
    let sockets = producer.policy().sockets;
    if sockets != Sockets::Lenient && upgrade.selected_protocol().is_none() {
        return producer.refusal(Problem::SubprotocolMissing, Route::Socket);
    }
    upgrade.on_upgrade(async move |mut socket| {
        let subscription = match sockets {
            Sockets::Lenient => Ok(None),
            Sockets::Strict { .. } => handshake(&*producer, &caller, &mut socket).await.map(Some),
        };
        let end = match &subscription {
            Ok(id) => run(&*producer, &caller, &mut socket, StreamRoute::Socket(id.as_deref())).await,
            Err(_) => End::Disconnected,
        };
        finish(&*producer, socket, subscription.err().unwrap_or(end)).await;
    })
}

fn bounded<P: Producer>(producer: &P, upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    let bytes_max = producer.policy().message_bytes_max;
    upgrade.protocols([SUBPROTOCOL]).max_message_size(bytes_max).max_frame_size(bytes_max)
}

/// Receives the handshake and sends its response.
async fn handshake<P: Producer>(
    producer: &P,
    caller: &P::Caller,
    socket: &mut WebSocket,
) -> Result<String, End> {
    let Sockets::Strict { handshake_wait } = producer.policy().sockets else { return Err(End::HangUp) };
    let first = async {
        loop {
            if let Some(text) = text_of(producer, socket.recv().await)? {
                return Ok(text);
            }
        }
    };
    let request = match handshake_wait {
        None => first.await,
        Some(wait) => tokio::time::timeout(wait, first).await.unwrap_or(Err(End::Close(Close::NoHandshake))),
    }?;
    let handshake = producer.subscribe(caller, request.as_str(), true).await;
    if let Some(text) = handshake.text {
        socket.send(Message::text(text)).await.map_err(|_| End::Disconnected)?;
    }
    handshake.result.map_err(|rejected| {
        End::Close(match rejected.status {
            StatusCode::UNAUTHORIZED => Close::Unauthenticated,
            StatusCode::FORBIDDEN => Close::Denied,
            _ => Close::Rejected,
        })
    })
}

/// The text of a frame; `None` for frames that carry no message.
fn text_of<P: Producer>(
    producer: &P,
    frame: Option<Result<Message, axum::Error>>,
) -> Result<Option<Utf8Bytes>, End> {
    match frame {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Binary(_))) if producer.policy().sockets != Sockets::Lenient => {
            Err(End::Close(Close::NotText))
        }
        Some(Ok(Message::Close(_))) | None => Err(End::Disconnected),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(End::of(error)),
    }
}

/// Sends items of the feed and processes messages from the subscriber until one side ends the connection.
async fn run<P: Producer>(
    producer: &P,
    caller: &P::Caller,
    socket: &mut WebSocket,
    route: StreamRoute<'_>,
) -> End {
    let Ok(mut feed) = producer.open(caller, route, None).await else {
        return End::Close(Close::Unavailable);
    };
    let silence = producer.policy().heartbeat;
    let mut written_at = recount_world::moment();
    loop {
        let beat = async {
            match silence {
                Some(silence) => tokio::time::sleep_until(written_at + silence).await,
                None => pending().await,
            }
        };
        let (out, is_last) = tokio::select! {
            item = feed.next() => match item {
                Item::Event { text, .. } | Item::Message(text) => (Message::Text(lossy(text)), false),
                Item::Raw(bytes) => (frame_of(bytes), false),
                Item::End(close) => return End::Close(close),
            },
            frame = socket.recv() => match text_of(producer, frame) {
                Err(end) => return end,
                Ok(None) => continue,
                Ok(Some(text)) => match producer.receive(caller, Source::Socket(&feed), &text).await {
                    Reply::Message(text) => (Message::text(text), false),
                    Reply::FinalMessage(text) => (Message::text(text), true),
                    // The protocol has no message that reports an invalid message.
                    _ => continue,
                },
            },
            () = beat => (Message::Ping(Bytes::new()), false),
        };
        if socket.send(out).await.is_err() {
            return End::Disconnected;
        }
        written_at = recount_world::moment();
        if is_last {
            return End::HangUp;
        }
    }
}

/// A text frame must be UTF-8.
fn lossy(text: Bytes) -> Utf8Bytes {
    Utf8Bytes::try_from(text.clone()).unwrap_or_else(|_| String::from_utf8_lossy(&text).into_owned().into())
}

fn frame_of(bytes: Bytes) -> Message {
    Utf8Bytes::try_from(bytes.clone()).map_or(Message::Binary(bytes), Message::Text)
}

async fn finish<P: Producer>(producer: &P, mut socket: WebSocket, end: End) {
    let close = match end {
        End::HangUp => return,
        End::Disconnected => None,
        End::Close(close) => (producer.policy().closing)(close),
    };
    // A disconnected peer needs no close frame.
    if let Some((code, reason)) = close {
        socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.ok();
    }
    socket.close().await.ok();
}
