//! The face for applications (AAP): mounts its base paths, and formats refusals from before the face.
//!
//! Start at [`mount`] and [`format_refusals`]. It must never know the replies of the face.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use recount_engine::Redactor;
use recount_face_aap::FaceState;
use recount_face_aep::Refusal;
use recount_transport::RequestId;

use crate::config::Aap;

/// The face's routes, for the counters of requests.
pub(crate) const PATHS: [&str; 9] = [
    "/meta",
    "/sessions",
    "/sessions/{session}",
    "/sessions/{session}/fork",
    "/sessions/{session}/history",
    "/sessions/{session}/turns",
    "/sessions/{session}/turns/{turn}",
    "/sessions/{session}/turns/{turn}/cancel",
    "/sessions/{session}/turns/{turn}/events",
];

/// Mounts the face under each of its paths; its limits apply to all paths together.
pub(crate) fn mount(router: Router, aap: &Aap, places: FaceState) -> Router {
    let face = recount_face_aap::router(places);
    aap.base_paths.iter().fold(router, |router, base| router.nest(base, face.clone()))
}

/// Rewrites refusals from before the face in the form of this protocol.
pub(crate) async fn format_refusals(
    State((aap, redactor)): State<(Arc<Aap>, Arc<Redactor>)>,
    request: Request,
    next: Next,
) -> Response {
    if aap.below(request.uri().path()).is_none() {
        return next.run(request).await;
    }
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
    let id = id.as_ref().map(|RequestId(id)| &**id);
    let detail = redactor.quotes(&refusal.detail);
    let mut worded = recount_face_aap::refusal_response(refusal.code, &detail, refusal.retry_after, id);
    // Headers added to the refusal are kept.
    worded.headers_mut().extend(std::mem::take(response.headers_mut()));
    worded
}
