//! Artifacts: upload, list, show, download.
//!
//! The bytes are untrusted, pages and scripts included. They are served under their own type,
//! so that an image can be viewed, and with headers that let no browser run any of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{Request as HttpRequest, StatusCode};
use axum::body::Body;
use axum::extract::{RawQuery, Request};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use recount_api::query::{self, ARTIFACT_STATUSES, UPLOAD_KINDS};
use recount_api::reply::One;
use recount_engine::{ArtifactFilter, FoundArtifact, Upload, UploadRow};
use recount_event::{Code, EventId, ForeignId};

use super::Face;
use super::http::{Answer, BodyType, Ids, Query, body_of_type, created, json, page};
use super::tag::is_held;
use crate::error::Refusal;
use crate::face_state::Permit;
use crate::{accept, limits, project};

/// Nothing of it runs and nothing is loaded, whatever its media type.
const SANDBOX: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

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

/// A permit to transfer so many bytes.
fn place(face: &Face, bytes: Option<u64>) -> Result<Permit, Refusal> {
    let most = limits::UPLOAD_BODY_BYTES_MAX as u64;
    let bytes = bytes.unwrap_or(most).min(most);
    let pieces = usize::try_from(bytes).unwrap_or(usize::MAX) / limits::ARTIFACT_PIECE_BYTES + 1;
    face.face_state.artifacts.try_take(&face.engine.instance(), pieces).ok_or_else(|| {
        let at_once = limits::ARTIFACT_BYTES_AT_ONCE;
        let detail = format!("{at_once} bytes of artifacts are being transferred already; try again shortly");
        Refusal { retry_after: Some(limits::TRY_AGAIN), ..Refusal::new(Code::StoreBusy, detail) }
    })
}

