//! Reads a `multipart/form-data` body with one file. The body is in memory, and all its parts have limits.
//!
//! Must not depend on the use of the file. Entry point: [`read`].

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use multer::{Constraints, Field, Multipart, SizeLimit};
use recount_api::query;
use recount_event::Code;

use crate::error::Refusal;
use crate::limits;

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct FileForm {
    pub(super) bytes: Bytes,
    /// The media type and file name of the file's part.
    pub(super) mime: Option<String>,
    pub(super) file_name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
}

/// Whether a content type is that of a form.
pub(super) fn is_form(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("multipart/form-data")
}

/// Reads a form. An unknown field is refused, because it would be lost.
pub(super) async fn read(content_type: &str, body: Bytes) -> Result<FileForm, Refusal> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| {
        malformed("the content-type of the form has no boundary; let your HTTP client set the header")
    })?;
    let size = SizeLimit::new().whole_stream(body.len() as u64);
    let whole = stream::iter([Ok::<_, Infallible>(body)]);
    let mut form = Multipart::with_constraints(whole, boundary, Constraints::new().size_limit(size));
    let (mut found, mut has_file) = (FileForm::default(), false);
    let mut parts = 0;
    while let Some(field) = form.next_field().await.map_err(broken)? {
        parts += 1;
        if parts > limits::FORM_PARTS_MAX {
            let most = limits::FORM_PARTS_MAX;
            return Err(malformed(format!("the form has more than {most} parts; send one file")));
        }
        let header_bytes: usize =
            field.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if header_bytes > limits::FORM_HEADER_BYTES_MAX {
            let most = limits::FORM_HEADER_BYTES_MAX;
            let detail =
                format!("part {parts} of the form has {header_bytes} bytes of headers; the limit is {most}");
            return Err(malformed(detail));
        }
        let name = field.name().unwrap_or_default().to_owned();
        let twice = || malformed(format!("the form has the field {name} twice; send it once"));
        match name.as_str() {
            query::FILE if has_file => return Err(twice()),
            query::FILE => {
                has_file = true;
                found.mime = field.headers().get("content-type").and_then(text).map(str::to_ascii_lowercase);
                found.file_name = field.file_name().map(str::to_owned);
                found.bytes = field.bytes().await.map_err(broken)?;
            }
            query::KIND if found.kind.is_some() => return Err(twice()),
            query::KIND => found.kind = Some(short(&name, field).await?),
            query::NAME if found.name.is_some() => return Err(twice()),
            query::NAME => found.name = Some(short(&name, field).await?),
            other => {
                let other: String = other.chars().take(40).collect();
                let detail =
                    format!("the form has an unknown field {other:?}; known fields: file, kind, name");
                return Err(malformed(detail));
            }
        }
    }
    if !has_file {
        return Err(malformed("the form has no field file; send the bytes in a part with that name"));
    }
    Ok(found)
}

async fn short(name: &str, field: Field<'_>) -> Result<String, Refusal> {
    let bytes = field.bytes().await.map_err(broken)?;
    if bytes.len() > limits::FORM_FIELD_BYTES_MAX {
        let most = limits::FORM_FIELD_BYTES_MAX;
        return Err(malformed(format!("the field {name} has {} bytes; send at most {most}", bytes.len())));
    }
    String::from_utf8(bytes.into())
        .map_err(|_| malformed(format!("the field {name} is not UTF-8; send text")))
}

fn text(value: &http::HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn broken(why: multer::Error) -> Refusal {
    malformed(format!("the form cannot be parsed: {why}; send multipart/form-data"))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::BodyMalformed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=Xy";

    fn part(headers: &str, body: &str) -> String {
        format!("--Xy\r\n{headers}\r\n\r\n{body}\r\n")
    }

    fn named(name: &str, body: &str) -> String {
        part(&format!("Content-Disposition: form-data; name=\"{name}\""), body)
    }

    async fn reading(parts: &[String]) -> Result<FileForm, Refusal> {
        let body = format!("{}--Xy--\r\n", parts.concat());
        read(TYPE, Bytes::from(body)).await
    }

    #[tokio::test]
    async fn a_form_gives_its_file_and_its_words() {
        assert!(is_form(TYPE) && is_form("Multipart/Form-Data;boundary=a") && !is_form("multipart/mixed"));
        let file = part(
            "Content-Disposition: form-data; name=\"file\"; filename=\"a b.txt\"\r\nContent-Type: Text/Plain",
            "one\r\n--Xz\r\ntwo",
        );
        let form = reading(&[named("kind", "file"), file, named("name", "ü")]).await.unwrap();
        assert_eq!(form.bytes, "one\r\n--Xz\r\ntwo");
        assert_eq!((form.mime.as_deref(), form.file_name.as_deref()), (Some("text/plain"), Some("a b.txt")));
        assert_eq!((form.kind.as_deref(), form.name.as_deref()), (Some("file"), Some("ü")));
        let bare = reading(&[named("file", "x")]).await.unwrap();
        assert!(bare.mime.is_none() && bare.file_name.is_none() && bare.bytes == "x");
    }

    #[tokio::test]
    async fn invalid_forms_are_refused_with_advice() {
        let file = || named("file", "x");
        let many: Vec<String> = (0..=limits::FORM_PARTS_MAX).map(|_| named("kind", "")).collect();
        let long = "h".repeat(limits::FORM_HEADER_BYTES_MAX);
        let heavy = part(&format!("Content-Disposition: form-data; name=\"file\"\r\nX-Long: {long}"), "x");
        for (parts, detail) in [
            (vec![], "no field file"),
            (vec![named("kind", "file")], "no field file"),
            (vec![file(), file()], "the field file twice"),
            (vec![named("name", "a"), named("name", "b"), file()], "the field name twice"),
            (vec![file(), named("run_id", "x")], "an unknown field \"run_id\""),
            (vec![named("name", &"n".repeat(limits::FORM_FIELD_BYTES_MAX + 1))], "send at most"),
            (vec![heavy], "bytes of headers"),
            (many, "the field kind twice"),
        ] {
            let refusal = reading(&parts).await.unwrap_err();
            assert_eq!(refusal.code, Code::BodyMalformed, "{detail}");
            assert!(refusal.detail.contains(detail), "{detail}: {}", refusal.detail);
        }
        for (content_type, body) in [
            ("multipart/form-data", "--Xy--"),
            (TYPE, ""),
            (TYPE, "--Xy\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nbreaks off"),
            (TYPE, "--Xy\r\nno header\r\n\r\nx\r\n--Xy--"),
        ] {
            let refusal = read(content_type, Bytes::from(body)).await.unwrap_err();
            assert_eq!(refusal.code, Code::BodyMalformed, "{body}");
        }
    }
}
