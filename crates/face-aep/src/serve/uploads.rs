//! Uploads an artifact for a run, as the body or as the file of a form. With an `Idempotency-Key` a repeated upload is
//! stored once.

use ::http::header;
use axum::extract::Request;
use axum::response::Response;
use recount_api::query::{self, UPLOAD_KINDS};
use recount_api::reply::One;
use recount_engine::{IdempotencyKey, Upload};
use recount_event::digest::digest_of;
use recount_event::{Code, ForeignId};

use super::Face;
use super::artifacts::found;
use super::form::{self, FileForm};
use super::http::{BodyType, HandlerResult, Query, body_of_type, created};
use super::once::{KEY, look_up};
use crate::error::Refusal;
use crate::{accept, limits, project};

const ANY: BodyType = BodyType {
    is: |mime| mime.len() <= limits::MIME_BYTES_MAX,
    otherwise: "the content-type header is missing or too long; send one, such as image/png, with at most 255 characters",
    too_large: "send a smaller file",
};

/// The media type of a file in a form without a content type.
const BYTES_OF_ANY_TYPE: &str = "application/octet-stream";

pub(super) async fn upload_artifact(face: Face, request: Request) -> HandlerResult {
    let key = request.headers().get(KEY).cloned();
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let size = http_body::Body::size_hint(request.body()).exact();
    let _place = face.face_state.transfer(&face.engine.instance(), size)?;
    let upload = read(&face, request).await?;
    let Some(key) = key else { return keep(&face, upload, None).await };
    let digest = digest(&upload);
    let found = look_up((&face.engine, &face.caller), (&method, &path), &key, digest).await?;
    let keyed = match found {
        Ok(keyed) => keyed,
        Err(stored) => return Ok(stored),
    };
    let response = match &keyed.idempotent.created {
        Some(created) => shown(&face, created.artifact()?).await?,
        None => keep(&face, upload, keyed.idempotent.once.as_ref()).await?,
    };
    Ok(keyed.marked(response))
}

/// Reads the uploaded file from the body or from a form.
async fn read(face: &Face, request: Request) -> Result<Upload, Refusal> {
    let query = Query::parse(request.uri().query());
    let header = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = header
        .filter(|mime| (ANY.is)(mime) && mime.contains('/'))
        .ok_or_else(|| Refusal::new(Code::MediaTypeUnsupported, ANY.otherwise))?
        .to_owned();
    let form = match form::is_form(&content_type) {
        true => {
            let most = limits::UPLOAD_BODY_BYTES_MAX + limits::FORM_AROUND_BYTES_MAX;
            form::read(&content_type, body_of_type(request, most, &ANY).await?).await?
        }
        false => FileForm {
            bytes: body_of_type(request, limits::UPLOAD_BODY_BYTES_MAX, &ANY).await?,
            mime: Some(content_type.to_ascii_lowercase()),
            ..FileForm::default()
        },
    };
    if form.bytes.is_empty() {
        return Err(Refusal::new(Code::BodyMalformed, "the body is empty; send the content of the artifact"));
    }
    let mime = form.mime.unwrap_or_else(|| BYTES_OF_ANY_TYPE.to_owned());
    if !(ANY.is)(&mime) || !mime.contains('/') {
        return Err(Refusal::new(Code::MediaTypeUnsupported, ANY.otherwise));
    }
    let kind = form.kind.as_deref().or(query.get(query::KIND));
    let kind = accept::word(query::KIND, kind, &UPLOAD_KINDS)?;
    let is_image = kind.map_or(mime.starts_with("image/"), |kind| kind == "image");
    let name = form.name.as_deref().or(query.get(query::NAME)).or(form.file_name.as_deref());
    Ok(Upload {
        kind: if is_image { "image" } else { "file_snapshot" }.to_owned(),
        name: accept::at_most(query::NAME_MAX, query::NAME, name)?,
        mime,
        bytes: form.bytes,
        by: face.caller.id.clone(),
    })
}

/// The digest that distinguishes two uploads with one key. It covers only stored content, because every form has
/// another boundary.
fn digest(upload: &Upload) -> String {
    let bytes = blake3::hash(&upload.bytes).to_hex();
    digest_of(&[&upload.kind, &upload.mime, upload.name.as_deref().unwrap_or_default(), &bytes])
}

async fn keep(face: &Face, upload: Upload, once: Option<&IdempotencyKey>) -> HandlerResult {
    let row = face.engine.write().upload_keyed(upload, once).await?;
    shown(face, &row.id).await
}

async fn shown(face: &Face, id: &ForeignId) -> Result<Response, Refusal> {
    let shown = project::found_artifact(found(face, id).await?, None);
    Ok(created(&format!("/v1/artifacts/{id}"), &One::new("artifact", shown)))
}
