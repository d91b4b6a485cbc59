//! The routes of this face: the only async part. Each handler validates, calls the engine and projects the result.
//!
//! Handlers are in one file per subject; [`router`] lists them all.

mod answers;
mod caller;
mod events;
mod history;
mod http;
mod idempotency;
mod late;
mod latest;
mod meta;
mod originals;
mod pictures;
mod sessions;
mod stream;
mod turn_setup;
mod turns;
mod user_message;

use std::sync::Arc;

use ::http::Method;
use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use recount_engine::{EngineInstance, Profiles, RequestContext};
use recount_event::Code;
use recount_transport::{RequestId, Share, ShareLimits, Shares};

use crate::error::Refusal;
use crate::limits;

/// State that the handlers of all callers share, with a limit for each tenant. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    profiles: Arc<Profiles>,
    /// The body of `GET /meta`, the same for all clients.
    meta: Bytes,
    streams: Shares<EngineInstance>,
    streams_max: usize,
}

impl FaceState {
    /// With the agents for applications, and a limit of concurrent turn responses per tenant;
    /// [`limits::STREAMS_MAX`] is the usual one.
    pub fn new(profiles: Arc<Profiles>, streams_max: usize) -> Self {
        let meta = meta::written(&profiles);
        let streams = Shares::new(ShareLimits::for_each(streams_max, limits::STREAMS_OWN_MAX));
        FaceState { profiles, meta, streams, streams_max }
    }

    /// How many turn responses were refused at the limit.
    pub fn streams_refused(&self) -> u64 {
        self.streams.refused()
    }
}

/// A permit of a tenant for one turn response.
pub(crate) type StreamPermit = Share<EngineInstance>;

/// All routes, relative to the path where this is nested. Must be served after a layer that gives each request a
/// [`RequestId`] and a [`RequestContext`]; `/meta` needs no visitor.
pub fn router(places: FaceState) -> Router {
    let routes: [(&str, MethodRouter<FaceState>); 9] = [
        ("/meta", get(meta::get_meta)),
        ("/sessions", get(sessions::list_sessions).post(sessions::create_session)),
        (
            "/sessions/{session}",
            get(sessions::get_session).patch(sessions::change_session).delete(sessions::delete_session),
        ),
        ("/sessions/{session}/history", get(history::get_history)),
        ("/sessions/{session}/fork", post(history::fork_session)),
        ("/sessions/{session}/turns", post(turns::create_turn)),
        ("/sessions/{session}/turns/{turn}", get(turns::get_turn)),
        ("/sessions/{session}/turns/{turn}/cancel", post(turns::cancel_turn)),
        ("/sessions/{session}/turns/{turn}/events", get(turns::watch_turn)),
    ];
    let mut router = Router::new();
    for (path, methods) in routes {
        // Clients may send a path with a trailing slash.
        router = router.route(&format!("{path}/"), methods.clone()).route(path, methods);
    }
    router
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(places)
        .layer(middleware::from_fn(idempotency::to_its_end))
        .layer(middleware::from_fn(worded))
}

/// Adds the request's id to refusals. None of them contains a secret, though many repeat input.
async fn worded(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let redactor =
        request.extensions().get::<RequestContext>().map(|visitor| visitor.engine.write().redactor().clone());
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        let refusal = match redactor {
            Some(redactor) => refusal.masked(&redactor),
            None => refusal,
        };
        // Headers that were added to the refusal stay.
        let headers = std::mem::take(response.headers_mut());
        response = refusal.response(id.as_ref().map(|RequestId(id)| &**id));
        response.headers_mut().extend(headers);
    }
    response
}

/// For every unknown path.
async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::RouteNotFound, format!("no route matches {path:?}")).into_response()
}

/// For a known path with an unsupported method.
async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::MethodNotAllowed, format!("{path:?} does not allow {method}")).into_response()
}
