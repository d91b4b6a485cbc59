//! WebSocket: `/aaep/v1/ws` begins with a handshake and wants the subprotocol, `/ws` takes anybody.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::super::judge::{self, Place, Verdict};
use super::super::room::Room;
use super::super::subscription::Surface;
use super::Shared;
use super::feed::{Feed, Told};
use crate::limits;

/// The subprotocol of the specification.
const PROTOCOL: &str = "aaep.v1";

/// Codes that a socket is closed with.
mod code {
    pub(super) const UNSUPPORTED: u16 = 1003;
    pub(super) const TOO_LARGE: u16 = 1009;
    pub(super) const CLEAN: u16 = 4000;
    pub(super) const REJECTED: u16 = 4001;
}

pub(super) async fn versioned(
    State(room): Shared,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let offered =
        headers.get("sec-websocket-protocol").and_then(|offered| offered.to_str().ok()).unwrap_or_default();
    if !offered.split(',').any(|name| name.trim() == PROTOCOL) {
        return (StatusCode::BAD_REQUEST, "the subprotocol aaep.v1 is wanted\n").into_response();
    }
    bounded(upgrade).on_upgrade(|socket| async move {
        let mut socket = socket;
        let Some(id) = welcome(&room, &mut socket).await else { return };
        talk(room, socket, id, true).await;
    })
}

pub(super) async fn legacy(State(room): Shared, upgrade: WebSocketUpgrade) -> Response {
    bounded(upgrade).on_upgrade(|socket| async move {
        let Some(id) = room.open(Surface::LegacySocket, room.implied()) else { return };
        room.catch_up(&id);
        talk(room, socket, id, false).await;
    })
}

fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .protocols([PROTOCOL])
        .max_message_size(limits::SCRIPTED_BODY_BYTES_MAX)
        .max_frame_size(limits::SCRIPTED_BODY_BYTES_MAX)
}

/// The handshake: the first frame asks, the next one answers.
async fn welcome(room: &Arc<Room>, socket: &mut WebSocket) -> Option<String> {
    let text = loop {
        match socket.recv().await? {
            Ok(Message::Text(text)) => break text,
            Ok(Message::Binary(_)) => {
                close(socket, code::UNSUPPORTED, "frames are text").await;
                return None;
            }
            Ok(_) => {}
            Err(_) => {
                close(socket, code::TOO_LARGE, "the frame cannot be read").await;
                return None;
            }
        }
    };
    let opened = judge::handshake(room, text.as_str(), Surface::Socket);
    if let Some(text) = opened.text
        && socket.send(Message::text(text)).await.is_err()
    {
        return None;
    }
    if opened.subscription.is_none() {
        close(socket, code::REJECTED, "rejected").await;
    }
    opened.subscription
}

async fn talk(room: Arc<Room>, mut socket: WebSocket, id: String, strict: bool) {
    let Some(mut feed) = Feed::open(&room, &id, 0) else { return };
    loop {
        let sent = tokio::select! {
            told = feed.next() => match told {
                Some(Told::Message(sent)) => socket.send(Message::text(sent.text.to_string())).await,
                Some(Told::Beat) => socket.send(Message::Ping(axum::body::Bytes::new())).await,
                None => return close(&mut socket, code::CLEAN, "closed").await,
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Text(text))) => match hear(&room, text.as_str(), &id, strict) {
                    Some(answer) => socket.send(Message::text(answer)).await,
                    None => Ok(()),
                },
                Some(Ok(Message::Binary(_))) => return close(&mut socket, code::UNSUPPORTED, "frames are text").await,
                Some(Ok(Message::Close(_))) | None => return,
                Some(Ok(_)) => Ok(()),
                Some(Err(_)) => return close(&mut socket, code::TOO_LARGE, "the frame cannot be read").await,
            },
        };
        if sent.is_err() {
            return;
        }
    }
}

/// What is answered on the socket: only a reason that a right producer keeps to itself.
fn hear(room: &Arc<Room>, text: &str, id: &str, strict: bool) -> Option<String> {
    match judge::hear(room, text, Place::Socket { subscription: id, strict }) {
        Verdict::Told(why) => Some(Value::to_string(&json!({"error": "invalid_token", "message": why}))),
        _ => None,
    }
}

async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    if socket.send(Message::Close(Some(frame))).await.is_err() {
        // The other side has gone already.
    }
}
