//! JSON of the admin routes: small bodies in, replies out.
//!
//! It must not know a route. Entry points: [`read`], [`json`].

use axum::body::{Body, Bytes, to_bytes};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use recount_event::Code;
use recount_face_aep::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits;

/// Reads a body that is a JSON object and declared as JSON.
pub(crate) async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Refusal> {
    parse(headers, &bytes(body).await?)
}

/// The same, with the default for an empty body.
pub(crate) async fn read_or_default<T: DeserializeOwned + Default>(
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Refusal> {
    let body = bytes(body).await?;
    if body.is_empty() { Ok(T::default()) } else { parse(headers, &body) }
}

async fn bytes(body: Body) -> Result<Bytes, Refusal> {
    to_bytes(body, limits::ADMIN_BODY_BYTES_MAX).await.map_err(|_| {
        let most = limits::ADMIN_BODY_BYTES_MAX;
        Refusal::new(Code::BodyTooLarge, format!("the body ended early or is larger than {most} bytes"))
    })
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Refusal> {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !declared.is_some_and(recount_transport::media::is_json) {
        let otherwise = "the body is not declared as JSON; send content-type: application/json";
        return Err(Refusal::new(Code::MediaTypeUnsupported, otherwise));
    }
    // Only an object: serde would also accept a list for the fields of a struct.
    serde_json::from_slice(body)
        .and_then(|object| serde_json::from_value(serde_json::Value::Object(object)))
        .map_err(|why| Refusal::new(Code::BodyMalformed, format!("the body cannot be read: {why}")))
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("texts are valid JSON strings");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body).into_response()
}
