//! HTTP and WebSocket around the room: routes, credentials, statuses. It must never know scenarios.

mod feed;
mod legacy;
mod socket;
mod versioned;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use http::{HeaderValue, Method, StatusCode, header};
use recount_aaep::wire::ProducerManifest;
use recount_aaep::{Kind as EventKind, Message};
use recount_world::Kind;
use serde_json::json;
use tokio::net::TcpListener;

use super::Fault;
use super::judge::{self, Verdict};
use super::room::{AGENT, Room};
use crate::limits;

/// Where the manifest is.
pub(super) const MANIFEST: &str = "/.well-known/aaep-manifest.json";

type Shared = State<Arc<Room>>;

/// Serves until the room is stopped.
pub(super) fn serve(listener: TcpListener, room: Arc<Room>) {
    let router = Router::new()
        .route("/events", get(legacy::events))
        .route("/messages", post(legacy::messages))
        .route("/sessions", post(legacy::sessions))
        .route("/healthz", get(healthz))
        .route("/ws", any(socket::legacy))
        .route("/aaep/v1/subscriptions", post(versioned::subscribe))
        .route("/aaep/v1/events", get(versioned::events))
        .route("/aaep/v1/replies", post(versioned::replies))
        .route("/aaep/v1/ws", any(socket::versioned))
        .route(MANIFEST, get(manifest))
        .layer(DefaultBodyLimit::max(limits::SCRIPTED_BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(room.clone(), guard))
        .with_state(room.clone());
    let listener = listener.tap_io(|peer| {
        if peer.set_nodelay(true).is_err() {
            // It has left already; serving it will tell.
        }
    });
    let mut stopped = room.stopped.subscribe();
    room.world.clone().tasks.spawn(Kind::Service, |mut shutdown| async move {
        let over = {
            let room = room.clone();
            async move {
                tokio::select! {
                    () = shutdown.requested() => room.stop(),
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            }
        };
        if axum::serve(listener, router).with_graceful_shutdown(over).await.is_err() {
            // Serving does not fail once it listens.
        }
        room.served.send_replace(true);
    });
}

/// Whether a request shows the token, and what browsers want to see.
async fn guard(State(room): Shared, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if request.method() == Method::OPTIONS {
        return open_to_pages(StatusCode::NO_CONTENT.into_response());
    }
    if !is_let_in(&room, &request) {
        let mut answer = if path.ends_with("/subscriptions") {
            let refused = json!({
                "type": "subscription.rejected",
                "reason_code": "authentication_required",
                "reason_message": "a bearer token is wanted",
            });
            (StatusCode::UNAUTHORIZED, Json(refused)).into_response()
        } else {
            StatusCode::UNAUTHORIZED.into_response()
        };
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return open_to_pages(answer);
    }
    let answer = next.run(request).await;
    if path.starts_with("/aaep/") { answer } else { open_to_pages(answer) }
}

fn is_let_in(room: &Room, request: &Request) -> bool {
    let Some(token) = &room.behaviour.token else { return true };
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let unguarded = match room.behaviour.fault {
        Some(Fault::EventsUnguarded) => path.ends_with("/events"),
        Some(Fault::RepliesUnguarded) => path.ends_with("/replies") || path.ends_with("/messages"),
        Some(Fault::SubscriptionIdAdmits) => {
            let known = query.strip_prefix("subscription_id=");
            known.is_some_and(|id| room.with(id, |_| ()).is_some())
        }
        _ => false,
    };
    if unguarded {
        return true;
    }
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|shown| shown.to_str().ok());
    shown.and_then(|shown| shown.strip_prefix("Bearer ")).is_some_and(|shown| shown == token)
}

/// The de-facto surface is there for pages of other origins.
fn open_to_pages(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    let allowed = HeaderValue::from_static("Content-Type, Authorization, Last-Event-ID");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    answer
}

/// What was said, as an answer over HTTP.
fn answer(verdict: Verdict) -> Response {
    match verdict {
        Verdict::Taken => StatusCode::NO_CONTENT.into_response(),
        Verdict::Began(session) => {
            (StatusCode::ACCEPTED, Json(json!({"status": "started", "session_id": session}))).into_response()
        }
        Verdict::Full => StatusCode::TOO_MANY_REQUESTS.into_response(),
        Verdict::Answer(text) => json_text(StatusCode::OK, text),
        Verdict::Malformed => (StatusCode::BAD_REQUEST, Json(json!({"error": "malformed"}))).into_response(),
        Verdict::Told(why) => {
            (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_token", "message": why}))).into_response()
        }
    }
}

fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A body that is text.
fn utf8(body: &Bytes) -> Option<&str> {
    std::str::from_utf8(body).ok()
}

async fn healthz(State(room): Shared) -> Response {
    let subscriptions = room.lock().subscriptions.iter().filter(|sub| sub.attached).count();
    Json(json!({"status": "ok", "agent_id": AGENT, "subscriptions": subscriptions})).into_response()
}

async fn manifest(State(room): Shared) -> Response {
    if room.is(Fault::ManifestMissing) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let transports = vec!["sse".to_owned(), "websocket".to_owned()];
    let agent = if room.is(Fault::ManifestUntrue) { "another-agent" } else { AGENT };
    let mut manifest = ProducerManifest::new(agent, (1..=room.behaviour.level).collect(), transports);
    let producer = judge::producer();
    (manifest.agent_version, manifest.agent_name) = (producer.agent_version, producer.agent_name);
    manifest.languages_supported = vec!["en-US".into()];
    manifest.event_types_emitted = EventKind::ALL
        .into_iter()
        .filter(|kind| *kind != EventKind::SessionCancelled)
        .map(|kind| kind.compact().to_owned())
        .collect();
    manifest.default_verbosity = Some(recount_aaep::wire::Verbosity::Normal);
    manifest.max_concurrent_subscriptions = u32::try_from(limits::SCRIPTED_SUBSCRIPTIONS_MAX).ok();
    let endpoints = json!({
        "subscriptions": "/aaep/v1/subscriptions",
        "events": "/aaep/v1/events",
        "replies": "/aaep/v1/replies",
        "websocket": "/aaep/v1/ws",
    });
    manifest.other.insert("endpoints".into(), endpoints);
    json_text(StatusCode::OK, Message::from(manifest).to_json())
}
