//! The specification's surface over HTTP: subscribe, read, reply.

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use recount_aaep::negotiate::Reason;
use serde::Deserialize;

use super::super::judge::{self, Place, Verdict};
use super::super::room::fresh_event;
use super::super::subscription::Surface;
use super::feed::{Feed, event_stream};
use super::{Shared, answer, json_text, utf8};
use crate::limits;

pub(super) async fn subscribe(State(room): Shared, body: Bytes) -> Response {
    let opened = judge::handshake(&room, utf8(&body).unwrap_or_default(), Surface::Versioned);
    let status = match opened.code {
        None => StatusCode::CREATED,
        Some(Reason::RateLimit) => StatusCode::TOO_MANY_REQUESTS,
        Some(Reason::ManifestSignatureRequired | Reason::CapabilitiesIncompatible) => StatusCode::CONFLICT,
        Some(_) => StatusCode::BAD_REQUEST,
    };
    let mut answer = match opened.text {
        Some(text) => json_text(status, text),
        None => StatusCode::NO_CONTENT.into_response(),
    };
    if status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(header::RETRY_AFTER, limits::SCRIPTED_RETRY_SECONDS.into());
    }
    let place = opened.subscription.map(|id| format!("/aaep/v1/events?subscription_id={id}"));
    if let Some(place) = place.and_then(|place| HeaderValue::try_from(place).ok()) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}

#[derive(Deserialize)]
pub(super) struct Which {
    subscription_id: String,
}

pub(super) async fn events(State(room): Shared, Query(which): Query<Which>, headers: HeaderMap) -> Response {
    let id = which.subscription_id;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let here = room.with(&id, |sub| {
        let known = last.map(|last| sub.behind(last, &mut || fresh_event(&room.world)));
        match known {
            None => (sub.surface, Some(sub.seen()), sub.end()),
            Some(at) => (sub.surface, at, sub.end()),
        }
    });
    let feed = match here {
        Some((Surface::Versioned, Some(at), _)) => Feed::open(&room, &id, at),
        Some((Surface::Versioned, None, end)) => {
            // What it has is not known any more: it is told where things stand, and goes on from there.
            room.remind(&id);
            Feed::open(&room, &id, end)
        }
        _ => None,
    };
    match feed {
        Some(feed) => event_stream(feed, true),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) async fn replies(State(room): Shared, body: Bytes) -> Response {
    answer(utf8(&body).map_or(Verdict::Malformed, |text| judge::hear(&room, text, Place::Replies)))
}
