//! Uploads: bytes that are sent in for a run.

use ::http::Request as HttpRequest;
use ::http::header;
use axum::body::Body;
use axum::extract::Request;
use recount_api::query::{self, UPLOAD_KINDS};
use recount_api::reply::One;
use recount_engine::Upload;
use recount_event::Code;

use super::Face;
use super::artifacts::found;
use super::http::{Answer, BodyType, Query, body_of_type, created};
use super::transfer::place;
use crate::error::Refusal;
use crate::{accept, limits, project};

const ANY: BodyType = BodyType {
    is: |mime| mime.len() <= limits::MIME_BYTES_MAX,
    otherwise: "the content-type header is missing or too long; send one, such as image/png, with at most 255 characters",
    too_large: "send a smaller file",
};

pub(super) async fn upload_artifact(face: Face, request: Request) -> Answer {
    let query = Query::parse(request.uri().query());
    let mime = mime_of(&request)?;
    let kind = accept::word(query::KIND, query.get(query::KIND), &UPLOAD_KINDS)?;
    let is_image = kind.map_or(mime.starts_with("image/"), |kind| kind == "image");
    let name = accept::at_most(query::NAME_MAX, query::NAME, query.get(query::NAME))?;
    let _place = place(&face, http_body::Body::size_hint(request.body()).exact())?;
    let bytes = body_of_type(request, limits::UPLOAD_BODY_BYTES_MAX, &ANY).await?;
    if bytes.is_empty() {
        return Err(Refusal::new(Code::BodyMalformed, "the body is empty; send the bytes to be kept"));
    }
    let kind = if is_image { "image" } else { "file_snapshot" }.to_owned();
    let row =
        face.engine.write().upload(Upload { kind, mime, name, bytes, by: face.caller.id.clone() }).await?;
    let id = row.id;
    let shown = project::found_artifact(found(&face, &id).await?, None);
    Ok(created(&format!("/v1/artifacts/{id}"), &One::new("artifact", shown)))
}

fn mime_of(request: &HttpRequest<Body>) -> Result<String, Refusal> {
    let said = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    said.filter(|mime| (ANY.is)(mime) && mime.contains('/'))
        .map(|mime| mime.to_ascii_lowercase())
        .ok_or_else(|| Refusal::new(Code::MediaTypeUnsupported, ANY.otherwise))
}
