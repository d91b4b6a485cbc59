//! Refusals of this face: problems in the form of the native face, from one code each.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use recount_engine::Error;
use recount_event::Code;
use serde_json::json;

/// Why a hook was not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) detail: String,
    pub(crate) request_id: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, detail: detail.into(), request_id: String::new() }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::new(error.code(), error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let row = self.code.row();
        let problem = json!({
            "type": format!("urn:recount:error:{}", row.name),
            "title": row.meaning.trim_end_matches('.'),
            "status": row.status,
            "detail": self.detail,
            "code": row.name,
            "retryable": row.retryable,
            "request_id": self.request_id,
        });
        let mut response = Response::new(Body::from(problem.to_string()));
        *response.status_mut() =
            StatusCode::from_u16(row.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if row.retryable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
