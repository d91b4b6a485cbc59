//! Serves the bytes of an artifact: whole, a byte range, or compressed with gzip.
//!
//! The bytes are untrusted and may be pages or scripts. They are served with their own media type, so that images can
//! be viewed, and with headers that stop browsers from running them. A range always counts stored bytes: a range over
//! compressed bytes would depend on the encoder. Entry point: [`read_artifact`].

use std::io;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{StatusCode, response};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, ready};
use http_body::{Frame, SizeHint};
use recount_engine::{ArtifactContent, FoundArtifact, OutputPieces};
use recount_event::Code;

use super::Face;
use super::artifacts::found;
use super::http::{HandlerResult, Ids};
use super::tag::is_held;
use crate::error::Refusal;
use crate::face_state::Permit;
use crate::{accept, limits};

/// Stops scripts and loads, whatever the media type.
const SANDBOX: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

/// The bytes of a response. An error closes the connection, so that no client mistakes a part for the whole.
type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// A body that holds its permit until the last piece was sent.
struct PermitBody {
    pieces: Pieces,
    /// The remaining bytes, if known.
    left: Option<u64>,
    _place: Permit,
}

impl http_body::Body for PermitBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = ready!(self.pieces.poll_next_unpin(context));
        if let Some(Ok(piece)) = &piece {
            self.left = self.left.map(|left| left.saturating_sub(piece.len() as u64));
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

pub(super) async fn read_artifact(face: Face, Ids(id): Ids<String>, headers: HeaderMap) -> HandlerResult {
    let id = accept::artifact_id(&id)?;
    let row = found(&face, &id).await?;
    // An artifact in the log is never in memory as a whole.
    let held =
        row.size_bytes().map(|size| if row.is_in_log() { size.min(limits::LOGGED_BYTES_HELD) } else { size });
    let place = face.face_state.transfer(&face.engine.instance(), held)?;
    let content = face.engine.read().artifact_content(&row).await?;
    let (size, name) = match &content {
        ArtifactContent::Kept(bytes) => (bytes.len() as u64, row.hash().unwrap_or_default().to_owned()),
        ArtifactContent::Logged(output) => (output.size(), output.name()),
    };
    let tag = format!("\"{name}\"");
    let mime = row.mime().unwrap_or("application/octet-stream");
    let (mut given, ()) = Response::new(()).into_parts();
    guard(&mut given, &row, mime);

    let for_this = headers.get(header::IF_RANGE).is_none_or(|expected| expected.as_bytes() == tag.as_bytes());
    let requested = headers.get(header::RANGE).filter(|_| for_this).and_then(|range| range.to_str().ok());
    let range = accept::range(requested, size);
    let may_shrink = is_compressible(mime) && size >= limits::GZIP_BYTES_MIN;
    if may_shrink {
        given.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    let encodings = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let shrinks = may_shrink && range == accept::Range::All && accept::prefers_gzip(encodings);
    // Weak, so not valid for ranges: another encoder may produce other bytes.
    let shown_tag = if shrinks { format!("W/\"{name}.gzip\"") } else { tag };
    if let Ok(tag) = HeaderValue::from_str(&shown_tag) {
        given.headers.insert(header::ETAG, tag);
    }
    let held: Vec<HeaderValue> = headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect();
    if is_held(&held, shown_tag.strip_prefix("W/").unwrap_or(&shown_tag)) {
        given.status = StatusCode::NOT_MODIFIED;
        return Ok(Response::from_parts(given, Body::empty()));
    }
    let mime = HeaderValue::from_str(mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    given.headers.insert(header::CONTENT_TYPE, mime);
    let (first, count) = match range {
        accept::Range::All => (0, size),
        accept::Range::Part { first, last } => {
            if let Ok(value) = HeaderValue::from_str(&format!("bytes {first}-{last}/{size}")) {
                given.headers.insert(header::CONTENT_RANGE, value);
            }
            given.status = StatusCode::PARTIAL_CONTENT;
            (first, last - first + 1)
        }
        accept::Range::Beyond => {
            let requested = requested.unwrap_or_default();
            let detail = format!("the range {requested:?} is outside the {size} bytes of artifact {id}");
            return Err(Refusal::new(Code::RangeNotSatisfiable, detail));
        }
    };
    let pieces = match content {
        ArtifactContent::Kept(bytes) => in_pieces(part(&bytes, first, count)),
        ArtifactContent::Logged(output) => logged(output.part(first, count)),
    };
    let (pieces, left) = match shrinks {
        true => {
            given.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            (compressed(pieces), None)
        }
        false => (pieces, Some(count)),
    };
    Ok(Response::from_parts(given, Body::new(PermitBody { pieces, left, _place: place })))
}

/// Adds the headers that every response with artifact bytes has.
fn guard(given: &mut response::Parts, row: &FoundArtifact, mime: &str) {
    let name = row.name().or(row.path()).unwrap_or(row.id());
    for (header, value) in [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // The bytes never change, but the permission to read them may.
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::CONTENT_DISPOSITION, disposition(name, mime)),
    ] {
        given.headers.insert(header, value);
    }
}

fn part(bytes: &Bytes, first: u64, count: u64) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(place(first)..place(first.saturating_add(count)))
}

fn in_pieces(bytes: Bytes) -> Pieces {
    let next = |mut rest: Bytes| async move {
        let piece = rest.split_to(rest.len().min(limits::ARTIFACT_PIECE_BYTES));
        (!piece.is_empty()).then_some((Ok(piece), rest))
    };
    stream::unfold(bytes, next).boxed()
}

/// Reads the pieces from the log.
fn logged(pieces: OutputPieces) -> Pieces {
    let next = |mut pieces: OutputPieces| async move {
        let piece = pieces.next().await.map_err(io::Error::other).transpose()?;
        Some((piece, pieces))
    };
    stream::unfold(pieces, next).boxed()
}

/// Compresses one piece at a time, so that other requests can run and the whole is never in memory.
fn compressed(pieces: Pieces) -> Pieces {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let next = |(mut pieces, encoder): (Pieces, Option<GzEncoder<Vec<u8>>>)| async move {
        let mut encoder = encoder?;
        loop {
            let done = match pieces.next().await {
                Some(Ok(piece)) => encoder.write_all(&piece),
                Some(Err(why)) => Err(why),
                None => return Some((encoder.finish().map(Bytes::from), (pieces, None))),
            };
            if let Err(why) = done {
                return Some((Err(why), (pieces, None)));
            }
            let out = std::mem::take(encoder.get_mut());
            if !out.is_empty() {
                return Some((Ok(Bytes::from(out)), (pieces, Some(encoder))));
            }
            tokio::task::yield_now().await;
        }
    };
    stream::unfold((pieces, Some(encoder)), next).boxed()
}

/// Whether compression helps: images and archives are compressed already.
fn is_compressible(mime: &str) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    mime.starts_with("text/") || ["json", "xml", "yaml", "javascript"].iter().any(|end| mime.ends_with(end))
}

