//! The face for listeners (AAEP): creates its state, names its paths, and formats refusals from before the face.
//!
//! Start at [`face`] and [`format_refusals`]. It must never know the replies of the face.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Uri;
use http::uri::PathAndQuery;
use recount_engine::{Engine, Redactor, SEAL_KEY_BYTES};
use recount_event::Code;
use recount_face_aaep::{AttemptLog, FaceState, Outcome, ReplyAttempt, TokenKey};
use recount_face_aep::Refusal;
use recount_world::World;
use serde_json::json;
use tower::ServiceExt as _;

use crate::audit::{Audit, AuditKind};

use crate::StartError;
use crate::config::{Aaep, RoomAccess};
use crate::conformance_agent::ConformanceAgent;
use crate::peer::{ArrivedAt, Peer};

/// The face's routes, for the counters of requests.
pub(crate) const PATHS: [&str; 10] = [
    "/aaep/v1/subscriptions",
    "/aaep/v1/events",
    "/aaep/v1/replies",
    "/aaep/v1/ws",
    "/.well-known/aaep-manifest.json",
    "/aaep/legacy/{room}/events",
    "/aaep/legacy/{room}/messages",
    "/aaep/legacy/{room}/sessions",
    "/aaep/legacy/{room}/healthz",
    "/aaep/legacy/{room}/ws",
];

/// Creates the state of the face. Without a key of the data folder, reply tokens are valid until the server ends.
/// Attempts to reply are recorded in the audit trail, if there is one.
pub(crate) async fn face(
    world: &World,
    key: Option<&[u8; SEAL_KEY_BYTES]>,
    engine: &Engine,
    settings: Aaep,
    audit: Option<Audit>,
) -> Result<FaceState, StartError> {
    let token_key = match key {
        Some(key) => TokenKey::derive(key),
        None => TokenKey::derive(&world.entropy.draw().to_le_bytes()),
    };
    let face = FaceState::new(world.clone(), token_key, settings.subscriptions_max);
    let face = match audit {
        Some(audit) => face.with_attempt_log(Arc::new(ReplyTrail(audit))),
        None => face,
    };
    if !settings.rooms.agent {
        return Ok(face);
    }
    let agent = ConformanceAgent::new(engine).await?;
    Ok(face.with_agent(Arc::new(agent), settings.rooms.announces_sessions))
}

/// Serves one room at the root of a further address: `/events` there is `/aaep/legacy/{room}/events` of `router`.
/// Nothing else of the server is available there.
pub(crate) fn at_root(router: Router, room: &'static str, address: SocketAddr) -> Router {
    Router::new().fallback(async move |mut request: Request| {
        let below = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        // A path that is too long with the room's before it must not be read as `/`, which is another page.
        let Ok(path) = format!("/aaep/legacy/{room}{below}").parse::<PathAndQuery>() else {
            return Refusal::new(Code::RouteNotFound, "the path is invalid").into_response();
        };
        *request.uri_mut() = Uri::from(path);
        request.extensions_mut().insert(ArrivedAt(address));
        router.oneshot(request).await.into_response()
    })
}

/// Refuses the rooms to clients without access.
pub(crate) async fn rooms(State(access): State<RoomAccess>, request: Request, next: Next) -> Response {
    if !request.uri().path().starts_with("/aaep/legacy/") {
        return next.run(request).await;
    }
    let is_near = |request: &Request| request.extensions().get::<Peer>().is_none_or(Peer::is_on_this_machine);
    match access {
        RoomAccess::Everywhere => next.run(request).await,
        RoomAccess::Loopback if is_near(&request) => next.run(request).await,
        RoomAccess::Loopback => {
            let detail = "rooms accept only clients on the machine of this server; use /aaep/v1, or set aaep.rooms to \
                 everywhere";
            Refusal::new(Code::RouteNotFound, detail).into_response()
        }
        RoomAccess::Off => {
            let detail = "rooms are disabled; use /aaep/v1, or set aaep.rooms to loopback";
            Refusal::new(Code::RouteNotFound, detail).into_response()
        }
    }
}

/// Records attempts to reply in the audit trail.
struct ReplyTrail(Audit);

impl AttemptLog for ReplyTrail {
    fn record<'a>(&'a self, attempt: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let facts = json!({
            "message": attempt.message,
            "outcome": attempt.outcome.word(),
            "subscription_id": attempt.subscription,
            "by": attempt.by,
            "caller_id": attempt.caller_id,
            "decided_by": attempt.decided_by,
            "run_id": attempt.run.map(|run| run.to_string()),
            "prompt_id": attempt.prompt.map(|prompt| prompt.to_string()),
        });
        Box::pin(self.0.record(AuditKind::ReplyReceived, facts))
    }

    fn count(&self, _: Outcome) {
        self.0.refused("reply_refused", None);
    }
}

/// Rewrites refusals from before the face in the form of the protocol.
pub(crate) async fn format_refusals(
    State(redactor): State<Arc<Redactor>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if !path.starts_with("/aaep/") && path != recount_face_aaep::MANIFEST {
        return next.run(request).await;
    }
    let is_handshake = path == PATHS[0];
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
    let detail = redactor.quotes(&refusal.detail);
    let mut worded =
        recount_face_aaep::refusal_response(refusal.code, &detail, refusal.retry_after, is_handshake);
    // Headers added to the refusal are kept.
    worded.headers_mut().extend(std::mem::take(response.headers_mut()));
    worded
}
