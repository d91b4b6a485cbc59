//! The HTTP side of a replay: the surface in use (`/events`, `/messages`, `/healthz`) and the specification's
//! (`/aaep/v1/subscriptions`, `/aaep/v1/events`, `/aaep/v1/replies`). WebSockets stand in `socket.rs`. It judges
//! nothing: what a message means to the replay, [`super::hearing`] says.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use recount_transport::sse;
use serde_json::json;

use super::feed::{Feed, Next};
use super::hearing::{Heard, hear_in_room, hear_on_subscription};
use super::room::Door;
use super::socket;
use super::stage::{Saying, Stage};
use crate::aaep::negotiate::{Reason, Refusal};
use crate::limits;

/// All routes.
pub(super) fn routes(stage: Arc<Stage>) -> Router {
    let options = || async { StatusCode::NO_CONTENT };
    Router::new()
        .route("/events", get(room_events).options(options))
        .route("/messages", post(messages).options(options))
        .route("/healthz", get(health).options(options))
        .route("/ws", get(socket::room))
        .route("/aaep/v1/subscriptions", post(subscriptions).options(options))
        .route("/aaep/v1/events", get(subscription_events).options(options))
        .route("/aaep/v1/replies", post(replies).options(options))
        .route("/aaep/v1/ws", get(socket::versioned))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path") })
        .layer(axum::middleware::map_response(open_to_pages))
        .with_state(stage)
}

/// Pages of any origin may listen: what is said here is a recording, and browsers are among the subscribers.
async fn open_to_pages(mut response: Response) -> Response {
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, Authorization, Last-Event-ID, Cache-Control"),
        (ACCESS_CONTROL_EXPOSE_HEADERS, "Location, Retry-After"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(status: StatusCode, error: &str, message: &str) -> Response {
    (status, axum::Json(json!({ "error": error, "message": message }))).into_response()
}

/// The same whatever is wrong, so that a sender learns nothing of prompts.
fn unfit() -> Response {
    let message = "the body is no message that a producer takes; send one JSON object of the protocol";
    refuse(StatusCode::BAD_REQUEST, "invalid_message", message)
}

async fn health(State(stage): State<Arc<Stage>>) -> Response {
    let progress = stage.now();
    axum::Json(json!({
        "status": "ok",
        "lines": stage.script.len(),
        "said": progress.place,
        "over": progress.over,
        "listeners": stage.listeners(),
    }))
    .into_response()
}

/// How frames of a surface look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frames {
    /// Without a name, because subscribers in use listen for nothing else.
    Unnamed,
    Named,
}

async fn room_events(State(stage): State<Arc<Stage>>, method: Method, headers: HeaderMap) -> Response {
    if method == Method::HEAD {
        return stream_headers(Body::empty());
    }
    let door = stage.room.enter();
    events(&stage, door, Frames::Unnamed, &headers)
}

#[derive(serde::Deserialize)]
struct Which {
    subscription_id: Option<String>,
}

async fn subscription_events(
    State(stage): State<Arc<Stage>>,
    method: Method,
    headers: HeaderMap,
    Query(which): Query<Which>,
) -> Response {
    let Some(id) = which.subscription_id else {
        let message = "say which subscription: `?subscription_id=` with the id of `subscription.accepted`";
        return refuse(StatusCode::BAD_REQUEST, "subscription_missing", message);
    };
    if method == Method::HEAD && stage.room.knows(&id) {
        return stream_headers(Body::empty());
    }
    let Some(door) = stage.room.resume(&id) else {
        let message = "there is no such subscription; it has ended or was never accepted";
        return refuse(StatusCode::NOT_FOUND, "subscription_unknown", message);
    };
    events(&stage, door, Frames::Named, &headers)
}

fn events(stage: &Arc<Stage>, door: Door, frames: Frames, headers: &HeaderMap) -> Response {
    let heard = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let Some(feed) = Feed::open(stage, door, heard) else { return full() };
    let first =
        stream::once(async { Ok::<_, std::convert::Infallible>(Bytes::from_static(b": connected\n\n")) });
    let rest = stream::unfold(Some(feed), move |feed| async move {
        let mut feed = feed?;
        let mut out = BytesMut::new();
        let mut next = Some(feed.next().await);
        // What is there already goes out with it.
        while let Some(now) = next {
            match now {
                Next::Line(saying) => push_line(&mut out, frames, &saying),
                Next::Answer(text) => push_text(&mut out, frames, None, text.as_bytes()),
                Next::Quiet => out.put_slice(sse::HEARTBEAT),
                Next::Over if out.is_empty() => return None,
                Next::Over => return Some((Ok(out.freeze()), Some(feed))),
            }
            next = if out.len() < limits::REPLAY_CHUNK_BYTES { feed.ready() } else { None };
        }
        Some((Ok(out.freeze()), Some(feed)))
    });
    stream_headers(Body::from_stream(futures_util::StreamExt::chain(first, rest)))
}

fn full() -> Response {
    let message = format!("{} subscribers listen already; close one", limits::REPLAY_LISTENERS_MAX);
    refuse(StatusCode::SERVICE_UNAVAILABLE, "full", &message)
}

fn stream_headers(body: Body) -> Response {
    let accel = HeaderName::from_static("x-accel-buffering");
    ([(CONTENT_TYPE, sse::MEDIA_TYPE), (CACHE_CONTROL, "no-cache"), (accel, "no")], body).into_response()
}

fn push_line(out: &mut BytesMut, frames: Frames, saying: &Saying) {
    push_text(out, frames, saying.id.as_deref(), &saying.text);
}

/// One frame; what is said holds no line end.
fn push_text(out: &mut BytesMut, frames: Frames, id: Option<&str>, text: &[u8]) {
    if frames == Frames::Named {
        out.put_slice(b"event: aaep.event\n");
    }
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_slice(b"\n");
    }
    out.put_slice(b"data: ");
    out.put_slice(text);
    out.put_slice(b"\n\n");
}