/// Images may be shown inline; anything else that a browser could render is downloaded.
fn disposition(name: &str, mime: &str) -> HeaderValue {
    let is_picture = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"].contains(&mime);
    let is_plain = mime.starts_with("text/plain") || mime.starts_with("text/x-diff");
    let how = if is_picture || is_plain { "inline" } else { "attachment" };
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let plain: String = name.chars().take(100).map(safe).collect();
    let mut value = format!("{how}; filename=\"{plain}\"");
    if plain != name {
        let whole: String = name.chars().take(100).collect();
        let encoded: String = whole
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        value.push_str(&format!("; filename*=UTF-8''{encoded}"));
    }
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_browser_could_run_are_downloaded_under_safe_names() {
        let header = |name: &str, mime: &str| disposition(name, mime).to_str().unwrap().to_owned();
        assert_eq!(header("a.png", "image/png"), "inline; filename=\"a.png\"");
        assert_eq!(header("a.html", "text/html"), "attachment; filename=\"a.html\"");
        assert_eq!(header("a.svg", "image/svg+xml"), "attachment; filename=\"a.svg\"");
        assert_eq!(
            header("../../etc/\"x\r\ny", "text/plain"),
            "inline; filename=\"_x__y\"; filename*=UTF-8''%22x%0D%0Ay"
        );
        assert_eq!(header("é", "a/b"), "attachment; filename=\"_\"; filename*=UTF-8''%C3%A9");
    }
}
