//! Responses of a few shapes, for the host and for producers that word their own refusals.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

/// A status alone.
pub fn empty(status: StatusCode) -> Response {
    status.into_response()
}

/// JSON that is text already.
pub fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A status with words for people.
pub fn text(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

/// An error as the protocol words it.
pub fn error(status: StatusCode, code: &str, message: &str) -> Response {
    json(status, json!({ "error": code, "message": message }).to_string())
}

/// Adds the challenge that goes with 401.
pub fn challenge(mut response: Response) -> Response {
    response.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
    response
}
