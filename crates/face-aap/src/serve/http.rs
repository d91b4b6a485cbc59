//! HTTP for all handlers: ids in paths, bodies within limits, JSON replies.

use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::response::Response;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use recount_event::Code;
use recount_transport::media;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Refusal;
use crate::limits;

/// The ids in a path. An id that is not text matches nothing.
pub(super) struct Ids<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Ids<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(ids)) => Ok(Ids(ids)),
            Err(_) => Err(Refusal::new(Code::RouteNotFound, "the path contains bytes that are not UTF-8")),
        }
    }
}

pub(super) type HandlerResult = Result<Response, Refusal>;

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("replies hold only values that JSON can represent");
    json_bytes(status, body.into())
}

pub(super) fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A response without a body.
pub(super) fn empty() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads a JSON body within its limits of size and time. If the headers already exceed a limit, the body is not read.
pub(super) async fn body_bytes(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let max = limits::BODY_BYTES_MAX;
    let too_large =
        || Refusal::new(Code::BodyTooLarge, format!("the body is larger than {max} bytes (BODY_BYTES_MAX)"));
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let detail = format!(
            "the body has content-encoding {encoding:?}; send it uncompressed, without content-encoding"
        );
        return Err(Refusal::new(Code::MediaTypeUnsupported, detail));
    }
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let limited = Limited::new(body, max);
    let bytes = match tokio::time::timeout(limits::BODY_WAIT, limited.collect()).await {
        Err(_) => {
            let waited = limits::BODY_WAIT.as_secs();
            let detail = format!("the body did not arrive within {waited} seconds");
            return Err(Refusal::new(Code::BodyTimeout, detail));
        }
        Ok(Err(why)) if why.downcast_ref::<LengthLimitError>().is_some() => return Err(too_large()),
        Ok(Err(why)) => {
            return Err(Refusal::new(Code::BodyMalformed, format!("the body ended early: {why}")));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !bytes.is_empty() && !declared.is_some_and(media::is_json) {
        let detail = "the content-type of the body is not JSON; send content-type: application/json";
        return Err(Refusal::new(Code::MediaTypeUnsupported, detail));
    }
    Ok(bytes)
}
