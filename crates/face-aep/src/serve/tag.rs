//! `ETag` of single items: a client with the current version gets 304 without a body.

use ::http::{HeaderValue, Method, StatusCode, header};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use crate::error::Refusal;

/// Hexadecimal digits of a tag, enough to avoid collisions.
const DIGITS: usize = 32;

/// A layer on routes that show one item.
pub(super) async fn tag(request: Request, next: Next) -> Response {
    let held = request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect::<Vec<_>>();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
    if !is_read || response.status() != StatusCode::OK || response.extensions().get::<Refusal>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is in memory already.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let tag = format!("\"{}\"", &blake3::hash(&bytes).to_hex()[..DIGITS]);
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(header::ETAG, value);
    }
    if !is_held(&held, &tag) {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    Response::from_parts(parts, Body::empty())
}

/// Whether the client has this version. Tags that a proxy made weak are equal for reading.
pub(super) fn is_held(held: &[HeaderValue], tag: &str) -> bool {
    let lists = held.iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|held| held == "*" || held.strip_prefix("W/").unwrap_or(held) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let held = |text: &'static str| is_held(&[HeaderValue::from_static(text)], "\"ab\"");
        for yes in ["\"ab\"", "W/\"ab\"", "*", "\"x\", \"ab\""] {
            assert!(held(yes), "{yes}");
        }
        for no in ["", "ab", "\"abc\"", "\"x\""] {
            assert!(!held(no), "{no}");
        }
    }
}
