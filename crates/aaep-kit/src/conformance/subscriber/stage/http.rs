//! The surfaces of the synthetic producer: `/events` with `/messages`, `/aaep/v1/…`, and a WebSocket of either kind.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Query, Request, State as Given};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::json;
use tokio::sync::mpsc;

use super::frame::Piece;
use super::state::{Face, Out, Shared, What};
use crate::limits;

type Stage = Given<Arc<Shared>>;

/// What `/aaep/v1` calls its frames.
const NAMED: Option<&str> = Some("aaep.event");
const LAST_EVENT_ID: &str = "last-event-id";
const SUBPROTOCOL: &str = "aaep.v1";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/events", get(legacy_events))
        .route("/messages", post(legacy_message))
        .route(
            "/sessions",
            post(|| async { (StatusCode::ACCEPTED, axum::Json(json!({"status": "started"}))) }),
        )
        .route("/healthz", get(|| async { axum::Json(json!({"status": "ok"})) }))
        .route("/.well-known/aaep-manifest.json", get(manifest))
        .route("/aaep/v1/subscriptions", post(subscribe))
        .route("/aaep/v1/events", get(versioned_events))
        .route("/aaep/v1/replies", post(versioned_reply))
        .route("/ws", any(legacy_socket))
        .route("/aaep/v1/ws", any(versioned_socket))
        .layer(DefaultBodyLimit::max(limits::STAGE_REPLY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Notes every request, refuses where it is told to or the token is missing, and lets pages of browsers in: what is
/// served here are made-up events on this machine.
async fn guard(Given(shared): Stage, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let entitled = shared.token.is_none() || bearer == shared.token.as_deref();
    let preflight = request.method() == Method::OPTIONS;
    let path = request.uri().path().to_owned();
    let open = preflight || path == "/healthz" || path.starts_with("/.well-known/");
    if !open {
        shared.note(What::Came { path, entitled });
    }
    let refusing = shared.with(|state| state.refusing);
    let mut response = match refusing.map(StatusCode::from_u16) {
        Some(Ok(status)) => status.into_response(),
        _ if preflight => StatusCode::NO_CONTENT.into_response(),
        _ if !entitled && !open => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        _ => next.run(request).await,
    };
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type, authorization, last-event-id, cache-control"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn manifest() -> Response {
    let transports = vec!["sse".to_owned(), "websocket".to_owned()];
    let manifest =
        recount_aaep::wire::ProducerManifest::new(super::super::voice::AGENT, vec![1, 2, 3], transports);
    axum::Json(manifest).into_response()
}

fn resumes(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(HeaderName::from_static(LAST_EVENT_ID))?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

async fn legacy_events(Given(shared): Stage, headers: HeaderMap) -> Response {
    let (line, receiver) = shared.opened(Face::Legacy, resumes(&headers), None, true);
    stream(shared, line, receiver, None)
}

#[derive(serde::Deserialize)]
struct Which {
    subscription_id: Option<String>,
}

async fn versioned_events(Given(shared): Stage, Query(which): Query<Which>, headers: HeaderMap) -> Response {
    let known = |id: &String| shared.with(|state| state.known.iter().any(|(known, _)| known == id));
    match which.subscription_id.filter(known) {
        Some(id) => {
            let (line, receiver) = shared.opened(Face::Versioned, resumes(&headers), Some(id), true);
            stream(shared, line, receiver, NAMED)
        }
        None => (StatusCode::NOT_FOUND, "no such subscription; ask for a new one").into_response(),
    }
}

/// A line that goes away with its stream.
struct Leave {
    shared: Arc<Shared>,
    line: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.closed(self.line);
    }
}

fn stream(
    shared: Arc<Shared>,
    line: u64,
    receiver: mpsc::Receiver<Out>,
    name: Option<&'static str>,
) -> Response {
    let hello = VecDeque::from([Bytes::from_static(b": connected\n\n")]);
    let begin = (receiver, hello, Leave { shared, line });
    let writes = futures_util::stream::unfold(begin, move |(mut receiver, mut ready, leave)| async move {
        loop {
            if let Some(write) = ready.pop_front() {
                if !ready.is_empty() {
                    // tidy: so that the pieces are written one by one
                    tokio::time::sleep(limits::STAGE_WRITE_PAUSE).await;
                }
                return Some((Ok::<Bytes, Infallible>(write), (receiver, ready, leave)));
            }
            match tokio::time::timeout(limits::STAGE_HEARTBEAT, receiver.recv()).await {
                Err(_) => ready.push_back(Bytes::from_static(b": still there\n\n")),
                Ok(Some(Out::Say(piece))) => ready = piece.writes(name),
                Ok(Some(Out::End) | None) => return None,
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, recount_transport::sse::MEDIA_TYPE),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(writes)).into_response()
}

/// What kind of message a text is, as far as the way it is answered goes.
fn kind(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let kind = value.get("type")?.as_str()?;
    Some(kind.strip_prefix("aaep:").unwrap_or(kind).to_owned())
}

async fn legacy_message(Given(shared): Stage, text: String) -> Response {
    shared.note(What::Said { text: text.clone(), face: Face::Legacy });
    match kind(&text).as_deref() {
        Some("subscription.request") => {
            let answer = shared.answer(&text);
            shared.tell_legacy(answer.body, answer.subscription);
        }
        Some("subscription.renegotiate") => {
            if let Some(body) = shared.renegotiated(&text) {
                shared.tell_legacy(body, None);
            }
        }
        Some(_) => {}
        None => return StatusCode::BAD_REQUEST.into_response(),
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn subscribe(Given(shared): Stage, text: String) -> Response {
    shared.note(What::Said { text: text.clone(), face: Face::Versioned });
    let answer = shared.answer(&text);
    let json = HeaderValue::from_static("application/json");
    let mut response = Body::from(answer.body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    match answer.subscription {
        Some(id) => {
            *response.status_mut() = StatusCode::CREATED;
            if let Ok(place) = HeaderValue::from_str(&format!("/aaep/v1/events?subscription_id={id}")) {
                response.headers_mut().insert(header::LOCATION, place);
            }
        }
        None => {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            if let Some(seconds) = answer.retry_after_seconds {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
        }
    }
    response
}

async fn versioned_reply(Given(shared): Stage, text: String) -> Response {
    shared.note(What::Said { text: text.clone(), face: Face::Versioned });
    match kind(&text).as_deref() {
        Some("subscription.renegotiate") => match shared.renegotiated(&text) {
            Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Some(_) => StatusCode::NO_CONTENT.into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn legacy_socket(Given(shared): Stage, upgrade: WebSocketUpgrade) -> Response {
    socket(shared, upgrade, Face::LegacySocket)
}

async fn versioned_socket(Given(shared): Stage, upgrade: WebSocketUpgrade) -> Response {
    socket(shared, upgrade, Face::VersionedSocket)
}

fn socket(shared: Arc<Shared>, upgrade: WebSocketUpgrade, face: Face) -> Response {
    upgrade
        .protocols([SUBPROTOCOL])
        .max_message_size(limits::STAGE_REPLY_BYTES_MAX)
        .on_upgrade(move |socket| converse(shared, socket, face))
}

async fn converse(shared: Arc<Shared>, mut socket: WebSocket, face: Face) {
    let (line, mut receiver) = shared.opened(face, None, None, face == Face::LegacySocket);
    let _leave = Leave { shared: shared.clone(), line };
    loop {
        tokio::select! {
            out = receiver.recv() => {
                let sent = match out {
                    Some(Out::Say(piece)) => socket.send(frame(piece)).await,
                    Some(Out::End) | None => {
                        let close = CloseFrame { code: limits::STAGE_CLOSE_CODE, reason: "closed".into() };
                        // It may have gone first.
                        socket.send(Message::Close(Some(close))).await.ok();
                        return;
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
            heard = socket.recv() => match heard {
                Some(Ok(Message::Text(text))) => {
                    shared.note(What::Came { path: face.says().to_owned(), entitled: true });
                    shared.note(What::Said { text: text.as_str().to_owned(), face });
                    let answer = match kind(text.as_str()).as_deref() {
                        Some("subscription.request") => {
                            let answer = shared.answer(text.as_str());
                            Some((answer.body, answer.subscription))
                        }
                        Some("subscription.renegotiate") => shared.renegotiated(text.as_str()).map(|body| (body, None)),
                        _ => None,
                    };
                    let Some((body, subscription)) = answer else { continue };
                    let rejected = body.contains("subscription.rejected");
                    if socket.send(Message::Text(body.into())).await.is_err() || rejected {
                        return;
                    }
                    if let Some(id) = subscription {
                        shared.ready(line, id);
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

/// A piece as a frame: text where it is one, since only text is allowed.
fn frame(piece: Piece) -> Message {
    match String::from_utf8(piece.data) {
        Ok(text) => Message::Text(text.into()),
        Err(bytes) => Message::Binary(bytes.into_bytes().into()),
    }
}