/// The text of a request.
async fn body_of(body: Body) -> Result<String, Response> {
    let Ok(bytes) = axum::body::to_bytes(body, limits::REPLAY_BODY_BYTES_MAX).await else {
        let message = format!("the body has more than {} bytes", limits::REPLAY_BODY_BYTES_MAX);
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message));
    };
    String::from_utf8(bytes.into()).map_err(|_| unfit())
}

async fn messages(State(stage): State<Arc<Stage>>, body: Body) -> Response {
    let text = match body_of(body).await {
        Ok(text) => text,
        Err(refusal) => return refusal,
    };
    match hear_in_room(&stage, &text) {
        Heard::Done | Heard::Answer(_) => StatusCode::NO_CONTENT.into_response(),
        Heard::Unfit | Heard::Stranger => unfit(),
    }
}

async fn replies(State(stage): State<Arc<Stage>>, body: Body) -> Response {
    let text = match body_of(body).await {
        Ok(text) => text,
        Err(refusal) => return refusal,
    };
    match hear_on_subscription(&stage, None, &text) {
        Heard::Done => StatusCode::NO_CONTENT.into_response(),
        Heard::Answer(answer) => as_json(StatusCode::OK, answer.text),
        Heard::Unfit => unfit(),
        Heard::Stranger => {
            let message = "there is no such subscription; it has ended or was never accepted";
            refuse(StatusCode::NOT_FOUND, "subscription_unknown", message)
        }
    }
}

async fn subscriptions(State(stage): State<Arc<Stage>>, body: Body) -> Response {
    let text = match body_of(body).await {
        Ok(text) => text,
        Err(refusal) => return refusal,
    };
    let answered = stage.room.subscribe(&stage.world, &stage.script, &text);
    let Some(refusal) = &answered.refusal else {
        let mut response = as_json(StatusCode::CREATED, answered.text);
        let location = format!("/aaep/v1/events?subscription_id={}", answered.id.unwrap_or_default());
        response.headers_mut().extend(HeaderValue::from_str(&location).ok().map(|value| (LOCATION, value)));
        return response;
    };
    let mut response = as_json(status_of(refusal), answered.text);
    let retry = refusal.retry_after_seconds.map(HeaderValue::from);
    response.headers_mut().extend(retry.map(|value| (RETRY_AFTER, value)));
    response
}

fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal.code {
        Reason::VersionUnsupported | Reason::Unknown => StatusCode::BAD_REQUEST,
        Reason::CapabilitiesIncompatible | Reason::ManifestSignatureRequired => StatusCode::CONFLICT,
        Reason::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        Reason::AuthenticationRequired => StatusCode::UNAUTHORIZED,
        Reason::AuthorizationDenied => StatusCode::FORBIDDEN,
        Reason::TransportUnavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn as_json(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}
