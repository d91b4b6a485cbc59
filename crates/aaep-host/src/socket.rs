//! WebSockets: one JSON in a text frame, both ways. At `/ws` events come at once, as subscribers in use expect; at
//! `/aaep/v1/ws` the subprotocol and a handshake come first.

use std::future::pending;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt as _;
use http::StatusCode;

use crate::{Close, Feed, Item, Place, Problem, Producer, Reply, Route, SUBPROTOCOL, Sockets, Source};

/// How a connection ends.
enum End {
    /// With a close frame, if the policy has one for it.
    Close(Close),
    /// The peer has left.
    Left,
    /// Without a word.
    HangUp,
}

impl End {
    /// Of a message that could not be received.
    fn of(error: axum::Error) -> End {
        use tokio_tungstenite::tungstenite::Error;
        let error = error.into_inner();
        match error.downcast_ref::<Error>() {
            Some(Error::Io(_) | Error::ConnectionClosed | Error::AlreadyClosed) => End::Left,
            Some(Error::Utf8(_)) => End::Close(Close::NotUtf8),
            Some(Error::Capacity(_)) => End::Close(Close::TooLarge),
            _ => End::Close(Close::Unreadable),
        }
    }
}

/// `/ws`
pub(super) async fn of_room<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    upgrade: WebSocketUpgrade,
) -> Response {
    bounded(&*producer, upgrade).on_upgrade(async move |mut socket| {
        let end = converse(&*producer, &caller, &mut socket, Place::RoomSocket).await;
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
            Ok(id) => converse(&*producer, &caller, &mut socket, Place::Socket(id.as_deref())).await,
            Err(_) => End::Left,
        };
        finish(&*producer, socket, subscription.err().unwrap_or(end)).await;
    })
}

fn bounded<P: Producer>(producer: &P, upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    let bytes_max = producer.policy().message_bytes_max;
    upgrade.protocols([SUBPROTOCOL]).max_message_size(bytes_max).max_frame_size(bytes_max)
}

/// The first message and its answer.
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
    let answer = producer.subscribe(caller, request.as_str(), true).await;
    if let Some(text) = answer.text {
        socket.send(Message::text(text)).await.map_err(|_| End::Left)?;
    }
    answer.result.map_err(|rejected| {
        End::Close(match rejected.status {
            StatusCode::UNAUTHORIZED => Close::Unauthenticated,
            StatusCode::FORBIDDEN => Close::Denied,
            _ => Close::Rejected,
        })
    })
}

/// The text of a frame; `None` for frames without meaning.
fn text_of<P: Producer>(
    producer: &P,
    frame: Option<Result<Message, axum::Error>>,
) -> Result<Option<Utf8Bytes>, End> {
    match frame {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Binary(_))) if producer.policy().sockets != Sockets::Lenient => {
            Err(End::Close(Close::NotText))
        }
        Some(Ok(Message::Close(_))) | None => Err(End::Left),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(End::of(error)),
    }
}

/// Sends what the reader has and receives what the subscriber sends, until one of them ends it.
async fn converse<P: Producer>(
    producer: &P,
    caller: &P::Caller,
    socket: &mut WebSocket,
    place: Place<'_>,
) -> End {
    let Ok(mut feed) = producer.open(caller, place, None).await else {
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
                    Reply::Answer(text) => (Message::text(text), false),
                    Reply::Last(text) => (Message::text(text), true),
                    // No message of the protocol says that another one makes no sense.
                    _ => continue,
                },
            },
            () = beat => (Message::Ping(Bytes::new()), false),
        };
        if socket.send(out).await.is_err() {
            return End::Left;
        }
        written_at = recount_world::moment();
        if is_last {
            return End::HangUp;
        }
    }
}

/// A text frame holds UTF-8 only.
fn lossy(text: Bytes) -> Utf8Bytes {
    Utf8Bytes::try_from(text.clone()).unwrap_or_else(|_| String::from_utf8_lossy(&text).into_owned().into())
}

fn frame_of(bytes: Bytes) -> Message {
    Utf8Bytes::try_from(bytes.clone()).map_or(Message::Binary(bytes), Message::Text)
}

async fn finish<P: Producer>(producer: &P, mut socket: WebSocket, end: End) {
    let close = match end {
        End::HangUp => return,
        End::Left => None,
        End::Close(close) => (producer.policy().closing)(close),
    };
    // A peer that has left needs no close frame.
    if let Some((code, reason)) = close {
        socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.ok();
    }
    socket.close().await.ok();
}
