//! The routes of this face: the only part that waits. Each handler accepts, asks the engine, projects.
//!
//! Handlers stand in one file a subject; [`router`] names them all.

mod answers;
mod beginning;
mod caller;
mod events;
mod history;
mod http;
mod late;
mod latest;
mod meta;
mod once;
mod originals;
mod pictures;
mod say;
mod sessions;
mod stream;
mod turns;

use std::sync::Arc;

use ::http::Method;
use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use recount_engine::{EngineInstance, Profiles, Visitor};
use recount_event::Code;
use recount_transport::{RequestId, Share, ShareLimits, Shares};

use crate::error::Refusal;
use crate::limits;

/// What the handlers of all callers share, so that no tenant can take all of it. Cheap to clone.
#[derive(Clone)]
pub struct Places {
    profiles: Arc<Profiles>,
    /// `GET /meta`, which is the same for everybody.
    meta: Bytes,
    streams: Shares<EngineInstance>,
    streams_max: usize,
}

impl Places {
    /// With the agents that applications may work with, and a bound on the turns that are told to one tenant at a time;
    /// [`limits::STREAMS_MAX`] is the usual one.
    pub fn new(profiles: Arc<Profiles>, streams_max: usize) -> Self {
        let meta = meta::written(&profiles);
        let streams = Shares::new(ShareLimits::for_each(streams_max, limits::STREAMS_OWN_MAX));
        Places { profiles, meta, streams, streams_max }
    }

    /// How often there was no place for a turn to be told.
    pub fn streams_refused(&self) -> u64 {
        self.streams.refused()
    }
}

/// A place of a tenant among those.
pub(crate) type Place = Share<EngineInstance>;

/// All routes, relative to wherever this is nested. To be served behind something that gives each request a
/// [`RequestId`] and says with a [`Visitor`] who asks; `/meta` does without one.
pub fn router(places: Places) -> Router {
    let routes: [(&str, MethodRouter<Places>); 9] = [
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
        // Clients join addresses in more ways than one.
        router = router.route(&format!("{path}/"), methods.clone()).route(path, methods);
    }
    router
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(places)
        .layer(middleware::from_fn(worded))
}

/// Words refusals, now that the request's id is known. None of them says a secret, though many say what was sent.
async fn worded(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let redactor =
        request.extensions().get::<Visitor>().map(|visitor| visitor.engine.write().redactor().clone());
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        let refusal = match redactor {
            Some(redactor) => refusal.masked(&redactor),
            None => refusal,
        };
        // What was said about the refusal on its way out stays.
        let said = std::mem::take(response.headers_mut());
        response = refusal.response(id.as_ref().map(|RequestId(id)| &**id));
        response.headers_mut().extend(said);
    }
    response
}

/// For every path that is not there.
async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::RouteNotFound, format!("nothing is at {path:?}")).into_response()
}

/// For every path that is there for other methods.
async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::MethodNotAllowed, format!("{method} is not for {path:?}")).into_response()
}
