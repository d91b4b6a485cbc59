//! Constructors of HTTP responses, for the host and for producers with error texts of their own.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

/// A response without a body.
pub fn empty(status: StatusCode) -> Response {
    status.into_response()
}

/// A response with serialized JSON.
pub fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A response with plain text for people.
pub fn text(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

/// An error in the protocol's JSON format.
pub fn error(status: StatusCode, code: &str, message: &str) -> Response {
    json(status, json!({ "error": code, "message": message }).to_string())
}

/// Adds the challenge header that 401 requires.
pub fn challenge(mut response: Response) -> Response {
    response.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    response
}
