//! The de-facto surface: one stream for everybody, and one place to say anything. Every reader has a subscription of
//! its own, with the terms that hold where nobody asks.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::super::judge::{self, Place, Verdict};
use super::super::subscription::Surface;
use super::feed::{Feed, event_stream};
use super::{Shared, answer, utf8};

pub(super) async fn events(State(room): Shared, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let resumed = last.and_then(|last| room.resume(last));
    let feed = match resumed {
        Some((id, at)) => Feed::open(&room, &id, at),
        None => match room.expected() {
            Some(id) => Feed::open(&room, &id, 0),
            None => room.open(Surface::Legacy, room.implied()).and_then(|id| {
                room.catch_up(&id);
                Feed::open(&room, &id, 0)
            }),
        },
    };
    match feed {
        Some(feed) => event_stream(feed, false),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

pub(super) async fn messages(State(room): Shared, body: Bytes) -> Response {
    let verdict = utf8(&body).map_or(Verdict::Malformed, |text| judge::hear(&room, text, Place::Messages));
    answer(verdict)
}

/// `{"user_message": …}` begins a session, too.
pub(super) async fn sessions(State(room): Shared, body: Bytes) -> Response {
    let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let verdict = match said.get("user_message").and_then(Value::as_str) {
        Some(text) => judge::begin(&room, text).map_or(Verdict::Full, Verdict::Began),
        None => Verdict::Malformed,
    };
    answer(verdict)
}
