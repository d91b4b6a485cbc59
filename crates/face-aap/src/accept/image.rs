//! Validates pictures in messages: as data, or by a URL that this server never requests. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use recount_engine::Capabilities;
use recount_event::Code;

use super::{Accepted, shortened};
use crate::error::Refusal;
use crate::limits;

/// The picture types that models accept.
const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A picture as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Picture {
    At(String),
    Data { mime: String, bytes: Bytes },
}

fn refused(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::ImageRefused, detail)
}

/// Validates the URL of a picture in a block of a message, which a refusal names.
pub(super) fn picture_of(whose: &str, index: usize, url: &str, can: Capabilities) -> Accepted<Picture> {
    picture(url, can)
        .map_err(|no| Refusal { detail: format!("{whose}.content[{index}]: {}", no.detail), ..no })
}

/// Validates the URL of a picture by the capabilities of the agent. Data must be in canonical form, so that it can be
/// returned exactly as sent.
fn picture(url: &str, can: Capabilities) -> Accepted<Picture> {
    if let Some(rest) = url.strip_prefix("data:") {
        if !can.images_data {
            return Err(refused(
                "the agent does not accept images as data: URLs; send no image, or an https:// URL if the \
                 agent accepts those",
            ));
        }
        return data(rest);
    }
    if !url.starts_with("https://") {
        let forms = "send a data: URL or an https:// URL";
        return Err(refused(format!("the image URL {:?} is not supported; {forms}", shortened(url))));
    }
    if !can.images_http {
        return Err(refused("the agent does not accept images by https:// URL; send a data: URL"));
    }
    let rest = &url["https://".len()..];
    let has_host = rest.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'[');
    if !has_host || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused(format!("{:?} is not a valid image URL", shortened(url))));
    }
    if url.len() > limits::IMAGE_URL_BYTES_MAX {
        let most = limits::IMAGE_URL_BYTES_MAX;
        return Err(refused(format!("the image URL has {} bytes; the limit is {most}", url.len())));
    }
    Ok(Picture::At(url.to_owned()))
}

fn data(rest: &str) -> Accepted<Picture> {
    let form = format!("send data:TYPE;base64,DATA with one of {}", TYPES.join(", "));
    let Some((mime, encoded)) = rest.split_once(";base64,") else {
        return Err(refused(format!("the image data:{:?} is not base64; {form}", shortened(rest))));
    };
    if !TYPES.contains(&mime) {
        return Err(refused(format!("an image of type {:?} is not supported; {form}", shortened(mime))));
    }
    let most = limits::IMAGE_BYTES_MAX;
    if encoded.len() / 4 * 3 > most + 3 {
        return Err(refused(format!(
            "the image is larger than {most} bytes (IMAGE_BYTES_MAX); send a smaller one"
        )));
    }
    let bytes = STANDARD.decode(encoded).map_err(|why| {
        let why = why.to_string();
        let why = why.trim_end_matches('.');
        refused(format!("the image is not valid base64 with padding ({why}); send padded base64"))
    })?;
    if bytes.is_empty() {
        return Err(refused("the image is empty; send its bytes"));
    }
    if bytes.len() > most {
        return Err(refused(format!(
            "the image is larger than {most} bytes (IMAGE_BYTES_MAX); send a smaller one"
        )));
    }
    match type_of(&bytes) {
        Some(found) if found == mime => Ok(Picture::Data { mime: mime.to_owned(), bytes: bytes.into() }),
        found => Err(refused(format!(
            "the image is declared as {mime}, but its first bytes are those of {}; declare the actual type",
            found.unwrap_or("an unknown type")
        ))),
    }
}

/// The type of a picture by its first bytes, if models accept it.
fn type_of(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

/// A picture in the form of the client that sent it.
pub(crate) fn data_url(mime: &str, bytes: &[u8]) -> String {
    let mut url = format!("data:{mime};base64,");
    STANDARD.encode_string(bytes, &mut url);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Capabilities = Capabilities {
        history_full: true,
        history_compacted: true,
        client_tools: true,
        images_http: true,
        images_data: true,
    };

    // P-071
    #[test]
    fn accepted_pictures_are_returned_exactly() {
        let url = "data:image/png;base64,iVBORw0KGgo=";
        let Picture::Data { mime, bytes } = picture(url, BOTH).unwrap() else { panic!("data is data") };
        assert_eq!(data_url(&mime, &bytes), url);
        let url = "https://example.org/a.png?b=c";
        assert_eq!(picture(url, BOTH).unwrap(), Picture::At(url.into()));
    }

    // P-071
    #[test]
    fn data_must_be_of_the_type_that_it_is_sent_as() {
        let heads: [(&str, &[u8]); 5] = [
            ("image/png", b"\x89PNG\r\n\x1a\n"),
            ("image/jpeg", b"\xff\xd8\xff"),
            ("image/gif", b"GIF87a"),
            ("image/gif", b"GIF89a"),
            ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "),
        ];
        for (found, bytes) in heads {
            for declared in TYPES {
                match picture(&data_url(declared, bytes), BOTH) {
                    Ok(_) => assert_eq!(declared, found),
                    Err(refusal) => {
                        assert_ne!(declared, found);
                        assert_eq!(refusal.code, Code::ImageRefused);
                        assert!(
                            refusal.detail.contains(declared) && refusal.detail.contains(found),
                            "{}",
                            refusal.detail
                        );
                    }
                }
            }
        }
        for bad in ["AAAA", "iVBORw0KGg==", "UklGRgAAAABXQVZF"] {
            let refusal = picture(&format!("data:image/png;base64,{bad}"), BOTH).unwrap_err();
            assert!(
                refusal.detail.contains("image/png") && refusal.detail.contains("unknown"),
                "{}",
                refusal.detail
            );
        }
    }

    // P-071
    #[test]
    fn invalid_pictures_are_refused() {
        let none = Capabilities { images_http: false, images_data: false, ..BOTH };
        assert!(picture("data:image/png;base64,AAAA", none).unwrap_err().detail.contains("as data"));
        assert!(picture("https://example.org/a", none).unwrap_err().detail.contains("by https:// URL"));
        let large = format!("data:image/png;base64,{}", "AAAA".repeat(limits::IMAGE_BYTES_MAX / 3 + 1));
        let long = format!("https://example.org/{}", "a".repeat(limits::IMAGE_URL_BYTES_MAX));
        for bad in [
            "",
            "a.png",
            "http://example.org/a.png",
            "HTTPS://example.org/a.png",
            "file:///etc/passwd",
            "https://",
            "https:///a",
            "https://exa mple.org",
            "https://example.org/\u{e9}",
            "data:,x",
            "data:image/png,AAAA",
            "data:image/svg+xml;base64,AAAA",
            "data:text/html;base64,AAAA",
            "data:image/png;base64,",
            "data:image/png;base64,AAA",
            "data:image/png;base64,AAB=",
            "data:image/png;base64,AA A",
            large.as_str(),
            long.as_str(),
        ] {
            assert_eq!(picture(bad, BOTH).unwrap_err().code, Code::ImageRefused, "{}", shortened(bad));
        }
    }
}
