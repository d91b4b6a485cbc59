//! The face for applications among the others: where it is, and how it words what was refused before it was reached.
//!
//! Look at [`mount`] and [`word`]. It must never know what the face answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Uri;
use recount_engine::Redactor;
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_transport::RequestId;
use tower::ServiceExt as _;

use crate::config::Aap;

/// The face under each of its paths. A slash at the end of an address makes no difference.
pub(crate) fn mount(router: Router, aap: &Aap) -> Router {
    let exact = recount_face_aap::router(recount_face_aap::Places::default())
        .method_not_allowed_fallback(recount_face_aep::method_not_allowed)
        .fallback(not_found);
    let face = exact.clone().fallback(move |request: Request| without_slash(exact.clone(), request));
    aap.base_paths.iter().fold(router, |router, base| router.nest(base, face.clone()))
}

/// Asks once more without the slash that an address ends with.
async fn without_slash(exact: Router, mut request: Request) -> Response {
    let uri = request.uri();
    let path = uri.path();
    let shorter = path.strip_suffix('/').filter(|shorter| !shorter.is_empty());
    let Some(shorter) = shorter else { return not_found(original(&request)).await };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let Ok(uri) = format!("{shorter}{query}").parse::<Uri>() else {
        return not_found(original(&request)).await;
    };
    *request.uri_mut() = uri;
    exact.oneshot(request).await.into_response()
}

fn original(request: &Request) -> OriginalUri {
    let whole = request.extensions().get::<OriginalUri>().cloned();
    whole.unwrap_or_else(|| OriginalUri(request.uri().clone()))
}

async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::RouteNotFound, format!("nothing is at {path:?}; GET meta below the base path works"))
        .into_response()
}

/// Words what the guard and the routes refuse, where an application asked.
pub(crate) async fn word(
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
    // What was said about it on its way out stays.
    worded.headers_mut().extend(std::mem::take(response.headers_mut()));
    worded
}