/// Bytes on their way out, piece by piece, so that their place is free when the last has gone.
struct Leaving {
    bytes: Bytes,
    _place: Permit,
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.bytes.len().min(limits::ARTIFACT_PIECE_BYTES);
        Poll::Ready((next > 0).then(|| Ok(Frame::data(self.bytes.split_to(next)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

pub(super) async fn list_artifacts(face: Face, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref());
    let run = match query.get(query::RUN_ID) {
        Some(run) => Some(face.run_id(run).await?),
        None => None,
    };
    let task = query.get(query::TASK_ID).map(|task| face.task_id(task)).transpose()?;
    // A missing run is 404, not an empty list.
    if let Some(run) = run
        && face.engine.catalogue().run(run).await?.is_none()
    {
        return Err(face.engine.catalogue().missing_run(run).await.into());
    }
    if let Some(task) = task
        && face.engine.catalogue().task(task).await?.is_none()
    {
        return Err(face.engine.catalogue().missing_task(task).await.into());
    }
    list(&face, &query, ArtifactFilter { run, task, ..ArtifactFilter::default() }).await
}

pub(super) async fn list_run_artifacts(face: Face, Ids(run): Ids<String>, RawQuery(raw): RawQuery) -> Answer {
    let run = face.run_id(&run).await?;
    if face.engine.catalogue().run(run).await?.is_none() {
        return Err(face.engine.catalogue().missing_run(run).await.into());
    }
    let query = Query::parse(raw.as_deref());
    list(&face, &query, ArtifactFilter { run: Some(run), ..ArtifactFilter::default() }).await
}

async fn list(face: &Face, query: &Query, filter: ArtifactFilter) -> Answer {
    let page_of = query.list(Some(EventId::PREFIX))?;
    let filter = ArtifactFilter {
        kind: accept::short(query::KIND, query.get(query::KIND))?,
        status: accept::status(query.get(query::STATUS), &ARTIFACT_STATUSES)?,
        ..filter
    };
    let listed = face.engine.read().list_artifacts(&page_of, &filter, &face.caller.narrowing).await?;
    let shown = listed.items.into_iter().map(|row| project::artifact(row, None)).collect();
    Ok(page(face, shown, (listed.next, listed.has_more), listed.damaged))
}

/// The first that is called so and that the caller may know of.
pub(super) async fn found(face: &Face, id: &ForeignId) -> Result<FoundArtifact, Refusal> {
    for found in face.engine.read().artifacts_called(id).await? {
        let seen = match &found {
            FoundArtifact::OfRun(row) => face.caller.narrowing.admits(row.task_id, row.session_id),
            FoundArtifact::Upload(upload) => face.sees_upload(upload),
        };
        if seen {
            return Ok(found);
        }
    }
    // An artifact deleted with its run is reported only to clients that could see the run; narrowed tokens cannot see an
    // erased one.
    match face.engine.read().run_of_gone_artifact(id).await? {
        Some(run) if !face.sees_run(run).await? => Err(accept::no_artifact(id.as_str())),
        Some(_) => Err(face.engine.read().missing_artifact(id).await.into()),
        None => Err(accept::no_artifact(id.as_str())),
    }
}

pub(super) async fn get_artifact(face: Face, Ids(id): Ids<String>) -> Answer {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    let is_small = row.size_bytes().is_some_and(|size| size <= limits::DIFF_INLINE_BYTES_MAX);
    let diff = match row.kind() == "patch" && is_small {
        // A read of its bytes reports a missing blob.
        true => match face.engine.read().artifact_bytes(&row).await {
            Ok(bytes) => String::from_utf8(bytes.to_vec()).ok(),
            Err(error) if matches!(error.code(), Code::ArtifactBytesLost | Code::ArtifactBytesMissing) => {
                None
            }
            Err(error) => return Err(error.into()),
        },
        false => None,
    };
    Ok(json(StatusCode::OK, &One::new("artifact", project::found_artifact(row, diff))))
}

pub(super) async fn read_artifact(face: Face, Ids(id): Ids<String>, headers: HeaderMap) -> Answer {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    let place = place(&face, row.size_bytes())?;
    let bytes = face.engine.read().artifact_bytes(&row).await?;
    let tag = format!("\"{}\"", row.hash().unwrap_or_default());
    let held: Vec<HeaderValue> = headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect();
    let mut response = Response::new(Body::empty());
    let given = response.headers_mut();
    let mime = row.mime().unwrap_or("application/octet-stream");
    given.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    given.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    given.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    given.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // It never changes, but the right to read it may.
    given.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    given.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    given.insert(
        header::CONTENT_DISPOSITION,
        disposition(row.name().or(row.path()).unwrap_or(row.id()), mime),
    );
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        given.insert(header::ETAG, tag);
    }
    if is_held(&held, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let mime = HeaderValue::from_str(mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    given.insert(header::CONTENT_TYPE, mime);
    let for_this = headers.get(header::IF_RANGE).is_none_or(|wanted| wanted.as_bytes() == tag.as_bytes());
    let wanted = headers.get(header::RANGE).filter(|_| for_this).and_then(|range| range.to_str().ok());
    match accept::range(wanted, bytes.len() as u64) {
        accept::Range::All => *response.body_mut() = Body::new(Leaving { bytes, _place: place }),
        accept::Range::Part { first, last } => {
            let said = format!("bytes {first}-{last}/{}", bytes.len());
            if let Ok(said) = HeaderValue::from_str(&said) {
                given.insert(header::CONTENT_RANGE, said);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let bytes = part(&bytes, first, last);
            *response.body_mut() = Body::new(Leaving { bytes, _place: place });
        }
        accept::Range::Beyond => {
            let (asked, size) = (wanted.unwrap_or_default(), bytes.len());
            let detail = format!("{asked:?} is beyond the {size} bytes of artifact {id}");
            return Err(Refusal::new(Code::RangeNotSatisfiable, detail));
        }
    }
    Ok(response)
}

fn part(bytes: &Bytes, first: u64, last: u64) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(place(first)..place(last.saturating_add(1)))
}

/// Images may be shown inline; anything else that a browser could render is downloaded.
fn disposition(name: &str, mime: &str) -> HeaderValue {
    let is_picture = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"].contains(&mime);
    let is_plain = mime.starts_with("text/plain") || mime.starts_with("text/x-diff");
    let how = if is_picture || is_plain { "inline" } else { "attachment" };
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let plain: String = name.chars().take(100).map(safe).collect();
    let mut said = format!("{how}; filename=\"{plain}\"");
    if plain != name {
        let whole: String = name.chars().take(100).collect();
        let encoded: String = whole
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        said.push_str(&format!("; filename*=UTF-8''{encoded}"));
    }
    HeaderValue::from_str(&said).unwrap_or(HeaderValue::from_static("attachment"))
}

impl Face {
    /// An upload without a run belongs to its uploader; a narrowed token sees no others.
    fn sees_upload(&self, upload: &UploadRow) -> bool {
        self.caller.narrowing.is_none() || upload.by == self.caller.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_that_would_be_run_are_saved_under_plain_names() {
        let said = |name: &str, mime: &str| disposition(name, mime).to_str().unwrap().to_owned();
        assert_eq!(said("a.png", "image/png"), "inline; filename=\"a.png\"");
        assert_eq!(said("a.html", "text/html"), "attachment; filename=\"a.html\"");
        assert_eq!(said("a.svg", "image/svg+xml"), "attachment; filename=\"a.svg\"");
        assert_eq!(
            said("../../etc/\"x\r\ny", "text/plain"),
            "inline; filename=\"_x__y\"; filename*=UTF-8''%22x%0D%0Ay"
        );
        assert_eq!(said("é", "a/b"), "attachment; filename=\"_\"; filename*=UTF-8''%C3%A9");
    }
}
