//! The published contract, to machines and to people. It holds nothing secret, so anybody may read it.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use http::header;
use recount_api::openapi;

/// Made once: the same for every server of this release.
static DOCUMENT: LazyLock<String> = LazyLock::new(openapi::text);

/// `/openapi.json`: the bytes of `docs/openapi.json`.
pub(crate) async fn describe() -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")];
    (headers, DOCUMENT.as_str()).into_response()
}
