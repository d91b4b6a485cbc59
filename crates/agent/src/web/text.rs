//! Decodes a response body to text by its character set, and converts HTML to readable text.
//!
//! Pure. Start at [`read`]. A body that is neither text nor HTML has no text.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use reqwest::Url;

use super::html::{self, ReadableText};

/// The declared type of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// Such as `text/html`, in lower case; empty if undeclared.
    pub(crate) essence: String,
    charset: Option<String>,
}

impl MediaType {
    pub(crate) fn read(header: &str) -> Self {
        let mut parts = header.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let is_it = name.trim().eq_ignore_ascii_case("charset");
            is_it.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
        });
        MediaType { essence, charset }
    }

    fn is_html(&self) -> bool {
        matches!(self.essence.as_str(), "text/html" | "application/xhtml+xml")
    }

    /// Whether the type is text; `None` if the name is ambiguous.
    fn is_text(&self) -> Option<bool> {
        let (kind, name) = self.essence.split_once('/').unwrap_or_default();
        let texts =
            ["json", "xml", "javascript", "ecmascript", "x-ndjson", "yaml", "toml", "graphql", "x-sh", "sql"];
        match kind {
            "text" => Some(true),
            "application"
                if texts.iter().any(|text| name == *text || name.ends_with(&format!("+{text}"))) =>
            {
                Some(true)
            }
            "image" | "audio" | "video" | "font" => Some(name.ends_with("+xml")),
            _ => None,
        }
    }
}

/// Decodes a body without conversion; `None` if it is not text.
pub(crate) fn plain(body: &[u8], media: &MediaType) -> Option<String> {
    let is_text = media.is_text().unwrap_or_else(|| !body.contains(&0) && is_utf8(body));
    is_text.then(|| decode(body, media, media.is_html()))
}

/// Converts a body to readable text; `None` if it is not text. `from` is the base URL of links.
pub(crate) fn read(body: &[u8], media: &MediaType, from: &Url) -> Option<ReadableText> {
    let is_html = media.is_html() || (media.essence.is_empty() && looks_like_html(body));
    if is_html {
        return Some(html::text_of(&decode(body, media, true), from));
    }
    Some(ReadableText { text: plain(body, media)?, ..ReadableText::default() })
}

/// Precedence: byte-order mark, response header, declaration in the page.
fn decode(body: &[u8], media: &MediaType, is_html: bool) -> String {
    let for_label = |label: &str| Encoding::for_label(label.as_bytes());
    let by_header = || media.charset.as_deref().and_then(for_label);
    let by_page = || find_charset(body).filter(|_| is_html).as_deref().and_then(for_label);
    let encoding = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let encoding = encoding.or_else(by_header).or_else(by_page);
    let encoding = encoding.unwrap_or_else(|| if is_utf8(body) { UTF_8 } else { WINDOWS_1252 });
    encoding.decode(body).0.into_owned()
}

/// Whether the body is UTF-8. A character that is cut at the end is ignored.
fn is_utf8(body: &[u8]) -> bool {
    match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(why) => why.error_len().is_none() && !body[..why.valid_up_to()].is_ascii(),
    }
}

/// Bytes at the beginning of a page in which its character set is searched.
const CHARSET_SEARCH_BYTES: usize = 1024;

/// Finds the character set in a `meta` element.
fn find_charset(body: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&body[..body.len().min(CHARSET_SEARCH_BYTES)]).to_ascii_lowercase();
    let meta = &start[start.find("<meta")?..];
    let after = meta[meta.find("charset")? + "charset".len()..].trim_start().strip_prefix('=')?;
    let value = after.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|char: char| matches!(char, '"' | '\'' | ';' | '>' | '/') || char.is_whitespace());
    // A page whose tag is readable as ASCII is not UTF-16.
    let label = &value[..end.unwrap_or(value.len())];
    Some(if label.starts_with("utf-16") { "utf-8".to_owned() } else { label.to_owned() })
}

fn looks_like_html(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(CHARSET_SEARCH_BYTES)]).to_ascii_lowercase();
    let start = start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(header: &str) -> MediaType {
        MediaType::read(header)
    }

    #[test]
    fn the_character_set_is_found() {
        for (body, header, expected) in [
            (&b"caf\xc3\xa9"[..], "text/plain", "café"),
            (b"caf\xe9", "text/plain", "café"),
            (b"caf\xe9", "text/plain; charset=ISO-8859-1", "café"),
            (b"caf\x82", "text/plain; charset=\"ibm866\"", "cafВ"),
            (b"\x93\xfa\x96{", "text/plain; Charset=Shift_JIS", "日本"),
            (b"\xff\xfeh\0i\0", "text/plain; charset=utf-8", "hi"),
            (b"\xef\xbb\xbfcaf\xc3\xa9", "text/plain; charset=latin1", "café"),
            (b"caf\xc3\xa9", "text/plain; charset=nonsense", "café"),
            (b"caf\xc3\xa9\xc3", "text/plain", "café\u{fffd}"),
            (b"caf\xc3", "text/plain", "cafÃ"),
            (b"{\"a\":1}", "application/json", "{\"a\":1}"),
            (b"<a/>", "application/atom+xml", "<a/>"),
            (b"words", "application/octet-stream", "words"),
            (b"words", "", "words"),
        ] {
            assert_eq!(plain(body, &media(header)).as_deref(), Some(expected), "{header}");
        }
        for (page, expected) in [
            (&b"<meta charset=windows-1251><p>\xcf\xf0"[..], "Пр"),
            (b"<META http-equiv=content-type content='text/html; charset=koi8-r'><p>\xf0\xd2", "Пр"),
            (b"<meta charset=utf-16><p>ok", "ok"),
            (b"<meta name=x><p>\xe9", "é"),
        ] {
            let from = Url::parse("http://a.example/").unwrap();
            assert_eq!(read(page, &media("text/html"), &from).unwrap().text, expected);
        }
    }

    #[test]
    fn what_is_no_text_has_none() {
        for (body, header) in [
            (&b"\x89PNG\r\n\x1a\n\0"[..], ""),
            (b"words", "image/png"),
            (b"%PDF-1.7\n\xff\xff\xff\xff", "application/pdf"),
            (b"a\0b", "application/octet-stream"),
        ] {
            assert_eq!(plain(body, &media(header)), None, "{header}");
        }
        assert!(plain(b"<svg/>", &media("image/svg+xml")).is_some());
    }
}
