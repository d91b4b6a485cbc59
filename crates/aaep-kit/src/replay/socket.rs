//! The WebSocket side of a replay: one JSON in a text frame, both ways. At `/ws` events come at once, as subscribers
//! in use expect; at `/aaep/v1/ws` the subprotocol and a handshake come first.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};

use super::feed::{Feed, Next};
use super::hearing::{Heard, hear_in_room, hear_on_subscription};
use super::room::Door;
use super::stage::Stage;
use crate::limits;

/// Why a connection is closed, as chapter 8 numbers it, or as WebSockets do.
#[derive(Clone, Copy)]
enum Close {
    /// All was said.
    Whole,
    Rejected,
    /// The subscriber said so.
    Asked,
    /// There are too many readers.
    Full,
    NotText,
    NoHandshake,
}

impl Close {
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Close::Whole => (4000, "all was said"),
            Close::Rejected => (4001, "the subscription was rejected"),
            Close::Asked => (4005, "closed as asked"),
            Close::Full => (1013, "too many subscribers listen already"),
            Close::NotText => (1003, "send text frames"),
            Close::NoHandshake => (4004, "a subscription.request comes first, and soon"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

type Sink = SplitSink<WebSocket, Message>;

/// `/ws`
pub(super) async fn room(State(stage): State<Arc<Stage>>, upgrade: WebSocketUpgrade) -> Response {
    bounded(upgrade).protocols(["aaep.v1"]).on_upgrade(move |socket| async move {
        let (mut sink, source) = socket.split();
        let door = stage.room.enter();
        let close = follow(&stage, &mut sink, source, door).await;
        end(sink, close).await;
    })
}

/// `/aaep/v1/ws`
pub(super) async fn versioned(State(stage): State<Arc<Stage>>, upgrade: WebSocketUpgrade) -> Response {
    let upgrade = bounded(upgrade).protocols(["aaep.v1"]);
    if upgrade.selected_protocol().is_none() {
        let why = "say `Sec-WebSocket-Protocol: aaep.v1`; without a subprotocol there is /ws";
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    upgrade.on_upgrade(move |socket| async move {
        let (mut sink, mut source) = socket.split();
        let close = match handshake(&stage, &mut sink, &mut source).await {
            Ok(id) => {
                let close = match stage.room.resume(&id) {
                    Some(door) => follow(&stage, &mut sink, source, door).await,
                    // There were as many newer ones as can be.
                    None => Some(Close::Full),
                };
                stage.room.close(&id);
                close
            }
            Err(close) => close,
        };
        end(sink, close).await;
    })
}

fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(limits::REPLAY_BODY_BYTES_MAX).max_frame_size(limits::REPLAY_BODY_BYTES_MAX)
}

/// The first message and its answer. `Err` is how the connection ends, if not by itself.
async fn handshake(
    stage: &Arc<Stage>,
    sink: &mut Sink,
    source: &mut SplitStream<WebSocket>,
) -> Result<String, Option<Close>> {
    let first = async {
        loop {
            match source.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_))) => return Err(Some(Close::NotText)),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(None),
            }
        }
    };
    let first = tokio::time::timeout(limits::REPLAY_HANDSHAKE_WAIT, first).await;
    let request = first.unwrap_or(Err(Some(Close::NoHandshake)))?;
    let answered = stage.room.subscribe(&stage.world, &stage.script, request.as_str());
    sink.send(Message::text(answered.text)).await.map_err(|_| None)?;
    answered.id.ok_or(Some(Close::Rejected))
}

/// Says what is to be said and hears what comes, until one of both ends it.
async fn follow(
    stage: &Arc<Stage>,
    sink: &mut Sink,
    mut source: SplitStream<WebSocket>,
    door: Door,
) -> Option<Close> {
    let own = match &door {
        Door::Room(_) => None,
        Door::Subscription(id) => Some(id.clone()),
    };
    let Some(mut feed) = Feed::open(stage, door, None) else { return Some(Close::Full) };
    loop {
        let out = tokio::select! {
            next = feed.next() => match next {
                // A text frame holds nothing but UTF-8.
                Next::Line(saying) => Message::text(String::from_utf8_lossy(&saying.text).into_owned()),
                Next::Answer(text) => Message::text(&*text),
                Next::Quiet => Message::Ping(bytes::Bytes::new()),
                Next::Over if own.as_deref().is_some_and(|id| !stage.room.knows(id)) => return Some(Close::Asked),
                Next::Over => return Some(Close::Whole),
            },
            came = source.next() => match came {
                Some(Ok(Message::Text(text))) => {
                    let heard = match &own {
                        None => hear_in_room(stage, &text),
                        Some(own) => hear_on_subscription(stage, Some(own), &text),
                    };
                    // There is no message that says of another that it makes no sense.
                    let Heard::Answer(answer) = heard else { continue };
                    Message::text(answer.text)
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Binary(_))) => return Some(Close::NotText),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            },
        };
        if sink.send(out).await.is_err() {
            return None;
        }
    }
}

async fn end(mut sink: Sink, close: Option<Close>) {
    if let Some(close) = close {
        // Who has left already needs no farewell.
        sink.send(Message::Close(Some(close.frame()))).await.ok();
    }
    sink.close().await.ok();
}
