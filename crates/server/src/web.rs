//! The files of the console, embedded in the program.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, header};
use recount_api::routes::{SERVER_ROUTES, ServerRoute};

/// Path, media type, bytes.
const FILES: [(&str, &str, &[u8]); 10] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../../../web/index.html")),
    ("/console.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/console.js")),
    ("/account.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/account.js")),
    ("/entry.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/entry.js")),
    ("/kinds.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/kinds.js")),
    ("/page.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/page.js")),
    ("/prompts.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/prompts.js")),
    ("/visible.js", "text/javascript; charset=utf-8", include_bytes!("../../../web/visible.js")),
    ("/console.css", "text/css; charset=utf-8", include_bytes!("../../../web/console.css")),
    ("/docs.css", "text/css; charset=utf-8", include_bytes!("../../../web/docs.css")),
];

/// Only our own files and our own streams; nothing may frame the console.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, media_type, bytes)| {
        router.route(path, get(move || async move { file(media_type, bytes) }))
    })
}

pub(crate) fn file(media_type: &'static str, bytes: &'static [u8]) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, bytes).into_response()
}

/// Whether a path is public: files in every copy of the program, and routes that need no scope.
pub(crate) fn is_open(path: &str) -> bool {
    let needs_nothing = |route: &ServerRoute| route.path == path && route.scopes.is_empty();
    FILES.iter().any(|(open, ..)| *open == path) || SERVER_ROUTES.iter().any(needs_nothing)
}
